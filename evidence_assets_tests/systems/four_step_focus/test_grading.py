"""Grades: numbers from 0 to 1 and nothing else, one repair attempt, documents cut only with a word about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.grading import (
    GRADES,
    NodeCard,
    PromptedGrader,
    RerankerGrader,
    grade_request,
    parse_grade,
)
from evidence_assets_tests.systems.small_models import Scripted, SharedWords

CARD = NodeCard("aspirin", "drug", "Aspirin eases pain.", (("aspirin", "treats", "fever"),))


@pytest.mark.parametrize(("reply", "grade"), [("0.7", 0.7), (" 1.0\n", 1.0), ("0", 0.0), ("1", 1.0), ("0.25", 0.25)])
def test_numbers_are_read(reply: str, grade: float) -> None:
    assert parse_grade(reply) == grade


@pytest.mark.parametrize("reply", ["", "1.1", "-0.2", "0.7 because", "high", "0,7", "10", "nan", "٠.٥"])
def test_anything_else_is_a_failure(reply: str) -> None:
    assert isinstance(parse_grade(reply), Failure)


def test_a_cut_document_says_so() -> None:
    assert CARD.text(100) == "aspirin (drug)\nAspirin eases pain.\nRelations:\n- aspirin | treats | fever"
    assert "Aspirin [12 more characters left out]" in CARD.text(7)
    assert grade_request("What?", CARD).choices == GRADES


def test_prompted_grades_with_one_repair_attempt() -> None:
    def reply(request: Request) -> str:
        if "stubborn" in request.user:
            return "very well"
        return "0.4" if "not such a number" in request.user or "clear" in request.user else "quite"

    generator = Scripted(reply)
    grades = PromptedGrader(generator).grade([("clear", CARD), ("unclear at first".replace("clear", "sure"), CARD),
                                              ("stubborn", CARD)])  # fmt: skip
    assert grades[:2] == [0.4, 0.4]
    assert isinstance(grades[2], Failure)
    assert len(generator.requests) == 5
    assert PromptedGrader(generator).grade([]) == []


def test_a_reranker_grades_by_its_own_scale() -> None:
    assert RerankerGrader(SharedWords()).grade([("aspirin fever", CARD), ("cats", CARD)]) == [2.0, 0.0]
    assert RerankerGrader(SharedWords()).grade([]) == []


def test_a_reranker_that_reads_little_gets_passages_and_the_best_one_counts() -> None:
    def count(texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    class Short(SharedWords):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            assert all(count([text])[0] <= 12 for _, text in pairs)
            assert all(text.startswith("aspirin (drug)") for _, text in pairs)
            return super().score(pairs)

    long = NodeCard("aspirin", "drug", "It is sold. " * 20 + "It eases fever and pain.", CARD.relations)
    plain = NodeCard("aspirin", "drug", "", ())
    grader = RerankerGrader(Short(), count_tokens=count, tokens=12)
    assert grader.grade([("fever pain", long), ("aspirin", plain)]) == [2.0, 1.0]
    assert grader.version != RerankerGrader(Short()).version
