"""Benchmarks of users, and published ones: validated before anything is written, and written completely or not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.graph import Graph, KnowledgeBase
from evidence_assets.benchmarks import declared_benchmarks as declared
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions, read_benchmark_tables
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.cli import app
from evidence_assets.cli.add_benchmark import BenchmarkPlan, plan_benchmark, write_benchmark
from evidence_assets.lake.catalogue import LAKE_VARIABLE
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.benchmarks.official.test_choice_readers import AI2
from evidence_assets_tests.benchmarks.official.test_open_readers import HOTPOT

CHOICE = {"source_id": "1", "text": "Which buzzes?", "options": ["Bee", "Cat"], "gold": "A"}
CLAIM = {"source_id": "1", "task": "verification", "text": "River is 1.", "gold": "SUPPORTS", "table_id": "n.csv"}


class Folder:
    """Files of a user, and a lake with its folder for declarations."""

    def __init__(self, root: Path) -> None:
        self.root, self.tables = root, root / "tables"
        self.lake = Lake.create(root / "data_lake")
        self.defs = self.lake.root / "declarations" / "benchmarks"
        self.write_file("docs/bees.txt", "Bees buzz.")
        self.write_file("tables/n.csv", "name,value\nRiver,1\n")

    def write_file(self, name: str, text: str) -> Path:
        return write_files(self.root, {name: text}) / name

    def questions(self, *rows: dict[str, Any]) -> Path:
        return self.write_file("q.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def plan(self, name: str, *rows: dict[str, Any], **sources: Path | None) -> BenchmarkPlan:
        """The plan of a benchmark with these questions, of documents if no other sources are given."""
        corpus = None if sources else str(self.root / "docs")
        return plan_benchmark(name, self.questions(*rows), corpus=corpus, **sources)

    def add(self, plan: BenchmarkPlan) -> BenchmarkPlan:
        write_benchmark(plan, self.lake)
        return plan

    def add_published(self, reader: str, files: dict[str, str], corpus: str | None = None) -> BenchmarkPlan:
        """Add the benchmark "mine" from files in a dataset's published layout."""
        published = write_files(self.root / "published", files)
        return self.add(plan_benchmark("mine", published, reader=reader, corpus=corpus))

    def read_questions(self, name: str) -> list[QuestionRecord]:
        return list(read_benchmark_questions(self.lake, benchmarks(self.defs)[name]))

    def list_files(self) -> list[str]:
        places = (self.lake.root / "raw", self.defs)
        return sorted(str(p.relative_to(self.root)) for place in places for p in place.rglob("[!.]*") if p.is_file())


def test_a_name_that_is_no_corpus_gets_the_list_of_corpora(folder: Folder) -> None:
    with pytest.raises(BadInput, match=r"'railway' is neither a folder nor a corpus of this lake; there are: .*sample"):
        plan_benchmark("mine", folder.questions(CHOICE), corpus="railway")


def test_questions_without_known_answers_are_counted(folder: Folder) -> None:
    unknown = {name: value for name, value in CHOICE.items() if name != "gold"}
    plan = folder.plan("mine", CHOICE, unknown | {"source_id": "2"}, unknown | {"source_id": "3", "answerable": False})
    assert plan.notes == ["1 of 3 questions have no gold answer: they are answered, but not graded"]
    plan = folder.plan("mine", CHOICE | {"split": "test"}, CHOICE | {"source_id": "2", "split": "train"})
    assert plan.notes == ["1 more questions are of other splits: they are stored, but not answered"]


