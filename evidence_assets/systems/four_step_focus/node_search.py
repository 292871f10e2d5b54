"""Vector search over the nodes of a semi-structured knowledge base, whole or among candidates.

Belongs here: the passages that stand for a node, their vectors, and the nearest nodes to a question. A node's document
and relations are cut into passages that the encoder reads whole; nothing is lost to its length limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import Passage
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.corpus import matrix
from evidence_assets.text.chunking import chunks

Method = Literal["vector", "multi_vector"]
IntArray = NDArray[np.integer[Any]]
PASSAGE_TOKENS = 128


def node_passages(
    graph: KnowledgeGraph, encoder: Encoder, *, relations: int = 50, tokens: int = PASSAGE_TOKENS
) -> Iterator[Passage]:
    """Cut each node's name, type and document passage by passage, then its relations in sentences.

    Parameters
    ----------
    relations
        At most so many relations of a node are put into words; a hub's further ones are left out of its vector.
    tokens
        Length limit of a passage, or what the encoder reads if that is less.
    """
    limit = min(tokens, encoder.max_tokens)
    described = zip(graph.node_ids, graph.names, graph.node_types.tolist(), graph.documents, strict=True)
    for node, (node_id, name, kind, document) in enumerate(described):
        title = f"{name} ({graph.type_names[kind]})"
        room = max(1, limit - encoder.count_tokens([title])[0] - 1)
        cut = [(c.start, c.end) for c in chunks(document, encoder.count_tokens, room)] or [(0, 0)]
        told = ". ".join(graph.sentence(edge) for edge in graph.first_edges(node, relations))
        pieces = [(a, b, f"{title}: {document[a:b]}" if b else title) for a, b in cut]
        pieces += [(-1, -1, told[c.start : c.end]) for c in chunks(told, encoder.count_tokens, limit)]
        yield from (Passage("node", node_id, start, end, text) for start, end, text in pieces)


class NodeSearch:
    """Similarity of questions to nodes, by the passages that stand for them.

    ``vector`` gives each node one vector, the mean of its passages; ``multi_vector`` takes its best passage.
    """

    def __init__(self, graph: KnowledgeGraph, method: Method = "multi_vector") -> None:
        self.method, rows = method, graph.vectors.passages
        self._rows, self._vectors = rows, matrix(rows["vector"])
        self._owners = graph.node_numbers(rows["owner_id"])
        self._first = np.flatnonzero(np.diff(self._owners, prepend=-1))
        if len(self._first) != len(graph):
            raise StaleInput(f"some node of {graph.name} has no passage: materialize its passages again")
        if method == "vector" and len(self._owners):
            self._means = unit_rows(np.add.reduceat(self._vectors, self._first, axis=0))

    def similarities(self, query: FloatArray) -> NDArray[np.float64]:
        """Similarity of one question to every node."""
        if not len(self._owners):
            return np.zeros(0)
        if self.method == "vector":
            scores = self._means @ query
        else:
            scores = np.maximum.reduceat(self._vectors @ query, self._first)
        return np.asarray(np.round(scores.astype(np.float64), 6), dtype=np.float64)

    def best_passage(self, query: FloatArray, node: int) -> tuple[str, int, int, float] | None:
        """The passage of a node's document that is nearest to the question: its id, place and similarity."""
        low, high = np.searchsorted(self._owners, [node, node + 1]).tolist()
        rows = self._rows.slice(low, high - low)
        of_document = np.flatnonzero((rows["char_end"] > rows["char_start"]) & (rows["char_start"] >= 0))
        if not len(of_document):
            return None
        scores = self._vectors[low + of_document] @ query
        best = rows.row(int(of_document[scores.argmax()]), named=True)
        return best["passage_id"], best["char_start"], best["char_end"], round(float(scores.max()), 6)


def nearest(similarities: NDArray[np.float64], among: Sequence[int] | IntArray, k: int) -> list[int]:
    """The k nodes of largest similarity among the given ones; equal ones by node."""
    nodes = np.asarray(among, dtype=np.int64)
    return [int(n) for n in nodes[np.lexsort((nodes, -similarities[nodes]))[:k]]]
