"""Counterfactual answers, their evidence subsets and the reuse of rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.answers.chains import chain_rows, citation_rows, ids_cited_by_chains
from evidence_assets.experiment.answers.one_call import OneCallAnswerer
from evidence_assets.experiment.answers.options import OptionAnswerer
from evidence_assets.experiment.answers.predictions import counterfactual_rows, prediction_rows
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.experiment.stages import check_failed_share, check_incomplete_share
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.published_prompts import STYLES
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import (
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    ExplainOption,
    Failure,
    Omission,
    Solver,
)
from evidence_assets_tests.lake_rows import as_stored, prediction
from evidence_assets_tests.lake_rows import evidence as evidence_row
from evidence_assets_tests.systems.small_models import ScriptedGenerator, WordEncoder


class CountingSolver:
    """Supports an option by its number of evidence rows, cites the first, and abstains on ties."""

    name, model_id, version = "counting", "counting", "1"

    def __init__(self) -> None:
        self.n_explained = 0

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        self.n_explained += len(tasks)
        return [
            Chain(
                t.hypothesis, (ChainStep("so", tuple(e.evidence_id for e in t.evidence[:1])),), float(len(t.evidence))
            )
            for t in tasks
        ]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        choices: list[Choice | Failure] = []
        for task in tasks:
            sign = -1 if task.question.negated else 1
            ranking = sorted(task.chains, key=lambda c: (-sign * (c.support or 0), c.hypothesis))
            has_lead = ranking[0].support != ranking[1].support
            choices.append(
                Choice(ranking[0].hypothesis if has_lead else None, (), "answered" if has_lead else "insufficient")
            )
        return choices


def evidence(*rows: tuple[str, str, str]) -> pl.DataFrame:
    """Evidence rows from (question, option, text); equal texts are the same fact."""
    items = [
        evidence_row(0, i, text, evidence_id=f"e{i}", question_id=question, option=option, source_id=text)
        | {"content_hash": content_id("evidence", "chunk", text, "", text)}
        for i, (question, option, text) in enumerate(rows)
    ]
    return as_stored("evidence", items)


def answer(solver: Solver, questions: list[Question], rows: pl.DataFrame) -> tuple[pl.DataFrame, OptionAnswerer]:
    """The chains of these questions, and their answerer."""
    chains = as_stored("chains", chain_rows(solver, "s", questions, rows).rows)
    return chains, OptionAnswerer(solver, rows, chains)


def run_counterfactuals(
    questions: list[Question], rows: pl.DataFrame, previous: PreviousOutput | None = None
) -> tuple[dict[str, dict[str, object]], CountingSolver, PreviousOutput, int]:
    solver, by_id = CountingSolver(), {q.question_id: q for q in questions}
    chains, answerer = answer(solver, questions, rows)
    predictions = as_stored("predictions", prediction_rows(answerer, "s", questions).rows)
    cited_ids = ids_cited_by_chains(predictions, chains, {q.question_id for q in questions if q.negated})
    solver.n_explained = 0

    def answer_again(facts: Mapping[str, frozenset[str]]) -> dict[str, str]:
        part = rows.filter(pl.col("content_hash").is_in([*frozenset().union(*facts.values())]))
        selected = [by_id[question_id] for question_id in facts]
        answers = answer(solver, selected, part)[1].answer(selected)
        return {q.question_id: a.answer or a.status for q, a in zip(selected, answers, strict=True)}

    output = counterfactual_rows(predictions, rows, cited_ids, answer_again, solver.version, previous)
    table, lineage = as_stored("counterfactuals", output.rows), as_stored("lineage_edges", output.lineage)
    assert output.reused is not None
    return {row["question_id"]: row for row in table.to_dicts()}, solver, PreviousOutput(table, lineage), output.reused


PLAIN = Question("q", "b", "mcqa", "What?", ("x", "y"))


def test_a_solver_does_not_see_facts_that_are_far_from_the_question() -> None:
    tasks: dict[str, ChooseAnswer] = {}

    class WatchingSolver(CountingSolver):
        def choose(self, choices: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
            tasks.update({task.question.question_id: task for task in choices})
            return [Choice("A", (), "answered") for _ in choices]

    rows = evidence(("near", "A", "dogs bark"), ("near", "B", "boats sink"), ("far", "A", "boats sink"))
    questions = [Question(name, "b", "mcqa", "dogs bark", ("x", "y")) for name in ("near", "far", "without")]
    answerer = OptionAnswerer(
        WatchingSolver(), rows, as_stored("chains", []), reads_chains=False, encoder=WordEncoder()
    )
    output = prediction_rows(answerer, "s", questions)
    assert (tasks["near"].closeness, tasks["without"].closeness) == (pytest.approx(1.0), 1.0)
    assert {name: len(task.facts) for name, task in tasks.items()} == {"near": 2, "far": 0, "without": 0}
    used = as_stored("lineage_edges", output.lineage).filter(pl.col("parent_kind") == "evidence")["parent_id"]
    assert sorted(used) == ["e0", "e1"], "a fact that the solver does not see is not used"


def test_lineage_distinguishes_shown_used_and_cited_evidence() -> None:
    """The chain of A cites its first row; that of B misquotes one row and cites an unknown one."""
    rows = evidence(("q", "A", "one"), ("q", "A", "two"), ("q", "B", "three"))

    class MisquotingSolver(CountingSolver):
        def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
            chains = super().explain(tasks)
            return [
                Chain("B", (ChainStep("so", ("e2", "nowhere"), ("never said",)),)) if c.hypothesis == "B" else c
                for c in chains
                if isinstance(c, Chain)
            ]

    output = chain_rows(MisquotingSolver(), "s", [PLAIN], rows, None)
    chains = as_stored("chains", output.rows)
    label = dict(chains.select("chain_id", "hypothesis").iter_rows())
    edges = pl.concat([as_stored("lineage_edges", each.lineage) for each in (output, citation_rows(chains, rows))])
    of_chains = edges.filter((pl.col("child_kind") == "chain") & (pl.col("parent_kind") == "evidence"))
    assert {
        (label[c], relation, e) for c, relation, e in of_chains.select("child_id", "relation", "parent_id").rows()
    } == {("A", "used", "e0"), ("A", "cited", "e0"), ("A", "was_shown", "e1"), ("B", "used", "e2")}


def test_an_answer_with_one_fact_needs_that_fact() -> None:
    row = run_counterfactuals([PLAIN], evidence(("q", "A", "fact")))[0]["q"]
    assert (row["answer"], row["without_cited"], row["only_cited"]) == ("A", "insufficient", "A")
    assert (row["necessary"], row["sufficient"]) == (True, True) and row["cited"]


def test_removing_a_fact_removes_it_from_every_option() -> None:
    rows = evidence(("q", "A", "shared"), ("q", "A", "only A"), ("q", "B", "shared"))
    rows_by_question, _, _, _ = run_counterfactuals([PLAIN], rows)
    assert rows_by_question["q"]["without_cited"] == "A" and rows_by_question["q"]["only_cited"] == "insufficient"


def test_an_answer_without_citations_has_no_verdict() -> None:
    predictions = as_stored("predictions", [prediction(1, "A")])
    output = counterfactual_rows(predictions, evidence(("q1", "A", "c")), {}, lambda facts: {}, "1")
    assert as_stored("counterfactuals", output.rows).select("necessary", "sufficient").rows() == [(None, None)]


def test_failed_and_incomplete_answers_are_reported_above_a_twentieth() -> None:
    rows = as_stored("predictions", [prediction(n, "A") for n in range(19)])
    failed = as_stored("predictions", [prediction(n, None, status="failed", error="no reply") for n in (19, 20)])
    lacks = [{"kind": "missing", "part": "explanation of B", "reason": "cut"}]
    incomplete = as_stored("predictions", [prediction(n, "A", omissions=lacks) for n in (19, 20)])
    assert check_failed_share(pl.concat([rows, failed[:1]])) == check_incomplete_share(rows) == []
    (problem,) = check_failed_share(pl.concat([rows, failed]))
    assert problem.startswith("2 of 21 rows failed") and "no reply" in problem
    (problem,) = check_incomplete_share(pl.concat([rows, incomplete]))
    assert problem.startswith("2 of 21 predictions are incomplete: {'missing': 2}") and "explanation of B" in problem


def test_an_exception_depends_on_the_citations_of_the_other_options() -> None:
    question = Question("q", "b", "mcqa", "Which not?", ("x", "y"), negated=True)
    row = run_counterfactuals([question], evidence(("q", "A", "fact")))[0]["q"]
    assert (row["answer"], row["without_cited"], row["necessary"]) == ("B", "insufficient", True)


def test_unchanged_rows_are_reused_and_changed_evidence_is_answered_again() -> None:
    rows = evidence(("q", "A", "fact"))
    first, _, previous, _ = run_counterfactuals([PLAIN], rows)
    second, solver, _, reused = run_counterfactuals([PLAIN], rows, previous)
    assert second == first and reused == 1 and solver.n_explained == 0
    _, solver, _, reused = run_counterfactuals([PLAIN], evidence(("q", "A", "another")), previous)
    assert reused == 0 and solver.n_explained > 0
    assert set(previous.lineage["parent_kind"]) == {"prediction", "evidence"}


def test_reused_chains_have_the_lineage_of_new_ones_when_only_scores_change() -> None:
    rows, solver = evidence(("q", "A", "a"), ("q", "B", "b"), ("q", "B", "c")), CountingSolver()
    rescored = rows.with_columns(score=pl.lit(0.5))
    first = chain_rows(solver, "s", [PLAIN], rows)
    previous = PreviousOutput(as_stored("chains", first.rows), as_stored("lineage_edges", first.lineage))
    reused = chain_rows(solver, "s", [PLAIN], rescored, previous)
    computed = chain_rows(solver, "s", [PLAIN], rescored)
    assert reused.reused == 2
    assert as_stored("lineage_edges", reused.lineage).equals(as_stored("lineage_edges", computed.lineage))


class PartialSolver(CountingSolver):
    """Cannot explain some options, and is cut off at others; counts its choices."""

    def __init__(self, failed: str = "", cut: str = "") -> None:
        super().__init__()
        self.failed, self.cut, self.choices = failed, cut, list[ChooseAnswer]()

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        end = (Omission("cut", "end", "the reply ends after 9 tokens"),)
        return [
            Failure("prose")
            if t.hypothesis in self.failed
            else Chain(t.hypothesis, (ChainStep("so"),), 1.0, omissions=end if t.hypothesis in self.cut else ())
            for t in tasks
        ]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        self.choices += tasks
        return [Choice(task.chains[0].hypothesis, (), "answered") for task in tasks]


def predict(solver: PartialSolver, question: Question = PLAIN) -> dict[str, Any]:
    _, answerer = answer(solver, [question], evidence(("q", "A", "fact")))
    return dict(as_stored("predictions", prediction_rows(answerer, "s", [question]).rows).row(0, named=True))


def test_missing_and_cut_explanations_are_counted_on_the_prediction() -> None:
    row = predict(PartialSolver(failed="A", cut="B"))
    assert (row["answer"], row["status"]) == ("B", "answered")
    assert row["omissions"] == [
        {"kind": "missing", "part": "explanation of A", "reason": "prose"},
        {"kind": "cut", "part": "explanation of B: end", "reason": "the reply ends after 9 tokens"},
    ]
    assert predict(PartialSolver())["omissions"] is None


def test_without_any_explanation_the_question_fails_and_nothing_else_is_asked() -> None:
    solver = PartialSolver(failed="AB")
    row = predict(solver)
    assert (row["status"], row["error"]) == ("failed", "no option has an explanation: prose")
    assert solver.choices == [] and len(row["omissions"]) == 2


def test_a_table_without_cells_is_counted() -> None:
    claim = Question("q", "b", "table_qa", "Is it?", ("x", "y"), table_id="t")
    assert [(each["kind"], each["part"]) for each in predict(PartialSolver(), claim)["omissions"]] == [
        ("missing", "cells")
    ]


@pytest.mark.parametrize(
    ("reply", "finish_reason", "omission"),
    [
        ("Answer: A\nExplanation: It is so because", "length", ("cut", "explanation: end")),
        ("Answer: A", "stop", ("missing", "explanation: text")),
    ],
)
def test_a_truncated_or_missing_explanation_is_counted_on_its_prediction(
    reply: str, finish_reason: str, omission: tuple[str, str]
) -> None:
    task, rows = STYLES["passages"].answer, evidence(("q", "A", "fact"))
    assert task is not None
    model = LanguageModel(ScriptedGenerator(reply, finish_reason))
    chains = as_stored("chains", OneCallAnswerer(model, task, rows).chains("s", [PLAIN]).rows)
    answerer = OneCallAnswerer(model, task, rows, chains)
    row = as_stored("predictions", prediction_rows(answerer, "s", [PLAIN]).rows).row(0, named=True)
    assert (row["answer"], row["status"]) == ("A", "answered")
    assert [(each["kind"], each["part"]) for each in row["omissions"]] == [omission]


def test_an_answer_of_one_call_cites_evidence_of_any_option() -> None:
    task, rows = STYLES["passages"].answer, evidence(("q", "B", "fact"))
    assert task is not None
    model = LanguageModel(ScriptedGenerator("Answer: A\nExplanation: [Passage 1] leads there."))
    chains = as_stored("chains", OneCallAnswerer(model, task, rows).chains("s", [PLAIN]).rows)
    assert chains.select("hypothesis", "question_id").rows() == [("A", "q")], "one chain for the question"
    for whole_question, verdict in ((True, "verified"), (False, "absent")):
        citations = as_stored("citations", citation_rows(chains, rows, whole_question=whole_question).rows)
        assert citations["verdict"].to_list() == [verdict]
