"""Ranks the triples at the nodes of a question by a logistic regression on their features (background 6.1).

A triple is positive if it names the correct option and no other one. The first half of the questions, by their ids, is
the training data, so only the second half tells what the ranking is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from evidence_assets.experiment.evidence.selection import (
    Question,
    SelectedEvidence,
    build_questions,
    distinct_by_text,
    edge_evidence,
)
from evidence_assets.experiment.scores.metrics import halve
from evidence_assets.graphs.arrays import BoolArray, IntArray
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.selection import link_text


@dataclass(frozen=True)
class TrainedSettings:
    """The nearest ``candidates`` at the nodes of question and options are ranked; ``top_n`` are selected."""

    top_n: int = 10
    candidates: int = 200


class TrainedTriples:
    """Selects the triples with the highest probability to name the correct option alone.

    ``training``: Questions with the label of their correct option. Without a positive and a negative triple in them,
        triples are ranked by their highest cosine with the question and an option.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        encoder: Encoder,
        training: Sequence[tuple[Question, str]],
        settings: TrainedSettings | None = None,
    ) -> None:
        self._graph, self._encoder, self._settings = graph, encoder, settings or TrainedSettings()
        self._vectors = graph.passage_vectors("edge")
        self._degrees = np.bincount(np.concatenate([graph.arrays.heads, graph.arrays.tails]), minlength=len(graph))
        self._training = training
        labels = [(question.question_id, label) for question, label in training]
        models = encoder.model_id, encoder.revision
        self.version = content_id("trained_triples", VERSION, asdict(self._settings), graph.version, *models, labels)

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """The triples of each question, most probable first."""
        for edges, features in self._featurise(questions):
            scores = self._model.predict_proba(features)[:, 1] if self._model and len(edges) else features[:, 0]
            ranked = np.lexsort((edges, -np.round(scores, 9)))
            items = (edge_evidence(self._graph, int(edges[i]), round(float(scores[i]), 6)) for i in ranked)
            yield distinct_by_text(items, self._settings.top_n)

    @cached_property
    def _model(self) -> Pipeline | None:
        cases = self._featurise([question for question, _ in self._training])
        pairs = list(zip(self._training, cases, strict=True))
        labels = [self._labels(question, right, edges) for (question, right), (edges, _) in pairs]
        y = np.concatenate([np.zeros(0, bool), *labels])
        if not 0 < y.sum() < len(y):
            return None
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight="balanced"))
        return model.fit(np.concatenate([features for _, (_, features) in pairs]), y)

    def _featurise(self, questions: Sequence[Question]) -> list[tuple[IntArray, FloatArray]]:
        texts = [text for q in questions for text in (q.text, *(f"{q.text} {option}" for option in q.options))]
        vectors = dict(zip(texts, self._encoder.encode_sentences(texts), strict=True)) if texts else {}
        return [self._features(question, vectors) for question in questions]

    def _features(self, question: Question, vectors: dict[str, FloatArray]) -> tuple[IntArray, FloatArray]:
        """Candidate edges of a question, and their features."""
        graph, query = self._graph.arrays, vectors[question.text]
        queries = np.stack([vectors[f"{question.text} {option}"] for option in question.options] or [query])
        linker = self._graph.linker
        of_question = link_text(question.text, linker)
        of_options = [link_text(option, linker) for option in question.options]
        edges = graph.edges_at(np.unique(np.concatenate([of_question, *of_options])).astype(np.int64))
        nearest = (self._vectors[edges] @ queries.T).max(1, initial=-1.0)
        edges = edges[np.lexsort((edges, -np.round(nearest, 9)))[: self._settings.candidates]]
        cosines = self._vectors[edges] @ queries.T
        heads, tails = graph.heads[edges], graph.tails[edges]
        at_question, *at_options = (
            np.isin(heads, nodes) | np.isin(tails, nodes) for nodes in (of_question, *(of_options or [of_question]))
        )
        at_any = np.any(at_options, axis=0)
        own_cosine = np.max(np.where(np.stack(at_options, 1), cosines, -1.0), axis=1, initial=-1.0)
        relations = np.eye(len(self._graph.relations))[graph.relations[edges]]
        columns = [cosines.max(1, initial=-1.0), self._vectors[edges] @ query, own_cosine, at_question, at_any]
        columns += [at_question & at_any, np.sum(at_options, axis=0), np.log1p(self._degrees[heads])]
        columns += [np.log1p(self._degrees[tails])]
        return edges, np.column_stack([*(np.asarray(column, dtype=np.float64) for column in columns), relations])

    def _labels(self, question: Question, right: str, edges: IntArray) -> BoolArray:
        """Whether each edge has a node of the correct option, and none of another option."""
        graph, linker = self._graph.arrays, self._graph.linker
        is_named = {}
        for label, option in zip(question.labels, question.options, strict=True):
            nodes = link_text(option, linker)
            is_named[label] = np.isin(graph.heads[edges], nodes) | np.isin(graph.tails[edges], nodes)
        is_right = is_named.pop(right)
        return np.asarray(is_right & ~np.any([np.zeros_like(is_right), *is_named.values()], axis=0))


def build_training(questions: pl.DataFrame) -> list[tuple[Question, str]]:
    """The questions of the first half with exactly one correct option."""
    half = halve(questions, "first")
    gold = {row["question_id"]: row["gold"] for row in half.iter_rows(named=True)}
    return [(q, gold[q.question_id][0]) for q in build_questions(half) if q.options and len(gold[q.question_id]) == 1]
