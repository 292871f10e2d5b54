"""OpenBookQA: JSON lines; the "complete" files add the gold fact, and ``openbook.txt`` holds the 1,326 facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import ai2_question
from evidence_assets.benchmarks.reading import text_lines
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import Document, GoldEvidence
from evidence_assets.lake.errors import BadInput

BOOK = "Data/Main/openbook.txt"
INFO = DatasetInfo(
    name="obqa",
    title="OpenBookQA",
    task="mcqa",
    files={
        split: (f"Data/Additional/{split}_complete.jsonl|Data/Main/{split}.jsonl",)
        for split in ("train", "dev", "test")
    },
    counts={"train": 4957, "dev": 500, "test": 500},
    licence="Apache-2.0",
    source="https://allenai.org/data/open-book-qa",
    note="Gold facts are read where the complete file is there; the Main file alone has none.",
)


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    book = {_folded(fact.text): fact for fact in reversed(list(read_facts(folder, info)))}
    for row in info.each(folder, split, jsonl):
        evidence: tuple[GoldEvidence, ...] = ()
        if fact := row.text_or_none("fact1"):
            found = book.get(_folded(fact), Document("openbook", "", fact, BOOK))
            evidence = (GoldEvidence("sentence", found.doc_id, "", found.text),)
        yield ai2_question(info, row, split, evidence)


def read_facts(folder: Path, info: DatasetInfo = INFO) -> Iterator[Document]:
    """The facts of the open book, called ``openbook:`` and their line; none where the file is not there."""
    file = info.find_one(folder, BOOK)
    for number, line in text_lines(file) if file else ():
        fact = line.strip().strip('"').strip()
        if not fact:
            if line.strip():
                raise BadInput("an empty fact", file=file, line=number)
            continue
        yield Document(f"openbook:{number}", "", fact, str(BOOK))


def _folded(fact: str) -> str:
    """Facts are compared without case, quotes, outer space and final full stop."""
    return fact.strip().strip('"').strip().rstrip(".").lower()


READERS = ((INFO, read),)
PASSAGES = {"obqa": lambda folder, split: read_facts(folder)}
