"""PubMedQA, expert-labelled: one object of questions by PMID; each brings its own abstract and a long answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo, dataset
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_members
from evidence_assets.benchmarks.records import Document, GoldEvidence

OPTIONS = ("yes", "no", "maybe")


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for pmid, row in info.each(folder, split, json_members):
        decision = row.text("final_decision")
        if decision not in OPTIONS:
            raise row.bad(f"{decision!r} is not one of {', '.join(OPTIONS)}", f"{pmid}.final_decision")
        yield info.question(
            row,
            split,
            pmid,
            row.text("QUESTION"),
            options=OPTIONS,
            gold=("ABC"[OPTIONS.index(decision)],),
            gold_evidence=(GoldEvidence("chunk", pmid, "", _abstract(row)),),
        )


def read_abstracts(folder: Path, split: str) -> Iterator[Document]:
    """The abstracts of the questions, without their conclusions: the passages of a collection."""
    for file in dataset("pubmedqa").find(folder, split):
        for pmid, row in json_members(file):
            yield Document(pmid, "", _abstract(row), file.name)


def _abstract(row: Row) -> str:
    return "\n".join(row.texts("CONTEXTS"))


READERS = {"pubmedqa": read}
PASSAGES = {"pubmedqa": read_abstracts}
