"""4StepFocus as an answerer: the node that ranks first, with the edges and passages that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.answers import (
    Answer,
    CitedRow,
    Request,
    UsedRow,
    case_of,
    evidence_by_question,
    hashes_of,
    used_evidence,
)
from evidence_assets.experiment.necessity import Case
from evidence_assets.experiment.selection import Asked, why_of
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.four_step_focus.system import FourStepFocus


class RanksNodes:
    """Nodes best first; supported are those that satisfy the triplets.

    The best node is among what an answer used, so that its name stands beside its id wherever the answer is traced.
    Asked again without some edges, these are taken out of the knowledge base itself; what is found in documents stays.
    Each request builds the rows of the base anew: for bases of thousands of edges, not of millions.
    """

    def __init__(
        self, system: FourStepFocus, reasoner: str, model_id: str, questions: Sequence[Asked], evidence: pl.DataFrame
    ) -> None:
        self._system, self._evidence = system, evidence_by_question(evidence)
        self._questions = {q.question_id: q for q in questions}
        self.name, self.model_id, self.version = reasoner, model_id, content_id(system.version, model_id)
        self.notes = {"questions_with_unusable_triplets": 0}

    def _rows(self, question_id: str) -> list[dict[str, Any]]:
        return self._evidence.get(question_id, [])

    def _edge_rows(self, question_id: str) -> list[dict[str, Any]]:
        return [row for row in self._rows(question_id) if row["source_kind"] == "edge"]

    def input_of(self, question: Asked) -> str:
        return content_id([(row["evidence_id"], row["content_hash"]) for row in self._rows(question.question_id)])

    def answer(self, questions: Sequence[Asked]) -> Iterator[Answer]:
        for question, ranking in zip(questions, self._system.rank(questions), strict=True):
            ranked = tuple(node.node_id for node in ranking.nodes)
            self.notes["questions_with_unusable_triplets"] += bool(ranking.notes)
            best = (UsedRow("node", ranked[0], ranked[0], 0),) if ranked else ()
            shown = self._rows(question.question_id)
            led = [row for row in shown if ranked and why_of(row)["answer"] == ranked[0]]
            yield Answer(
                ranked[0] if ranked else None,
                ranking.status,
                tuple(ranking.supported),
                ranked,
                error=ranking.error or None,
                used=(*best, *used_evidence(led)),
                shown=tuple(used_evidence(shown)),
                reply=ranking.reply,
            )

    def case(self, prediction: Mapping[str, Any]) -> tuple[Case, list[CitedRow]]:
        """An answer rests on the edges by which it satisfies the triplets."""
        edges = self._edge_rows(prediction["question_id"])
        resting = [row["evidence_id"] for row in edges if why_of(row)["answer"] == prediction["answer"]]
        return case_of(prediction["question_id"], hashes_of(edges), resting)

    def input_again(self, case: Case) -> str:
        return content_id(self._questions[case.question_id].text, case.evidence)

    def again(self, requests: Sequence[Request]) -> list[str]:
        answers = []
        for question_id, kept in requests:
            stay = set(kept)
            removed = {row["source_id"] for row in self._edge_rows(question_id) if row["content_hash"] not in stay}
            (ranking,) = self._system.without(removed).rank([self._questions[question_id]])
            answers.append(ranking.nodes[0].node_id if ranking.nodes else ranking.status)
        return answers
