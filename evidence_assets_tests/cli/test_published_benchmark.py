"""Published files of a known dataset as a benchmark, with the passages and tables that they bring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.assets.corpus import Corpus
from evidence_assets.benchmarks import declared_benchmarks as declared
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions, read_benchmark_tables
from evidence_assets.cli.add_benchmark import BenchmarkPlan, plan_published_benchmark, write_benchmark
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import write_files

FACT = {
    "id": "7",
    "question": {
        "stem": "Which buzzes?",
        "choices": [{"text": t, "label": c} for c, t in zip("AB", ("Bee", "Cat"), strict=True)],
    },
    "answerKey": "A",
}
HOP = {
    "_id": "1",
    "question": "Who made it?",
    "answer": "Ada",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Bees", 0]],
    "context": [["Bees", ["Ada made it."]], ["Cats", ["Cats sleep."]]],
}
CLAIM = {
    "paper": "p",
    "paper_id": "p",
    "table_caption": "c",
    "table_column_names": ["name", "value"],
    "table_content_values": [["River", "1"]],
    "id": "1",
    "claim": "River is 1.",
    "label": "supports",
    "table_id": "t",
}


class Folder:
    """Published files, a lake and a folder for declarations."""

    def __init__(self, root: Path) -> None:
        self.published, self.defs, self.lake = root / "published", root / "defs", Lake.create(root / "data_lake")
        self.defs.mkdir()
        self.documents = write_files(root / "docs", {"bees.txt": "Bees buzz."})

    def add(self, reader: str, files: dict[str, str], corpus: str | None = None) -> BenchmarkPlan:
        write_files(self.published, files)
        plan = plan_published_benchmark("mine", reader, self.published, corpus=corpus, folder=self.defs)
        write_benchmark(plan, self.lake, folder=self.defs)
        return plan


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_published_questions_are_read_from_the_split_that_is_there(folder: Folder) -> None:
    files = {"Data/Main/dev.jsonl": json.dumps(FACT) + "\n"}
    plan = folder.add("obqa", files, str(folder.documents))
    benchmark = all_benchmarks(folder.defs)["mine"]
    assert (benchmark.reader, benchmark.split, benchmark.corpus) == ("obqa", "dev", "mine")
    assert plan.counts == {"questions": 1, "documents": 1} and "officially 500" in plan.note
    assert [q.gold for q in read_benchmark_questions(folder.lake, benchmark)] == [("A",)]


def test_passages_of_the_dataset_become_the_corpus(folder: Folder) -> None:
    plan = folder.add("hotpotqa", {"hotpot_train_v1.1.json": json.dumps([HOP])})
    (corpus,) = declared.declarations_of("Corpus", folder.defs)
    (group,) = Corpus.model_validate(corpus.attributes).file_groups(folder.lake.raw / corpus.attributes["folder"])
    assert plan.counts == {"questions": 1, "documents": 2} and plan.task == "retrieval"
    assert sorted(document.title for document in group.read()) == ["Bees", "Cats"]


def test_tables_of_the_dataset_are_found(folder: Folder) -> None:
    folder.add("scitab", {"sci_tab.json": json.dumps([CLAIM])})
    (table,) = read_benchmark_tables(folder.lake, all_benchmarks(folder.defs)["mine"])
    assert table.header == ("name", "value")


@pytest.mark.parametrize(
    ("reader", "files", "message"),
    [
        ("obqq", {"a": ""}, "did you mean 'obqa'.* Available datasets: arc_c, arc_e"),
        ("obqa", {"a": ""}, "this file is missing; expected OpenBookQA, split test: Data/Additional/test_complete"),
        (
            "csqa",
            {"dev_rand_split.jsonl": json.dumps(FACT)},
            "need documents or a graph: add --corpus with a folder or the name of a corpus",
        ),
        ("obqa", {"Data/Main/dev.jsonl": json.dumps(FACT | {"answerKey": "Z"})}, r"dev\.jsonl:1: answerKey"),
        ("webqsp", {}, "--questions is the folder of the published files"),
    ],
)
def test_an_error_says_what_is_missing_and_nothing_is_written(
    reader: str, files: dict[str, str], message: str, folder: Folder
) -> None:
    with pytest.raises(BadInput, match=message):
        folder.add(reader, files)
    assert not list(folder.defs.rglob("*.yaml"))
