"""Texts that stand for the nodes and edges of a graph, and their vectors as rows of ``kg_passages``.

Belongs here: which text stands for what, and taking over the vectors of texts that did not change. How the passages of
a node's document are cut is said in ``node_search``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.stored import vectors_of
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, edge
from evidence_assets.lake.store import typed
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.corpus import matrix

VERSION = "1"


@dataclass(frozen=True)
class Passage:
    """A text that stands for a node or an edge; ``start`` is −1 where it is no part of the node's document."""

    owner_kind: str
    owner_id: str
    start: int
    end: int
    text: str

    @property
    def passage_id(self) -> str:
        return content_id("passage", self.owner_kind, self.owner_id, self.start, self.end, self.text)


def fact_passages(graph: KnowledgeGraph) -> Iterator[Passage]:
    """Each node by its name, each edge by its sentence."""
    for node_id, name in zip(graph.node_ids, graph.names, strict=True):
        yield Passage("node", node_id, -1, -1, name)
    for number, edge_id in enumerate(graph.edge_ids):
        yield Passage("edge", edge_id, -1, -1, graph.sentence(number))


def passage_table(
    passages: Iterable[Passage], previous: pl.DataFrame, encoder: Encoder, model_id: str
) -> tuple[pa.Table, int]:
    """Rows of ``kg_passages``, vectors of unchanged texts taken over; and how many were.

    Passages of one owner are numbered in the order given.
    """
    made = list(passages)

    vectors = np.zeros((len(made), encoder.dimensions), np.float32)
    known = previous["input_hash"].to_numpy().astype("S32")
    hashes, reused = vectors_of(
        [p.text for p in made], model_id, known, matrix(previous["vector"]), encoder.sentences, vectors
    )
    counts: dict[tuple[str, str], int] = {}
    ordinals = []
    for p in made:
        owner = (p.owner_kind, p.owner_id)
        ordinals.append(counts.get(owner, 0))
        counts[owner] = ordinals[-1] + 1
    columns = {
        "passage_id": [p.passage_id for p in made],
        "owner_kind": [p.owner_kind for p in made],
        "owner_id": [p.owner_id for p in made],
        "ordinal": ordinals,
        "char_start": [p.start for p in made],
        "char_end": [p.end for p in made],
        "text": [p.text for p in made],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), encoder.dimensions).cast(
            pa.list_(pa.float32())
        ),
        "model_id": [model_id] * len(made),
        "input_hash": hashes.astype("U32"),
    }
    return typed("kg_passages", columns), reused


def lineage_of(table: pa.Table, encoded_by: str = "") -> list[dict[str, Any]]:
    """Each passage stands for its node or edge; with ``encoded_by``, that encoder made its vector."""
    columns = [table.column(name).to_pylist() for name in ("passage_id", "owner_kind", "owner_id")]
    edges = [edge("passage", p, DERIVED, kind, owner, owner) for p, kind, owner in zip(*columns, strict=True)]
    if encoded_by:
        edges += [edge("passage", p, GENERATED, "model", encoded_by, encoded_by) for p in columns[0]]
    return edges
