"""Retrieval metrics of triples and documents, independent of the answers.

Metrics of gold answers skip questions without one. Facts recalled by a language model count only in
``…_with_recalled``, for comparison with published figures of background knowledge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import polars as pl

from evidence_assets.experiment.evidence_rows import evidence_by_question
from evidence_assets.experiment.scores.gold_evidence import token_similarity, word_coverage
from evidence_assets.experiment.scores.metrics import (
    Estimate,
    accuracy,
    exact_match,
    gains_of,
    hit_at_k,
    mean,
    ndcg_at_k,
    normalise_answer,
    recall_at_k,
    reciprocal_rank,
)
from evidence_assets.experiment.scores.scoring import evidence_metrics
from evidence_assets.experiment.stored_rows import QuestionRow
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.questions import option_texts
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.reproduction.published_figures import INCLUDED_SUFFIX


def triple_metrics(
    questions: Sequence[QuestionRow], evidence: pl.DataFrame, encoder: Encoder | None = None, *, recalled: bool = False
) -> dict[str, Estimate]:
    """Means over questions, with Wilson intervals for hits.

    ``hit@1``, ``hit@10``: a gold answer, or another form of it, is head or tail of one of the first k triples.
    ``hit@1_included``, ``hit@10_included``: an end of one of them includes a gold answer, as whole words. A triple
    contains no verdict such as "yes", so these are 0 for questions with verdicts as options.
    ``answer_f1``: 2PR / (P + R), where P is the share of the triples that have a gold answer as an end, and R the share
    of the gold answers that are an end of a triple.
    ``answer_f1_included``: 2t / (2t + f + m) with t gold answers that include, or are included in, an end of a triple,
    as whole words, m others, and f distinct ends that match no gold answer. So do Ho and Nguyen count.
    ``triple_f1``: F1 of the triples against those of the gold paths, if the benchmark has paths.
    ``coverage``: share of the question's content words that the triples contain; ``coverage_all_words``: of all words.
    ``bertscore`` (with an encoder): mean similarity of question tokens to the nearest token of the triples.
    ``hit@1_with_recalled`` etc. (with ``recalled``): the same over all triples, including those recalled by the model.
    """
    items = evidence_by_question(evidence)
    all_triples = {question_id: [item for item in group if item.triple] for question_id, group in items.items()}
    triples = {question_id: [t for t in group if t.is_sourced] for question_id, group in all_triples.items()}
    texts = {question_id: [t.text for t in group] for question_id, group in triples.items()}
    values_by_name: dict[str, list[float]] = {}
    for question in questions:
        question_id = question["question_id"]
        scores = _gold_scores(question, triples.get(question_id, []))
        if recalled:
            all_scores = _gold_scores(question, all_triples.get(question_id, []))
            scores |= {f"{name}_with_recalled": value for name, value in all_scores.items()}
        for name, value in scores.items():
            values_by_name.setdefault(name, []).append(value)
    values_by_name["coverage"] = word_coverage(questions, texts)
    values_by_name["coverage_all_words"] = word_coverage(questions, texts, fillers=True)
    if encoder is not None and questions:
        values_by_name["bertscore"] = token_similarity(questions, texts, encoder)
    return {
        name: accuracy([value > 0 for value in values]) if name.startswith("hit@") else mean(values)
        for name, values in values_by_name.items()
        if values
    }


def _gold_scores(question: QuestionRow, evidence: Sequence[EvidenceItem]) -> dict[str, float]:
    """Hits and F1 of one question's triples, for the gold answers and paths that it has."""
    triples = [item.triple for item in evidence if item.triple]
    forms = _accepted_forms(question)
    scores = _answer_scores(triples, forms) if forms else {}
    gold = {fact for g in question["gold_evidence"] or [] if g["kind"] == "path" for fact in g["text"].split("; ")}
    if gold:
        matches = len({" ".join(t) for t in triples} & gold)
        scores["triple_f1"] = 2 * matches / (len(triples) + len(gold))
    return scores


def _accepted_forms(question: QuestionRow) -> list[set[str]]:
    """The normalised forms of each gold answer; of an option, its text."""
    texts = option_texts(question["task"], question["options"] or [])
    answers = [texts.get(gold, gold) for gold in question["gold"] or ()]
    aliases = question["gold_aliases"] or [[] for _ in answers]
    return [{normalise_answer(form) for form in (a, *others)} for a, others in zip(answers, aliases, strict=True)]


