"""Vector search over the nodes of a semi-structured knowledge base, whole or among candidates.

Belongs here: the passages that stand for a node, and the nearest nodes to a question. A node's document and relations
are cut into passages that the encoder reads whole; nothing is lost to its length limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passage_files import Method
from evidence_assets.graphs.passages import Mine, Passage, every
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.text.chunking import chunks


def node_passages(
    graph: KnowledgeGraph, encoder: Encoder, mine: Mine = every, *, relations: int = 50, tokens: int | None = None
) -> Iterator[Passage]:
    """Cut each node's name, type and document passage by passage, then its relations in sentences.

    ``mine``: Of which nodes.
    ``relations``: At most so many relations of a node are put into words; a hub's further ones are left out of its
        vector.
    ``tokens``: Length limit of a passage; none other than what the encoder reads if not stated, or if that is less.
    """
    limit = min(tokens or encoder.max_tokens, encoder.max_tokens)
    described = zip(graph.node_ids, graph.names, graph.node_types.tolist(), graph.documents, strict=True)
    for node, (node_id, name, kind, document) in enumerate(described):
        if not mine(node_id):
            continue
        title = f"{name} ({graph.type_names[kind]})"
        room = max(1, limit - encoder.count_tokens([title])[0] - 1)
        cut = [(c.start, c.end) for c in chunks(document, encoder.count_tokens, room)] or [(0, 0)]
        told = ". ".join(graph.sentence(edge) for edge in graph.first_edges(node, relations))
        pieces = [(a, b, f"{title}: {document[a:b]}" if b else title) for a, b in cut]
        pieces += [(-1, -1, told[c.start : c.end]) for c in chunks(told, encoder.count_tokens, limit)]
        yield from (Passage("node", node_id, start, end, text) for start, end, text in pieces)


class NodeSearch:
    """Nodes by their similarity to a question, in one of two ways; see ``graphs.passage_files``.

    ``vector`` gives each node one vector, the mean of its passages; ``multi_vector`` takes its best passage.
    """

    def __init__(self, graph: KnowledgeGraph, method: Method = "multi_vector") -> None:
        self.method, self._files = method, graph.vectors.of_nodes

    def similarities(self, query: FloatArray, nodes: IntArray) -> NDArray[np.float64]:
        """Similarity of one question to some nodes."""
        return self._files.similarities(query, nodes, self.method)

    def among(self, query: FloatArray, nodes: IntArray, k: int) -> IntArray:
        """The ``k`` nearest of some nodes, each of which is looked at; equal ones by node."""
        order = np.lexsort((nodes, -self.similarities(query, nodes)))[:k]
        return np.asarray(nodes, dtype=np.int64)[order]

    def nearest(self, query: FloatArray, allowed: NDArray[np.bool_], k: int) -> IntArray:
        """The ``k`` nearest of all nodes that are allowed, found by the index."""
        return self._files.nearest(query, allowed, k, self.method)

    def best_passage(self, query: FloatArray, node: int) -> tuple[str, int, int, float] | None:
        """The passage of a node's document that is nearest to the question: its id, place and similarity."""
        return self._files.best_passage(query, node)