@pytest.fixture
def folder(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> Folder:
    other_settings.setenv(LAKE_VARIABLE, str(tmp_path / "data_lake"))
    return Folder(tmp_path)


def test_questions_and_documents_become_files_and_a_declaration(folder: Folder) -> None:
    folder.add(folder.plan("bees", CHOICE))
    assert folder.list_files() == [
        "data_lake/declarations/benchmarks/bees/defs.yaml",
        "data_lake/raw/benchmarks/bees/corpus/bees.txt",
        "data_lake/raw/benchmarks/bees/questions.jsonl",
    ]
    assert [q.gold for q in folder.read_questions("bees")] == [("A",)]
    (corpus,) = declared.declarations_of("Corpus", folder.defs)
    assert corpus.attributes == {"name": "bees", "folder": "benchmarks/bees/corpus"}


def test_a_folder_of_tables_becomes_tables_named_by_their_files(folder: Folder) -> None:
    folder.add(folder.plan("numbers", CLAIM, tables=folder.tables))
    (table,) = read_benchmark_tables(folder.lake, benchmarks(folder.defs)["numbers"])
    assert (table.table_id, table.header, table.rows) == ("n.csv", ("name", "value"), (("River", "1"),))
    (folder.tables / "link.csv").symlink_to(folder.write_file("elsewhere/private.csv", "name\nSecret\n"))
    with pytest.raises(BadInput, match="is a link that leads out of"):
        folder.plan("more", CLAIM, tables=folder.tables)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([CHOICE, CHOICE | {"source_id": "2", "gold": "Z"}], r"q\.jsonl:2: gold: 'Z'"),
        ([CHOICE, {k: v for k, v in CHOICE.items() if k != "text"}], r"q\.jsonl:2: text"),
        ([CHOICE, CLAIM | {"source_id": "2"}], r"q\.jsonl:2: task: is verification, but earlier questions are mcqa"),
        (
            [CHOICE, {"source_ids": "x", "Label": "A"}],
            r"source_ids: unknown field\. Rename 'source_ids' to 'source_id', 'Label' to 'gold'\.",
        ),
        ([CHOICE | {"split": "a"}, CHOICE | {"split": "b", "source_id": "2"}], r"several splits, a \(1\), b \(1\)"),
    ],
)
def test_an_error_is_located_and_nothing_is_written(rows: list[dict[str, Any]], message: str, folder: Folder) -> None:
    with pytest.raises(BadInput, match=message):
        folder.plan("bees", *rows)
    assert folder.list_files() == []


def test_missing_tables_are_reported_with_their_lines(folder: Folder) -> None:
    rows = (CLAIM, *(CLAIM | {"source_id": name, "table_id": name} for name in ("m.csv", "o.csv")))
    message = r"q\.jsonl:2: table_id: there is no table 'm.csv' in .*, such as '\w+\.csv'\n.*:3: table_id: .* 'o.csv'"
    with pytest.raises(BadInput, match=message):
        folder.plan("numbers", *rows, tables=folder.tables)
    with pytest.raises(BadInput, match="add --tables with a file or folder"):
        folder.plan("numbers", *rows, tables=None)


WHO = {"source_id": "1", "task": "kgqa", "text": "Who buzzes?", "gold": ["bee"]}


def test_a_broken_graph_is_reported_with_its_line(folder: Folder) -> None:
    with pytest.raises(BadInput, match=r"g\.tsv:2: relation"):
        folder.plan("who", WHO, graph=folder.write_file("g.tsv", "a\tb\tc\na\t\tc\n"))
    with pytest.raises(BadInput, match="add --graph"):
        folder.plan("who", WHO, graph=None)
    with pytest.raises(BadInput, match=r"e\.tsv: has no triples"):
        folder.plan("who", WHO, graph=folder.write_file("e.tsv", ""))


def test_triples_become_the_benchmarks_graph(folder: Folder) -> None:
    plan = folder.add(folder.plan("who", WHO, graph=folder.write_file("g.tsv", "bee\tmakes\thoney\n")))
    assert plan.counts == {"questions": 1, "triples": 1}
    assert benchmarks(folder.defs)["who"].graph == "who"
    (graph,) = declared.declarations_of("Graph", folder.defs)
    (files,) = Graph.model_validate(graph.attributes).files
    assert [(folder.lake.root / "raw" / path).read_text() for path in files.paths] == ["bee\tmakes\thoney\n"]
    (passages,) = declared.declarations_of("GraphPassages", folder.defs)
    assert passages.attributes == {"graph": "who"}


