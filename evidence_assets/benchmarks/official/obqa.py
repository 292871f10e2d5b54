"""OpenBookQA: JSON lines; the "complete" files add the gold fact, and ``openbook.txt`` holds the 1,326 facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo, dataset
from evidence_assets.benchmarks.official.choices import ai2_question
from evidence_assets.benchmarks.reading import text_lines
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import Document, GoldEvidence
from evidence_assets.lake.errors import BadInput

BOOK = "Data/Main/openbook.txt"


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    book = {_folded(fact.text): fact for fact in reversed(list(read_facts(folder)))}
    for row in info.each(folder, split, jsonl):
        evidence: tuple[GoldEvidence, ...] = ()
        if fact := row.text_or_none("fact1"):
            found = book.get(_folded(fact), Document("openbook", "", fact, BOOK))
            evidence = (GoldEvidence("sentence", found.doc_id, "", found.text),)
        yield ai2_question(info, row, split, evidence)


def read_facts(folder: Path) -> Iterator[Document]:
    """The facts of the open book, called ``openbook:`` and their line; none where the file is not there."""
    file = dataset("obqa").find_one(folder, BOOK)
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


READERS = {"obqa": read}
PASSAGES = {"obqa": lambda folder, split: read_facts(folder)}
