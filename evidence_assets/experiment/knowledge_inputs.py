"""Graphs and knowledge bases as assets read them, opened once a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from evidence_assets import profiles
from evidence_assets.experiment.step import Step
from evidence_assets.graphs.base_rows import base_of, facts_of_rows
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.graphs.facts import GraphFacts
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder
from evidence_assets.models.protocols import FloatArray
from evidence_assets.retrieval.corpus import matrix
from evidence_assets.systems.four_step_focus.node_search import NodePassages

Stamp = tuple[tuple[str, int, int], ...]
_TABLES = {"nodes": "kg_nodes", "edges": "kg_edges", "passages": "kg_passages"}


def _stamp(lake: Lake, name: str, parts: tuple[str, ...]) -> Stamp:
    """What tells one version of a graph's files from another; a part that was never made is refused."""
    found = []
    for part in parts:
        files = lake.files(_TABLES[part], f"knowledge/{name}/{part}")
        if not files:
            raise StaleInput(f"knowledge/{name}/{part} is not made: materialize it first")
        found += [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files]
    return tuple(found)


def _rows(lake: Lake, name: str, part: str) -> pl.DataFrame:
    return lake.read(_TABLES[part], f"knowledge/{name}/{part}")


@dataclass(frozen=True)
class OpenBase:
    """A semi-structured knowledge base with the passages of its nodes."""

    base: KnowledgeBase
    passages: NodePassages

    @cached_property
    def linker(self) -> EntityLinker:
        return EntityLinker.from_nodes(zip(self.base.names, self.base.aliases, strict=True))


def open_base(lake: Lake, name: str, answer_types: tuple[str, ...] = ()) -> OpenBase:
    """The knowledge base of this name."""
    return _open_base(str(lake.root), name, answer_types, _stamp(lake, name, ("nodes", "edges", "passages")))


@lru_cache(maxsize=2)
def _open_base(root: str, name: str, answer_types: tuple[str, ...], stamp: Stamp) -> OpenBase:
    lake = Lake(root)
    base = base_of(_rows(lake, name, "nodes"), _rows(lake, name, "edges"), answer_types)
    return OpenBase(base, NodePassages.from_rows(base, _rows(lake, name, "passages")))


@dataclass(frozen=True)
class OpenFacts:
    """A graph with a linker over its names; vectors are read where they are asked for."""

    root: str
    name: str
    nodes: pl.DataFrame
    facts: GraphFacts

    @cached_property
    def linker(self) -> EntityLinker:
        return EntityLinker.from_nodes(self.nodes.select("name", "aliases").rows())

    @cached_property
    def node_vectors(self) -> FloatArray:
        """One vector a node, in the order of the nodes."""
        return self._vectors("node", self.nodes["node_id"].to_list())

    @cached_property
    def edge_vectors(self) -> FloatArray:
        """One vector an edge, in the order of the edges."""
        return self._vectors("edge", list(self.facts.edge_ids))

    def _vectors(self, kind: str, ids: list[str]) -> FloatArray:
        lake = Lake(self.root)
        _stamp(lake, self.name, ("passages",))
        rows = _rows(lake, self.name, "passages").filter(pl.col("owner_kind") == kind)
        position = {owner: i for i, owner in enumerate(rows["owner_id"].to_list())}
        missing = next((i for i in ids if i not in position), None)
        if missing is not None:
            raise StaleInput(
                f"{kind} {missing} of {self.name} has no vector: knowledge/{self.name}/passages is older than the "
                "graph, materialize it again"
            )
        if not ids:
            return np.zeros((0, encoder(profiles.load().encoder).dimensions), np.float32)
        return matrix(rows["vector"])[[position[i] for i in ids]]


def open_facts(lake: Lake, name: str) -> OpenFacts:
    """The graph of this name."""
    return _open_facts(str(lake.root), name, _stamp(lake, name, ("nodes", "edges")), _passages_stamp(lake, name))


def facts_of(step: Step) -> OpenFacts:
    """The graph that the partition's benchmark is answered from."""
    graph = step.benchmark.graph
    if not graph:
        raise BadInput(f"benchmark {step.benchmark} names no graph: declare the one that it is answered from")
    return open_facts(step.lake, graph)


def _passages_stamp(lake: Lake, name: str) -> Any:
    files = lake.files("kg_passages", f"knowledge/{name}/passages")
    return tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in files)


@lru_cache(maxsize=2)
def _open_facts(root: str, name: str, stamp: Stamp, passages: Stamp) -> OpenFacts:
    lake = Lake(root)
    nodes = _rows(lake, name, "nodes").sort("node_id")
    return OpenFacts(root, name, nodes, facts_of_rows(nodes, _rows(lake, name, "edges")))
