"""Metrics, paired differences and baselines of a benchmark's variants, on all of its questions or one half."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evidence_assets.experiment.scores import graph_stages
from evidence_assets.experiment.scores.gold_evidence import evidence_recall
from evidence_assets.experiment.scores.metrics import (
    Estimate,
    accuracy,
    bootstrap,
    gains_of,
    hit_at_k,
    paired_bootstrap,
    reciprocal_rank,
    token_f1,
)
from evidence_assets.experiment.scores.retrieval_scores import passage_metrics, passage_values
from evidence_assets.experiment.scores.scoring import (
    accepted_answers,
    answer_metrics,
    graded_questions,
    is_correct,
    pair_answers,
)
from evidence_assets.experiment.stored_rows import PredictionRow, QuestionRow, typed_rows
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.reasoning.questions import option_labels

QUESTION_WORDS = 120
"""Last words of a question that the baseline ``association`` encodes: the encoder reads no more."""
_ANSWERS = ("accuracy", "supported_accuracy", "answered_share")
_CONFIDENCE = ("accuracy_surest_25", "calibration_error")
_EVIDENCE = ("evidence_recall", "citation_precision")
METRICS: Mapping[str, Sequence[str]] = {
    "mcqa": (*_ANSWERS, *_CONFIDENCE, *_EVIDENCE, "graph_signal"),
    "table": (*_ANSWERS, "set_accuracy", *_CONFIDENCE, *_EVIDENCE),
    "graph": (*_ANSWERS, "token_f1", *_EVIDENCE, "citation_recall"),
    "search": ("hit@1", "hit@5", "hit@10", "recall@20", "ndcg@10", "mrr", "answered_share"),
    "retrieval": ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr", "hit@1", "evidence_recall@10"),
}
"""Metrics of each task family, the most important first."""


@dataclass(frozen=True)
class VariantTables:
    """The rows of a variant on one benchmark; ``documents`` are the documents of its chunks, by chunk id."""

    predictions: pl.DataFrame
    evidence: pl.DataFrame
    citations: pl.DataFrame
    chains: pl.DataFrame
    documents: Mapping[str, str]


def measure(family: str, questions: pl.DataFrame, tables: VariantTables) -> dict[str, Estimate]:
    """The metrics of ``METRICS`` that these questions have, as in ``scores``."""
    if family == "retrieval":
        estimates = passage_metrics(typed_rows(questions, QuestionRow), tables.evidence, tables.documents)
    else:
        chain_ids = tables.chains.join(questions.select("question_id"), "question_id", "semi").select("chain_id")
        of_questions = {
            "questions": questions,
            "predictions": tables.predictions.join(questions.select("question_id"), "question_id", "semi"),
            "evidence": tables.evidence.join(questions.select("question_id"), "question_id", "semi"),
            "citations": tables.citations.join(chain_ids, "chain_id", "semi") if chain_ids.height else tables.citations,
        }
        estimates = {name: e for name, e in answer_metrics(of_questions).items() if not math.isnan(e.value)}
        if signals := question_values(family, typed_rows(questions, QuestionRow), tables).get("graph_signal"):
            estimates["graph_signal"] = bootstrap(signals)
    return {name: estimates[name] for name in METRICS[family] if name in estimates}


def question_values(family: str, questions: Sequence[QuestionRow], tables: VariantTables) -> dict[str, list[float]]:
    """Metrics that each graded question has on its own, for paired differences; in the order of the questions."""
    if family == "retrieval":
        values = passage_values(questions, tables.evidence, tables.documents)
    else:
        predictions = {row["question_id"]: row for row in typed_rows(tables.predictions, PredictionRow)}
        values = _answer_values(family, pair_answers(graded_questions(questions), predictions))
    if family == "mcqa" and tables.evidence["kind"].is_in(graph_stages.GRAPH_KINDS).any():
        values["graph_signal"] = graph_stages.signal_values(questions, tables.evidence)
    if any(question["gold_evidence"] for question in questions):
        values["evidence_recall"] = evidence_recall(questions, tables.evidence)
    return {name: values[name] for name in METRICS[family] if name in values}


def _answer_values(family: str, answers: Sequence[tuple[QuestionRow, PredictionRow]]) -> dict[str, list[float]]:
    if family == "search":
        gains = [gains_of(p["ranked_answers"] or [], q["gold"] or ()) for q, p in answers]
        return {"hit@1": [float(hit_at_k(g, 1)) for g in gains], "mrr": [reciprocal_rank(g) for g in gains]}
    values = {"accuracy": [float(is_correct(q, p["answer"], p["status"])) for q, p in answers]}
    if family == "graph":
        values["token_f1"] = [token_f1(p["answer"] or "", accepted_answers(q)) for q, p in answers if q["gold"]]
    return values


def paired_differences(
    first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]
) -> dict[str, Estimate]:
    """Mean of first − second for each metric of both, with its paired bootstrap interval."""
    return {name: paired_bootstrap(values, second[name]) for name, values in first.items() if name in second}


# Baselines ------------------------------------------------------------------------------------------------------------


def baseline_answers(questions: Sequence[QuestionRow], other_half: Sequence[QuestionRow]) -> dict[str, list[str]]:
    """Labels that each baseline answers the questions with.

    ``longest option``; ``association``: the option whose vector is nearest to the question's; ``most frequent``: the
    gold label that is the most frequent in the other half (of the same questions without one, which favours it).
    Claims have the last one only.
    """
    counts = Counter(label for question in graded_questions(other_half) for label in question["gold"] or ())
    answers = {"most frequent": [counts.most_common(1)[0][0] if counts else ""] * len(questions)}
    if any(question["task"] != "mcqa" for question in questions):
        return answers
    texts = {text: " ".join(text.split()[-QUESTION_WORDS:]) for q in questions for text in (q["text"], *q["options"])}
    encoded = load_encoder(EMBEDDED_ENCODER).encode_sentences(list(texts.values()))
    vectors = dict(zip(texts, encoded, strict=True))
    lengths = [[len(option) for option in q["options"]] for q in questions]
    cosines = [[float(vectors[q["text"]] @ vectors[option]) for option in q["options"]] for q in questions]
    return {
        "longest option": [_best_label(*pair) for pair in zip(questions, lengths, strict=True)],
        "association": [_best_label(*pair) for pair in zip(questions, cosines, strict=True)],
        **answers,
    }


def nearest_answers(questions: Sequence[QuestionRow], chains: pl.DataFrame) -> list[str]:
    """The label whose chain has the nearest statement (``support``); "" without chains."""
    supported = chains.select("question_id", "hypothesis", "support").drop_nulls()
    nearest = supported.sort("support", "hypothesis", descending=[True, False]).unique("question_id", keep="first")
    labels = dict(nearest.select("question_id", "hypothesis").iter_rows())
    return [labels.get(question["question_id"], "") for question in questions]


def _best_label(question: QuestionRow, values: Sequence[float]) -> str:
    return option_labels(question["task"], question["options"])[int(np.argmax(values))]


def count_correct(questions: Sequence[QuestionRow], answers: Sequence[str]) -> tuple[Estimate, list[float]]:
    """Accuracy of these answers to the graded questions, and whether each is right."""
    pairs = zip(questions, answers, strict=True)
    hits = [answer in question["gold"] for question, answer in pairs if question["gold"] is not None]
    return accuracy(hits), [float(hit) for hit in hits]
