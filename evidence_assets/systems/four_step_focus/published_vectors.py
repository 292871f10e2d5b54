"""Published vectors of questions and nodes, from a user's files, which replace those of the profile's encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from evidence_assets.graphs.arrays import BoolArray, IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.merge import prefixed_node_id
from evidence_assets.graphs.nearest_rows import inner_products
from evidence_assets.graphs.passage_files import SIMILARITY_DIGITS, SimilarityMethod
from evidence_assets.lake.array_files import find_key_positions, open_array
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_fingerprint
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import Array
from evidence_assets.reasoning.questions import Question

FOLDER = "vectors"
"""Folder below ``raw``, and name of its asset.

``vectors/<benchmark>/<MODEL>`` has ``question.npy`` and ``node.npy`` with a vector in each row, and the ascending
official ids of the rows, which are numbers, in ``question_ids.npy`` and ``node_ids.npy``.
"""
MODEL = "text-embedding-ada-002"
"""The printed model of 4StepFocus's vector search, whose vectors STaRK publishes."""


class PublishedVectors:
    """Compares questions with nodes as ``PassageFiles`` does; a node has one vector.

    ``source_ids``: Official ids by question id.
    """

    def __init__(self, folder: Path, graph: KnowledgeGraph, source_ids: Mapping[str, str]) -> None:
        self._folder = folder
        self._source_ids = source_ids
        prefix = prefixed_node_id(graph.name, "")
        self._node_ids = graph.node_ids.str.strip_prefix(prefix).cast(pl.Int64).to_numpy()
        self.version = content_id(*map(file_fingerprint, sorted(folder.iterdir())))

    def encode(self, questions: Sequence[Question]) -> FloatArray:
        """The vectors of questions."""
        ids = np.array([int(self._source_ids[question.question_id]) for question in questions])
        return np.asarray(self._open("question")[self._find_rows("question", ids)], np.float32)

    def similarities(self, query: FloatArray, nodes: IntArray, method: SimilarityMethod) -> Array:
        """Inner products of a question and nodes, by either method."""
        rows = self._find_rows("node", self._node_ids[nodes])
        return np.asarray(np.round(inner_products(self._open("node"), rows, query), SIMILARITY_DIGITS))

    def nearest(self, query: FloatArray, allowed: BoolArray, k: int, method: SimilarityMethod) -> IntArray:
        """Find the ``k`` nearest allowed nodes, best first, ties broken by node number; fewer if fewer are allowed."""
        nodes = np.flatnonzero(allowed if k else ())
        return nodes[np.lexsort((nodes, -self.similarities(query, nodes, method)))[:k]]

    def best_passage(self, query: FloatArray, node: int) -> None:
        """A vector is that of a whole entry, which has no nearest passage."""

    def _open(self, name: str) -> Array:
        return open_array(self._folder / f"{name}.npy")

    def _find_rows(self, kind: str, ids: IntArray) -> IntArray:
        rows = find_key_positions(self._open(f"{kind}_ids"), ids)
        if (rows < 0).any():
            raise BadInput(f"has no vector of the {kind} {ids[np.argmin(rows)]}", file=self._folder)
        return rows
