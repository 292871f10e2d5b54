"""The user's own benchmark: every field's good and bad forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks.records import CLAIM_LABELS, GoldEvidence, QuestionRecord, Table
from evidence_assets.benchmarks.user_benchmark import read_questions, read_table_file, read_tables
from evidence_assets.lake.errors import BadInput


def ask(folder: Path, *records: dict[str, Any]) -> list[QuestionRecord]:
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return list(read_questions(path, "mine"))


def record(**changes: Any) -> dict[str, Any]:
    base = {"source_id": "q1", "task": "mcqa", "text": "Which?", "options": ["ant", "bee"], "gold": "B"}
    return {key: value for key, value in (base | changes).items() if value is not ...}


def test_a_whole_question(tmp_path: Path) -> None:
    gold = {"kind": "sentence", "source": "bees", "locator": "0:9", "text": "Bees buzz."}
    extra_args = {
        "split": "dev",
        "table_id": "t1",
        "topic_entities": ["insect"],
        "negated": True,
        "gold_evidence": [gold],
    }
    evidence = (GoldEvidence(**gold),)  # type: ignore[arg-type]
    assert ask(tmp_path, record(**extra_args)) == [
        QuestionRecord("mine", "q1", "dev", "mcqa", "Which?", ("ant", "bee"), ("B",), "t1", ("insect",), evidence, True)
    ]


@pytest.mark.parametrize(
    ("gold", "labels"),
    [("B", ("B",)), ("bee", ("B",)), (1, ("B",)), (0, ("A",)), (["A", "bee"], ("A", "B")), (None, ())],
)
def test_forms_of_gold(tmp_path: Path, gold: Any, labels: tuple[str, ...]) -> None:
    assert ask(tmp_path, record(gold=gold))[0].gold == labels


def test_defaults(tmp_path: Path) -> None:
    output = ask(tmp_path, {"question_id": 7, "text": "Which?", "options": ["ant", "bee"]})[0]
    assert (output.source_id, output.split, output.task, output.gold) == ("7", "test", "mcqa", ())


def test_claims_have_the_usual_labels_unless_given(tmp_path: Path) -> None:
    output = ask(
        tmp_path,
        record(task="verification", options=..., gold="REFUTES"),
        record(source_id="q2", task="verification", options=["true", "false"], gold=1),
    )
    assert output[0].options == CLAIM_LABELS and output[0].gold == ("REFUTES",)
    assert output[1].gold == ("false",)


@pytest.mark.parametrize(
    ("gold", "label"),
    [("supports", "SUPPORTS"), ("Refuted", "REFUTES"), ("NOT ENOUGH INFO", CLAIM_LABELS[2]), ("nei", CLAIM_LABELS[2])],
)
def test_labels_of_claims_may_have_the_spellings_of_other_readers(tmp_path: Path, gold: str, label: str) -> None:
    assert ask(tmp_path, record(task="verification", options=..., gold=gold))[0].gold == (label,)


@pytest.mark.parametrize(
    ("field", "right_field"), [("label", "gold"), ("claim", "text"), ("question", "text"), ("choices", "options")]
)
def test_a_field_of_another_format_is_hinted_at_the_right_one(tmp_path: Path, field: str, right_field: str) -> None:
    with pytest.raises(BadInput, match=f"{field}: unknown field; did you mean '{right_field}'"):
        ask(tmp_path, record(**{field: "x"}))


def test_graph_and_search_questions(tmp_path: Path) -> None:
    output = ask(
        tmp_path,
        record(task="kgqa", options=..., gold=["Paris", "Lyon"], aliases=[["Paris, France"], []]),
        record(source_id="q2", task="skb_search", options=..., gold=[12, "n7"]),
    )
    assert output[0].gold == ("Paris", "Lyon") and output[0].aliases == (("Paris, France",), ())
    assert output[1].gold == ("12", "n7")


def test_forms_of_locators(tmp_path: Path) -> None:
    forms = [
        ("bees", "4:9", "4:9"),
        ("bees", None, ""),
        ("bees", {"doc_id": "bees", "char_start": 0, "char_end": 9}, "0:9"),
        ("t1", {"table_id": "t1", "row": 3, "column": 0}, "r4c0"),
        ("graph", [["bee", "makes", "miel é"]], '[["bee", "makes", "miel é"]]'),
    ]
    evidence = [{"kind": "path", "source": source, "locator": locator, "text": "t"} for source, locator, _ in forms]
    output = ask(tmp_path, record(gold_evidence=evidence))[0]
    assert [item.locator for item in output.gold_evidence] == [expected for _, _, expected in forms]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gold": "C"}, r"gold: 'C' is neither a label \(A, B\) nor the text of an option"),
        ({"gold": 2}, "gold: 2 is not an option; use a number from 0 to 1"),
        ({"gold": True}, "gold: True is neither"),
        ({"gold": 1.0}, "gold: 1.0 is neither"),
        ({"gold": "A", "options": ["B", "A"]}, "gold: 'A' matches options A and B; use the number from 0"),
        ({"options": "ant"}, "options: 'ant' is not a list"),
        ({"source_id": ...}, "source_id: missing"),
        ({"question_id": "q"}, "question_id: source_id and question_id are synonyms"),
        ({"optoins": []}, "optoins: unknown field; did you mean 'options'"),
        ({"negated": "yes"}, "negated: 'yes' is neither true nor false"),
        ({"aliases": ["x"]}, r"aliases\[0\]: 'x' is not a list"),
        ({"gold_evidence": [{"kind": "chunk", "source": "s"}]}, r"gold_evidence\[0\].text: missing"),
        ({"gold_evidence": [{"kind": "page", "source": "s", "text": "t"}]}, r"gold_evidence\[0\].kind: 'page' is not"),
        (
            {"gold_evidence": [{"kind": "cell", "source": "t", "locator": {"table_id": "u"}, "text": "x"}]},
            r"gold_evidence\[0\].locator.table_id: 'u' differs from the source 't'",
        ),
        (
            {"gold_evidence": [{"kind": "cell", "source": "t", "locator": {"table_id": "t", "row": 1}, "text": "x"}]},
            r"gold_evidence\[0\].locator.column: missing",
        ),
        ({"gold_aliases": {"x": ["y"]}}, "gold_aliases: 'x' is not one of the gold answers"),
        ({"gold_evidence": [{"knd": "chunk"}]}, r"gold_evidence\[0\].knd: unknown field; did you mean 'kind'"),
    ],
)
def test_faults_name_file_line_and_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"questions\.jsonl:2: {message}"):
        ask(tmp_path, record(source_id="q0"), record(**changes))


def test_doubled_id_and_empty_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"questions\.jsonl:2: source_id: 'q1' occurs twice"):
        ask(tmp_path, record(), record(text="Another?"))
    with pytest.raises(BadInput, match="contains no questions"):
        ask(tmp_path)


def tables(folder: Path, *records: dict[str, Any]) -> list[Table]:
    path = folder / "tables.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in records))
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
        ({"header": [True]}, r"header\[0\]: True is not a cell"),
        ({"table_id": None}, "table_id: None is not a string"),
        ({"title": "C"}, "title: unknown field; did you mean 'table_id'|title: unknown field"),
    ],
)
def test_faulty_tables(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"tables\.jsonl:1: (?:{message})"):
        tables(tmp_path, {"table_id": "t", "header": [], "rows": []} | changes)


def test_table_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffname;price\nTea;3,50\nCoffee;4\n\n", encoding="utf-8")
    pq.write_table(pa.table({"name": ["x", None], "n": [1, 2]}), tmp_path / "b.parquet")
    first, second = read_table_file(tmp_path / "a.csv"), read_table_file(tmp_path / "b.parquet")
    assert (first.header, first.rows) == (("name", "price"), (("Tea", "3,50"), ("Coffee", "4")))
    assert second.rows == (("x", "1"), ("", "2"))
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(BadInput, match=name):
            read_table_file(tmp_path / name)
