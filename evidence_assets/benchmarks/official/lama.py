"""LAMA's T-REx facts: one JSON lines file a relation, named by its Wikidata property."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from evidence_assets.benchmarks.info import dataset
from evidence_assets.benchmarks.reading_json import jsonl


class Fact(NamedTuple):
    """One fact by its labels, and the Wikidata property between them."""

    subject: str
    relation: str
    object: str


def read_facts(folder: Path) -> Iterator[Fact]:
    """The facts of all relations, in the order of their files' names."""
    for row in dataset("lama").each(folder, "all", jsonl):
        relation = row.file.name.partition(".")[0]
        if row.text_or_none("predicate_id") not in (None, relation):
            raise row.bad(f"{row.values['predicate_id']!r} in the file of {relation}", "predicate_id")
        yield Fact(row.text("sub_label"), relation, row.text("obj_label"))
