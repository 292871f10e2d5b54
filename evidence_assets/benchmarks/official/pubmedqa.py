"""PubMedQA, expert-labelled: one object of questions by PMID; each brings its own abstract and a long answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_members
from evidence_assets.benchmarks.records import Document, GoldEvidence

OPTIONS = ("yes", "no", "maybe")
INFO = DatasetInfo(
    name="pubmedqa",
    title="PubMedQA, PQA-L",
    task="mcqa",
    files={
        "labelled": ("data/ori_pqal.json",),
        "not_test": ("data/ori_pqal_not_test.json",),
        "test": ("data/test_set.json",),
    },
    counts={"labelled": 1000, "not_test": 500, "test": 500},
    licence="MIT",
    source="https://github.com/pubmedqa/pubmedqa",
    note="The options of every question are yes, no and maybe; its own abstract is its gold evidence. The split not_test "
    "is what the labelled questions have besides the official test set.",
)


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for pmid, row in info.each(folder, split, json_members):
        decision = row.text("final_decision")
        if decision not in OPTIONS:
            raise row.bad(f"{decision!r} is not one of {', '.join(OPTIONS)}", f"{pmid}.final_decision")
        yield info.question(
            row, split, pmid, row.text("QUESTION"), options=OPTIONS, gold=("ABC"[OPTIONS.index(decision)],),
            gold_evidence=(GoldEvidence("chunk", pmid, "", _abstract(row)),),
        )  # fmt: skip


def read_abstracts(folder: Path, split: str) -> Iterator[Document]:
    """The abstracts of the questions, without their conclusions: the passages of a collection."""
    for file in INFO.find(folder, split):
        for pmid, row in json_members(file):
            yield Document(pmid, "", _abstract(row), file.name)


def _abstract(row: Row) -> str:
    return "\n".join(row.texts("CONTEXTS"))


READERS = ((INFO, read),)
PASSAGES = {"pubmedqa": read_abstracts}
