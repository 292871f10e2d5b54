"""Short answers asked again without their triples."""

from __future__ import annotations

from typing import Any

import polars as pl

from evidence_assets.experiment.answers.predictions import AnswersAgain, counterfactual_rows, prediction_rows
from evidence_assets.experiment.answers.short import AnswersShortly
from evidence_assets.experiment.stage import Before
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers
from evidence_assets_tests.experiment.test_short_answering import QUESTIONS, evidence
from evidence_assets_tests.lake_rows import stored
from evidence_assets_tests.systems.small_models import WordEncoder


def verdicts(answerer: AnswersAgain, predictions: pl.DataFrame) -> dict[str, dict[str, Any]]:
    rows = stored("counterfactuals", counterfactual_rows(answerer, predictions).rows)
    again = counterfactual_rows(answerer, predictions, Before(rows, stored("lineage_edges", [])))
    assert again.reused == rows.height and stored("counterfactuals", again.rows).equals(rows)
    return {row["question_id"]: row for row in rows.to_dicts()}


def test_a_short_answer_falls_without_its_triple_and_stands_with_it_alone() -> None:
    solver = ExtractiveShortAnswers(WordEncoder())
    facts = [("web", "made by", "spider"), ("pen", "used for", "ink")]
    rows = evidence(*(("q1", fact, "graph") for fact in facts), ("q2", ("milk", "made by", "cow"), "model"))
    made = prediction_rows(AnswersShortly(solver, QUESTIONS, rows), "s", QUESTIONS)
    answerer = AnswersShortly(solver, QUESTIONS, rows, used=stored("lineage_edges", made.lineage))
    found = verdicts(answerer, stored("predictions", made.rows))
    assert set(found) == {"q1"}, "what was not answered is not asked again"
    row = found["q1"]
    assert (row["without_cited"], row["only_cited"], row["cited"]) == ("insufficient", "spider", ["h1"])
    assert (row["necessary"], row["sufficient"]) == (True, True)
