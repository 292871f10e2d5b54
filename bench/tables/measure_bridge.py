"""What evidence from outside a table is worth, requested only where the table says too little.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.measure_bridge

TabMCQ's questions (grade-school science) with their tables as published, and without the rows that have the answer,
and the 1,326 facts of OpenBookQA's book as outside knowledge. The table answers if the difference of its two highest
weights exceeds a threshold, which is chosen on the first half of the questions with both tables together. Otherwise the
5 facts nearest to question and option do. Outside facts stay evidence of their own. Differences to the table alone are
paired over the second half (95 %, bootstrap).
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.differences import format_difference
from bench.minilm import MiniLm
from bench.tables.measure_tables import VARIANTS, answer_question, locate_gold_cell, to_question
from evidence_assets import profiles
from evidence_assets.benchmarks.readers import read_pairs, read_passages, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.extractive.options import ExtractiveSolver
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.tables.cell_text import collect_words
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.ucret.system import collapse_tables

Floats = NDArray[np.floating]
K = 5


def without_answer(table: Table, question: QuestionRecord) -> Table:
    """The table without the gold row and other rows with all words of the correct option in a cell."""
    option = collect_words(question.options[question.labels.index(question.gold[0])])
    gold_row = locate_gold_cell(question)[0]
    rows = [
        row
        for number, row in enumerate(table.rows, 1)
        if number != gold_row and not any(option <= collect_words(cell) for cell in row)
    ]
    return replace(table, table_id=question.question_id, rows=tuple(rows))


def answer_from_tables(questions: list[QuestionRecord], tables: dict[str, Table]) -> tuple[Floats, Floats]:
    """Whether each question is answered correctly from its table, and the margin of the answer."""
    table_questions = [to_question(q) for q in questions]
    evidence = collapse_tables(table_questions, tables, VARIANTS["ucret"], MiniLm())
    results = [
        answer_question(q, e, tables[q.table_id or ""].caption) for q, e in zip(questions, evidence, strict=True)
    ]
    margins = [r.margin if len(r.choice.weights) > 1 else 0.0 for r in results]
    return np.array([r.is_right for r in results], float), np.array(margins)


def answer_from_facts(questions: list[QuestionRecord], facts: list[str]) -> Floats:
    """Whether each question is answered correctly from the facts nearest to question and option."""
    encoder = get_encoder(profiles.load().encoder)
    vectors = np.asarray(encoder.encode_sentences(facts))
    queries = encoder.encode_sentences([f"{q.text} {option}" for q in questions for option in q.options])
    nearest = iter([np.argsort(-(query @ vectors.T), kind="stable")[:K].tolist() for query in queries])
    items = [
        {label: tuple(EvidenceItem(str(r), "chunk", str(r), "", facts[r]) for r in next(nearest)) for label in q.labels}
        for q in questions
    ]
    tasks = [
        ExplainOption(q.text, n, o, evidence[n])
        for q, evidence in zip(questions, items, strict=True)
        for n, o in zip(q.labels, q.options, strict=True)
    ]
    solver = ExtractiveSolver(encoder)
    chains = iter([chain for chain in solver.explain(tasks) if isinstance(chain, Chain)])
    choices = solver.choose(
        [
            ChooseAnswer(q.text, q.labels, q.options, tuple(next(chains) for _ in q.labels), evidence)
            for q, evidence in zip(questions, items, strict=True)
        ]
    )
    right = [isinstance(c, Choice) and c.answer == q.gold[0] for c, q in zip(choices, questions, strict=True)]
    return np.array(right, float)


def main() -> None:
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", data / "tabmcq", "all")}
    questions = list(read_questions("tabmcq", data / "tabmcq", "all"))
    shorter = {q.question_id: without_answer(tables[q.table_id or ""], q) for q in questions}
    facts = [document.text for document in read_passages("obqa", data / "obqa", "dev")]
    outside = answer_from_facts(questions, facts)
    answers = {
        "whole tables": answer_from_tables(questions, tables),
        "without the answer": answer_from_tables([replace(q, table_id=q.question_id) for q in questions], shorter),
    }
    half = len(questions) // 2

    def bridged(right: Floats, margins: Floats, threshold: float) -> Floats:
        return np.where(margins > threshold, right, outside)

    candidates = sorted({0.0, *(round(float(m), 3) for _, margins in answers.values() for m in margins[:half])})
    threshold = max(candidates, key=lambda t: sum(bridged(*each, t)[:half].sum() for each in answers.values()))
    print(f"threshold {threshold}; {K} facts; outside alone, second half: {outside[half:].mean():.3f}")
    for name, (right, margins) in answers.items():
        for rule, limit in (("tuned", threshold), ("no margin", 0.0), ("always outside", np.inf)):
            new = bridged(right, margins, limit)[half:]
            d = paired_bootstrap(new, right[half:])
            requested, old = np.mean(margins[half:] <= limit), right[half:].mean()
            print(
                f"{name}, {rule}, n = {d.n}: requested for {requested:.1%}, accuracy {new.mean():.3f}"
                f" instead of {old:.3f}, {format_difference(d)}"
            )


if __name__ == "__main__":
    main()