BEE = {"source_id": "1", "task": "skb_search", "text": "What do owls hunt?", "gold": ["bee"]}
NODES = "".join(
    json.dumps({"node_id": n, "type": "animal", "name": n, "document": f"A {n}."}) + "\n" for n in ("bee", "owl")
)


def test_a_folder_of_nodes_and_edges_becomes_the_benchmarks_knowledge_base(folder: Folder) -> None:
    folder.write_file("base/nodes.jsonl", NODES)
    graph = folder.write_file("base/edges.tsv", "owl\thunts\tbee\n").parent
    plan = folder.add(folder.plan("find", BEE, graph=graph))
    assert plan.counts == {"questions": 1, "nodes": 2} and plan.family == "search"
    (declared_base,) = declared.declarations_of("KnowledgeBase", folder.defs)
    base = KnowledgeBase.model_validate(declared_base.attributes)
    raw = folder.lake.raw_path(base.folder)
    assert base.read_nodes(raw)["node_id"].to_list() == ["bee", "owl"]
    assert base.read_edges(raw).rows() == [("owl", "hunts", "bee")]
    assert benchmarks(folder.defs)["find"].graph == "find"


@pytest.mark.parametrize(
    ("files", "graph", "message"),
    [
        ({"nodes.jsonl": NODES, "edges.tsv": ""}, "", r"q\.jsonl:1: gold: 'ant' is not a node_id of .*, such as 'bee'"),
        ({"nodes.jsonl": NODES, "edges.tsv": "owl\thunts\tmole\n"}, "", r"edges\.tsv:1: tail_id: 'mole' is not a node"),
        ({"nodes.jsonl": NODES}, "", r"edges\.tsv: there is no such file"),
        ({"g.tsv": "a\tb\tc\n"}, "g.tsv", r"g\.tsv: .*give --graph a folder with nodes\.jsonl and edges\.tsv"),
        ({}, None, r"need a knowledge base: give --graph a folder"),
    ],
)
def test_a_knowledge_base_that_does_not_fit_is_refused(
    files: dict[str, str], graph: str | None, message: str, folder: Folder
) -> None:
    base = write_files(folder.root / "base", files)
    with pytest.raises(BadInput, match=message):
        folder.plan("find", BEE | {"gold": ["ant"]}, graph=None if graph is None else base / graph)
    assert folder.list_files() == []


def test_earlier_names_of_fields_are_noted(folder: Folder) -> None:
    earlier = {{"source_id": "question_id"}.get(name, name): value for name, value in CHOICE.items()}
    plan = folder.add(folder.plan("bees", earlier, earlier | {"question_id": "2"}))
    file = folder.root / "q.jsonl"
    assert plan.notes == [f"{file}:1: question_id: is read as source_id; rename it to source_id"]
    assert [q.source_id for q in folder.read_questions("bees")] == ["1", "2"]


@pytest.mark.parametrize("name", ["obqa", "sample", "conceptnet", "sample_skb"])
def test_the_name_of_a_benchmark_or_corpus_is_refused(name: str, folder: Folder) -> None:
    with pytest.raises(BadInput, match="already"):
        plan_benchmark(name, folder.questions(CHOICE), corpus=str(folder.root / "docs"))


def test_a_second_time_the_benchmark_is_updated(folder: Folder) -> None:
    folder.add(folder.plan("bees", CHOICE))
    more = folder.write_file("docs/more.txt", "Cats purr.")
    folder.add(folder.plan("bees", CHOICE, CHOICE | {"source_id": "2"}))
    assert [q.source_id for q in folder.read_questions("bees")] == ["1", "2"]
    assert (folder.lake.root / "raw" / "benchmarks/bees/corpus/more.txt").exists()
    more.unlink()
    folder.add(folder.plan("bees", CHOICE))
    assert not (folder.lake.root / "raw" / "benchmarks/bees/corpus/more.txt").exists()


