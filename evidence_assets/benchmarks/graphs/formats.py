"""The graph formats by the name under which a configuration asks for one, each with the files that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.benchmarks.graphs import (
    conceptnet,
    disease_database,
    drugbank,
    freebase,
    hetionet,
    primekg,
    tab_separated,
    wikidata,
)
from evidence_assets.benchmarks.graphs.triples import Named, TripleRecord
from evidence_assets.lake.errors import BadInput


@dataclass(frozen=True)
class Format:
    """How one format is read.

    ``files``: What its files are, in the order in which `read` takes them.
    ``read``: The triples.
    ``vocabulary``: Under which source name `relation_mapping.tsv` translates its relations; empty where they stay as
        they are.
    ``synonyms``: (name, synonym) pairs that the files state besides.
    ``named``: The triples, and the names of what stands in them as ids; nothing where they are in names.
    """

    files: tuple[str, ...]
    read: Callable[..., Iterator[TripleRecord]]
    vocabulary: str = ""
    synonyms: Callable[[Sequence[Path]], Iterator[tuple[str, str]]] = lambda files: iter(())
    named: Callable[..., Iterator[TripleRecord | Named]] | None = None


FORMATS: dict[str, Format] = {
    "tab_separated": Format(("triples",), tab_separated.read),
    "umls": Format(("triples",), tab_separated.umls, "umls"),
    "disease_database": Format(
        ("relations", "names"), disease_database.read, synonyms=lambda files: disease_database.synonyms(files[1])
    ),
    "conceptnet": Format(("assertions",), conceptnet.assertions, "conceptnet"),
    "conceptnet_completion": Format(("triples",), conceptnet.completion, "conceptnet"),
    "primekg": Format(("kg.csv",), primekg.read, "primekg"),
    "simplequestions": Format(("facts",), tab_separated.simplequestions),
    "drugbank": Format(
        ("interactions", "vocabulary"), drugbank.read, synonyms=lambda files: drugbank.synonyms(files[1])
    ),
    "wikidata": Format(("dump",), wikidata.read, named=wikidata.statements),
    "freebase": Format(("dump",), freebase.read, named=freebase.statements),
    "hetionet": Format(("edges", "nodes"), hetionet.read, "hetionet"),
}


def format_named(name: str, files: Sequence[Path]) -> Format:
    """The format ``name``, once it is clear that it exists and takes as many files."""
    if name not in FORMATS:
        raise BadInput(f"there is no graph format {name!r}; known: {', '.join(FORMATS)}", field="format")
    wanted = FORMATS[name].files
    if len(files) != len(wanted):
        raise BadInput(
            f"the format {name} takes {len(wanted)} files ({', '.join(wanted)}), here are {len(files)}", field="paths"
        )
    return FORMATS[name]
