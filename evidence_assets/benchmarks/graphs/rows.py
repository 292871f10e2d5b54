"""Conversion of graph files to rows of ``triples``, each with its file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from evidence_assets.benchmarks.graphs.formats import TripleRecord, find_format, named_columns
from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.graphs.merge import LABEL_SCHEMA
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.sorted_rows import sort_on_disk
from evidence_assets.profiles import StrictModel

RECORD_SCHEMA = dict.fromkeys(TripleRecord._fields, pl.String) | {"line": pl.Int64}
ROWS_PER_FRAME = 100_000
"""Maximum triples in memory as Python objects."""


class GraphSource(StrictModel):
    """Files of one source of a graph."""

    format: str
    """Name of a format in ``benchmarks.graphs.formats``."""
    paths: tuple[str, ...]
    """Files below the lake's ``raw``, as many as the format needs."""
    licence: str
    """Licence of its triples; stored with every edge."""
    names: str = ""
    """File of ``id TAB name`` below ``raw``, if triples or questions use ids; the ids become synonyms. Further lines of
    an id are aliases."""


def triple_id(head: str, relation: str, tail: str) -> str:
    """Id of a triple: a hash of head, relation and tail, whatever its source."""
    return content_id("triple", head, relation, tail)


def read_names(file: Path) -> pl.DataFrame:
    """Read id and first name of each id; a name of several ids gets the id as suffix: ``Paris (m.05qtj)``."""
    return _select_names(_read_forms(file))


def _select_names(forms: pl.DataFrame) -> pl.DataFrame:
    first = forms.unique("id", keep="first", maintain_order=True)
    with_id = pl.concat_str("name", pl.lit(" ("), "id", pl.lit(")"))
    return first.with_columns(pl.when(pl.col("name").is_unique()).then("name").otherwise(with_id).alias("name"))


def read_labels(file: Path) -> pl.DataFrame:
    """Read id, label and aliases of each id; the label is its first name without the id as suffix."""
    return _select_labels(_read_forms(file))


def _select_labels(lines: pl.DataFrame) -> pl.DataFrame:
    forms = lines.group_by("id", maintain_order=True).agg("name")
    name = pl.col("name").list.first()
    without_id = name.str.strip_suffix(pl.concat_str(pl.lit(" ("), "id", pl.lit(")")))
    label = pl.when(without_id == "").then(name).otherwise(without_id)
    return forms.select("id", label.alias("label"), pl.col("name").list.slice(1).alias("aliases"))


def _read_forms(file: Path) -> pl.DataFrame:
    """Read id and name of each line."""
    lines = (fields for _, fields in named_columns(file, "id", "name"))
    schema = {"id": pl.String, "name": pl.String}
    frames = [pl.DataFrame(schema=schema)]
    while batch := list(islice(lines, ROWS_PER_FRAME)):
        frames.append(pl.DataFrame(batch, schema=schema, orient="row"))
    return pl.concat(frames)


def triple_frames(source: GraphSource, raw: Path, vocabulary: Vocabulary) -> Iterator[pl.DataFrame]:
    """Rows of ``triples`` of one source, in frames of bounded size."""
    triples = _read_triples(source, raw, vocabulary)
    names = read_names(raw / source.names) if source.names else None
    while batch := list(islice(triples, ROWS_PER_FRAME)):
        rows = pl.DataFrame(batch, schema=RECORD_SCHEMA, orient="row")
        rows = rows if names is None else _name_ends(rows, names)
        ids = [triple_id(*row) for row in rows.select("head", "relation", "tail").iter_rows()]
        location = pl.concat_str(pl.lit(f"{source.paths[0]}:"), pl.col("line").cast(pl.String))
        yield rows.select(
            pl.exclude("line"),
            pl.Series("triple_id", ids, dtype=pl.String),
            location.alias("source"),
            pl.lit(source.licence).alias("licence"),
            pl.lit("import").alias("origin"),
            pl.lit([], dtype=pl.List(pl.String)).alias("flags"),
        )


def _read_triples(source: GraphSource, raw: Path, vocabulary: Vocabulary) -> Iterator[TripleRecord]:
    """The triples of one source with the relations of the vocabulary."""
    files = [raw / path for path in source.paths]
    graph_format = find_format(source.format, files)
    triples = graph_format.read(*files)
    if graph_format.vocabulary:
        triples = vocabulary.translate(triples, graph_format.vocabulary)
    return triples


def _name_ends(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The triples with names instead of known ids."""
    ids = pl.concat([rows["head"], rows["tail"]]).unique()
    used = names.filter(pl.col("id").is_in(ids.implode()))
    return rows.with_columns(pl.col(end).replace(used["id"], used["name"]) for end in ("head", "tail"))


def sort_triples(frames: Iterable[pl.DataFrame], folder: Path) -> Iterator[pl.DataFrame]:
    """Rows of ``triples`` in blocks, sorted by the table's key, without duplicates; ``folder`` is for the sort."""
    key = TABLES["triples"].key
    for block in sort_on_disk(frames, key, folder):
        yield block.unique(key, keep="first", maintain_order=True)


def read_synonyms(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """Read the (name, alias) pairs of all sources."""
    schema = {"name": pl.String, "alias": pl.String}
    frames = [pl.DataFrame(schema=schema)]
    for source in sources:
        files = [raw / path for path in source.paths]
        frames.append(pl.DataFrame(find_format(source.format, files).synonyms(files), schema=schema, orient="row"))
        if source.names:
            frames.append(read_names(raw / source.names).select("name", pl.col("id").alias("alias")))
    return pl.concat(frames).unique(maintain_order=True)


def read_node_labels(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """Read the label and the aliases of all names that have their id as a suffix, or aliases."""
    frames = [LABEL_SCHEMA.to_frame()]
    for file in [raw / source.names for source in sources if source.names]:
        forms = _read_forms(file)
        named = _select_names(forms).join(_select_labels(forms), on="id", maintain_order="left")
        named = named.filter((pl.col("label") != pl.col("name")) | (pl.col("aliases").list.len() > 0))
        frames.append(named.select("name", "label", pl.col("aliases").alias("further_names")))
    return pl.concat(frames).unique("name", keep="first", maintain_order=True)
