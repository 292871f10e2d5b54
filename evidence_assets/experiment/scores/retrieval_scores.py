"""How well what was retrieved fits its questions, whatever is answered: triples, and documents of a collection.

A question without a gold answer is left out of what looks for one. What a language model recalled counts in
``…_with_recalled`` alone, which figures printed for background knowledge are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.answers.short_answers import triple_of
from evidence_assets.experiment.evidence.selection import is_sourced
from evidence_assets.experiment.scores.gold_evidence import token_similarity, word_coverage
from evidence_assets.experiment.scores.metrics import (
    Estimate,
    accuracy,
    gains_of,
    hit_at_k,
    mean,
    ndcg_at_k,
    normalise_answer,
    recall_at_k,
    reciprocal_rank,
)
from evidence_assets.experiment.scores.scoring import evidence_metrics
from evidence_assets.models.protocols import Encoder


def retrieval_metrics(
    questions: Iterable[dict[str, Any]],
    evidence: pl.DataFrame,
    encoder: Encoder | None = None,
    *,
    recalled: bool = False,
) -> dict[str, Estimate]:
    """Means over questions, with Wilson intervals where each question is a hit or none.

    ``hit@1``, ``hit@10``: a gold answer, or another form of it, is an end of one of the first k triples.
    ``answer_f1``: 2PR / (P + R), where P is the share of the triples that have a gold answer as an end, and R the share
    of the gold answers that are an end of a triple.
    ``triple_f1``: F1 of the triples against those of the gold paths, where a benchmark has such.
    ``coverage``: share of the question's words with content that stand in the triples.
    ``bertscore`` (with an encoder): each token of the question with its nearest one in any of the triples, averaged.
    ``hit@1_with_recalled`` and so on (with ``recalled``): the same over all triples, with the language model's own.
    """
    everything: dict[str, list[dict[str, Any]]] = {}
    for row in evidence.sort("question_id", "rank").iter_rows(named=True):
        if triple_of(row):
            everything.setdefault(row["question_id"], []).append(row)
    rows = {question_id: [row for row in own if is_sourced(row)] for question_id, own in everything.items()}
    asked = list(questions)
    texts = {question: [row["text"] for row in own] for question, own in rows.items()}
    found: dict[str, list[float]] = {}
    for question in asked:
        measured = _against_gold(question, rows.get(question["question_id"], []))
        if recalled:
            every = _against_gold(question, everything.get(question["question_id"], []))
            measured |= {f"{name}_with_recalled": value for name, value in every.items()}
        for name, value in measured.items():
            found.setdefault(name, []).append(value)
    found["coverage"] = word_coverage(asked, texts)
    if encoder is not None and asked:
        found["bertscore"] = token_similarity(asked, texts, encoder)
    return {
        name: accuracy([value > 0 for value in values]) if name.startswith("hit@") else mean(values)
        for name, values in found.items()
        if values
    }


def _against_gold(question: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, float]:
    """Hits of one question's triples, and their F1; each only where there is something gold to compare with."""
    found: dict[str, float] = {}
    triples = [triple for row in rows if (triple := triple_of(row))]
    answers = _gold(question)
    aliases = question["gold_aliases"] or [[] for _ in answers]
    forms = [{normalise_answer(form) for form in (a, *more)} for a, more in zip(answers, aliases, strict=True)]
    accepted = set().union(*forms)
    if accepted:
        ends = [{normalise_answer(t[0]), normalise_answer(t[2])} for t in triples]
        hit = [bool(pair & accepted) for pair in ends]
        found |= {f"hit@{k}": float(any(hit[:k])) for k in (1, 10)}
        reached = set().union(*ends)
        recall = sum(bool(answer & reached) for answer in forms) / len(forms)
        precision = sum(hit) / len(hit) if hit else 0.0
        found["answer_f1"] = 2 * precision * recall / (precision + recall) if recall else 0.0
    gold = {fact for g in question["gold_evidence"] or [] if g["kind"] == "path" for fact in g["text"].split("; ")}
    if gold:
        right = len({" ".join(t) for t in triples} & gold)
        found["triple_f1"] = 2 * right / (len(triples) + len(gold))
    return found


def _gold(question: dict[str, Any]) -> list[str]:
    """Gold answers in words: the texts of the right options, where a question has options."""
    options = question["options"] or []
    told = dict(zip(option_labels(question["task"], options), options, strict=True))
    return [told.get(gold, gold) for gold in question["gold"]]


DEPTHS = (2, 5, 10, 100)
"""Documents down to which recall is counted."""


def ranked_documents(evidence: pl.DataFrame, document_of: Mapping[str, str]) -> dict[str, list[str]]:
    """The documents of each question's chunks, each where its best chunk stands."""
    found: dict[str, dict[str, None]] = {}
    for row in evidence.sort("question_id", "rank", "option").iter_rows(named=True):
        if row["source_kind"] == "chunk" and row["source_id"] in document_of:
            found.setdefault(row["question_id"], {})[document_of[row["source_id"]]] = None
    return {question: list(documents) for question, documents in found.items()}


def passage_values(
    questions: Sequence[Mapping[str, Any]], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, list[float]]:
    """Recall, nDCG and reciprocal rank of the gold documents of each question that names any."""
    ranked = ranked_documents(evidence, document_of)
    asked = [(q, {gold["source"] for gold in q["gold_evidence"]}) for q in questions if q["gold_evidence"]]
    gains = [(gains_of(ranked.get(q["question_id"], []), wanted), len(wanted)) for q, wanted in asked]
    values = {f"recall@{k}": [recall_at_k(g, k, n) for g, n in gains] for k in DEPTHS}
    values["ndcg@10"] = [ndcg_at_k(g, 10, n) for g, n in gains]
    values["mrr"] = [reciprocal_rank(g) for g, _ in gains]
    values["hit@1"] = [float(hit_at_k(g, 1)) for g, _ in gains]
    return values


def passage_metrics(
    questions: Sequence[Mapping[str, Any]], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, Estimate]:
    """Means of :func:`passage_values`, recall of the gold sentences, and the words covered."""
    values = passage_values(questions, evidence, document_of)
    metrics = {name: mean(found) for name, found in values.items() if name != "hit@1"}
    metrics["hit@1"] = accuracy([value > 0 for value in values["hit@1"]])
    return metrics | evidence_metrics([q | {"gold_evidence": _sentences(q)} for q in map(dict, questions)], evidence)


def _sentences(question: Mapping[str, Any]) -> list[dict[str, str]]:
    """The gold sentences; a whole document stands in no single chunk."""
    return [gold for gold in question["gold_evidence"] if gold["kind"] == "sentence" and gold["text"]]
