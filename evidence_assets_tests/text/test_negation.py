"""Questions that ask for the exception, and questions with other negations."""

from __future__ import annotations

import pytest

from evidence_assets.text.negation import asks_for_exception


@pytest.mark.parametrize(
    "question",
    [
        "Which of these is NOT a fish?",
        "All of these but one can fly. Which is the exception?",
        "Each of the following is a symptom of flu except one. Which?",
        "Which of the following does not cause anemia?",
        "A boy has had a fever for two days. Which of these is least appropriate now?",
        "Which of the following statements about insulin is incorrect?",
        "Not true about the femoral nerve is:",
        "False statement about collagen is?",
    ],
)
def test_questions_that_ask_for_the_exception(question: str) -> None:
    assert asks_for_exception(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "What notable knot is this?",
        "He does not smoke and is not overweight. What is the diagnosis?",
        "What is the likely cause in a man who does not respond to steroids?",
        "A patient who is not pregnant takes warfarin. Which drug interacts with it?",
        "At least one of these is a metal. Which?",
        "Which finding should stop a doctor from ordering penicillin?",
        "Which drug should not be given to her?",
    ],
)
def test_questions_that_do_not_ask_for_the_exception(question: str) -> None:
    assert not asks_for_exception(question)
