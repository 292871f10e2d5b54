"""Freebase subsets as SimpleQuestions ships them: subject, relation and all its objects, with tabs between them.

Ids stand with their address (``www.freebase.com/m/01cj3p``) and are shortened as in the questions (``m.01cj3p``); the
objects of one subject and relation are separated by spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord, filled
from evidence_assets.benchmarks.reading import delimited

ADDRESS = "www.freebase.com/"


def read(file: Path) -> Iterator[TripleRecord]:
    """A triple an object."""
    for line, (subject, relation, objects) in delimited(file, "\t", columns=3):
        head = _short(filled(subject, file, line, "subject"))
        kind = _short(filled(relation, file, line, "relation"))
        for each in filled(objects, file, line, "objects").split():
            yield TripleRecord(head, kind, _short(each), line)


def _short(name: str) -> str:
    return name.strip().removeprefix(ADDRESS).strip("/").replace("/", ".")
