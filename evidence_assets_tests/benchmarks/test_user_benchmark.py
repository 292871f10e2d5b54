"""The user's own benchmark: every field's good and bad forms."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks.knowledge_bases import read_knowledge_base
from evidence_assets.benchmarks.records import CLAIM_LABELS, GoldEvidence, QuestionRecord, Table
from evidence_assets.benchmarks.user_benchmark import read_questions, read_table_file, read_tables
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official.contract import json_lines


def ask(folder: Path, *records: dict[str, Any]) -> list[QuestionRecord]:
    path = folder / "questions.jsonl"
    path.write_text(json_lines(*records))
    return list(read_questions(path, "mine"))


def record(**changes: Any) -> dict[str, Any]:
    base = {"source_id": "q1", "task": "mcqa", "text": "Which?", "options": ["ant", "bee"], "gold": "B"}
    return {key: value for key, value in (base | changes).items() if value is not ...}


def test_a_whole_question(tmp_path: Path) -> None:
    gold = {"kind": "sentence", "source": "bees", "locator": "0:9", "text": "Bees buzz."}
    fields = {"split": "dev", "table_id": "t1", "topic_entities": ["insect"], "negated": True, "gold_evidence": [gold]}
    evidence = (GoldEvidence(**gold),)  # type: ignore[arg-type]
    assert ask(tmp_path, record(task=..., **fields)) == [
        QuestionRecord("mine", "q1", "dev", "mcqa", "Which?", ("ant", "bee"), ("B",), "t1", ("insect",), evidence, True)
    ]


CLAIM = {"task": "verification", "options": ...}


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        *(({"gold": gold}, labels) for gold, labels in (("B", "B"), ("bee", "B"), (1, "B"), (0, "A"), (None, ""))),
        ({"gold": ["A", "bee"]}, "AB"),
        *((CLAIM | {"gold": spelling}, ("REFUTES",)) for spelling in ("REFUTES", "Refuted", 1)),
        *((CLAIM | {"gold": spelling}, CLAIM_LABELS[2:]) for spelling in ("NOT ENOUGH INFO", "nei")),
        ({"task": "verification", "options": ["true", "false"], "gold": 1}, ("false",)),
        ({"task": "kgqa", "options": ..., "gold": ["Paris", "Lyon"]}, ("Paris", "Lyon")),
        ({"task": "skb_search", "options": ..., "gold": [12, "n7"]}, ("12", "n7")),
    ],
)
def test_forms_of_gold(tmp_path: Path, changes: dict[str, Any], labels: Iterable[str]) -> None:
    assert ask(tmp_path, record(**changes))[0].gold == tuple(labels)


def test_a_question_without_gold_is_graded_only_if_no_answer_is_right(tmp_path: Path) -> None:
    open_question = {"task": "kgqa", "options": ..., "gold": ...}
    records = ask(
        tmp_path,
        record(gold=...),
        record(source_id="q2", gold=[], answerable=False),
        record(source_id="q3", **open_question),
        record(source_id="q4", answerable=False, **open_question),
    )
    assert [row["gold"] for row in question_rows(records, "test", 0, 1)] == [None, [], None, []]


def test_forms_of_locators_and_aliases(tmp_path: Path) -> None:
    path = [["bee", "makes", "miel é"]]
    forms = [("bees", "4:9", "4:9"), ("bees", None, ""), ("graph", path, '[["bee", "makes", "miel é"]]')]
    evidence = [{"kind": "path", "source": source, "locator": locator, "text": "t"} for source, locator, _ in forms]
    (output,) = ask(tmp_path, record(gold=["ant", "bee"], gold_evidence=evidence, aliases=[["Ant"], []]))
    assert [item.locator for item in output.gold_evidence] == [expected for _, _, expected in forms]
    assert output.aliases == (("Ant",), ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": "C"}, r"gold: 'C' is neither a label \(A, B\) nor the text of an option"),
        ({"gold": "A", "options": ["B", "A"]}, "gold: 'A' matches options A and B; use the number from 0"),
        ({"question_id": "q"}, "question_id: is the same field as source_id, which the record also has; remove one"),
        ({"Question": "x"}, r"Question: unknown field\. Rename 'Question' to 'text'\."),
        ({"gold_aliases": {"cow": ["kine"]}}, "gold_aliases: 'cow' is not one of the gold answers"),
        (
            {"gold_evidence": [{"kind": "cell", "source": "t", "locator": {"table_id": "u", "row": 0, "column": 1}}]},
            r"gold_evidence\[0\]\.locator\.table_id: differs from the source 't'; use the same id",
        ),
        ({"source_id": "q0", "text": "Another?"}, "source_id: 'q0' occurs twice"),
        ({"task": "quiz"}, "task: 'quiz' is not a task; use one of"),
        ({"options": ["a", "b", "a"], "gold": "B"}, "options: 'a' occurs twice; remove one"),
        ({"task": "kgqa", "options": ..., "gold": ["u"], "aliases": [[], []]}, "aliases: 2 lists of aliases for 1"),
        ({"task": "table_qa", "options": ..., "gold": ["9"]}, r"options: no option\(s\); a question needs at least 2"),
        ({"answerable": False}, "answerable: is false, but there is a gold answer"),
        ({"negated": "yes"}, "negated: 'yes' is neither true nor false"),
        ({"gold_evidence": [{"kind": "chunk", "source": "s"}]}, r"gold_evidence\[0\].text: missing"),
        ({"gold_evidence": [{"kind": "page", "source": "s", "text": "t"}]}, r"gold_evidence\[0\].kind: 'page' is not"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"questions\.jsonl:2: {message}"):
        ask(tmp_path, record(source_id="q0"), record(**changes))


def test_up_to_ten_errors_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"questions\.jsonl:1: task: 'quiz'.*\n.*questions\.jsonl:2: gold: 'C'"
    ) as raised:
        ask(tmp_path, record(task="quiz"), *[record(gold="C")] * 20)
    assert str(raised.value).count("\n") == 9 and (raised.value.line, raised.value.field) == (1, "task")


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="contains no questions"):
        ask(tmp_path)


CHARACTERS = {"doc_id": "d", "char_start": 3, "char_end": 9}
CELL = {"table_id": "t", "row": 0, "column": 2}


def test_earlier_fields_are_read_as_the_present_ones_with_one_warning_each(tmp_path: Path) -> None:
    located = [
        {"kind": "sentence", "source": "d", "locator": CHARACTERS, "text": "s"},
        {"kind": "cell", "source": "t", "locator": CELL, "text": "c"},
        {"kind": "chunk", "source": "d", "text": "w"},
    ]
    records = (
        {"question_id": "1", "claim": "It is.", "label": "supported", "hops": 2},
        {"question_id": "2", "question": "Which?", "choices": ["a", "b", "c"], "answer": 0, "gold_also": [2]},
        record(source_id="3", task="kgqa", options=..., gold=["u", "v"], gold_aliases={"v": ["w"]}),
        record(source_id="4", gold_evidence=located),
    )
    path = tmp_path / "questions.jsonl"
    path.write_text(json_lines(*records))
    warnings: list[str] = []
    claim, choice, graph, evidence = read_questions(path, "mine", warnings.append)
    assert (claim.source_id, claim.task, claim.text, claim.gold) == ("1", "verification", "It is.", ("SUPPORTS",))
    assert (choice.source_id, choice.options, choice.gold) == ("2", ("a", "b", "c"), ("A", "C"))
    assert (graph.gold, graph.aliases) == (("u", "v"), ((), ("w",)))
    assert [item.locator for item in evidence.gold_evidence] == ["3:9", "r1c2", ""]
    assert [warning.removeprefix(f"{path}:") for warning in warnings] == [
        "1: question_id: is read as source_id; rename it to source_id",
        "1: claim: is read as text; rename it to text",
        "1: label: is read as gold; rename it to gold",
        "1: hops: is not read; remove it",
        "2: question: is read as text; rename it to text",
        "2: choices: is read as options; rename it to options",
        "2: answer: is read as gold; rename it to gold",
        "2: gold_also: is read as part of gold; add its values to the list gold",
        "3: gold_aliases: is read as aliases; write aliases, a list for each gold answer in turn",
        "4: gold_evidence[0].locator: is read as '3:9'; write the text instead of the object",
    ]


def tables(folder: Path, *records: dict[str, Any]) -> list[Table]:
    path = folder / "tables.jsonl"
    path.write_text(json_lines(*records))
    return list(read_tables(path, "mine"))


def test_tables_are_read_unchanged(tmp_path: Path) -> None:
    full = {"table_id": "t", "caption": "C", "header": ["a", ""], "rows": [["x", 2], [1.5], [None, "y", "z"]]}
    bare = {"table_id": "u", "header": [], "rows": []}
    headless = {"table_id": "v", "header": None, "rows": [["x"]]}
    assert tables(tmp_path, full, bare, headless) == [
        Table("mine", "t", "C", ("a", ""), (("x", "2"), ("1.5",), ("", "y", "z"))),
        Table("mine", "u", "", (), ()),
        Table("mine", "v", "", (), (("x",),)),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ["x"]}, r"rows\[0\]: is not a list of cells"),
        ({"rows": [["x", {}]]}, r"rows\[0\]\[1\]: {} is not a cell"),
        ({"title": "C"}, "title: unknown field"),
    ],
)
def test_a_faulty_table_is_named_by_line_and_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"tables\.jsonl:1: {message}"):
        tables(tmp_path, {"table_id": "t", "header": [], "rows": []} | changes)


def test_csv_and_parquet_files_are_read_as_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffname;price\nTea;3,50\nCoffee;4\n\n", encoding="utf-8")
    pq.write_table(pa.table({"name": ["x", None], "n": [1, 2]}), tmp_path / "b.parquet")
    first, second = read_table_file(tmp_path / "a.csv"), read_table_file(tmp_path / "b.parquet")
    assert (first.header, first.rows) == (("name", "price"), (("Tea", "3,50"), ("Coffee", "4")))
    assert second.rows == (("x", "1"), ("", "2"))
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(BadInput, match=name):
            read_table_file(tmp_path / name)


# A user's own knowledge base, and every way in which its files can be wrong


NODES = [
    {"node_id": "d1", "type": "drug", "name": "aspirin", "aliases": ["ASA"], "document": "Aspirin eases pain."},
    {"node_id": 7, "type": "disease", "name": "fever"},
    {"node_id": "d2", "type": "drug", "name": "ibuprofen", "aliases": None, "document": None},
]
EDGES = "head_id\ttype\ttail_id\nd1\ttreats\t7\nd2\ttreats\t7\nd1\ttreats\t7\nd2\tinteracts\td1\n"


def write_knowledge_base(folder: Path, nodes: list[object] = NODES, edges: str = EDGES) -> Path:
    text = "".join((n if isinstance(n, str) else json.dumps(n)) + "\n" for n in nodes)
    (folder / "nodes.jsonl").write_text(text, encoding="utf-8")
    (folder / "edges.tsv").write_text(edges, encoding="utf-8")
    return folder


def test_nodes_and_edges(tmp_path: Path) -> None:
    base = read_knowledge_base(write_knowledge_base(tmp_path), frozenset({"drug"}))
    assert base.nodes.rows() == [
        ("d1", "aspirin", ["ASA"], "drug", "Aspirin eases pain."),
        ("7", "fever", [], "disease", ""),
        ("d2", "ibuprofen", [], "drug", ""),
    ]
    assert base.edges.rows() == [("d1", "treats", "7"), ("d2", "treats", "7"), ("d2", "interacts", "d1")]


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        ([], EDGES, "nodes.jsonl: contains no nodes"),
        ([*NODES, {"node_id": "7", "type": "x", "name": "y"}], EDGES, "nodes.jsonl:4: node_id: '7' occurs twice"),
        ([{**NODES[0], "alias": []}], EDGES, "nodes.jsonl:1: alias: unknown field. Rename 'alias' to 'aliases'"),
        (NODES, "head_id\ttype\ttail_id\nd1\ttreats\tnowhere\n", "edges.tsv:2: tail_id: 'nowhere' is not a node"),
        (NODES, "head_id\ttail_id\nd1\td2\n", "edges.tsv:1: the row has 2 fields; expected 3"),
        (NODES[1:2], "", "no node has the answer type 'drug'; the types are disease"),
    ],
)
def test_faults_are_named_by_file_line_and_field(
    tmp_path: Path, nodes: list[object], edges: str, sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_knowledge_base(write_knowledge_base(tmp_path, nodes, edges), frozenset({"drug"}))
