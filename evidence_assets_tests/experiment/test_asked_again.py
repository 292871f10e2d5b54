"""Systems without chains asked again: ranked nodes on a base without edges, short answers without triples."""

from __future__ import annotations

from typing import Any

import polars as pl

from evidence_assets.experiment.answers.predictions import Answerer, counterfactual_rows, prediction_rows
from evidence_assets.experiment.answers.short import AnswersShortly
from evidence_assets.experiment.evidence.selection import Asked, evidence_rows
from evidence_assets.experiment.stage import Before
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers
from evidence_assets.systems.four_step_focus.ranking import FourStepFocus, RanksNodes
from evidence_assets_tests.experiment.test_short_answering import QUESTIONS, evidence
from evidence_assets_tests.lake_rows import stored
from evidence_assets_tests.systems.four_step_focus.test_system import BASE, PARSER, focus
from evidence_assets_tests.systems.small_models import WordEncoder


def verdicts(answerer: Answerer, predictions: pl.DataFrame) -> dict[str, dict[str, Any]]:
    rows = stored("counterfactuals", counterfactual_rows(answerer, predictions).rows)
    again = counterfactual_rows(answerer, predictions, Before(rows, stored("lineage_edges", [])))
    assert again.reused == rows.height and stored("counterfactuals", again.rows).equals(rows)
    return {row["question_id"]: row for row in rows.to_dicts()}


def ranked(system: FourStepFocus, *texts: str) -> dict[str, dict[str, Any]]:
    asked = [Asked(f"q{i}", "own", "skb_search", text) for i, text in enumerate(texts)]
    found = stored("evidence", evidence_rows("focus", system, asked).rows)
    answerer = RanksNodes(system, "form_parser", "m", asked, found)
    predictions = prediction_rows(answerer, "focus", asked).rows
    return verdicts(answerer, stored("predictions", predictions))


def test_a_node_falls_behind_where_its_edges_are_taken_and_leads_with_them_alone() -> None:
    found = ranked(focus(PARSER), "Name a remedy for fever.", "Name a remedy for gout.")
    for row, answers in zip(found.values(), ({"n0", "n1"}, {"n1", "n2"}), strict=True):
        assert row["answer"] in answers and row["without_cited"] in answers - {row["answer"]}
        assert (row["necessary"], row["sufficient"]) == (True, True)
        assert row["only_cited"] == row["answer"] and row["needed"] == row["cited"] != []


def test_each_of_two_edges_is_needed_and_edges_of_other_answers_are_not() -> None:
    row = ranked(focus(PARSER), "Which drug is at once a remedy for fever and a remedy for gout?")["q0"]
    assert row["answer"] == "n1" and len(row["cited"]) == 2 and row["necessary"]
    assert set(row["needed"]) == set(row["cited"])


def test_a_node_found_by_its_text_alone_rests_on_no_edge() -> None:
    row = ranked(focus(), "Which drug is mild?")["q0"]
    assert row["cited"] == [] and row["necessary"] is None and row["without_cited"] is None


def test_the_system_itself_keeps_its_graph() -> None:
    system = focus(PARSER)
    ranked(system, "Name a remedy for fever.")
    assert system.graph is BASE


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
