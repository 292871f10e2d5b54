"""Predictions of short answers and what retrieval is worth: model knowledge is no source, failures end as rows."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.answers.chains import answer_citation_rows
from evidence_assets.experiment.answers.predictions import CounterfactualAnswerer, counterfactual_rows, prediction_rows
from evidence_assets.experiment.answers.short_answers import ShortAnswerer
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.scores.gold_evidence import evidence_recall
from evidence_assets.experiment.scores.retrieval_scores import retrieval_metrics
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.lineage import edge
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers, PromptedShortAnswers
from evidence_assets_tests.lake_rows import as_stored, prediction
from evidence_assets_tests.lake_rows import evidence as evidence_row
from evidence_assets_tests.systems.small_models import ScriptedGenerator, WordEncoder

QUESTIONS = [
    Question("q1", "b", "kgqa", "What is a web made by?"),
    Question("q2", "b", "kgqa", "What is milk made by?"),
]


def evidence(*rows: tuple[str, tuple[str, str, str], str]) -> pl.DataFrame:
    """Rows of evidence from (question, triple, origin)."""
    made = [
        evidence_row(0, i, " ".join(triple), evidence_id=f"e{i}", question_id=question, option="", kind="triple")
        | {"source_kind": "edge", "source_id": f"edge{i}", "locator": "", "content_hash": f"h{i}"}
        | {"why": json.dumps({"triple": triple, "origin": origin})}
        for i, (question, triple, origin) in enumerate(rows, 1)
    ]
    return as_stored("evidence", made)


FOUND = evidence(("q1", ("web", "made by", "spider"), "graph"), ("q2", ("milk", "made by", "cow"), "model"))


def predicted(
    found: pl.DataFrame = FOUND, before: StageOutput | None = None, failed: dict[str, str] | None = None
) -> StageOutput:
    there = None
    if before is not None and before.lineage is not None:
        there = PreviousOutput(as_stored("predictions", before.rows), as_stored("lineage_edges", before.lineage))
    answerer = ShortAnswerer(ExtractiveShortAnswers(WordEncoder()), QUESTIONS, found, errors=failed)
    return prediction_rows(answerer, "s", QUESTIONS, there)


def by_question(made: StageOutput) -> dict[str, dict[str, Any]]:
    return {row["question_id"]: row for row in as_stored("predictions", made.rows).to_dicts()}


def test_answers_rest_on_the_evidence_that_they_used_and_model_knowledge_gives_none() -> None:
    made = predicted()
    rows = by_question(made)
    assert (rows["q1"]["answer"], rows["q1"]["status"], rows["q1"]["reasoner"]) == ("spider", "answered", "extractive")
    assert (rows["q2"]["answer"], rows["q2"]["status"]) == (None, "insufficient")
    edges = as_stored("lineage_edges", made.lineage).filter(pl.col("parent_kind") == "evidence")
    assert set(edges.select("child_id", "relation", "parent_id", "parent_version").rows()) == {
        (rows["q1"]["prediction_id"], "used", "e1", "h1"),
        (rows["q2"]["prediction_id"], "was_shown", "e2", "h2"),
    }


def by_model(reply: str, found: pl.DataFrame) -> dict[str, set[tuple[str, str]]]:
    """What of the evidence each question was shown, used and cites where a language model replies this
    to all of them.
    """
    model = LanguageModel(ScriptedGenerator(lambda _: reply))
    made = prediction_rows(ShortAnswerer(PromptedShortAnswers(model), QUESTIONS, found), "s", QUESTIONS, None)
    rows, lineage = as_stored("predictions", made.rows), as_stored("lineage_edges", made.lineage)
    cited = answer_citation_rows(rows, lineage, found, {}).lineage
    asked = {row["prediction_id"]: row["question_id"] for row in rows.to_dicts()}
    related: dict[str, set[tuple[str, str]]] = {question: set() for question in asked.values()}
    for told in pl.concat([lineage, as_stored("lineage_edges", cited)]).to_dicts():
        if told["child_kind"] == "prediction" and told["parent_kind"] == "evidence":
            related[asked[told["child_id"]]].add((told["relation"], told["parent_id"]))
    return related


def test_an_answer_cites_what_it_stands_in_and_n_a_uses_nothing() -> None:
    two = evidence(
        ("q1", ("web", "made by", "spider"), "graph"),
        ("q1", ("web", "found at", "attic"), "graph"),
        ("q2", ("milk", "made by", "spider"), "model"),
    )
    said = by_model("A spider.", two)
    assert said["q1"] == {("used", "e1"), ("used", "e2"), ("cited", "e1")}
    assert said["q2"] == {("used", "e3")}, "what a model recalled is no source to cite"
    assert by_model("N/A", two) == {"q1": {("was_shown", "e1"), ("was_shown", "e2")}, "q2": {("was_shown", "e3")}}
    texts = two.with_columns(pl.lit("chunk").alias("kind"), pl.lit(None, dtype=pl.String).alias("why"))
    assert by_model("n/a", texts) == {"q1": {("was_shown", "e1"), ("was_shown", "e2")}, "q2": {("was_shown", "e3")}}
    assert by_model("cow", texts)["q1"] == {("was_shown", "e1"), ("was_shown", "e2")}, "it stands in no text"


def test_a_node_is_cited_by_its_name_and_what_holds_it_nowhere_is_misquoted() -> None:
    found = evidence(("q1", ("web", "made by", "spider"), "graph"))
    rows = as_stored("predictions", [prediction(1, "base:7"), prediction(2, "base:9")])
    edges = [edge("prediction", f"p-s-{n}", "used", "evidence", "e1", "h1", 1) for n in (1, 2)]
    used = as_stored("lineage_edges", edges)
    made = answer_citation_rows(rows, used, found, {"base:7": "Spider", "base:9": "wasp"})
    assert [(r["chain_id"], r["quoted"], r["verdict"]) for r in as_stored("citations", made.rows).to_dicts()] == [
        ("p-s-1", "Spider", "verified"),
        ("p-s-2", "wasp", "misquoted"),
    ]
    cited = [e for e in as_stored("lineage_edges", made.lineage).to_dicts() if e["relation"] == "cited"]
    assert [(e["child_id"], e["parent_id"]) for e in cited] == [("p-s-1", "e1")]


def test_a_question_that_could_not_be_prepared_fails_alone_and_is_done_again() -> None:
    made = predicted(failed={"q1": "no background knowledge: prose"})
    rows = by_question(made)
    assert (rows["q1"]["status"], rows["q1"]["error"]) == ("failed", "no background knowledge: prose")
    assert rows["q2"]["status"] == "insufficient"
    again = predicted(before=made)
    assert again.reused == 1
    assert by_question(again)["q1"]["status"] == "answered"


def gold(question: str, text: str, answers: list[str], path: str) -> dict[str, Any]:
    evidence_ = [{"kind": "path", "source": "graph", "locator": "[]", "text": path, "group": ""}] if path else []
    return {
        "question_id": question,
        "task": "kgqa",
        "text": text,
        "options": [],
        "gold": answers,
        "gold_aliases": [],
        "gold_evidence": evidence_,
    }


def test_retrieval_counts_sources_only() -> None:
    asked = [
        gold("q1", "What is a web made by?", ["spider"], "web made by spider"),
        gold("q2", "What is milk made by?", ["cow"], "milk made by cow"),
        gold("q3", "Unanswerable?", [], ""),
    ]
    metrics = retrieval_metrics(asked, FOUND)
    assert {name: (e.value, e.n) for name, e in metrics.items() if name != "coverage"} == {
        "hit@1": (0.5, 2),
        "hit@10": (0.5, 2),
        "answer_f1": (0.5, 2),
        "triple_f1": (0.5, 2),
    }
    assert metrics["coverage"].n == 3
    assert evidence_recall(asked, FOUND) == [1.0, 0.0]


def test_f1_by_answers_is_that_of_the_triples_with_one_and_of_the_answers_that_are_an_end() -> None:
    facts = [("web", "made by", "spider"), ("web", "found at", "attic"), ("ant", "mends", "web"), ("dew", "on", "web")]
    asked = [gold("q1", "Who makes webs?", ["spider", "ant", "bee"], "")]
    found = retrieval_metrics(asked, evidence(*(("q1", fact, "graph") for fact in facts)))["answer_f1"].value
    precision, recall = 2 / 4, 2 / 3
    assert found == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_hit_of_a_question_with_options_is_the_text_of_a_right_one() -> None:
    asked = [{**gold("q1", "What is a web made by?", ["B"], ""), "task": "mcqa", "options": ["cow", "spider"]}]
    assert retrieval_metrics(asked, FOUND)["hit@1"].value == 1.0
    assert retrieval_metrics([{**asked[0], "gold": ["A"]}], FOUND)["hit@10"].value == 0.0


def verdicts(answerer: CounterfactualAnswerer, predictions: pl.DataFrame) -> dict[str, dict[str, Any]]:
    rows = as_stored("counterfactuals", counterfactual_rows(answerer, predictions).rows)
    again = counterfactual_rows(answerer, predictions, PreviousOutput(rows, as_stored("lineage_edges", [])))
    assert again.reused == rows.height and as_stored("counterfactuals", again.rows).equals(rows)
    return {row["question_id"]: row for row in rows.to_dicts()}


def test_a_short_answer_falls_without_its_triple_and_stands_with_it_alone() -> None:
    solver = ExtractiveShortAnswers(WordEncoder())
    facts = [("web", "made by", "spider"), ("pen", "used for", "ink")]
    rows = evidence(*(("q1", fact, "graph") for fact in facts), ("q2", ("milk", "made by", "cow"), "model"))
    made = prediction_rows(ShortAnswerer(solver, QUESTIONS, rows), "s", QUESTIONS)
    answerer = ShortAnswerer(solver, QUESTIONS, rows, lineage=as_stored("lineage_edges", made.lineage))
    found = verdicts(answerer, as_stored("predictions", made.rows))
    assert set(found) == {"q1"}, "what was not answered is not asked again"
    row = found["q1"]
    assert (row["without_cited"], row["only_cited"], row["cited"]) == ("insufficient", "spider", ["h1"])
    assert (row["necessary"], row["sufficient"]) == (True, True)
