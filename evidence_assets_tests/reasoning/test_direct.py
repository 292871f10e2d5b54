"""Answers without chains: by the score of the evidence alone."""

from __future__ import annotations

from typing import Any

import pytest

from evidence_assets.reasoning.direct import BestFound
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem

LABELS = ("A", "B", "C")


def task(scores: dict[str, list[float]], question: str = "Which one?", negated: bool = False) -> ChooseAnswer:
    evidence = {
        label: tuple(EvidenceItem(f"{label}{i}", "chunk", "s", "", "t", score) for i, score in enumerate(found))
        for label, found in scores.items()
    }
    chains = tuple(Chain(label, (), 0.9) for label in LABELS)
    return ChooseAnswer(question, LABELS, ("a", "b", "c"), chains, evidence, negated=negated)


@pytest.mark.parametrize(
    ("scores", "negated", "expected"),
    [
        ({"A": [0.1, 0.2], "B": [0.3], "C": [0.2]}, False, ("B", ("B",), "answered")),
        ({"A": [0.3], "B": [0.3], "C": [0.2]}, False, ("A", ("A", "B"), "ambiguous")),
        ({"A": [0.3], "B": [0.1], "C": [0.2]}, True, ("B", ("B",), "answered")),
        ({"A": [0.3], "C": [0.2]}, True, ("B", ("B",), "answered")),
        ({"A": [0.3]}, True, ("B", ("B", "C"), "ambiguous")),
        ({"B": [-0.5]}, False, ("B", ("B",), "answered")),
        ({}, False, (None, (), "insufficient")),
    ],
)
def test_the_best_found_option_is_named(scores: dict[str, list[float]], negated: bool, expected: Any) -> None:
    (made,) = BestFound().choose([task(scores, negated=negated)])
    assert isinstance(made, Choice)
    assert (made.answer, made.supported, made.status) == expected


def test_a_question_for_the_exception_is_known_by_its_words() -> None:
    (made,) = BestFound().choose([task({"A": [0.3], "B": [0.1], "C": [0.2]}, "Which is NOT a fruit?")])
    assert isinstance(made, Choice) and made.answer == "B"
