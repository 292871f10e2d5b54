"""Vector search over the nodes of a semi-structured knowledge base, whole or among candidates.

Belongs here: the passages that stand for a node, their vectors, and the nearest nodes to a question. A node's document
and relations are cut into passages that the encoder reads whole; nothing is lost to its length limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evidence_assets.graphs.facts import Verbalise, plain_sentence
from evidence_assets.graphs.knowledge_base import KnowledgeBase
from evidence_assets.graphs.passages import Passage
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.corpus import matrix
from evidence_assets.text.chunking import chunks

VERSION = "2"
Method = Literal["vector", "multi_vector"]
IntArray = NDArray[np.integer[Any]]
PASSAGE_TOKENS = 128


def node_passages(
    base: KnowledgeBase,
    encoder: Encoder,
    *,
    verbalise: Verbalise = plain_sentence,
    relations: int = 50,
    tokens: int = PASSAGE_TOKENS,
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
    for node, document in enumerate(base.documents):
        title = f"{base.names[node]} ({base.node_type_names[int(base.node_types[node])]})"
        room = max(1, limit - encoder.count_tokens([title])[0] - 1)
        cut = [(c.start, c.end) for c in chunks(document, encoder.count_tokens, room)] or [(0, 0)]
        told = ". ".join(verbalise(*triple) for triple in base.relations_of(node, relations))
        pieces = [(a, b, f"{title}: {document[a:b]}" if b else title) for a, b in cut]
        pieces += [(-1, -1, told[c.start : c.end]) for c in chunks(told, encoder.count_tokens, limit)]
        yield from (Passage("node", base.node_ids[node], start, end, text) for start, end, text in pieces)


@dataclass(frozen=True)
class NodePassages:
    """Passages of all nodes, in node order. ``start`` is −1 for a passage of relations, else where it begins in the
    node's document; every node has at least one passage.
    """

    ids: Sequence[str]
    owners: IntArray
    starts: IntArray
    ends: IntArray
    vectors: FloatArray

    @classmethod
    def build(
        cls,
        base: KnowledgeBase,
        encoder: Encoder,
        *,
        verbalise: Verbalise = plain_sentence,
        relations: int = 50,
        tokens: int = PASSAGE_TOKENS,
    ) -> NodePassages:
        """Cut and encode; see :func:`node_passages`."""
        made = list(node_passages(base, encoder, verbalise=verbalise, relations=relations, tokens=tokens))
        texts = [p.text for p in made]
        vectors = encoder.sentences(texts) if texts else np.zeros((0, encoder.dimensions), np.float32)
        return cls._of(base, [(p.passage_id, p.owner_id, p.start, p.end) for p in made], vectors)

    @classmethod
    def from_rows(cls, base: KnowledgeBase, rows: pl.DataFrame) -> NodePassages:
        """From rows of ``kg_passages``; those of other owners than the base's nodes are refused by a ``KeyError``."""
        rows = rows.sort("owner_id", "ordinal")
        places = rows.select("passage_id", "owner_id", "char_start", "char_end").rows()
        return cls._of(base, places, matrix(rows["vector"]))

    @classmethod
    def _of(cls, base: KnowledgeBase, places: Sequence[tuple[str, str, int, int]], vectors: FloatArray) -> NodePassages:
        position = {own: node for node, own in enumerate(base.node_ids)}
        owners = np.array([position[owner] for _, owner, _, _ in places], np.int64)
        starts, ends = (np.array([place[i] for place in places], np.int64) for i in (2, 3))
        order = np.argsort(owners, kind="stable")
        return cls([places[i][0] for i in order], owners[order], starts[order], ends[order], vectors[order])


class NodeSearch:
    """Similarity of questions to nodes.

    ``vector`` gives each node one vector, the mean of its passages; ``multi_vector`` takes its best passage.
    """

    def __init__(self, passages: NodePassages, method: Method = "multi_vector") -> None:
        self.passages, self.method = passages, method
        owners = passages.owners
        self._first = np.flatnonzero(np.append(True, owners[1:] != owners[:-1])) if len(owners) else owners
        if method == "vector" and len(owners):
            sums = np.add.reduceat(passages.vectors, self._first, axis=0)
            self._vectors = unit_rows(sums)

    def similarities(self, query: FloatArray) -> NDArray[np.float64]:
        """Similarity of one question to every node."""
        if not len(self.passages.owners):
            return np.zeros(0)
        if self.method == "vector":
            scores = self._vectors @ query
        else:
            scores = np.maximum.reduceat(self.passages.vectors @ query, self._first)
        return np.asarray(np.round(scores.astype(np.float64), 6), dtype=np.float64)

    def best_passage(self, query: FloatArray, node: int) -> tuple[int, float] | None:
        """Number and similarity of the passage of a node's document that is nearest to the question."""
        low, high = np.searchsorted(self.passages.owners, [node, node + 1])
        places = [p for p in range(low, high) if self.passages.ends[p] > self.passages.starts[p] >= 0]
        if not places:
            return None
        scores = self.passages.vectors[places] @ query
        return places[int(scores.argmax())], round(float(scores.max()), 6)


def nearest(similarities: NDArray[np.float64], among: Sequence[int] | IntArray, k: int) -> list[int]:
    """The k nodes of largest similarity among the given ones; equal ones by node."""
    nodes = np.asarray(among, dtype=np.int64)
    return [int(n) for n in nodes[np.lexsort((nodes, -similarities[nodes]))[:k]]]
