"""A user's benchmark: validated before anything is written, then written completely or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.assets.graph import Graph, KnowledgeBase
from evidence_assets.assets.planning import benchmark_size
from evidence_assets.benchmarks import declared_benchmarks as declared
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks as benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions, read_benchmark_tables
from evidence_assets.cli import app
from evidence_assets.cli.add_benchmark import plan_benchmark, write_benchmark
from evidence_assets.lake.catalogue import LAKE_VARIABLE
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import write_files

CHOICE = {"source_id": "1", "text": "Which buzzes?", "options": ["Bee", "Cat"], "gold": "A"}
CLAIM = {
    "source_id": "1",
    "task": "verification",
    "text": "The value of River is 1.",
    "gold": "SUPPORTS",
    "table_id": "n.csv",
}


class Folder:
    """Files of a user, a lake, and a folder for declarations."""

    def __init__(self, root: Path) -> None:
        self.root, self.defs = root, root / "defs"
        self.defs.mkdir()
        self.lake = Lake.create(root / "data_lake")
        self.write_file("docs/bees.txt", "Bees buzz.")
        self.write_file("tables/n.csv", "name,value\nRiver,1\n")

    def write_file(self, name: str, text: str) -> Path:
        return write_files(self.root, {name: text}) / name

    def questions(self, *rows: dict[str, Any]) -> Path:
        return self.write_file("q.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def list_files(self) -> list[str]:
        places = (self.lake.raw, self.defs)
        return sorted(str(p.relative_to(self.root)) for place in places for p in place.rglob("*") if p.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_questions_and_documents_become_files_and_a_declaration(folder: Folder) -> None:
    benchmark_plan = plan_benchmark(
        "bees", folder.questions(CHOICE), corpus=str(folder.root / "docs"), folder=folder.defs
    )
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    assert folder.list_files() == [
        "data_lake/raw/benchmarks/bees/corpus/bees.txt",
        "data_lake/raw/benchmarks/bees/questions.jsonl",
        "defs/bees/defs.yaml",
    ]
    benchmark = benchmarks(folder.defs)["bees"]
    assert [q.gold for q in read_benchmark_questions(folder.lake, benchmark)] == [("A",)]
    (corpus,) = declared.declarations_of("Corpus", folder.defs)
    assert corpus.attributes == {"name": "bees", "folder": "benchmarks/bees/corpus"}


def test_the_plan_of_a_new_benchmark_counts_its_questions(folder: Folder) -> None:
    rows = [CHOICE, CHOICE | {"source_id": "2"}, CHOICE | {"source_id": "3", "split": "dev"}]
    plan = plan_benchmark("bees", folder.questions(*rows), corpus=str(folder.root / "docs"), folder=folder.defs)
    write_benchmark(plan, folder.lake, folder=folder.defs)
    assert benchmark_size(benchmarks(folder.defs)["bees"], folder.lake) == (2, 4)


def test_a_folder_of_tables_becomes_tables_named_by_their_files(folder: Folder) -> None:
    benchmark_plan = plan_benchmark(
        "numbers", folder.questions(CLAIM), tables=folder.root / "tables", folder=folder.defs
    )
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    benchmark = benchmarks(folder.defs)["numbers"]
    (table,) = read_benchmark_tables(folder.lake, benchmark)
    assert (table.table_id, table.header, table.rows) == ("n.csv", ("name", "value"), (("River", "1"),))
    (folder.root / "tables" / "link.csv").symlink_to(folder.write_file("elsewhere/private.csv", "name\nSecret\n"))
    with pytest.raises(BadInput, match="is a link that leads out of"):
        plan_benchmark("more", folder.questions(CLAIM), tables=folder.root / "tables", folder=folder.defs)


def test_questions_with_a_claim_and_a_label_are_verification_and_the_plan_says_so(folder: Folder) -> None:
    rows = [CLAIM, {"source_id": "2", "claim": "River is 2.", "label": "refuted", "table_id": "n.csv"}]
    plan = plan_benchmark("numbers", folder.questions(*rows), tables=folder.root / "tables", folder=folder.defs)
    write_benchmark(plan, folder.lake, folder=folder.defs)
    assert (plan.task, plan.note) == (
        "verification",
        "1 without a task, with a claim and a label: read as verification",
    )
    questions = read_benchmark_questions(folder.lake, benchmarks(folder.defs)["numbers"])
    assert [(q.task, q.text, q.gold) for q in questions][1] == ("verification", "River is 2.", ("REFUTES",))
    with pytest.raises(BadInput, match="claim: unknown field; did you mean 'text'"):
        plan_benchmark("bees", folder.questions(CHOICE | {"claim": "x", "label": "A"}), folder=folder.defs)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([CHOICE, CHOICE | {"source_id": "2", "gold": "Z"}], r"q\.jsonl:2: gold: 'Z'"),
        ([CHOICE, {k: v for k, v in CHOICE.items() if k != "text"}], r"q\.jsonl:2: text"),
        ([CHOICE, CLAIM | {"source_id": "2"}], r"q\.jsonl:2: task: is verification, but earlier questions are mcqa"),
        ([CHOICE | {"split": "a"}, CHOICE | {"split": "b", "source_id": "2"}], r"several splits, a \(1\), b \(1\)"),
    ],
)
def test_an_error_is_located_and_nothing_is_written(rows: list[dict[str, Any]], message: str, folder: Folder) -> None:
    with pytest.raises(BadInput, match=message):
        plan_benchmark("bees", folder.questions(*rows), corpus=str(folder.root / "docs"), folder=folder.defs)
    assert folder.list_files() == []


def test_a_missing_table_is_reported_with_its_line(folder: Folder) -> None:
    file = folder.questions(CLAIM, CLAIM | {"source_id": "2", "table_id": "m.csv"})
    with pytest.raises(BadInput, match=r"q\.jsonl:2: table_id: there is no table 'm.csv' in .*, such as '\w+\.csv'"):
        plan_benchmark("numbers", file, tables=folder.root / "tables", folder=folder.defs)
    with pytest.raises(BadInput, match="add --tables with a file or folder"):
        plan_benchmark("numbers", file, folder=folder.defs)


def test_a_broken_graph_is_reported_with_its_line(folder: Folder) -> None:
    file = folder.questions({"source_id": "1", "task": "kgqa", "text": "Who?", "gold": ["X"]})
    graph = folder.write_file("g.tsv", "a\tb\tc\na\t\tc\n")
    with pytest.raises(BadInput, match=r"g\.tsv:2: relation"):
        plan_benchmark("who", file, graph=graph, folder=folder.defs)
    with pytest.raises(BadInput, match="add --graph"):
        plan_benchmark("who", file, folder=folder.defs)
    with pytest.raises(BadInput, match=r"e\.tsv: has no triples"):
        plan_benchmark("who", file, graph=folder.write_file("e.tsv", ""), folder=folder.defs)


def test_triples_become_the_benchmarks_graph(folder: Folder) -> None:
    file = folder.questions({"source_id": "1", "task": "kgqa", "text": "Who buzzes?", "gold": ["bee"]})
    benchmark_plan = plan_benchmark(
        "who", file, graph=folder.write_file("g.tsv", "bee\tmakes\thoney\n"), folder=folder.defs
    )
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    assert benchmark_plan.counts == {"questions": 1, "triples": 1}
    assert benchmarks(folder.defs)["who"].graph == "who"
    (graph,) = declared.declarations_of("Graph", folder.defs)
    (files,) = Graph.model_validate(graph.attributes).files
    assert [(folder.lake.raw / path).read_text() for path in files.paths] == ["bee\tmakes\thoney\n"]
    (passages,) = declared.declarations_of("GraphPassages", folder.defs)
    assert passages.attributes == {"graph": "who"}


def test_nodes_with_documents_become_a_knowledge_base(folder: Folder) -> None:
    nodes = [{"node_id": n, "type": "animal", "name": n, "document": f"A {n}."} for n in ("bee", "owl")]
    folder.write_file("base/nodes.jsonl", "".join(json.dumps(node) + "\n" for node in nodes))
    folder.write_file("base/edges.tsv", "owl\thunts\tbee\n")
    question = {"source_id": "1", "task": "skb_search", "text": "Who buzzes?", "gold": ["bee"]}
    benchmark_plan = plan_benchmark("find", folder.questions(question), graph=folder.root / "base", folder=folder.defs)
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    (base,) = declared.declarations_of("KnowledgeBase", folder.defs)
    read_nodes = KnowledgeBase.model_validate(base.attributes).read_nodes(folder.lake.raw / base.attributes["folder"])
    assert (read_nodes["node_id"].to_list(), benchmarks(folder.defs)["find"].graph) == (["bee", "owl"], "find")
    with pytest.raises(BadInput, match=r"q\.jsonl:1: gold: 'ant' is not a node"):
        plan_benchmark(
            "other", folder.questions(question | {"gold": ["ant"]}), graph=folder.root / "base", folder=folder.defs
        )
    with pytest.raises(BadInput, match=r"a folder with nodes\.jsonl, edges\.tsv"):
        plan_benchmark(
            "other", folder.questions(question), graph=folder.write_file("g.tsv", "a\tb\tc\n"), folder=folder.defs
        )


@pytest.mark.parametrize("name", ["obqa", "sample", "conceptnet", "sample_skb"])
def test_the_name_of_a_benchmark_or_corpus_is_refused(name: str, folder: Folder) -> None:
    with pytest.raises(BadInput, match="already"):
        plan_benchmark(name, folder.questions(CHOICE), corpus=str(folder.root / "docs"))


@pytest.mark.parametrize("name", ["Bees", "a-b", "../x", ""])
def test_a_name_that_is_invalid_in_asset_keys_is_refused(name: str, folder: Folder) -> None:
    with pytest.raises(BadInput, match="is not a valid benchmark name"):
        plan_benchmark(name, folder.questions(CHOICE), corpus=str(folder.root / "docs"), folder=folder.defs)


def test_a_declaration_that_fails_to_load_is_deleted_with_its_files(folder: Folder) -> None:
    def fail() -> None:
        raise BadInput("Dagster does not load it")

    benchmark_plan = plan_benchmark(
        "bees", folder.questions(CHOICE), corpus=str(folder.root / "docs"), folder=folder.defs
    )
    with pytest.raises(BadInput, match="does not load"):
        write_benchmark(benchmark_plan, folder.lake, fail, folder=folder.defs)
    assert folder.list_files() == []


def test_a_second_time_the_benchmark_is_updated_or_stays_as_it_was(folder: Folder) -> None:
    def add(*rows: dict[str, Any], check: Callable[[], None] = lambda: None) -> None:
        plan = plan_benchmark("bees", folder.questions(*rows), corpus=str(folder.root / "docs"), folder=folder.defs)
        write_benchmark(plan, folder.lake, check, folder=folder.defs)

    def fail() -> None:
        raise BadInput("Dagster does not load it")

    def ids() -> list[str]:
        return [q.source_id for q in read_benchmark_questions(folder.lake, benchmarks(folder.defs)["bees"])]

    add(CHOICE)
    (folder.root / "docs" / "more.txt").write_text("Cats purr.")
    add(CHOICE, CHOICE | {"source_id": "2"})
    assert ids() == ["1", "2"]
    (folder.root / "docs" / "more.txt").unlink()
    with pytest.raises(BadInput, match="does not load"):
        add(CHOICE, check=fail)
    assert ids() == ["1", "2"] and (folder.lake.raw / "benchmarks/bees/corpus/more.txt").exists()
    add(CHOICE)
    assert ids() == ["1"] and not (folder.lake.raw / "benchmarks/bees/corpus/more.txt").exists()


def test_a_failing_command_leaves_no_new_lake(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAKE_VARIABLE, str(folder.root / "new"))
    questions = str(folder.questions(CHOICE))
    for corpus in ("absent", str(folder.root / "docs")):
        arguments = ["add", "benchmark", "sample" if corpus != "absent" else "bees", "--questions", questions]
        result = CliRunner().invoke(app, [*arguments, "--corpus", corpus])
        assert result.exit_code == 1 and not (folder.root / "new").exists()


def test_files_of_a_killed_process_are_reused_and_other_files_stay(folder: Folder) -> None:
    benchmark_plan = plan_benchmark(
        "bees", folder.questions(CHOICE), corpus=str(folder.root / "docs"), folder=folder.defs
    )
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    shutil.rmtree(folder.defs / "bees")
    write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    shutil.rmtree(folder.defs / "bees")
    user_file = folder.lake.raw / "benchmarks/bees/corpus/mine.txt"
    user_file.write_text("mine")
    with pytest.raises(BadInput, match="exists already with other files"):
        write_benchmark(benchmark_plan, folder.lake, folder=folder.defs)
    assert user_file.read_text() == "mine"
