"""Which knowledge bases are declared, and what a base's files do not say of it; read without Dagster."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field

from evidence_assets.benchmarks.declarations import instances, validated
from evidence_assets.benchmarks.declared import FromRaw
from evidence_assets.benchmarks.knowledge_base import read_knowledge_base
from evidence_assets.benchmarks.official.stark import ANSWER_TYPES, stark_edges, stark_nodes
from evidence_assets.lake.errors import BadInput


class KnowledgeBase(FromRaw):
    """Makes ``knowledge/<name>/nodes``, ``edges`` and ``passages`` of a folder.

    A node's id in the lake is ``<name>:<its own id>``; gold answers of benchmarks that name this base as their graph
    are read with the same prefix.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    folder: str
    """Below the lake's ``raw``."""
    layout: Literal["own", "stark_prime", "stark_mag", "stark_amazon"] = "own"
    """``own`` is ``nodes.jsonl`` and ``edges.tsv``; the others are STaRK's processed layout."""
    licence: str = ""
    answer_types: tuple[str, ...] = ()
    """Node types that can be an answer; in the own layout all where none is named, in STaRK's its own."""
    symmetric: tuple[str, ...] = ()
    """Edge types that hold in both directions however they are stored."""
    forms: Literal["", "sample"] = ""
    """Forms in which questions are written, for profiles without a language model; only the sample's have any."""

    @property
    def answers(self) -> tuple[str, ...]:
        """Node types that can be an answer."""
        return self.answer_types or ANSWER_TYPES.get(self.layout.removeprefix("stark_"), ())

    @property
    def sources(self) -> tuple[str, str]:
        """The files of the nodes and of the edges, below the lake's ``raw``."""
        files = ("nodes.jsonl", "edges.tsv") if self.layout == "own" else ("node_info.json", "edge_index.pt")
        return f"{self.folder}/{files[0]}", f"{self.folder}/{files[1]}"

    def read_nodes(self, folder: Path) -> pl.DataFrame:
        """The nodes as the base's files state them."""
        if self.layout == "own":
            return read_knowledge_base(folder, frozenset(self.answer_types)).nodes
        return stark_nodes(folder, self.layout.removeprefix("stark_"))

    def read_edges(self, folder: Path) -> pl.DataFrame:
        """The edges as the base's files state them."""
        if self.layout == "own":
            return read_knowledge_base(folder, frozenset(self.answer_types)).edges
        return stark_edges(folder, self.layout.removeprefix("stark_"))


@lru_cache
def knowledge_bases(folder: Path | None = None) -> dict[str, KnowledgeBase]:
    """Every knowledge base declared in YAML below ``folder``, by name: what a base's files do not say of it."""
    stated = (validated(KnowledgeBase, d) for d in instances("KnowledgeBase", folder))
    return {base.name: base for base in stated}


def declared_base(name: str) -> KnowledgeBase:
    if name not in knowledge_bases():
        raise BadInput(f"there is no knowledge base {name!r}; declared are {', '.join(knowledge_bases()) or 'none'}")
    return knowledge_bases()[name]
