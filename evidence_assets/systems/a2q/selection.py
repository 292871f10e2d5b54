"""Attention2Query (Chaudhary et al.): triples of a graph for a question, by attention over neighbourhoods.

Belongs here: the stages in their order, and the direct retrieval that the paper compares with. The attention itself
is in ``graphs.expansion``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence, distinct_by_text, edge_evidence
from evidence_assets.graphs import expansion as graph_expansion
from evidence_assets.graphs.arrays import IntArray
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.graphs.expansion import ExpansionSettings, Neighbourhood
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.word_vectors import TextVectors
from evidence_assets.text.words import is_filler, words_with_offsets

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class A2QSettings(ExpansionSettings):
    """The paper leaves heads and numbers of nodes open, those are ours.

    A phrase that names no node starts from its nearest nodes, unless none is as near as ``least_similarity``: it then
    links to nothing and brings nothing in.
    ``paths`` and ``options`` switch the published ablations; without a ``classifier`` triples are ranked by attention
    alone. ``taxonomy``: whether the benchmark's says what terms mean. ``embedding``: which vectors are compared, the
    text encoder's or those of a user's file ``embeddings/<name>``.
    """

    kept_nodes: int = 30
    top_n: int = 10
    starts_per_phrase: int = 2
    least_similarity: float = 0.4
    bridge_length: int = 4
    paths: bool = True
    options: bool = True
    classifier: Literal["reranker", "tuned", "none"] = "reranker"
    taxonomy: bool = True
    embedding: Literal["text", "numberbatch", "word2vec", "glove"] = "text"


@dataclass(frozen=True)
class TripleSettings:
    """The ``top_n`` triples whose sentences are nearest to the question, of all (after DiFaR) or, with ``linked``, of
    those around the nodes that it names.

    With ``options`` the question is followed by its options, so that it says what Attention2Query reads. With
    ``topics`` the nodes are those of the entities that the dataset itself states, with ``links`` those that the
    linker of this name found, in a user's file (``experiment.evidence.sources.LINKS``).
    """

    top_n: int = 10
    linked: bool = False
    options: bool = False
    topics: bool = False
    links: str = ""


@dataclass(frozen=True)
class _Phrase:
    text: str
    nodes: tuple[int, ...]
    """Nodes that it names; none means that its nearest nodes stand in."""


def extract_phrases(text: str, linker: EntityLinker) -> list[_Phrase]:
    """Names of nodes in a text, longest first, and the words with content that are in none of them.

    A word outside of any name is linked by the linker's further rules; if these fail too it has no node.
    """
    spans = linker.find_spans(text)
    found = [(span.start, _Phrase(text[span.start : span.end], span.link.nodes)) for span in spans]
    for word, start, end in words_with_offsets(text):
        if is_filler([word]) or any(span.start < end and start < span.end for span in spans):
            continue
        found.append((start, _Phrase(word, linker.link(word).nodes)))
    return list(dict.fromkeys(phrase for _, phrase in sorted(found, key=lambda item: item[0])))


def link_text(text: str, linker: EntityLinker) -> IntArray:
    """The nodes of all phrases of a text, ascending, each once."""
    return np.array(sorted({node for phrase in extract_phrases(text, linker) for node in phrase.nodes}), dtype=np.int64)


def link_topic_entities(question: Question, linker: EntityLinker) -> IntArray:
    """The nodes of the entities that the dataset states of a question, ascending, each once."""
    found = {node for entity in question.topic_entities for node in linker.link(entity).nodes}
    return np.array(sorted(found), dtype=np.int64)


def define_nodes(graph: KnowledgeGraph, relation: str, most: int = 3) -> dict[str, str]:
    """What each node is, by its first facts of a relation such as IsA: a taxonomy out of the graph itself."""
    found: dict[str, list[str]] = {}
    if relation in graph.relations:
        code, names = graph.relations.index(relation), graph.names
        for edge in np.flatnonzero(graph.arrays.relations == code).tolist():
            said = found.setdefault(names[int(graph.arrays.heads[edge])], [])
            if len(said) < most:
                said.append(graph.sentence(edge))
    return {name: "; ".join(said) for name, said in found.items()}


class A2Q:
    """Selects the top triples for a question.

    ``graph``: With a passage, in the encoder's space, for each node.
    ``reranker``: The relevance classifier, whose scores are graded from 1 to 10; None ranks by attention alone.
    ``definitions``: Taxonomy: what a phrase means. Where it knows a phrase, the definition's vector takes the phrase's
        place.
    ``nodes``: Vectors of the nodes in the encoder's space, where they are not those of their passages.
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

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """The top triples of each question, best first; none where the graph is empty or no phrase has content."""
        options = [q.options if self._settings.options else () for q in questions]
        asked = [
            (extract_phrases(q.text, self._graph.linker), [extract_phrases(o, self._graph.linker) for o in own])
            for q, own in zip(questions, options, strict=True)
        ]
        texts = dict.fromkeys(
            [q.text for q in questions]
            + [self._wording(p) for own, other in asked for group in (own, *other) for p in group]
        )
        vectors = dict(zip(texts, self._encoder.encode_sentences(list(texts)), strict=True)) if texts else {}
        candidates = [
            self._candidates(vectors[question.text], own, other, vectors)
            for question, (own, other) in zip(questions, asked, strict=True)
        ]
        return self._ranked(questions, candidates)

    def _wording(self, phrase: _Phrase) -> str:
        return self._definitions.get(phrase.text.casefold(), phrase.text)

    def _starts(self, phrase: _Phrase, vector: Vectors) -> list[int]:
        count = self._settings.starts_per_phrase
        nodes = np.array(phrase.nodes or range(len(self._nodes)), dtype=np.int64)
        table = self._nodes[nodes] if phrase.nodes else self._nodes
        found = nodes[graph_expansion.nearest_nodes(vector, table, count)]
        if not phrase.nodes:
            found = found[self._nodes[found] @ vector >= self._settings.least_similarity]
        return [int(n) for n in found]

    def _neighbourhoods(self, phrases: Sequence[_Phrase], vectors: Mapping[str, Vectors]) -> list[Neighbourhood]:
        neighbourhoods = []
        for phrase in phrases:
            vector = vectors[self._wording(phrase)]
            for start in self._starts(phrase, vector):
                found = graph_expansion.expand(self._graph.arrays, start, vector, self._nodes, self._settings)
                neighbourhoods.append(found)
        return neighbourhoods

    def _candidates(
        self,
        question: Vectors,
        own: Sequence[_Phrase],
        options: Sequence[Sequence[_Phrase]],
        vectors: Mapping[str, Vectors],
    ) -> dict[int, tuple[float, str]]:
        """Edges with the attention on them and the stage that brought them in."""
        settings, graph = self._settings, self._graph.arrays
        around = self._neighbourhoods(own, vectors)
        query = np.stack([question, *(vectors[self._wording(p)] for p in own)])
        nodes = graph_expansion.union_nodes(around)
        weights = graph_expansion.node_attention(query, nodes, self._nodes, heads=settings.heads)
        kept = self._kept(nodes, weights, around)
        by_option = [self._neighbourhoods(option, vectors) for option in options]
        if any(by_option):
            reached = [graph_expansion.union_nodes(option) for option in by_option]
            nodes = sorted_unique(np.concatenate([kept, *reached]))
            weights = graph_expansion.node_attention(query, nodes, self._nodes, options=reached, heads=settings.heads)
            kept = self._kept(nodes, weights, [*around, *(n for option in by_option for n in option)])
        attention = dict(zip(nodes.tolist(), (weights / weights.max(initial=1e-12)).tolist(), strict=True))
        stages = dict.fromkeys(graph.edges_among(kept).tolist(), "subgraph")
        if settings.paths and settings.bridge_length > 0:
            for path in graph_expansion.find_bridges(graph, kept, max_length=settings.bridge_length):
                stages |= {edge: "bridge" for edge in path if edge not in stages}
        # A node that only a bridge brought in was never attended to; it counts as the least attended one.
        least = min(attention.values(), default=0.0)
        return {
            edge: (
                (attention.get(int(graph.heads[edge]), least) + attention.get(int(graph.tails[edge]), least)) / 2,
                stage,
            )
            for edge, stage in stages.items()
        }

    def _kept(self, nodes: IntArray, weights: NDArray[np.float64], around: Sequence[Neighbourhood]) -> IntArray:
        """The most attended nodes, and those that the phrases themselves name."""
        starts = np.array([n.nodes[0] for n in around], dtype=np.int64)
        return np.union1d(graph_expansion.top_nodes(nodes, weights, self._settings.kept_nodes), starts)

    def _ranked(
        self, questions: Sequence[Question], candidates: Sequence[Mapping[int, tuple[float, str]]]
    ) -> list[list[SelectedEvidence]]:
        graph = self._graph
        asked = zip(questions, candidates, strict=True)
        pairs = [(question.text, graph.sentence(edge)) for question, found in asked for edge in found]
        grades = iter(grade_scores(self._reranker.score(pairs)) if self._reranker and pairs else [1.0] * len(pairs))
        ranked = []
        for found in candidates:
            graded_edges = [(next(grades), edge, *why) for edge, why in found.items()]
            graded_edges.sort(key=lambda row: (-round(row[0] * row[2], 9), row[1]))
            picks = (
                edge_evidence(
                    graph, edge, grade * attention, grade=round(grade, 6), attention=round(attention, 6), stage=stage
                )
                for grade, edge, attention, stage in graded_edges
            )
            ranked.append(distinct_by_text(picks, self._settings.top_n))
        return ranked


