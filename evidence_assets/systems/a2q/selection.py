"""Attention2Query (Chaudhary et al.): selects triples of a graph by neighbourhood attention.

Contains the stages in their order and the direct retrieval that the paper compares with. ``graphs.expansion``
implements the attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from evidence_assets.experiment.evidence.selection import (
    QUESTIONS_PER_GROUP,
    Question,
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
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.vectors import softmax
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.word_vectors import TextVectors
from evidence_assets.text.words import is_filler, words_with_offsets

Vectors = NDArray[np.float32]


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
        code, names = graph.relations.index(relation), graph.names
        for edge in np.flatnonzero(graph.arrays.relations == code).tolist():
            facts = facts_by_name.setdefault(names[int(graph.arrays.heads[edge])], [])
            if len(facts) < 3:
                facts.append(graph.sentence(edge))
    return {name: "; ".join(facts) for name, facts in facts_by_name.items()}


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
        self._nodes = graph.passage_vectors("node") if nodes is None else nodes
        self._encoder, self._reranker, self._settings = encoder, reranker, settings or A2QSettings()
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
        linker, use_options = self._graph.linker, self._settings.options
        for group in batches(questions, QUESTIONS_PER_GROUP):
            texts_of_questions = [[q.text, *(q.options if use_options else ())] for q in group]
            phrases = [[extract_phrases(text, linker) for text in texts] for texts in texts_of_questions]
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
    ) -> dict[int, tuple[float, str]]:
        """Candidate edges with their mean attention and the stage that added them."""
        settings, graph = self._settings, self._graph.arrays
        neighbourhoods = self._neighbourhoods(question, phrases, vectors)
        query = np.stack([vectors[question], *(vectors[self._text_to_encode(phrase)] for phrase in phrases)])
        nodes = _union(neighbourhoods)
        weights = graph_expansion.node_attention(query, nodes, self._nodes, heads=settings.heads)
        kept_nodes = self._keep_nodes(nodes, weights, neighbourhoods)
        by_option = [self._neighbourhoods(question, option, vectors) for option in options]
        if any(by_option):
            kept_nodes = self._nodes_of_best(question, kept_nodes, [int(n[0]) for n in neighbourhoods])
            option_nodes = [_union(option) for option in by_option]
            nodes = sorted_unique(np.concatenate([kept_nodes, *option_nodes]))
            weights = graph_expansion.node_attention(
                query, nodes, self._nodes, options=option_nodes, heads=settings.heads
            )
            neighbourhoods += [neighbourhood for option in by_option for neighbourhood in option]
            kept_nodes = self._keep_nodes(nodes, weights, neighbourhoods)
        shares = (weights / weights.max(initial=1e-12)).tolist()
        attention: dict[int, float] = dict(zip(nodes.tolist(), shares, strict=True))
        stages = dict.fromkeys(graph.edges_among(kept_nodes).tolist(), "subgraph")
        if settings.bridges == "nodes":
            stages |= {edge: "bridge" for edge in self._find_bridges(kept_nodes) if edge not in stages}
        # A node from a bridge has no attention; it gets the minimum.
        minimum = min(attention.values(), default=0.0)

        def mean_attention(edge: int) -> float:
            head, tail = int(graph.heads[edge]), int(graph.tails[edge])
            return (attention.get(head, minimum) + attention.get(tail, minimum)) / 2

        return {edge: (mean_attention(edge), stage) for edge, stage in stages.items()}

    def _keep_nodes(
        self, nodes: IntArray, weights: NDArray[np.float64], neighbourhoods: Sequence[IntArray]
    ) -> IntArray:
        """The nodes with the highest attention, and the start nodes of the phrases."""
        starts = np.array([n[0] for n in neighbourhoods], dtype=np.int64)
        order = np.lexsort((nodes, -np.round(weights, 12)))
        return np.union1d(nodes[order[: self._settings.kept_nodes]], starts)

    def _find_bridges(self, nodes: IntArray) -> list[int]:
        """Edges of the shortest paths between the parts of the subgraph on these nodes."""
        if not self._settings.paths:
            return []
        paths = graph_expansion.find_bridges(self._graph.arrays, nodes, max_length=self._settings.bridge_length)
        return [edge for path in paths for edge in path]

    def _rank(
        self, questions: Sequence[Question], candidates: Sequence[Mapping[int, tuple[float, str]]]
    ) -> list[list[SelectedEvidence]]:
        graph = self._graph
        question_edges = zip(questions, candidates, strict=True)
        pairs = [(question.text, graph.sentence(edge)) for question, edges in question_edges for edge in edges]
        grades = iter(grade_scores(self._reranker.score(pairs)) if self._reranker and pairs else [1.0] * len(pairs))
        return [self._top_triples([(next(grades), edge, *details) for edge, details in e.items()]) for e in candidates]

    def _top_triples(self, triples: Sequence[tuple[float, int, float, str]]) -> list[SelectedEvidence]:
        """The best triples by grade, edge, attention and stage; with the paths that connect them, if asked for."""
        graph, settings = self._graph, self._settings
        grades = np.array([grade for grade, *_ in triples])
        attention = np.array([weight for _, _, weight, _ in triples])
        scores = grades * attention if settings.final_score == "product" else attend_to_grades(grades)
        edges = np.array([edge for _, edge, *_ in triples], dtype=np.int64)
        items = []
        for index in np.lexsort((edges, -np.round(scores, 9))).tolist():
            grade, edge, weight, stage = triples[index]
            details = {"grade": round(grade, 6), "attention": round(weight, 6), "stage": stage}
            items.append((edge, edge_evidence(graph, edge, scores[index], **details)))
        evidence = distinct_by_text((item for _, item in items), settings.top_n)
        if settings.bridges == "triples":
            final = [edge for edge, item in items if item in evidence]
            ends = sorted_unique(np.concatenate([graph.arrays.heads[final], graph.arrays.tails[final]]))
            bridges = [edge_evidence(graph, edge, 0.0, stage="bridge") for edge in self._find_bridges(ends)]
            evidence = distinct_by_text([*evidence, *bridges], len(evidence) + len(bridges))
        return evidence


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
        self._graph, self._encoder, self._settings = graph, encoder, settings or TripleSettings()
        self.version = content_id(
            "nearest_triples", VERSION, asdict(self._settings), graph.version, encoder.model_id, encoder.revision
        )

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The nearest triples of each question; empty if they must be linked and no node is."""
        graph, settings, vectors = self._graph, self._settings, self._graph.passage_vectors("edge")
        texts = [f"{q.text} {', '.join(q.options)}" if settings.options and q.options else q.text for q in questions]
        queries: Sequence[Vectors] = list(self._encoder.encode_sentences(texts)) if texts else []
        for question, text, query in zip(questions, texts, queries, strict=True):
            edges: IntArray = np.arange(graph.arrays.n_edges)
            if settings.linked or settings.topics or settings.links:
                topics = graph.linker.link_many(question.topic_entities)
                topic_nodes: IntArray = np.array([node for link in topics for node in link.nodes], dtype=np.int64)
                edges = graph.arrays.edges_at(link_text(text, graph.linker) if settings.linked else topic_nodes)
            edge_vectors = vectors if len(edges) == len(vectors) else vectors[edges]
            scores = np.round(np.asarray(edge_vectors, dtype=np.float64) @ query, 9)
            order = np.lexsort((edges, -scores))
            items = (edge_evidence(graph, int(edges[index]), scores[index]) for index in order)
            yield distinct_by_text(items, settings.top_n)
