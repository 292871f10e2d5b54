"""What an option without a path falls back on (6.6.1), in named steps; each row and the metadata name the step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from evidence_assets.experiment.evidence.question_concepts import LinkedPhrase, QuestionSubgraph
from evidence_assets.experiment.evidence.selection import (
    Question,
    SelectedEvidence,
    Selector,
    edge_evidence,
    split_questions,
)
from evidence_assets.graphs.arrays import FloatArray
from evidence_assets.graphs.expansion import nearest_nodes
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.models.vectors import unit_rows

VERSION = "1"
NEAREST, MIN_SIMILARITY = 3, 0.5
"""Nodes nearest to an option, and the minimum cosine of a node with the option or of a triple with the hypothesis."""
Rows = Mapping[str, Sequence[SelectedEvidence]]


class PathFinder(Selector, Protocol):
    """A selector of paths that also takes other subgraphs."""

    graph: KnowledgeGraph
    subgraphs: Mapping[str, QuestionSubgraph]

    def with_subgraphs(self, subgraphs: Mapping[str, QuestionSubgraph]) -> Selector: ...


class FallbackPaths:
    """Adds evidence for options to which ``paths`` finds none.

    ``nearer concepts``: Paths to the ``NEAREST`` nodes by the meaning of their names. ``text``: The triple whose
    sentence is nearest to question and option. ``closed book``: Nothing; the option has no evidence.
    """

    def __init__(self, paths: PathFinder) -> None:
        self._paths, self._graph, self._subgraphs = paths, paths.graph, paths.subgraphs
        self._edge_vectors = paths.graph.passage_vectors("edge")
        self.version = content_id("fallback", VERSION, NEAREST, MIN_SIMILARITY, paths.version)
        self.notes = {"options": 0, "options_without_path": 0, "nearer concepts": 0, "text": 0, "closed book": 0}

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        for group in split_questions(questions):
            rows = {q.question_id: list(selected) for q, selected in zip(group, self._paths.select(group), strict=True)}
            self.notes["options"] += sum(len(q.options) for q in group)
            self.notes["options_without_path"] += sum(len(_empty_options(q, rows)) for q in group)
            for step, add in (("nearer concepts", self._nearer_concepts), ("text", self._nearest_texts)):
                empty = [q for q in group if _empty_options(q, rows)]
                for question, added in zip(empty, add(empty, rows), strict=True):
                    self.notes[step] += len({row.option for row in added})
                    rows[question.question_id] += [_name_step(row, step) for row in added]
            self.notes["closed book"] += sum(len(_empty_options(q, rows)) for q in group)
            yield from rows.values()

    def _nearer_concepts(self, questions: Sequence[Question], rows: Rows) -> list[list[SelectedEvidence]]:
        near = {}
        for question in questions:
            if question.question_id in self._subgraphs:
                subgraph, options = self._subgraphs[question.question_id], _empty_options(question, rows)
                vectors = unit_rows(self._graph.vectors.encode(list(options.values())))
                links = {o: self._link_nearest(text, v) for (o, text), v in zip(options.items(), vectors, strict=True)}
                near[question.question_id] = replace(subgraph, links=replace(subgraph.links, options=links))
        return list(self._paths.with_subgraphs(near).select(questions))

    def _link_nearest(self, option: str, vector: FloatArray) -> tuple[LinkedPhrase, ...]:
        nodes = nearest_nodes(vector, self._graph.node_vectors, NEAREST)
        similarity = self._graph.cosine_to(vector)(nodes)
        close = [(int(n), float(s)) for n, s in zip(nodes, similarity, strict=True) if s >= MIN_SIMILARITY]
        return tuple(LinkedPhrase(option, "nearest", round(s, 4), (n,)) for n, s in close)

    def _nearest_texts(self, questions: Sequence[Question], rows: Rows) -> list[list[SelectedEvidence]]:
        added = []
        for question in questions:
            options = _empty_options(question, rows)
            queries = unit_rows(self._graph.vectors.encode([question.query(text) for text in options.values()]))
            scores = queries @ np.asarray(self._edge_vectors).T
            best = [(label, int(np.argmax(row)), float(row.max())) for label, row in zip(options, scores, strict=True)]
            added.append([edge_evidence(self._graph, e, round(s, 4), o) for o, e, s in best if s >= MIN_SIMILARITY])
        return added


def _empty_options(question: Question, rows: Rows) -> dict[str, str]:
    """Text of each option without evidence, by label."""
    supported = {row.option for row in rows[question.question_id]}
    return {label: text for label, text in question.hypotheses if label not in supported}


def _name_step(row: SelectedEvidence, step: str) -> SelectedEvidence:
    return replace(row, why=json.dumps({**json.loads(row.why or "{}"), "fallback": step}, sort_keys=True))