def grade_scores(scores: NDArray[np.float32]) -> list[float]:
    """Each triple on the printed scale from 1 to 10: ``1 + 9 · σ(s)`` of the classifier's score."""
    return [1 + 9 / (1 + math.exp(-float(s))) for s in scores]


class NearestTriples:
    """Direct retrieval: the triples nearest to a question, of the whole graph or of the nodes that it names."""

    def __init__(self, graph: KnowledgeGraph, encoder: Encoder, settings: TripleSettings | None = None) -> None:
        self._graph, self._encoder, self._settings = graph, encoder, settings or TripleSettings()
        self.version = content_id(
            "nearest_triples", VERSION, asdict(self._settings), graph.version, encoder.model_id, encoder.revision
        )

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """The nearest triples of each question; none where only linked ones are wanted and nothing is linked."""
        graph, settings, vectors = self._graph, self._settings, self._graph.passage_vectors("edge")
        texts = [_with_options(q) if settings.options else q.text for q in questions]
        queries: Sequence[Vectors] = list(self._encoder.encode_sentences(texts)) if texts else []
        made, every = [], np.arange(graph.arrays.n_edges)
        for question, text, query in zip(questions, texts, queries, strict=True):
            edges: IntArray = every
            if settings.linked or settings.topics or settings.links:
                named = (
                    link_text(text, graph.linker) if settings.linked else link_topic_entities(question, graph.linker)
                )
                edges = graph.arrays.edges_at(named)
            made.append(_select_nearest(graph, query, edges, vectors, settings.top_n))
        return made


def _with_options(question: Question) -> str:
    return f"{question.text} {', '.join(question.options)}" if question.options else question.text


def _select_nearest(
    graph: KnowledgeGraph, query: Vectors, edges: IntArray, vectors: Vectors, n: int
) -> list[SelectedEvidence]:
    near = vectors if len(edges) == len(vectors) else vectors[edges]
    scores = np.round(np.asarray(near, dtype=np.float64) @ query, 9)
    order = np.lexsort((edges, -scores))
    return distinct_by_text((edge_evidence(graph, int(edges[place]), scores[place]) for place in order), n)
