"""Attention2Query (Chaudhary et al.): selects triples of a graph by neighbourhood attention.

Contains the stages in their order and the direct retrieval that the paper compares with. ``graphs.expansion``
implements the attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from evidence_assets.experiment.evidence.selection import (
    QUESTIONS_PER_GROUP,
    SelectedEvidence,
    distinct_by_text,
    edge_evidence,
)
from evidence_assets.experiment.rows import batches
from evidence_assets.graphs import expansion as graph_expansion
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.entity_linking import EntityLinker, Link
from evidence_assets.graphs.expansion import ExpansionSettings
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.nearest_rows import MARGIN, find_nearest, inner_products
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.vectors import softmax
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.word_vectors import TextVectors
from evidence_assets.text.words import is_filler, words_with_offsets

Vectors = NDArray[np.float32]
CANDIDATES_PER_TRIPLE = 8


@dataclass(frozen=True)
class A2QSettings(ExpansionSettings):
    """Settings of Attention2Query.

    The paper does not give the number of heads and of nodes; these are ours. A phrase without a node starts from its
    ``starts_per_phrase`` nearest nodes with at least ``least_similarity``; if there is none, the phrase is ignored.
    ``paths`` and ``options`` switch the published ablations. Without a ``classifier``, attention alone ranks the
    triples. ``taxonomy`` replaces terms by the definitions of the benchmark's taxonomy. ``embedding`` selects the
    vectors: the text encoder's, a user's file ``embeddings/<name>``, those of the graph itself, or two of them joined.

    ``passes``: The classifier grades after the last pass, or after each one, as in the paper; a pass then keeps its
    ``pass_triples`` best. ``final_score``: Grade times attention, or the published attention over the grades.
    ``bridges``: Paths connect the kept nodes before the ranking, or the final triples, which they then follow.
    """

    kept_nodes: int = 30
    top_n: PositiveInt = 10
    starts_per_phrase: int = 2
    least_similarity: float = 0.4
    bridge_length: int = 4
    paths: bool = True
    options: bool = True
    classifier: Literal["reranker", "tuned", "none"] = "reranker"
    taxonomy: bool = True
    embedding: Literal["text", "numberbatch", "word2vec", "glove", "text+numberbatch", "text+graph"] = "text"
    passes: Literal["last", "each"] = "last"
    pass_triples: int = 30
    final_score: Literal["product", "attention"] = "product"
    bridges: Literal["nodes", "triples"] = "nodes"


@dataclass(frozen=True)
class TripleSettings:
    """Settings of the retrieval of the ``top_n`` nearest triples.

    Searches all triples (after DiFaR) or, with ``linked``, those at the nodes of the question. With ``topics`` the
    nodes are those of the dataset's topic entities, with ``links`` those of the linker of this name, from a user's file
    (``experiment.evidence.sources.EXTERNAL_LINKS``). ``options`` appends the options to the question, so that it has
    the same input as Attention2Query.
    """

    top_n: PositiveInt = 10
    linked: bool = False
    options: bool = False
    topics: bool = False
    links: str = ""


def extract_phrases(text: str, linker: EntityLinker) -> list[Link]:
    """Names of nodes in a text, longest first, and the content words outside these names.

    A word outside a name is linked by the linker's other rules; if these fail, it has no node.
    """
    spans = linker.find_spans(text)
    phrases = [(span.start, span.link) for span in spans]
    for word, start, end in words_with_offsets(text):
        if is_filler([word]) or any(span.start < end and start < span.end for span in spans):
            continue
        phrases.append((start, linker.link(word)))
    return list(dict.fromkeys(phrase for _, phrase in sorted(phrases, key=lambda item: item[0])))


def link_text(text: str, linker: EntityLinker) -> IntArray:
    """Distinct nodes of all phrases of a text, ascending."""
    return np.array(sorted({node for phrase in extract_phrases(text, linker) for node in phrase.nodes}), dtype=np.int64)


def define_nodes(graph: KnowledgeGraph, relation: str) -> dict[str, str]:
    """Taxonomy from the graph itself: the first three facts of each node in a relation such as IsA."""
    facts_by_name: dict[str, list[str]] = {}
    if relation in graph.relations:
        code = graph.relations.index(relation)
        for edge in np.flatnonzero(graph.arrays.relations == code).tolist():
            facts = facts_by_name.setdefault(graph.names[int(graph.arrays.heads[edge])], [])
            if len(facts) < 3:
                facts.append(graph.sentence(edge))
    return {name: "; ".join(facts) for name, facts in facts_by_name.items()}


@dataclass(frozen=True)
class Candidate:
    """A candidate edge with its mean attention and the stage that added it."""

    edge: int
    attention: float
    stage: str


class A2Q:
    """Selects the top triples for a question.

    ``graph``: Graph with a passage vector of the encoder for each node.
    ``reranker``: The relevance classifier, whose scores become grades from 1 to 10; None ranks by attention alone.
    ``definitions``: Taxonomy: definitions of phrases. The vector of the definition replaces that of the phrase.
    ``nodes``: Vectors of the nodes in the encoder's space; default: the graph's passage vectors.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: TextVectors,
        reranker: Reranker | None = None,
        settings: A2QSettings | None = None,
        definitions: Mapping[str, str] | None = None,
        nodes: Vectors | None = None,
    ) -> None:
        self._graph = graph
        self._nodes = graph.node_passage_vectors if nodes is None else nodes
        self._encoder = encoder
        self._reranker = reranker
        self._settings = settings or A2QSettings()
        self._definitions = {key.casefold(): text for key, text in (definitions or {}).items()}
        self.version = content_id(
            "a2q",
            VERSION,
            asdict(self._settings),
            graph.version,
            encoder.model_id,
            encoder.revision,
            reranker and [reranker.model_id, reranker.revision],
            sorted(self._definitions.items()),
        )

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The top triples of each question, best first; empty if the graph is empty or no phrase has content."""
        for group in batches(questions, QUESTIONS_PER_GROUP):
            texts_of_questions = [[q.text, *(q.options if self._settings.options else ())] for q in group]
            phrases = [[extract_phrases(text, self._graph.linker) for text in texts] for texts in texts_of_questions]
            all_phrases = chain.from_iterable(chain.from_iterable(phrases))
            texts = list(dict.fromkeys([*(q.text for q in group), *map(self._text_to_encode, all_phrases)]))
            vectors = dict(zip(texts, self._encoder.encode_sentences(texts), strict=True))
            candidates = [
                self._collect_candidates(question.text, phrases_of_question, phrases_of_options, vectors)
                for question, (phrases_of_question, *phrases_of_options) in zip(group, phrases, strict=True)
            ]
            yield from self._rank(group, candidates)

    def _text_to_encode(self, phrase: Link) -> str:
        return self._definitions.get(phrase.concept.casefold(), phrase.concept)

    def _start_nodes(self, phrase: Link, vector: Vectors) -> list[int]:
        count = self._settings.starts_per_phrase
        if phrase.nodes:
            nodes = np.array(phrase.nodes, dtype=np.int64)
            nearest: IntArray = nodes[graph_expansion.nearest_nodes(vector, self._nodes[nodes], count)]
        else:
            nearest = graph_expansion.nearest_nodes(vector, self._nodes, count)
            nearest = nearest[self._nodes[nearest] @ vector >= self._settings.least_similarity]
        return [int(n) for n in nearest]

    def _neighbourhoods(self, question: str, phrases: Sequence[Link], vectors: Mapping[str, Vectors]) -> list[IntArray]:
        """The nodes around each start of the phrases, beginning with the start."""
        neighbourhoods = []
        for phrase in phrases:
            vector = vectors[self._text_to_encode(phrase)]
            for start in self._start_nodes(phrase, vector):
                scores = graph_expansion.expand(self._graph.arrays, start, vector, self._nodes, self._settings)
                nodes: IntArray = np.fromiter(scores, np.int64)
                neighbourhoods.append(nodes[np.isin(nodes, self._nodes_of_best(question, nodes, [start]))])
        return neighbourhoods

    def _nodes_of_best(self, question: str, nodes: IntArray, starts: Sequence[int]) -> IntArray:
        """The nodes of the best triples among some, and the start nodes; all, if only the last pass is graded."""
        if self._settings.passes == "last" or self._reranker is None:
            return nodes
        graph = self._graph.arrays
        edges = graph.edges_among(nodes)
        scores = self._reranker.score([(question, self._graph.sentence(edge)) for edge in edges.tolist()])
        best = edges[np.lexsort((edges, -np.round(scores, 6)))[: self._settings.pass_triples]]
        return sorted_unique(np.concatenate([graph.heads[best], graph.tails[best], np.array(starts, dtype=np.int64)]))

    def _collect_candidates(
        self, question: str, phrases: Sequence[Link], options: Sequence[Sequence[Link]], vectors: Mapping[str, Vectors]
    ) -> list[Candidate]:
        """Candidate edges among the kept nodes and on the bridges between them."""
        query = np.stack([vectors[question], *(vectors[self._text_to_encode(phrase)] for phrase in phrases)])
        neighbourhoods = self._neighbourhoods(question, phrases, vectors)
        nodes = _union(neighbourhoods)
        weights, kept_nodes = self._attend(query, nodes, neighbourhoods)
        by_option = [self._neighbourhoods(question, option, vectors) for option in options]
        if any(by_option):
            kept_nodes = self._nodes_of_best(question, kept_nodes, [int(n[0]) for n in neighbourhoods])
            option_nodes = [_union(option) for option in by_option]
            nodes = sorted_unique(np.concatenate([kept_nodes, *option_nodes]))
            neighbourhoods += chain.from_iterable(by_option)
            weights, kept_nodes = self._attend(query, nodes, neighbourhoods, option_nodes)
        shares = weights / weights.max(initial=1e-12)
        return self._find_candidates(kept_nodes, dict(zip(nodes.tolist(), shares.tolist(), strict=True)))

    def _attend(
        self, query: Vectors, nodes: IntArray, neighbourhoods: Sequence[IntArray], options: Sequence[IntArray] = ()
    ) -> tuple[NDArray[np.float64], IntArray]:
        """Attention of the nodes, and the kept nodes: those with the highest attention and the start nodes."""
        settings = self._settings
        weights = graph_expansion.node_attention(query, nodes, self._nodes, options=options, heads=settings.heads)
        best = np.lexsort((nodes, -np.round(weights, 12)))[: settings.kept_nodes]
        starts = np.array([n[0] for n in neighbourhoods], dtype=np.int64)
        return weights, np.union1d(nodes[best], starts)

    def _find_candidates(self, nodes: IntArray, attention: Mapping[int, float]) -> list[Candidate]:
        """Edges between these nodes and, if enabled, of the bridges between them."""
        graph = self._graph.arrays
        stages = dict.fromkeys(graph.edges_among(nodes).tolist(), "subgraph")
        for edge in self._find_bridges(nodes) if self._settings.bridges == "nodes" else ():
            stages.setdefault(edge, "bridge")
        # A node from a bridge has no attention; it gets the minimum.
        minimum = min(attention.values(), default=0.0)
        candidates = []
        for edge, stage in stages.items():
            ends = (int(graph.heads[edge]), int(graph.tails[edge]))
            candidates.append(Candidate(edge, sum(attention.get(end, minimum) for end in ends) / 2, stage))
        return candidates

    def _find_bridges(self, nodes: IntArray) -> list[int]:
        """Edges of the shortest paths between the parts of the subgraph on these nodes."""
        if not self._settings.paths:
            return []
        paths = graph_expansion.find_bridges(self._graph.arrays, nodes, max_length=self._settings.bridge_length)
        return [edge for path in paths for edge in path]

    def _rank(
        self, questions: Sequence[Question], candidates: Sequence[Sequence[Candidate]]
    ) -> Iterator[list[SelectedEvidence]]:
        sentence = self._graph.sentence
        pairs = [(q.text, sentence(c.edge)) for q, group in zip(questions, candidates, strict=True) for c in group]
        grades = iter(grade_scores(self._reranker.score(pairs)) if self._reranker and pairs else [1.0] * len(pairs))
        for group in candidates:
            yield self._top_triples(group, list(islice(grades, len(group))))

    def _top_triples(self, candidates: Sequence[Candidate], grades: Sequence[float]) -> list[SelectedEvidence]:
        """The best triples by grade and attention; with the paths that connect them, if asked for."""
        settings = self._settings
        attention = np.array([candidate.attention for candidate in candidates])
        edges = np.array([candidate.edge for candidate in candidates], dtype=np.int64)
        relevance = np.array(grades)
        scores = relevance * attention if settings.final_score == "product" else attend_to_grades(relevance)
        items = list[SelectedEvidence]()
        edge_of_text: dict[str, int] = {}
        for index in np.lexsort((edges, -np.round(scores, 9))).tolist():
            candidate = candidates[index]
            details = {"attention": round(candidate.attention, 6), "stage": candidate.stage}
            item = edge_evidence(self._graph, candidate.edge, scores[index], grade=round(grades[index], 6), **details)
            edge_of_text.setdefault(item.text, candidate.edge)
            items.append(item)
        evidence = distinct_by_text(items, settings.top_n)
        if settings.bridges == "nodes":
            return evidence
        return self._connect(evidence, [edge_of_text[item.text] for item in evidence])

    def _connect(self, evidence: Sequence[SelectedEvidence], edges: Sequence[int]) -> list[SelectedEvidence]:
        """The triples of these edges, followed by the paths that connect them."""
        graph = self._graph.arrays
        ends = sorted_unique(np.concatenate([graph.heads[edges], graph.tails[edges]]))
        bridges = [edge_evidence(self._graph, edge, 0.0, stage="bridge") for edge in self._find_bridges(ends)]
        return distinct_by_text([*evidence, *bridges], len(evidence) + len(bridges))


def _union(neighbourhoods: Sequence[IntArray]) -> IntArray:
    """All nodes of the neighbourhoods, ascending."""
    return np.unique(np.concatenate([np.zeros(0, np.int64), *neighbourhoods]))


def attend_to_grades(grades: NDArray[np.float64]) -> NDArray[np.float64]:
    """Self-attention over the grades of a question's triples.

    ``10 · Σ_j softmax_j(r_i · r_j) · r_j`` with r = grade/10.

    This is the published weighted average with weights by relevance. It never reorders: its derivative is a variance.
    """
    shares = grades / 10
    return np.asarray(10 * softmax(np.outer(shares, shares)) @ shares) if len(shares) else shares


def grade_scores(scores: NDArray[np.float32]) -> list[float]:
    """Grades on the published scale from 1 to 10: ``1 + 9 · σ(s)`` of the classifier's scores."""
    return [1 + 9 / (1 + math.exp(-float(s))) for s in scores]


