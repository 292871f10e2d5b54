"""Grades: numbers from 0 to 1 and nothing else, one repair attempt, documents cut only with a word about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evidence_assets.systems.four_step_focus.grading import GRADES, GradeTask, NodeCard, RerankerGrader, grade_request
from evidence_assets_tests.systems.small_models import SharedWords

CARD = NodeCard("aspirin", "drug", "Aspirin eases pain.", (("aspirin", "treats", "fever"),))


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_a_cut_document_says_so() -> None:
    assert CARD.text(100) == "aspirin (drug)\nAspirin eases pain.\nRelations:\n- aspirin | treats | fever"
    assert "Aspirin [12 more characters left out]" in CARD.text(7)
    assert grade_request(GradeTask("What?", CARD)).choices == GRADES


def test_a_reranker_grades_by_its_own_scale() -> None:
    grader = RerankerGrader(SharedWords(), count)
    assert grader.grade([("aspirin fever", CARD), ("cats", CARD)]) == [(2.0, None), (0.0, None)]
    assert grader.grade([]) == []


def test_a_reranker_that_reads_little_gets_passages_and_the_best_one_counts() -> None:
    class Short(SharedWords):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            assert all(count([text])[0] <= 12 for _, text in pairs)
            assert all(text.startswith("aspirin (drug)") for _, text in pairs)
            return super().score(pairs)

    long = NodeCard("aspirin", "drug", "It is sold. " * 20 + "It eases fever and pain.", CARD.relations)
    plain = NodeCard("aspirin", "drug", "", ())
    grader = RerankerGrader(Short(), count, tokens=12)
    assert grader.grade([("fever pain", long), ("aspirin", plain)]) == [(2.0, None), (1.0, None)]
    assert grader.version != RerankerGrader(Short(), count).version
