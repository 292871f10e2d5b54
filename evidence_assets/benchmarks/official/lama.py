"""LAMA's T-REx facts: one JSON lines file a relation, named by its Wikidata property."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import delimited
from evidence_assets.benchmarks.reading_json import jsonl

INFO = DatasetInfo(
    name="lama",
    title="LAMA, T-REx facts",
    task=None,
    files={"all": ("TREx/P*.jsonl",)},
    licence="facts CC0 (Wikidata), T-REx CC BY-SA 4.0, LAMA's own templates CC BY-NC 4.0",
    source="https://github.com/facebookresearch/LAMA",
    note="41 relations; facts are read, LAMA's templates are not.",
)


@dataclass(frozen=True)
class Fact:
    """One fact: Wikidata ids and labels of subject and object, and the property between them."""

    subject_id: str
    subject: str
    relation: str
    object_id: str
    object: str
    line: int


def read_facts(folder: Path) -> Iterator[Fact]:
    """The facts of all relations, in the order of their files' names."""
    for file in INFO.find(folder, "all"):
        relation = file.name.partition(".")[0]
        for row in jsonl(file):
            if row.text_or_none("predicate_id") not in (None, relation):
                raise row.bad(f"{row.values['predicate_id']!r} in the file of {relation}", "predicate_id")
            yield Fact(
                row.text("sub_uri"),
                row.text("sub_label"),
                relation,
                row.text("obj_uri"),
                row.text("obj_label"),
                row.line or 0,
            )


def read_relations(folder: Path) -> dict[str, str]:
    """English label of each property: from ``relations.jsonl`` (official) or ``relations.tsv`` (id, label)."""
    official = INFO.find_one(folder, "relations.jsonl")
    if official:
        return {row.text("relation"): row.text("label") for row in jsonl(official)}
    table = INFO.find_one(folder, "relations.tsv")
    return {fields[0]: fields[1] for _, fields in delimited(table, columns=2)} if table else {}
