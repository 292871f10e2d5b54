"""Answers without the evidence that they rest on: who asks again, what is taken away, what is taken over."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import polars as pl

from evidence_assets.experiment.answers.chains import chain_rows, citation_rows
from evidence_assets.experiment.answers.options import OptionAnswerer
from evidence_assets.experiment.answers.predictions import CounterfactualCase, counterfactual_rows, prediction_rows
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, ExplainOption, Failure
from evidence_assets_tests.lake_rows import as_stored, prediction
from evidence_assets_tests.lake_rows import evidence as evidence_row


class Counting:
    """Supports an option by the number of its pieces of evidence, cites the first, and needs a lead to answer."""

    name, model_id, version = "counting", "counting", "1"

    def __init__(self) -> None:
        self.explained = 0

    def task_version(self, task: ExplainOption) -> str:
        return self.version

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        self.explained += len(tasks)
        return [
            Chain(
                t.hypothesis, (ChainStep("so", tuple(e.evidence_id for e in t.evidence[:1])),), float(len(t.evidence))
            )
            for t in tasks
        ]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        made: list[Choice | Failure] = []
        for task in tasks:
            sign = -1 if task.negated else 1
            ranked = sorted(task.chains, key=lambda c: (-sign * (c.support or 0), c.hypothesis))
            clear = ranked[0].support != ranked[1].support
            made.append(Choice(ranked[0].hypothesis if clear else None, (), "answered" if clear else "insufficient", 1))
        return made


def evidence(*rows: tuple[str, str, str]) -> pl.DataFrame:
    """(question, option, text) as rows; equal texts state the same fact."""
    made = [
        evidence_row(0, i, text, evidence_id=f"e{i}", question_id=question, option=option, source_id=text)
        | {"content_hash": content_id("evidence", "chunk", text, "", text)}
        for i, (question, option, text) in enumerate(rows)
    ]
    return as_stored("evidence", made)


def world(
    asked: list[Question], rows: pl.DataFrame, before: PreviousOutput | None = None
) -> tuple[dict[str, dict[str, object]], Counting, PreviousOutput, int]:
    solver = Counting()
    chains = as_stored("chains", chain_rows(solver, "s", asked, rows).rows)
    answerer = OptionAnswerer(solver, asked, rows, chains)
    predicted = prediction_rows(answerer, "s", asked)
    solver.explained = 0
    made = counterfactual_rows(answerer, as_stored("predictions", predicted.rows), before)
    table, lineage = as_stored("counterfactuals", made.rows), as_stored("lineage_edges", made.lineage)
    assert made.reused is not None
    return {row["question_id"]: row for row in table.to_dicts()}, solver, PreviousOutput(table, lineage), made.reused


PLAIN = Question("q", "b", "mcqa", "What?", ("x", "y"))


def test_what_was_shown_used_and_cited_are_told_apart() -> None:
    """Of what a chain was given it names the first, and something that it was never given; what it misquotes holds
    nothing.
    """
    rows = evidence(("q", "A", "one"), ("q", "A", "two"), ("q", "B", "three"))

    class Misquotes(Counting):
        def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
            chains = super().explain(tasks)
            return [
                Chain("B", (ChainStep("so", ("e2", "nowhere"), ("never said",)),)) if c.hypothesis == "B" else c
                for c in chains
                if isinstance(c, Chain)
            ]

    made = chain_rows(Misquotes(), "s", [PLAIN], rows, None)
    chains = as_stored("chains", made.rows)
    label = dict(chains.select("chain_id", "hypothesis").iter_rows())
    edges = pl.concat([as_stored("lineage_edges", m.lineage) for m in (made, citation_rows(chains, rows))])
    of_chains = edges.filter((pl.col("child_kind") == "chain") & (pl.col("parent_kind") == "evidence"))
    assert {
        (label[c], relation, e) for c, relation, e in of_chains.select("child_id", "relation", "parent_id").rows()
    } == {
        ("A", "used", "e0"),
        ("A", "cited", "e0"),
        ("A", "was_shown", "e1"),
        ("B", "used", "e2"),
    }


def test_an_answer_that_falls_without_its_only_evidence() -> None:
    found, _, _, _ = world([PLAIN], evidence(("q", "A", "fact")))
    assert (found["q"]["answer"], found["q"]["without_cited"], found["q"]["only_cited"]) == ("A", "insufficient", "A")
    assert (found["q"]["necessary"], found["q"]["sufficient"]) == (True, True)
    assert found["q"]["needed"] == found["q"]["cited"] != []


def test_a_fact_leaves_every_option_that_it_was_picked_for() -> None:
    rows = evidence(("q", "A", "shared"), ("q", "A", "own"), ("q", "B", "shared"))
    found, _, _, _ = world([PLAIN], rows)
    assert found["q"]["without_cited"] == "A" and found["q"]["only_cited"] == "insufficient"


def test_redundant_citations_are_needed_together_but_not_each() -> None:
    def again(requests: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
        assert len(set(requests)) == len(requests), "no request twice"
        return ["A" if facts else "insufficient" for _, facts in requests]

    answerer: Any = SimpleNamespace(version="1", answer_from_facts=again, facts_input_hash=lambda case: "")
    cases = {"q0": CounterfactualCase("q0", ("a", "b"), ("a", "b")), "q1": CounterfactualCase("q1", ("a",), ())}
    answerer.case = lambda prediction: (cases[prediction["question_id"]], [])
    rows = as_stored("predictions", [prediction(0, "A"), prediction(1, "A")])
    made = as_stored("counterfactuals", counterfactual_rows(answerer, rows).rows).sort("question_id").to_dicts()
    assert [(row["necessary"], row["sufficient"], row["needed"]) for row in made] == [
        (True, True, []),
        (None, None, []),
    ], "nothing cited gives no verdict"


def test_the_exception_rests_on_what_the_others_cite() -> None:
    asked = Question("q", "b", "mcqa", "Which not?", ("x", "y"), negated=True)
    found, _, _, _ = world([asked], evidence(("q", "A", "fact")))
    assert (found["q"]["answer"], found["q"]["without_cited"], found["q"]["necessary"]) == ("B", "insufficient", True)


def test_what_was_asked_before_is_taken_over_and_other_evidence_asks_anew() -> None:
    rows = evidence(("q", "A", "fact"))
    first, _, kept, _ = world([PLAIN], rows)
    again, solver, _, reused = world([PLAIN], rows, kept)
    assert again == first and reused == 1 and solver.explained == 0
    _, solver, _, reused = world([PLAIN], evidence(("q", "A", "another")), kept)
    assert reused == 0 and solver.explained > 0
    assert set(kept.lineage["parent_kind"]) == {"prediction", "evidence"}


def test_what_is_taken_over_where_only_scores_moved_has_the_lineage_of_what_is_made_anew() -> None:
    rows, solver = evidence(("q", "A", "a"), ("q", "B", "b"), ("q", "B", "c")), Counting()
    moved = rows.with_columns(score=pl.lit(0.5))
    first = chain_rows(solver, "s", [PLAIN], rows)
    before = PreviousOutput(as_stored("chains", first.rows), as_stored("lineage_edges", first.lineage))
    again = chain_rows(solver, "s", [PLAIN], moved, before)
    anew = chain_rows(solver, "s", [PLAIN], moved)
    assert again.reused == 2
    assert as_stored("lineage_edges", again.lineage).equals(as_stored("lineage_edges", anew.lineage))
