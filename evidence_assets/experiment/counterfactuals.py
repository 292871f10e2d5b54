"""Would an answer stand without the evidence it cites, and does that evidence alone give it?

Belongs here: the rows of what is said with less evidence, whoever answers. What necessary and sufficient mean stands in
`experiment.necessity`; how each kind of system is asked again, and what its answers rest on, in `experiment.asked_again`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import polars as pl

from evidence_assets.experiment.necessity import Case, check_batch
from evidence_assets.experiment.selection import Rows, take_over
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import USED, edge

VERSION = "2"

Request = tuple[str, tuple[str, ...]]
"""A question, and the facts (content hashes of evidence) that it is answered from."""
CitedRow = tuple[str, str]
"""Id and content hash of a row of evidence that an answer rests on."""


class AskedAgain(Protocol):
    """A system that answers its questions again from a part of their evidence.

    Evidence is taken away by what it says, so that a fact that was picked for several options leaves all of them.
    """

    @property
    def version(self) -> str:
        """Who answers, as far as it decides an answer."""
        ...

    def case(self, prediction: dict[str, Any]) -> tuple[Case, list[CitedRow]]:
        """All facts of a question and those that its answer rests on, with the rows that state the latter."""
        ...

    def input_of(self, case: Case) -> str:
        """Hash of everything that an answer from all of the facts depends on."""
        ...

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        """The answer to each question from these facts alone, or the status in place of one."""
        ...


def counterfactual_rows(
    system: AskedAgain, predictions: pl.DataFrame, previous: pl.DataFrame, lineage: pl.DataFrame
) -> Rows:
    """One row an answered question; what was asked before in the same way is taken over."""
    answered = predictions.filter((pl.col("status") == "answered") & pl.col("answer").is_not_null()).sort("question_id")
    cases: dict[str, tuple[Case, list[CitedRow]]] = {}
    wanted: dict[str, str] = {}
    for row in answered.iter_rows(named=True):
        case, cited = system.case(row)
        cases[case.question_id] = case, cited
        wanted[case.question_id] = content_id(
            VERSION, row["content_hash"], system.input_of(case), case.cited, system.version
        )
    made, settled = take_over(previous, lineage, wanted, by="question_id", row_id="counterfactual_id")
    todo = [row for row in answered.iter_rows(named=True) if row["question_id"] not in settled]
    said: dict[Request, str] = {}

    def answer(requests: Sequence[Request]) -> list[str]:
        labels = system(requests) if requests else []
        said.update(zip(requests, labels, strict=True))
        return labels

    verdicts = check_batch(answer, [cases[row["question_id"]][0] for row in todo])
    for row, verdict in zip(todo, verdicts, strict=True):
        key, (case, cited) = row["question_id"], cases[row["question_id"]]
        resting = set(case.cited)
        rest = tuple(fact for fact in case.evidence if fact not in resting)
        alone = tuple(fact for fact in case.evidence if fact in resting)
        found = {
            "answer": row["answer"],
            "cited": list(case.cited),
            "without_cited": said[key, rest] if case.cited else None,
            "only_cited": said[key, alone] if case.cited else None,
            "necessary": verdict.necessary,
            "sufficient": verdict.sufficient,
            "needed": [fact for fact, needed in verdict.needed.items() if needed],
        }
        identifier = content_id("counterfactual", row["prediction_id"])
        made.rows.append(
            {
                "counterfactual_id": identifier,
                **{name: row[name] for name in ("prediction_id", "question_id", "benchmark", "selector", "reasoner", "model_id")},
                **found,
                "content_hash": content_id("counterfactual", found),
                "input_hash": wanted[key],
            }
        )  # fmt: skip
        made.lineage.append(
            edge("counterfactual", identifier, USED, "prediction", row["prediction_id"], row["content_hash"])
        )
        made.lineage += [
            edge("counterfactual", identifier, USED, "evidence", evidence_id, content_hash, rank)
            for rank, (evidence_id, content_hash) in enumerate(dict.fromkeys(cited), 1)
        ]
    citing = [row for row in made.rows if row["necessary"] is not None]
    made.metadata = {
        "answers_that_cite": len(citing),
        "necessity": sum(row["necessary"] for row in citing) / len(citing) if citing else None,
        "sufficiency": sum(row["sufficient"] for row in citing) / len(citing) if citing else None,
    }
    return made
