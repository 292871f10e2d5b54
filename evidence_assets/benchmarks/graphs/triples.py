"""The record that every graph reader yields, how records become a frame, and what the ids of a graph are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import polars as pl

from evidence_assets.benchmarks.reading import delimited
from evidence_assets.lake.errors import BadInput


class TripleRecord(NamedTuple):
    """One triple as its source states it.

    ``head``, ``relation``, ``tail``: Names, never blank.
    ``line``: Line of the file, from 1.
    ``head_type``, ``tail_type``: Kind of entity, where the source says.
    ``label``: False for a triple that the source marks as untrue, None where it marks nothing.
    """

    head: str
    relation: str
    tail: str
    line: int
    head_type: str | None = None
    tail_type: str | None = None
    label: bool | None = None


class Named(NamedTuple):
    """What a dump calls one of its ids."""

    id: str
    name: str


SCHEMA = {
    "head": pl.String,
    "relation": pl.String,
    "tail": pl.String,
    "line": pl.Int64,
    "head_type": pl.String,
    "tail_type": pl.String,
    "label": pl.Boolean,
}


def filled(value: str, file: Path, line: int, field: str) -> str:
    """The value without surrounding space, or an error that names the field where nothing is left."""
    text = value.strip()
    if not text:
        raise BadInput("is empty: every triple needs a head, a relation and a tail", file=file, line=line, field=field)
    return text


def frames(records: Iterable[TripleRecord], rows: int = 100_000) -> Iterator[pl.DataFrame]:
    """Records as frames of at most `rows` rows, so that a large file never lies in memory whole."""
    stream = iter(records)
    while batch := list(islice(stream, rows)):
        yield pl.DataFrame(batch, schema=SCHEMA, orient="row")


def names_of(file: Path) -> dict[str, str]:
    """The first name of each id; one that several ids bear is followed by the id: ``Paris (m.05qtj)``."""
    called: dict[str, str] = {}
    for line, fields in delimited(file, "\t", columns=2):
        identifier, name = map(filled, fields, [file] * 2, [line] * 2, ("id", "name"))
        called.setdefault(identifier, name)
    bearers = Counter(called.values())
    return {one: name if bearers[name] == 1 else f"{name} ({one})" for one, name in called.items()}