def test_files_of_a_killed_process_are_reused_and_other_files_stay(folder: Folder) -> None:
    plan = folder.plan("bees", CHOICE)
    for _ in range(2):
        folder.add(plan)
        shutil.rmtree(folder.defs / "bees")
    user_file = folder.lake.root / "raw" / "benchmarks/bees/corpus/mine.txt"
    user_file.write_text("mine")
    with pytest.raises(BadInput, match="exists already with other files"):
        folder.add(plan)
    assert user_file.read_text() == "mine"


# Published files of a known dataset, with the passages and tables that they bring


def test_published_questions_are_read_from_the_split_that_is_there(folder: Folder) -> None:
    files = {"Data/Main/dev.jsonl": json.dumps(AI2) + "\n"}
    plan = folder.add_published("obqa", files, str(folder.root / "docs"))
    benchmark = benchmarks(folder.defs)["mine"]
    assert (benchmark.reader, benchmark.split, benchmark.corpus) == ("obqa", "dev", "mine")
    assert plan.counts == {"questions": 1, "documents": 1} and "officially 500" in plan.notes[0]
    assert [q.gold for q in folder.read_questions("mine")] == [("B",)]


STARK = {"stark_qa/stark_qa_human_generated_eval.csv": "id,query,answer_ids\n1,Which drug?,[2]\n"}


def test_passages_of_the_dataset_become_the_corpus(folder: Folder) -> None:
    plan = folder.add_published("hotpotqa", {"hotpot_train_v1.1.json": json.dumps([HOTPOT])})
    (corpus,) = declared.declarations_of("Corpus", folder.defs)
    (group,) = Corpus.model_validate(corpus.attributes).file_groups(folder.lake.raw_path(corpus.attributes["folder"]))
    assert plan.counts == {"questions": 1, "documents": 2} and plan.task == "retrieval"
    assert sorted(document.title for document in group.read()) == ["Firm", "Thing"]
    other = folder.add_published(
        "hotpotqa", {"hotpot_train_v1.1.json": json.dumps([HOTPOT])}, str(folder.root / "docs")
    )
    assert other.task == "retrieval", "with a corpus of its own, too"


@pytest.mark.parametrize(
    ("reader", "files", "message"),
    [
        ("obqq", {"a": ""}, "did you mean 'obqa'"),
        ("quiz", {"a": ""}, "no dataset 'quiz'. There are: arc_c, arc_e, .* webqsp"),
        (
            "simplequestions",
            {"annotated_fb_data_test.txt": "www.freebase.com/m/1\twww.freebase.com/a/b\twww.freebase.com/m/2\twho?\n"},
            "kgqa questions have short answers, which need a graph: add --graph .* documents need options",
        ),
        ("obqa", {"a": ""}, "this file is missing; expected OpenBookQA, split test: Data/Additional/test_complete"),
        ("csqa", {"dev_rand_split.jsonl": json.dumps(AI2)}, "need documents or a graph: add --corpus with a folder"),
        ("obqa", {"Data/Main/dev.jsonl": json.dumps(AI2 | {"answerKey": "Z"})}, r"dev\.jsonl:1: answerKey"),
        (
            "stark_prime_human",
            STARK,
            "stark_prime_human needs its knowledge base: declare both in YAML, see docs/own-data",
        ),
        ("webqsp", {}, "--questions is the folder of the published files"),
    ],
)
def test_an_error_says_what_is_missing_and_nothing_is_written(
    reader: str, files: dict[str, str], message: str, folder: Folder
) -> None:
    with pytest.raises(BadInput, match=message):
        folder.add_published(reader, files)
    assert not list(folder.defs.rglob("*.yaml"))


def test_an_error_leaves_no_new_lake(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, str(folder.lake.root))  # restored after the test
    command = ["add", "benchmark", "mine", "--questions", str(folder.questions(CHOICE)), "--lake"]
    assert CliRunner().invoke(app, [*command, str(folder.root / "new")]).exit_code == 1
    assert not (folder.root / "new").exists()
