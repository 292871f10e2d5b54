"""Step 3 of USCRaKE: one-hop triples around the concepts of a question and its option, and the best by the judge."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import log

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.experiment.evidence.selection import SelectedEvidence, edge_evidence
from evidence_assets.graphs.entity_linking import Link
from evidence_assets.graphs.keyphrases import extract_concepts
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import find_key_positions
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake.evidence_judges import Judge, JudgedText, best_first
from evidence_assets.systems.uscrake.passages import Hypothesis
from evidence_assets.text.words import STOP_WORDS, word_key, words_with_offsets

MAX_CONCEPTS = 5
"""Maximum concepts of a question or an option."""
BRIDGE_BONUS = 100.0
"""Bonus for a triple that connects a concept of the question with one of the option."""
TRIPLES_PER_BATCH = 4096
"""The judge gets whole questions until they have as many triples."""


@dataclass(frozen=True)
class TripleCandidate:
    """A triple with the linked concept and the node that it was found from."""

    edge: int
    link: Link
    node: int


@dataclass(frozen=True)
class TripleCandidates:
    """Capped triples of one option, by descending cheap score, and how many triples there were before the cap."""

    triples: list[TripleCandidate]
    total: int


class ConceptTriples:
    """One-hop triples around the concepts of questions and options.

    Question and option have separate concepts, so that a long question does not displace those of the option. A cheap
    score caps hubs: the rarity of the words that a neighbour's name shares with question and option, plus
    ``BRIDGE_BONUS`` if the neighbour is a concept of the other text. The best ``cap`` triples of an option remain.

    ``by_meaning``: Whether concepts that no name resembles link to the names with the most similar embeddings.
    """

    def __init__(
        self, graph: KnowledgeGraph, vocabulary: Vocabulary, encoder: Encoder, *, cap: int, by_meaning: bool = True
    ) -> None:
        self.graph = graph
        self._vocabulary = vocabulary
        self._encoder = encoder
        self._cap = cap
        self._by_meaning = by_meaning
        self._links: dict[str, list[Link]] = {}
        model = (encoder.model_id, encoder.revision)
        self.version = content_id("concept_triples", VERSION, cap, by_meaning, MAX_CONCEPTS, graph.version, *model)

    def sentence(self, edge: int) -> str:
        """An edge verbalised by the template of its relation."""
        head, relation, tail = self.graph.triple(edge)
        return f"{head} {self._vocabulary.template(relation)} {tail}"

    def candidates(self, pairs: Sequence[tuple[str, str]]) -> Iterator[TripleCandidates]:
        """Capped triples of each (question, option) pair; the concepts of all pairs are linked at once."""
        self._link_texts([text for pair in pairs for text in pair if text.strip()])
        return (self._option_triples(question, option) for question, option in pairs)

    @cached_property
    def _word_index(self) -> tuple[dict[str, int], IntArray, IntArray]:
        """Content words of names by number; ascending nodes of word i are ``nodes[offsets[i] : offsets[i + 1]]``."""
        numbers: dict[str, int] = {}
        words = array("i")
        nodes = array("i")
        for node, name in enumerate(self.graph.names):
            keys = {word_key(w) for w, _, _ in words_with_offsets(name) if w.casefold() not in STOP_WORDS}
            words.extend(numbers.setdefault(key, len(numbers)) for key in keys)
            nodes.extend([node] * len(keys))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(words, minlength=len(numbers)))])
        return numbers, offsets, np.asarray(nodes)[np.argsort(words, kind="stable")]

    def _link_texts(self, texts: Sequence[str]) -> None:
        """Link the concepts of new texts in one call of the encoder."""
        new = [text for text in dict.fromkeys(texts) if text not in self._links]
        concepts_by_text = extract_concepts(new, self._encoder.encode_sentences, top_n=MAX_CONCEPTS) if new else []
        links = iter(
            self.graph.linker.link_many(
                [c.text for concepts_of_text in concepts_by_text for c in concepts_of_text],
                self.graph.name_vectors if self._by_meaning else None,
            )
        )
        for text, concepts_of_text in zip(new, concepts_by_text, strict=True):
            self._links[text] = [link for link in (next(links) for _ in concepts_of_text) if link.nodes]

    def _option_triples(self, question: str, option: str) -> TripleCandidates:
        of_question = self._links_by_node(question)
        of_option = self._links_by_node(option)
        link_of = of_option | of_question  # a node of both belongs to the question
        starts = np.array(sorted(link_of), dtype=np.int64)
        graph = self.graph.arrays
        numbers, slots = graph.slots_of(starts)
        neighbours = graph.neighbours[slots]
        is_bridge = np.where(
            np.isin(starts, list(of_question))[numbers],
            np.isin(neighbours, list(of_option)),
            np.isin(neighbours, list(of_question)),
        )
        scores = self._word_weights(f"{question} {option}", neighbours) + BRIDGE_BONUS * is_bridge
        # An edge between two concepts is found from both: its better score counts, then its first node.
        order = np.lexsort((numbers, -scores))
        edges, first_slots = np.unique(graph.slot_edges[slots][order], return_index=True)
        slots_of_edges = order[first_slots]
        best = np.lexsort((edges, -scores[slots_of_edges]))[: self._cap]
        nodes = starts[numbers[slots_of_edges[best]]].tolist()
        triples = [TripleCandidate(e, link_of[n], n) for e, n in zip(edges[best].tolist(), nodes, strict=True)]
        return TripleCandidates(triples, len(edges))

    def _links_by_node(self, text: str) -> dict[int, Link]:
        """The first link of a text to each node."""
        return {node: link for link in reversed(self._links.get(text, [])) for node in link.nodes}

    def _word_weights(self, text: str, nodes: IntArray) -> npt.NDArray[np.float64]:
        """For each of these nodes, the summed rarity of the words that its name shares with a text."""
        numbers, offsets, nodes_of_words = self._word_index
        nodes = nodes.astype(nodes_of_words.dtype, copy=False)  # a search in another type would copy all of a word
        weights = np.zeros(len(nodes))
        for key in sorted({word_key(w) for w, _, _ in words_with_offsets(text)} & numbers.keys()):
            named_nodes = nodes_of_words[slice(*offsets[[numbers[key], numbers[key] + 1]])]
            rarity = log(1 + len(self.graph) / len(named_nodes))
            weights += rarity * (find_key_positions(named_nodes, nodes) >= 0)
        return weights.round(9)


# The triples that the judge scores best -----------------------------------------------------------------------------


class GraphEvidence:
    """Selects the s best triples of each hypothesis; each names how many there were and how many the cap dropped."""

    def __init__(self, triples: ConceptTriples, judge: Judge, s: int) -> None:
        self._triples = triples
        self._judge = judge
        self._s = s

    def select(self, hypotheses: Sequence[Hypothesis]) -> list[list[SelectedEvidence]]:
        """The triples of each hypothesis, best first, with the scores of the judge.

        The judge scores questions together, because they share triples and a short call takes three times as long for
        each triple.
        """
        all_candidates = self._triples.candidates([(h.question.text, h.option) for h in hypotheses])
        by_question = groupby(zip(hypotheses, all_candidates, strict=True), lambda pair: pair[0].question.question_id)
        rows = list[list[SelectedEvidence]]()
        batch = list[tuple[Hypothesis, TripleCandidates]]()
        for _, group in by_question:
            batch += group
            if sum(len(candidates.triples) for _, candidates in batch) >= TRIPLES_PER_BATCH:
                rows += self._select_batch(batch)
                batch = []
        return [*rows, *self._select_batch(batch)]

    def _select_batch(self, batch: Sequence[tuple[Hypothesis, TripleCandidates]]) -> Iterator[list[SelectedEvidence]]:
        triples_by_sentence: list[dict[str, TripleCandidate]] = []
        for _, candidates in batch:
            triples: dict[str, TripleCandidate] = {}
            for triple in candidates.triples:
                triples.setdefault(self._triples.sentence(triple.edge), triple)
            triples_by_sentence.append(triples)
        requests = [(h.pieces, [*map(JudgedText, t)]) for (h, _), t in zip(batch, triples_by_sentence, strict=True)]
        all_scores = self._judge.score(requests)
        for (hypothesis, candidates), triples, scores in zip(batch, triples_by_sentence, all_scores, strict=True):
            counts = {"found": candidates.total, "dropped": candidates.total - len(candidates.triples)}
            best = best_first(list(triples.items()), scores)[: self._s]
            yield [self._row(hypothesis.label, triple, text, score, **counts) for (text, triple), score in best]

    def _row(self, label: str, triple: TripleCandidate, sentence: str, score: float, **counts: int) -> SelectedEvidence:
        graph = self._triples.graph
        link = triple.link
        reasons = {"concept": link.concept, "rule": link.rule, "link_score": round(link.score, 6)}
        reasons |= {"node": graph.names[triple.node], **counts}
        return edge_evidence(graph, triple.edge, score, label, sentence, **reasons)
