"""What the ids of a graph are called, by a file of id TAB name: of Freebase, whose subsets hold ids alone, a user's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import filled
from evidence_assets.benchmarks.reading import delimited


def names_of(file: Path) -> dict[str, str]:
    """The first name of each id; one that several ids bear is followed by the id: ``Paris (m.05qtj)``."""
    called: dict[str, str] = {}
    for line, fields in delimited(file, "\t", columns=2):
        identifier, name = map(filled, fields, [file] * 2, [line] * 2, ("id", "name"))
        called.setdefault(identifier, name)
    bearers = Counter(called.values())
    return {one: name if bearers[name] == 1 else f"{name} ({one})" for one, name in called.items()}
