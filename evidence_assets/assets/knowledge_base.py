"""A semi-structured knowledge base: its nodes with their documents, its edges, and the passages that stand for nodes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import dagster as dg
import polars as pl
from pydantic import Field

from evidence_assets.assets.declarations import DEFS, variants
from evidence_assets.assets.models_in_use import encoder, model_key
from evidence_assets.assets.raw_files import FromRaw
from evidence_assets.assets.table_asset import Made, Step, sound_check, table_asset
from evidence_assets.benchmarks.knowledge_base import read_knowledge_base
from evidence_assets.benchmarks.stark import ANSWER_TYPES, read_stark
from evidence_assets.graphs import passages as graph_passages
from evidence_assets.graphs.base_rows import BaseFiles
from evidence_assets.graphs.stored import open_graph
from evidence_assets.lake.errors import BadInput
from evidence_assets.retrieval.corpus import vectors_wrong
from evidence_assets.systems.four_step_focus import node_search


class KnowledgeBase(dg.Component, FromRaw):
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

    def read(self, folder: Path) -> BaseFiles:
        """The base as its files state it."""
        if self.layout == "own":
            return read_knowledge_base(folder, frozenset(self.answer_types))
        return read_stark(folder, self.layout.removeprefix("stark_"))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.runs_in():
            return dg.Definitions()
        place, group = f"knowledge/{self.name}", "knowledge"
        source, raw = self.raw_assets(f"raw/knowledge/{self.name}", [self.folder])

        def make_nodes(step: Step) -> Made:
            nodes = self.read(step.lake.raw / self.folder).node_rows(self.name)
            return Made(nodes, metadata={"types": nodes["type"].n_unique()})

        def make_edges(step: Step) -> Made:
            edges = self.read(step.lake.raw / self.folder).edge_rows(self.name, self.folder, self.licence)
            return Made(edges, metadata={"types": edges["relation"].n_unique()})

        def make_passages(step: Step) -> Made:
            model = encoder(step.profile.encoder)
            passages = node_search.node_passages(open_graph(step.lake, self.name, model), model)
            table, reused = graph_passages.passage_table(passages, step.previous(), model, model_key(model))
            return Made(table, graph_passages.lineage_of(table), {"model": model_key(model)}, reused)

        nodes = table_asset(
            f"{place}/nodes", "kg_nodes", make_nodes, description=f"Nodes of {self.name} with their documents.",
            group=group, code_version="1", deps=[source],
        )  # fmt: skip
        edges = table_asset(
            f"{place}/edges", "kg_edges", make_edges, description=f"Typed edges of {self.name}.",
            group=group, code_version="1", deps=[source],
        )  # fmt: skip
        passages = table_asset(
            f"{place}/passages", "kg_passages", make_passages,
            description=f"Documents and relations of the nodes of {self.name} in passages, with their vectors.",
            group=group, code_version=f"{node_search.VERSION}:{graph_passages.VERSION}",
            deps=[f"{place}/nodes", f"{place}/edges"], kinds=("parquet", "pytorch"), pool="gpu",
        )  # fmt: skip
        return dg.Definitions(
            assets=[*raw, nodes, edges, passages],
            asset_checks=[sound_check(nodes), sound_check(edges), sound_check(passages, unit_length)],
        )


def unit_length(rows: pl.DataFrame) -> list[str]:
    """What is wrong with the vectors of passages."""
    return vectors_wrong(rows.rename({"passage_id": "chunk_id"}))


@lru_cache
def knowledge_bases(folder: Path = DEFS) -> dict[str, KnowledgeBase]:
    """Every knowledge base declared in YAML below ``folder``, by name: what a base's files do not say of it."""
    stated = (KnowledgeBase.model_validate(d.attributes) for d in variants(KnowledgeBase.__name__, folder))
    return {base.name: base for base in stated}


def declared_base(name: str) -> KnowledgeBase:
    """The knowledge base of this name."""
    if name not in knowledge_bases():
        raise BadInput(f"there is no knowledge base {name!r}; declared are {', '.join(knowledge_bases()) or 'none'}")
    return knowledge_bases()[name]
