"""UMLS Semantic Network triples (train.txt, valid.txt, test.txt): tab-separated, words joined by underscores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs import tab_separated
from evidence_assets.benchmarks.graphs.triples import TripleRecord


def read(file: Path) -> Iterator[TripleRecord]:
    """Triples with names in plain words; relation names stay as they are."""
    for record in tab_separated.read(file):
        yield record._replace(head=record.head.replace("_", " "), tail=record.tail.replace("_", " "))
