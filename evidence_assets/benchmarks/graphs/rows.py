"""From files of a graph to rows of ``triples``, each with the file and line that states it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import polars as pl

from evidence_assets.benchmarks.graphs.formats import TripleRecord, find_format, require_text
from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.benchmarks.line_streams import delimited_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.schemas import TABLES

RECORD_SCHEMA = {
    "head": pl.String,
    "relation": pl.String,
    "tail": pl.String,
    "line": pl.Int64,
    "head_type": pl.String,
    "tail_type": pl.String,
    "label": pl.Boolean,
}


@dataclass(frozen=True)
class GraphSource:
    """Files of one source: their format, their names below the folder of raw inputs, and their licence.

    ``names``: A file that says what the ids of their triples are called; each is found under its id, too.
    """

    format: str
    paths: tuple[str, ...]
    licence: str
    names: str = ""

    def files(self, raw: Path) -> list[Path]:
        return [raw / path for path in self.paths]


def triple_id(head: str, relation: str, tail: str) -> str:
    """Id of a triple: hash of what it says, wherever it comes from."""
    return content_id("triple", head, relation, tail)


def record_frames(records: Iterable[TripleRecord], rows: int = 100_000) -> Iterator[pl.DataFrame]:
    """Records as frames of at most ``rows`` rows, so that a large file is never in memory whole."""
    stream = iter(records)
    while batch := list(islice(stream, rows)):
        yield pl.DataFrame(batch, schema=RECORD_SCHEMA, orient="row")


def read_names(file: Path) -> dict[str, str]:
    """The first name of each id; one that several ids bear is followed by the id: ``Paris (m.05qtj)``."""
    called: dict[str, str] = {}
    for line, fields in delimited_rows(file, "\t", columns=2):
        identifier, name = (
            require_text(field, file, line, what) for field, what in zip(fields, ("id", "name"), strict=True)
        )
        called.setdefault(identifier, name)
    bearers = Counter(called.values())
    return {one: name if bearers[name] == 1 else f"{name} ({one})" for one, name in called.items()}


def triple_frames(source: GraphSource, raw: Path, vocabulary: Vocabulary) -> Iterator[pl.DataFrame]:
    """Rows of ``triples`` of one source, in frames; what a source marks as untrue is left out."""
    files = source.files(raw)
    shape = find_format(source.format, files)
    called = pl.DataFrame(
        list(read_names(raw / source.names).items()) if source.names else [],
        schema={"id": pl.String, "shown": pl.String},
        orient="row",
    )
    for frame in record_frames(shape.read(*files)):
        kept = frame.filter(pl.col("label").fill_null(value=True))
        if shape.vocabulary:
            kept = vocabulary.translate(kept, shape.vocabulary)
        for end in ("head", "tail") if source.names else ():
            kept = kept.join(called, left_on=end, right_on="id", how="left", maintain_order="left")
            kept = kept.with_columns(pl.coalesce("shown", end).alias(end)).drop("shown")
        ids = [triple_id(*row) for row in kept.select("head", "relation", "tail").iter_rows()]
        place = pl.concat_str(pl.lit(f"{source.paths[0]}:"), pl.col("line").cast(pl.String))
        yield kept.select(
            "head",
            "relation",
            "tail",
            "head_type",
            "tail_type",
            pl.Series("triple_id", ids, dtype=pl.String),
            place.alias("source"),
            pl.lit(source.licence).alias("licence"),
            pl.lit("import").alias("origin"),
        )


def triple_table(sources: Iterable[GraphSource], raw: Path, vocabulary: Vocabulary) -> pl.DataFrame:
    """Rows of ``triples`` of all sources."""
    schema = TABLES["triples"]
    empty = pl.from_arrow(schema.arrow.empty_table())
    assert isinstance(empty, pl.DataFrame)
    parts = [frame for source in sources for frame in triple_frames(source, raw, vocabulary)]
    return (
        pl.concat([empty, *parts], how="diagonal")
        .with_columns(pl.col("flags").fill_null([]))
        .select(schema.names)
        .unique(schema.key, keep="first", maintain_order=True)
    )


def read_synonyms(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """(name, alias) pairs that the files of all sources declare."""
    pairs = []
    for source in sources:
        files = source.files(raw)
        pairs += list(find_format(source.format, files).synonyms(files))
        pairs += [(name, one) for one, name in read_names(raw / source.names).items()] if source.names else []
    return pl.DataFrame(pairs, schema={"name": pl.String, "alias": pl.String}, orient="row").unique(maintain_order=True)
