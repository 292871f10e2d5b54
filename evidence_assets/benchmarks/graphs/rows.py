"""Conversion of graph files to rows of ``triples``, each with its file and line."""

from __future__ import annotations

from collections import Counter
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


def read_names(file: Path) -> dict[str, str]:
    """Read the first name of each id; a name of several ids gets the id as suffix: ``Paris (m.05qtj)``."""
    names = {identifier: forms[0] for identifier, forms in _read_forms(file).items()}
    counts = Counter(names.values())
    return {identifier: name if counts[name] == 1 else f"{name} ({identifier})" for identifier, name in names.items()}


def read_labels(file: Path) -> dict[str, list[str]]:
    """Read the label of each id, which is its name without the id as suffix, and its aliases."""
    return {
        identifier: [name.removesuffix(f" ({identifier})") or name, *aliases]
        for identifier, (name, *aliases) in _read_forms(file).items()
    }


def _read_forms(file: Path) -> dict[str, list[str]]:
    """Read the names of each id in the order of their lines."""
    forms: dict[str, list[str]] = {}
    for _, (identifier, name) in named_columns(file, "id", "name"):
        forms.setdefault(identifier, []).append(name)
    return forms


def triple_frames(source: GraphSource, raw: Path, vocabulary: Vocabulary) -> Iterator[pl.DataFrame]:
    """Rows of ``triples`` of one source, in frames of bounded size."""
    triples = _read_triples(source, raw, vocabulary)
    while batch := list(islice(triples, ROWS_PER_FRAME)):
        rows = pl.DataFrame(batch, schema=RECORD_SCHEMA, orient="row")
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
    """The triples of one source with the relations of the vocabulary, and with names instead of ids."""
    files = [raw / path for path in source.paths]
    graph_format = find_format(source.format, files)
    triples = graph_format.read(*files)
    if graph_format.vocabulary:
        triples = vocabulary.translate(triples, graph_format.vocabulary)
    if source.names:
        names = read_names(raw / source.names)
        triples = (t._replace(head=names.get(t.head, t.head), tail=names.get(t.tail, t.tail)) for t in triples)
    return triples


def sort_triples(frames: Iterable[pl.DataFrame], folder: Path) -> Iterator[pl.DataFrame]:
    """Rows of ``triples`` in blocks, sorted by the table's key, without duplicates; ``folder`` is for the sort."""
    key = TABLES["triples"].key
    for block in sort_on_disk(frames, key, folder):
        yield block.unique(key, keep="first", maintain_order=True)


def read_synonyms(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """Read the (name, alias) pairs of all sources."""
    pairs = []
    for source in sources:
        files = [raw / path for path in source.paths]
        pairs += list(find_format(source.format, files).synonyms(files))
        pairs += [(name, node_id) for node_id, name in read_names(raw / source.names).items()] if source.names else []
    return pl.DataFrame(pairs, schema={"name": pl.String, "alias": pl.String}, orient="row").unique(maintain_order=True)


def read_node_labels(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """Read the label and the aliases of all names that have their id as a suffix, or aliases."""
    rows = []
    for source in sources:
        labels = read_labels(raw / source.names) if source.names else {}
        names = read_names(raw / source.names) if source.names else {}
        named = [(names[identifier], label, aliases) for identifier, (label, *aliases) in labels.items()]
        rows += [(name, label, aliases) for name, label, aliases in named if label != name or aliases]
    return pl.DataFrame(rows, schema=LABEL_SCHEMA, orient="row").unique("name", keep="first", maintain_order=True)
