"""Selects triples on short paths from a question's nodes, ranked by the path's meaning (our method).

A triple two hops away shares few words with the question, so attention and grades, which see one triple at a time,
reject it. Here a path is ranked as a whole. The published stages are in ``system``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
from pydantic import PositiveInt

from evidence_assets.experiment.evidence.selection import (
    QUESTIONS_PER_GROUP,
    SelectedEvidence,
    distinct_by_text,
    edge_evidence,
)
from evidence_assets.experiment.rows import batches
from evidence_assets.graphs.arrays import BoolArray, IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.selection import link_text


@dataclass(frozen=True)
class PathSettings:
    """Settings of the path ranking.

    ``penalty`` is subtracted for the second triple of a path (λ of Attention2Query). ``bridge`` is added to a path that
    connects a node of the question to a node of the option. The best ``fan`` first triples are extended to a second
    one. ``max_neighbours`` caps the triples of a hub.
    """

    penalty: float = 0.05
    bridge: float = 0.1
    top_n: PositiveInt = 10
    fan: int = 50
    max_neighbours: int = 200


@dataclass(frozen=True)
class _Path:
    score: float
    edges: tuple[int, ...]
    option: str = ""


@dataclass(frozen=True, eq=False)
class _Query:
    """A question, with one of its options or none: its vector and the nodes that it names."""

    vector: FloatArray
    question_nodes: IntArray
    option: str = ""
    option_nodes: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


class LinkedPaths:
    """Selects the triples of the best paths of one or two triples from the nodes of a question.

    The score of a path p is cos(q, Σ v_e) − λ·(|p| − 1), with v_e the vector of a triple's sentence and q that of the
    question. With options, q is the question followed by the option, and a path supports an option if it touches a
    node of the option; a path that also touches a node of the question scores ``bridge`` more.
    """

    def __init__(self, graph: KnowledgeGraph, encoder: Encoder, settings: PathSettings | None = None) -> None:
        self._graph = graph
        self._encoder = encoder
        self._vectors = graph.edge_passage_vectors
        self._settings = settings or PathSettings()
        self.version = content_id(
            "linked_paths", VERSION, asdict(self._settings), graph.version, encoder.model_id, encoder.revision
        )

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The triples of each question's best paths, best path first; empty if no node is linked."""
        for group in batches(questions, QUESTIONS_PER_GROUP):
            texts = dict.fromkeys(text for q in group for text in (q.text, *(_query_text(q, o) for o in q.options)))
            vectors = dict(zip(texts, self._encoder.encode_sentences(list(texts)), strict=True))
            yield from (self._select_for(question, vectors) for question in group)

    def _select_for(self, question: Question, vectors: Mapping[str, FloatArray]) -> list[SelectedEvidence]:
        nodes = link_text(question.text, self._graph.linker)
        paths = list[_Path]()
        for option in question.options:
            vector = vectors[_query_text(question, option)]
            paths += self._find_paths(_Query(vector, nodes, option, link_text(option, self._graph.linker)))
        if not paths:
            paths += self._find_paths(_Query(vectors[question.text], nodes))
        return self._path_evidence(paths)

    def _find_paths(self, query: _Query) -> Iterator[_Path]:
        """Paths from the nodes of the question and its option."""
        starts = np.union1d(query.question_nodes, query.option_nodes)
        edges = self._nearest_edges(starts, query.vector)
        scores = self._vectors[edges] @ query.vector
        yield from self._build_paths(query, (), edges, scores)
        for best in np.lexsort((edges, -np.round(scores, 9)))[: self._settings.fan].tolist():
            yield from self._extend(query, int(edges[best]), starts)

    def _extend(self, query: _Query, first: int, starts: IntArray) -> Iterator[_Path]:
        """Paths of two triples that begin with ``first``."""
        graph = self._graph.arrays
        ends = np.unique([graph.heads[first], graph.tails[first]])
        is_start = np.isin(ends, starts)
        edges = self._nearest_edges(ends[~is_start], query.vector)
        # A step back to the start adds nothing; this drops the first edge itself as well.
        edges = edges[~self._touches(edges, ends[is_start])]
        vectors = self._vectors[edges] + self._vectors[first]
        lengths = np.linalg.norm(vectors, axis=1)
        scores = vectors @ query.vector / np.where(lengths == 0, 1, lengths) - self._settings.penalty
        yield from self._build_paths(query, (first,), edges, scores)

    def _build_paths(
        self, query: _Query, previous: tuple[int, ...], edges: IntArray, scores: FloatArray
    ) -> Iterator[_Path]:
        """Paths that end with each of the edges; with an option, only those that touch one of its nodes."""
        if not query.option:
            yield from (
                _Path(float(score), (*previous, edge)) for edge, score in zip(edges.tolist(), scores, strict=True)
            )
            return
        path_ends = np.array(previous, dtype=np.int64)
        at_question = self._touches(edges, query.question_nodes) | self._touches(path_ends, query.question_nodes).any()
        at_option = self._touches(edges, query.option_nodes) | self._touches(path_ends, query.option_nodes).any()
        for index in np.flatnonzero(at_option).tolist():
            score = float(scores[index]) + (self._settings.bridge if at_question[index] else 0.0)
            yield _Path(score, (*previous, int(edges[index])), query.option)

    def _nearest_edges(self, nodes: IntArray, query: FloatArray) -> IntArray:
        """Edges at the nodes; at a hub, the ``max_neighbours`` nearest to the query."""
        limit = self._settings.max_neighbours
        edges_by_node = []
        for node in nodes.tolist():
            edges = self._graph.arrays.edges_at(np.array([node]))
            if len(edges) > limit:
                edges = edges[np.lexsort((edges, -np.round(self._vectors[edges] @ query, 9)))[:limit]]
            edges_by_node.append(edges)
        return sorted_unique(np.concatenate(edges_by_node)) if edges_by_node else np.zeros(0, np.int64)

    def _touches(self, edges: IntArray, nodes: IntArray) -> BoolArray:
        """Whether each edge has its head or tail among the nodes."""
        graph = self._graph.arrays
        return np.asarray(np.isin(graph.heads[edges], nodes) | np.isin(graph.tails[edges], nodes), dtype=bool)

    def _path_evidence(self, paths: Sequence[_Path]) -> list[SelectedEvidence]:
        def triples() -> Iterator[SelectedEvidence]:
            for path in sorted(paths, key=lambda p: (-round(p.score, 9), p.edges)):
                details: dict[str, object] = {"path": [self._graph.sentence(e) for e in path.edges], "stage": "path"}
                if path.option:
                    details["toward"] = path.option
                for step, edge in enumerate(path.edges, 1):
                    yield edge_evidence(self._graph, edge, round(path.score, 6), step=step, **details)

        return distinct_by_text(triples(), self._settings.top_n)


def _query_text(question: Question, option: str) -> str:
    return f"{question.text} {option}" if option else question.text
