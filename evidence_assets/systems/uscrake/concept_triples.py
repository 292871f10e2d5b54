"""Graph evidence for USCRaKE: the facts around the concepts that a question and its options name."""

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
"""Concepts of a question and of an option, at most."""
BRIDGE_BONUS = 100.0
"""Added to the cheap score of a triple that joins a concept of the question to one of the option."""


@dataclass(frozen=True)
class TripleCandidate:
    """A triple near a question and option, with the concept that led to it."""

    edge: int
    link: Link
    node: int


@dataclass(frozen=True)
class TripleCandidates:
    """The triples of one option that the reranker sees, and how many were left out of how many."""

    triples: list[TripleCandidate]
    found: int

    @property
    def dropped(self) -> int:
        return self.found - len(self.triples)


class ConceptTriples:
    """One-hop triples around the concepts of questions and options.

    Concepts are taken from question and option apart, so that a long question does not push out the option's. A node
    may have any number of triples: they are scored by the words that their other end shares with question and option,
    weighted by rarity, and by whether that end is itself a concept of the other text; the best ``cap`` of an option
    are handed on.
    """

    def __init__(self, graph: KnowledgeGraph, vocabulary: Vocabulary, encoder: Encoder, *, cap: int) -> None:
        self.graph, self._vocabulary, self._encoder, self._cap = graph, vocabulary, encoder, cap
        self._links: dict[str, list[Link]] = {}
        model = encoder.model_id, encoder.revision
        self.version = content_id("concept_triples", VERSION, cap, MAX_CONCEPTS, graph.version, *model)

    def sentence(self, edge: int) -> str:
        """An edge in the words of its relation's template."""
        head, relation, tail = self.graph.triple(edge)
        return f"{head} {self._vocabulary.template(relation)} {tail}"

    @cached_property
    def _nodes_with(self) -> dict[str, IntArray]:
        """Nodes by each content word of their name, ascending."""
        found: dict[str, list[int]] = {}
        for node, name in enumerate(self.graph.names):
            for key in {word_key(w) for w, _, _ in words_with_offsets(name) if w.casefold() not in STOP_WORDS}:
                found.setdefault(key, []).append(node)
        return {key: np.array(nodes, dtype=np.int64) for key, nodes in found.items()}

    def _linked(self, texts: Sequence[str]) -> None:
        """Work out the links of texts not met before, all in one call of the encoder."""
        new = [text for text in dict.fromkeys(texts) if text not in self._links]
        concepts = extract_concepts(new, self._encoder.encode_sentences, top_n=MAX_CONCEPTS) if new else []
        links = iter(
            self.graph.linker.link_many([c.text for found in concepts for c in found], self.graph.name_vectors)
        )
        for text, found in zip(new, concepts, strict=True):
            self._links[text] = [link for link in (next(links) for _ in found) if link.is_linked]

    def candidates(self, asked: Sequence[tuple[str, str]]) -> list[TripleCandidates]:
        """Candidates of each (question, option)."""
        self._linked([text for pair in asked for text in pair if text.strip()])
        return [self._around(question, option) for question, option in asked]

    def _around(self, question: str, option: str) -> TripleCandidates:
        sides = [self._links.get(question, []), self._links.get(option, [])]
        starts: dict[int, tuple[Link, int]] = {}
        for side, links in enumerate(sides):
            for link in links:
                for node in link.nodes:
                    starts.setdefault(node, (link, side))
        if not starts:
            return TripleCandidates([], 0)
        words = self._word_weights(f"{question} {option}")
        ends = [np.unique([node for link in other for node in link.nodes]).astype(np.int64) for other in sides[::-1]]
        best: dict[int, tuple[float, int, Link]] = {}
        graph = self.graph.arrays
        met: list[IntArray] = []
        for node in sorted(starts):
            link, side = starts[node]
            slots = slice(int(graph.offsets[node]), int(graph.offsets[node + 1]))
            edges, others = np.asarray(graph.slot_edges[slots]), np.asarray(graph.neighbours[slots])
            met.append(edges)
            cheap = _lookup(others, *words) + BRIDGE_BONUS * np.isin(others, ends[side])
            for i in np.lexsort((edges, -cheap))[: self._cap].tolist():
                edge, score = int(edges[i]), float(cheap[i])
                if edge not in best or score > best[edge][0]:
                    best[edge] = (score, node, link)
        ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))[: self._cap]
        chosen = [TripleCandidate(edge, link, node) for edge, (_, node, link) in ranked]
        return TripleCandidates(chosen, len(sorted_unique(np.concatenate(met))))

    def _word_weights(self, text: str) -> tuple[IntArray, npt.NDArray[np.float64]]:
        """Nodes, ascending, whose names share words with a text, and the summed rarity of those words."""
        total = max(1, len(self.graph))
        keys = sorted({word_key(w) for w, _, _ in words_with_offsets(text)} & self._nodes_with.keys())
        if not keys:
            return np.zeros(0, np.int64), np.zeros(0)
        nodes = [self._nodes_with[key] for key in keys]
        rarity = np.concatenate([np.full(len(found), log(1 + total / len(found))) for found in nodes])
        named, place = np.unique(np.concatenate(nodes), return_inverse=True)
        return named, np.bincount(place, weights=rarity).astype(np.float64).round(9)


def _lookup(nodes: IntArray, known: IntArray, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The value of each node, 0 where it has none; ``known`` ascends."""
    if not len(known):
        return np.zeros(len(nodes))
    place = np.minimum(np.searchsorted(known, nodes), len(known) - 1)
    return np.where(known[place] == nodes, values[place], 0.0)
