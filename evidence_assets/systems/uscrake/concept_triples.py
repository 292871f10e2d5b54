"""Graph retrieval of USCRaKE: one-hop triples around the concepts of a question and its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.graphs.entity_linking import Link
from evidence_assets.graphs.keyphrases import extract_concepts
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.text.words import STOP_WORDS, word_key, words_with_offsets

MAX_CONCEPTS = 5
"""Maximum concepts of a question or an option."""
BRIDGE_BONUS = 100.0
"""Bonus for a triple that connects a concept of the question with one of the option."""


@dataclass(frozen=True)
class TripleCandidate:
    """A triple with the linked concept and the node that it was found from."""

    edge: int
    link: Link
    node: int


@dataclass(frozen=True)
class TripleCandidates:
    """Capped triples of one option, and how many triples there were before the cap."""

    triples: list[TripleCandidate]
    total: int

    @property
    def dropped(self) -> int:
        return self.total - len(self.triples)


class ConceptTriples:
    """One-hop triples around the concepts of questions and options.

    Question and option have separate concepts, so that a long question does not displace those of the option. A cheap
    score caps hubs: the rarity of the words that a neighbour's name shares with question and option, plus
    ``BRIDGE_BONUS`` if the neighbour is a concept of the other text. The best ``cap`` triples of an option remain.
    """

    def __init__(self, graph: KnowledgeGraph, vocabulary: Vocabulary, encoder: Encoder, *, cap: int) -> None:
        self.graph, self._vocabulary, self._encoder, self._cap = graph, vocabulary, encoder, cap
        self._links: dict[str, list[Link]] = {}
        model = encoder.model_id, encoder.revision
        self.version = content_id("concept_triples", VERSION, cap, MAX_CONCEPTS, graph.version, *model)

    def sentence(self, edge: int) -> str:
        """An edge verbalised by the template of its relation."""
        head, relation, tail = self.graph.triple(edge)
        return f"{head} {self._vocabulary.template(relation)} {tail}"

    @cached_property
    def _nodes_by_word(self) -> dict[str, IntArray]:
        """Ascending nodes of each content word of their names."""
        nodes_by_word: dict[str, list[int]] = {}
        for node, name in enumerate(self.graph.names):
            for key in {word_key(w) for w, _, _ in words_with_offsets(name) if w.casefold() not in STOP_WORDS}:
                nodes_by_word.setdefault(key, []).append(node)
        return {key: np.array(nodes, dtype=np.int64) for key, nodes in nodes_by_word.items()}

    def _link_texts(self, texts: Sequence[str]) -> None:
        """Link the concepts of new texts in one call of the encoder."""
        new = [text for text in dict.fromkeys(texts) if text not in self._links]
        concepts_by_text = extract_concepts(new, self._encoder.encode_sentences, top_n=MAX_CONCEPTS) if new else []
        links = iter(
            self.graph.linker.link_many(
                [c.text for concepts_of_text in concepts_by_text for c in concepts_of_text], self.graph.name_vectors
            )
        )
        for text, concepts_of_text in zip(new, concepts_by_text, strict=True):
            self._links[text] = [link for link in (next(links) for _ in concepts_of_text) if link.is_linked]

    def candidates(self, pairs: Sequence[tuple[str, str]]) -> list[TripleCandidates]:
        """Capped triples of each (question, option) pair."""
        self._link_texts([text for pair in pairs for text in pair if text.strip()])
        return [self._option_triples(question, option) for question, option in pairs]

    def _option_triples(self, question: str, option: str) -> TripleCandidates:
        sides = [self._links.get(question, []), self._links.get(option, [])]
        starts: dict[int, tuple[Link, int]] = {}
        for side, links in enumerate(sides):
            for link in links:
                for node in link.nodes:
                    starts.setdefault(node, (link, side))
        if not starts:
            return TripleCandidates([], 0)
        words = self._word_weights(f"{question} {option}")
        nodes = [np.unique([n for link in other for n in link.nodes]).astype(np.int64) for other in sides[::-1]]
        best: dict[int, tuple[float, int, Link]] = {}
        graph = self.graph.arrays
        all_edges: list[IntArray] = []
        for node in sorted(starts):
            link, side = starts[node]
            slots = slice(int(graph.offsets[node]), int(graph.offsets[node + 1]))
            edges, neighbours = np.asarray(graph.slot_edges[slots]), np.asarray(graph.neighbours[slots])
            all_edges.append(edges)
            cheap_scores = _lookup(neighbours, *words) + BRIDGE_BONUS * np.isin(neighbours, nodes[side])
            for i in np.lexsort((edges, -cheap_scores))[: self._cap].tolist():
                edge, score = int(edges[i]), float(cheap_scores[i])
                if edge not in best or score > best[edge][0]:
                    best[edge] = (score, node, link)
        ranked_edges = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))[: self._cap]
        triples = [TripleCandidate(edge, link, node) for edge, (_, node, link) in ranked_edges]
        return TripleCandidates(triples, len(sorted_unique(np.concatenate(all_edges))))

    def _word_weights(self, text: str) -> tuple[IntArray, npt.NDArray[np.float64]]:
        """Ascending nodes whose names share words with a text, and the summed rarity of those words."""
        total = max(1, len(self.graph))
        keys = sorted({word_key(w) for w, _, _ in words_with_offsets(text)} & self._nodes_by_word.keys())
        if not keys:
            return np.zeros(0, np.int64), np.zeros(0)
        nodes = [self._nodes_by_word[key] for key in keys]
        rarity = np.concatenate([np.full(len(with_word), log(1 + total / len(with_word))) for with_word in nodes])
        distinct_nodes, inverse = np.unique(np.concatenate(nodes), return_inverse=True)
        return distinct_nodes, np.bincount(inverse, weights=rarity).astype(np.float64).round(9)


def _lookup(nodes: IntArray, keys: IntArray, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The value of each node, or 0 if it is not among the ascending ``keys``."""
    if not len(keys):
        return np.zeros(len(nodes))
    indices = np.minimum(np.searchsorted(keys, nodes), len(keys) - 1)
    return np.where(keys[indices] == nodes, values[indices], 0.0)
