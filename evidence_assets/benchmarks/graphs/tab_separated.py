"""Three tab-separated columns without a header: head, relation, tail (also how the UMLS triples are passed around)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord, filled
from evidence_assets.benchmarks.reading import delimited


def read(file: Path) -> Iterator[TripleRecord]:
    """Triples of a file of head TAB relation TAB tail."""
    for line, (head, relation, tail) in delimited(file, "\t", columns=3):
        yield TripleRecord(
            filled(head, file, line, "head"),
            filled(relation, file, line, "relation"),
            filled(tail, file, line, "tail"),
            line,
        )
