"""A dump of ConceptNet's size, through the same functions as its assets: seconds and memory of every stage.

    python -m bench.graphs.conceptnet [--assertions 34000000] [--english 0.1] [--folder FOLDER]

Assertions are generated in the official layout of five columns, compressed: a tenth of them between English concepts,
two tenths with one English end, the others between concepts of other languages. With ``--english 1`` all are English.
They are read into triples, merged into nodes and edges as each of these assets merges them, checked, and brought into
compressed rows. Each stage is a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from bench.graphs.stark import WORDS
from bench.measuring import make_parser
from bench.retrieval.in_stages import keep, run
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.graphs.rows import GraphSource, read_synonyms, sort_triples, triple_frames
from evidence_assets.graphs import graph_store, merge
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.lineage import find_dangling_edges
from evidence_assets.lake.rows import row_blocks
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.lake.store import Lake

NAME, PLACE, AT_ONCE, CONCEPTS = "conceptnet", "knowledge/conceptnet", 1_000_000, 12_000_000
SOURCES = [GraphSource(format="conceptnet", paths=("assertions.csv.gz",), licence="CC-BY-SA-4.0")]
RELATIONS = (
    ["RelatedTo"] * 9
    + ["FormOf"] * 5
    + ["DerivedFrom", "HasContext", "IsA", "Synonym", "UsedFor", "AtLocation", "Antonym"]
)
LANGUAGES = ["en", "fr", "de", "ja", "es", "la", "ru", "pt", "zh"]
INFO = (
    '{"dataset": "/d/wiktionary/en", "license": "cc:by-sa/4.0", "sources": '
    '[{"contributor": "/s/resource/wiktionary/en", "process": "/s/process/wikiparsec/2"}], "weight": 1.0}'
)
KINDS = [""] * 6 + ["/n"] * 3 + ["/n/wn/artifact"]


def write(folder: Path, arguments: argparse.Namespace) -> None:
    """Lines of five columns; a concept is one to three words, and some are written with their part of speech."""
    folder.mkdir(parents=True)
    draws, words, share = np.random.default_rng(0), pl.Series(WORDS), arguments.english

    def concepts(english: NDArray[np.bool_]) -> pl.Series:
        numbers = (CONCEPTS * share * draws.random(len(english)) ** 2).astype(np.int64)
        languages = np.where(english, 0, draws.integers(1, len(LANGUAGES), len(english)))
        first, second, third = (words.gather(numbers // len(WORDS) ** power % len(WORDS)) for power in range(3))
        kinds = pl.Series(KINDS).gather(draws.integers(0, len(KINDS), len(english)))
        uris = "/c/" + pl.Series(LANGUAGES).gather(languages) + "/" + first
        uris += ("_" + second).set(pl.Series(numbers < len(WORDS)), "")
        return uris + ("_" + third).set(pl.Series(numbers < len(WORDS) ** 2), "") + kinds

    with gzip.open(folder / "assertions.csv.gz", "wt", compresslevel=1, encoding="utf-8") as file:
        for first in range(0, arguments.assertions, AT_ONCE):
            which = draws.random(min(AT_ONCE, arguments.assertions - first))
            relations = pl.Series(RELATIONS).gather(draws.integers(0, len(RELATIONS), len(which)))
            rows = pl.DataFrame(
                {"r": relations, "h": concepts(which < 3 * share), "t": concepts(which < share)}
            ).select(
                pl.format("/a/[/r/{}/,{}/,{}/]", "r", "h", "t").alias("uri"),
                "/r/" + pl.col("r"),
                "h",
                "t",
                pl.lit(INFO).alias("info"),
            )
            file.write(rows.write_csv(include_header=False, separator="\t", quote_style="never"))


def triples(lake: Lake, files: Path, _: argparse.Namespace) -> int:
    with temporary_folder(lake.root) as folder:
        frames = triple_frames(SOURCES[0], files, load_vocabulary())
        rows = store_sorted("triples", sort_triples(frames, folder), folder)
    return keep(lake, "triples", f"{PLACE}/triples", rows)


def blocks(lake: Lake, *columns: str) -> Iterator[pl.DataFrame]:
    """The triples in blocks, as the assets read them."""
    schema = pa.schema([TABLES["triples"].arrow.field(name) for name in columns])
    for path in lake.files("triples", f"{PLACE}/triples"):
        yield from map(pl.DataFrame, row_blocks(path, schema, merge.TRIPLES_PER_BLOCK))


def nodes(lake: Lake, files: Path, _: argparse.Namespace) -> int:
    triples = blocks(lake, "head", "tail", "head_type", "tail_type")
    with temporary_folder(lake.root) as folder:
        rows = store_sorted("kg_nodes", merge.merge_nodes(triples, read_synonyms(SOURCES, files), folder), folder)
    return keep(lake, "kg_nodes", f"{PLACE}/nodes", rows)


def edges(lake: Lake, files: Path, _: argparse.Namespace) -> int:
    triples = blocks(lake, "head", "relation", "tail", "triple_id", "source", "licence")
    with temporary_folder(lake.root) as folder:
        rows = store_sorted("kg_edges", merge.merge_edges(triples, read_synonyms(SOURCES, files), folder), folder)
        lineage = store_sorted("lineage_edges", merge.edge_lineage(rows.rows), folder)
    return keep(lake, "kg_edges", f"{PLACE}/edges", rows, lineage=lineage)


def check(lake: Lake, _: Path, __: argparse.Namespace) -> int:
    """The lineage check of the asset; the number of errors."""
    with connect(lake.root, lazy=True, memory=None) as connection:
        return len(find_dangling_edges(connection, lake.path("lineage_edges", f"{PLACE}/edges")))


def csr(lake: Lake, _: Path, __: argparse.Namespace) -> int:
    return graph_store.build_arrays(lake, NAME, graph_store.tables_version(lake, NAME, "nodes", "edges")).n_edges


STAGES = {stage.__name__: stage for stage in (triples, nodes, edges, check, csr)}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--assertions", type=int, default=34_000_000)
    parser.add_argument("--english", type=float, default=0.1, help="Share of assertions between English concepts.")
    run(parser, STAGES, write)


if __name__ == "__main__":
    main()