def _answer_scores(triples: Sequence[tuple[str, str, str]], forms: Sequence[set[str]]) -> dict[str, float]:
    """Hits and F1 of triples by the gold answers at their ends."""
    accepted = set().union(*forms)
    ends = [{normalise_answer(head), normalise_answer(tail)} for head, _, tail in triples]
    hit = [bool(pair & accepted) for pair in ends]
    included = [exact_match(triple[0], accepted) or exact_match(triple[2], accepted) for triple in triples]
    all_ends = set().union(*ends)
    recall = sum(bool(answer & all_ends) for answer in forms) / len(forms)
    precision = sum(hit) / len(hit) if hit else 0.0
    return {
        **{f"hit@{k}": float(any(hit[:k])) for k in (1, 10)},
        **{f"hit@{k}{INCLUDED_SUFFIX}": float(any(included[:k])) for k in (1, 10)},
        "answer_f1": 2 * precision * recall / (precision + recall) if recall else 0.0,
        f"answer_f1{INCLUDED_SUFFIX}": _included_f1(all_ends, forms),
    }


def _included_f1(ends: Set[str], forms: Sequence[Set[str]]) -> float:
    """F1 of distinct ends against gold answers; an end matches an answer if one of them includes the other."""
    n_matched = sum(any(_is_included(end, answer) for end in ends) for answer in forms)
    n_wrong = sum(not any(_is_included(end, answer) for answer in forms) for end in ends)
    return 2 * n_matched / (n_matched + n_wrong + len(forms))


def _is_included(end: str, answer: Set[str]) -> bool:
    """Whether a normalised end includes a form of an answer, or the form the end, as whole words."""
    words = f" {end} "
    return bool(end) and any(f" {form} " in words or words in f" {form} " for form in answer if form)


DEPTHS = (2, 5, 10, 100)
"""Ranks at which document recall is computed."""


def ranked_documents(evidence: pl.DataFrame, document_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Documents of each question's chunks, ranked by their best chunk."""
    rankings: dict[str, dict[str, None]] = {}
    chunks = evidence.filter(pl.col("source_kind") == "chunk").sort("question_id", "rank", "option")
    for question_id, chunk_id in chunks.select("question_id", "source_id").iter_rows():
        if chunk_id in document_of:
            rankings.setdefault(question_id, {})[document_of[chunk_id]] = None
    return {question: list(documents) for question, documents in rankings.items()}


def passage_values(
    questions: Sequence[QuestionRow], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, list[float]]:
    """Recall, nDCG and reciprocal rank per question with gold documents."""
    rankings = ranked_documents(evidence, document_of)
    pairs = [(q, {gold["source"] for gold in q["gold_evidence"]}) for q in questions if q["gold_evidence"]]
    gains = [(gains_of(rankings.get(q["question_id"], []), gold), len(gold)) for q, gold in pairs]
    values = {f"recall@{k}": [recall_at_k(g, k, n) for g, n in gains] for k in DEPTHS}
    values["ndcg@10"] = [ndcg_at_k(g, 10, n) for g, n in gains]
    values["mrr"] = [reciprocal_rank(g) for g, _ in gains]
    values["hit@1"] = [float(hit_at_k(g, 1)) for g, _ in gains]
    return values


def passage_metrics(
    questions: Sequence[QuestionRow], evidence: pl.DataFrame, document_of: Mapping[str, str]
) -> dict[str, Estimate]:
    """Means of :func:`passage_values`, recall of gold sentences, and word coverage."""
    values = passage_values(questions, evidence, document_of)
    metrics = {name: mean(numbers) for name, numbers in values.items() if name != "hit@1"}
    metrics["hit@1"] = accuracy([value > 0 for value in values["hit@1"]])
    return metrics | evidence_metrics([with_gold_sentences(q) for q in questions], evidence)


def with_gold_sentences(question: QuestionRow) -> QuestionRow:
    """The question with its gold sentences alone; no single chunk contains a whole gold document."""
    sentences = [gold for gold in question["gold_evidence"] if gold["kind"] == "sentence" and gold["text"]]
    return {**question, "gold_evidence": sentences}
