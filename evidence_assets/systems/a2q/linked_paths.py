"""Triples on short paths from what a question names, ranked by the meaning of the path: this project's own ranking.

A triple two steps away shares few words with its question, and attention and grades, one triple at a time, sort it out.
Here a path is ranked as a whole, and its triples come together. The published stages are in ``system``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence, distinct_by_text, edge_evidence
from evidence_assets.graphs.arrays import BoolArray, IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.selection import link_text


@dataclass(frozen=True)
class PathSettings:
    """``penalty`` is taken off for the second triple of a path (λ of Attention2Query); ``bridge`` is added to a path
    that joins what the question names to what the option names.

    ``fan`` first triples are followed further, and at most ``max_neighbours`` triples of a hub are looked at.
    """

    penalty: float = 0.05
    bridge: float = 0.1
    top_n: int = 10
    fan: int = 50
    max_neighbours: int = 200


@dataclass(frozen=True)
class _Path:
    score: float
    edges: tuple[int, ...]
    option: str


class LinkedPaths:
    """Selects the triples of the best paths of one or two triples from the nodes that a question names.

    A path p weighs cos(q, Σ v_e) − λ·(|p| − 1), with v_e the vector of a triple's sentence and q that of the question.
    With options, q is the question followed by the option, and a path counts for an option if it touches a node that
    the option names; one that touches a node of the question as well gets ``bridge`` more.
    """

    def __init__(self, graph: KnowledgeGraph, encoder: Encoder, settings: PathSettings | None = None) -> None:
        self._graph, self._encoder = graph, encoder
        self._vectors, self._settings = graph.passage_vectors("edge"), settings or PathSettings()
        model = encoder.model_id, encoder.revision
        self.version = content_id("linked_paths", VERSION, asdict(self._settings), graph.version, *model)

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        """The triples of each question's best paths, best path first; none where nothing is linked."""
        texts = dict.fromkeys(text for q in questions for text in (q.text, *(_query_text(q, o) for o in q.options)))
        vectors = dict(zip(texts, self._encoder.encode_sentences(list(texts)), strict=True)) if texts else {}
        return [self._selected(question, vectors) for question in questions]

    def _selected(self, question: Question, vectors: Mapping[str, FloatArray]) -> list[SelectedEvidence]:
        named = link_text(question.text, self._graph.linker)
        paths = [
            path
            for option in question.options
            for path in self._paths(named, option, vectors[_query_text(question, option)])
        ]
        return self._picks(paths or list(self._paths(named, "", vectors[question.text])))

    def _paths(self, own: IntArray, option: str, query: FloatArray) -> Iterator[_Path]:
        """Paths from the question's nodes, or where there is an option those that touch it."""
        settings, others = self._settings, link_text(option, self._graph.linker)
        starts = np.union1d(own, others)
        first = self._nearest(starts, query)
        scores = self._vectors[first] @ query
        of_own, of_other = self._touch(first, own), self._touch(first, others)

        def kept(scores: FloatArray, own: BoolArray, other: BoolArray) -> Iterator[tuple[int, float]]:
            for place in np.flatnonzero(other if option else np.ones(len(scores), bool)).tolist():
                yield place, float(scores[place]) + (settings.bridge if option and own[place] else 0.0)

        for place, score in kept(scores, of_own, of_other):
            yield _Path(score, (int(first[place]),), option)
        graph, known = self._graph.arrays, set(starts.tolist())
        for one in np.lexsort((first, -np.round(scores, 9)))[: settings.fan].tolist():
            edge = int(first[one])
            ends = {int(graph.heads[edge]), int(graph.tails[edge])}
            second = self._nearest(np.array(sorted(ends - known), dtype=np.int64), query)
            # A step back to where the first one came from says nothing more; this drops the first edge itself as well.
            second = second[~self._touch(second, np.array(sorted(ends & known)))]
            pairs = self._vectors[second] + self._vectors[edge]
            lengths = np.linalg.norm(pairs, axis=1)
            joint = pairs @ query / np.where(lengths == 0, 1, lengths) - settings.penalty
            touched = (self._touch(second, own) | of_own[one], self._touch(second, others) | of_other[one])
            for place, score in kept(joint, *touched):
                yield _Path(score, (edge, int(second[place])), option)

    def _nearest(self, nodes: IntArray, query: FloatArray) -> IntArray:
        """Edges at the nodes, at each hub those nearest to the query."""
        graph, most = self._graph.arrays, self._settings.max_neighbours
        kept = []
        for node in nodes.tolist():
            edges = graph.edges_at(np.array([node]))
            if len(edges) > most:
                edges = edges[np.lexsort((edges, -np.round(self._vectors[edges] @ query, 9)))[:most]]
            kept.append(edges)
        return sorted_unique(np.concatenate(kept)) if kept else np.zeros(0, np.int64)

    def _touch(self, edges: IntArray, nodes: IntArray) -> BoolArray:
        """Which edges have an end among the nodes."""
        graph = self._graph.arrays
        return np.asarray(np.isin(graph.heads[edges], nodes) | np.isin(graph.tails[edges], nodes), dtype=bool)

    def _picks(self, paths: Sequence[_Path]) -> list[SelectedEvidence]:
        def triples() -> Iterator[SelectedEvidence]:
            for path in sorted(paths, key=lambda p: (-round(p.score, 9), p.edges)):
                why: dict[str, object] = {"path": [self._graph.sentence(edge) for edge in path.edges], "stage": "path"}
                if path.option:
                    why["toward"] = path.option
                for step, edge in enumerate(path.edges, 1):
                    yield edge_evidence(self._graph, edge, round(path.score, 6), step=step, **why)

        return distinct_by_text(triples(), self._settings.top_n)


def _query_text(question: Question, option: str) -> str:
    return f"{question.text} {option}" if option else question.text