class NearestTriples:
    """Direct retrieval: the nearest triples of the whole graph or at the nodes of the question."""

    def __init__(self, graph: KnowledgeGraph, encoder: Encoder, settings: TripleSettings | None = None) -> None:
        self._graph = graph
        self._encoder = encoder
        self._settings = settings or TripleSettings()
        self.version = content_id(
            "nearest_triples", VERSION, asdict(self._settings), graph.version, encoder.model_id, encoder.revision
        )

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The nearest triples of each question; empty if they must be linked and no node is."""
        if not questions:
            return
        use_options = self._settings.options
        texts = [f"{q.text} {', '.join(q.options)}" if use_options and q.options else q.text for q in questions]
        queries = self._encoder.encode_sentences(texts)
        for start in range(0, len(questions), QUESTIONS_PER_GROUP):
            group = slice(start, start + QUESTIONS_PER_GROUP)
            if self._searches_all:
                yield from self._search_all(queries[group])
                continue
            for question, text, query in zip(questions[group], texts[group], queries[group], strict=True):
                yield self._rank(self._find_edges(question, text), query)

    @property
    def _searches_all(self) -> bool:
        return not (self._settings.linked or self._settings.topics or self._settings.links)

    def _search_all(self, queries: Vectors) -> Iterator[list[SelectedEvidence]]:
        """The nearest triples of the whole graph; several edges may have the same text."""
        all_edges = np.arange(self._graph.arrays.n_edges)
        if not len(all_edges):
            yield from ([] for _ in queries)
            return
        top_n = self._settings.top_n
        nearest = find_nearest(self._graph.edge_passage_vectors, queries, CANDIDATES_PER_TRIPLE * top_n)
        for query, scores, edges in zip(queries, *nearest, strict=True):
            evidence = self._rank(edges, query)
            # Complete if no other edge can be as near as the last triple, up to rounding.
            is_complete = len(evidence) == top_n and evidence[-1].score > scores[-1] + MARGIN
            yield evidence if is_complete or len(edges) == len(all_edges) else self._rank(all_edges, query)

    def _rank(self, edges: IntArray, query: Vectors) -> list[SelectedEvidence]:
        """The nearest of some edges, with different texts."""
        scores = inner_products(self._graph.edge_passage_vectors, edges, query)
        order = np.lexsort((edges, -scores))
        items = (edge_evidence(self._graph, int(edges[index]), scores[index]) for index in order)
        return distinct_by_text(items, self._settings.top_n)

    def _find_edges(self, question: Question, text: str) -> IntArray:
        """The edges at the nodes of the question."""
        graph = self._graph
        if self._settings.linked:
            return graph.arrays.edges_at(link_text(text, graph.linker))
        topics = graph.linker.link_many(question.topic_entities)
        return graph.arrays.edges_at(np.array([node for link in topics for node in link.nodes], dtype=np.int64))
