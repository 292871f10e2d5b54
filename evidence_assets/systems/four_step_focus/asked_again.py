"""4StepFocus asked again without some edges of its knowledge base."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.asked_again import case_of, evidence_by_question
from evidence_assets.experiment.counterfactuals import CitedRow, Request
from evidence_assets.experiment.necessity import Case
from evidence_assets.experiment.selection import Asked
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.four_step_focus.system import FourStepFocus


class RankingAgain:
    """4StepFocus on a knowledge base without some edges: the answer is the node that ranks first.

    It rests on the edges by which that node satisfies the triplets. They are taken out of the knowledge base itself,
    so that another node, or the same one by its text alone, may come first; what is found in documents stays. Each
    request builds the rows of the base anew: for bases of thousands of edges, not of millions.
    """

    def __init__(self, system: FourStepFocus, questions: Sequence[Asked], evidence: pl.DataFrame) -> None:
        self._system, self._evidence = system, evidence_by_question(evidence)
        self._questions = {q.question_id: q for q in questions}
        self.version = system.version

    def case(self, prediction: dict[str, Any]) -> tuple[Case, list[CitedRow]]:
        """See :class:`AskedAgain`."""
        edges = [row for row in self._evidence.get(prediction["question_id"], []) if row["source_kind"] == "edge"]
        own = [row for row in edges if json.loads(row["why"])["answer"] == prediction["answer"]]
        return case_of(prediction["question_id"], edges, own)

    def input_of(self, case: Case) -> str:
        """See :class:`AskedAgain`."""
        return content_id(self._questions[case.question_id].text, case.evidence)

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        said = []
        for question_id, kept in requests:
            stay = set(kept)
            rows = [row for row in self._evidence.get(question_id, []) if row["source_kind"] == "edge"]
            taken = {row["source_id"] for row in rows if row["content_hash"] not in stay}
            (ranking,) = self._system.without(taken).rank([self._questions[question_id]])
            said.append(ranking.nodes[0].node_id if ranking.nodes else ranking.status)
        return said
