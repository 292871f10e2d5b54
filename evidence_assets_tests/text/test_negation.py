"""Questions that ask for the exception, and questions with other negations."""

from __future__ import annotations

import pytest

from evidence_assets.text.negation import asks_for_exception

EXCEPTIONS = [
    "Which of these is NOT a fish?",
    "All of these but one can fly. Which is the exception?",
    "Each of the following is a symptom of flu except one. Which?",
    "Which of the following does not cause anemia?",
    "A boy has had a fever for two days. Which of these is least appropriate now?",
    "Which of the following statements about insulin is incorrect?",
    "Not true about the femoral nerve is:",
    "False statement about collagen is?",
    "Which of these is least likely to live in a desert?",
    "Which finding is LEAST consistent with pneumonia?",
    "What is the least typical symptom of a cold?",
    "Which tool would be least useful for measuring rain?",
    "Which material is least suitable for a roof?",
    "Which source is least relevant to this report?",
    "All of these planets have moons EXCEPT",
    "Every one of these is a mineral except for:",
    "The following are mammals, excepting one:",
    "Which of these isn't a source of vitamin C?",
    "What doesn't dissolve in water?",
    "Which metals are not attracted by a magnet?",
    "Which of these was never a planet?",
    "Which gas has not been found on Mars?",
    "Which crop would not grow in a cold valley?",
    "Which animals don't lay eggs?",
    "Which of the statements about glaciers is not true?",
    "Which of these sentences are false?",
    "Incorrect about the liver is:",
    "After the rain, which of these will not evaporate?",
    "If a plant gets no light, which process does not take place?",
    "Which is not an insect but is often called one?",
]
OTHERS = [
    "",
    "What notable knot is this?",
    "He does not smoke and is not overweight. What is the diagnosis?",
    "What is the likely cause in a man who does not respond to steroids?",
    "A patient who is not pregnant takes warfarin. Which drug interacts with it?",
    "At least one of these is a metal. Which?",
    "Which finding should stop a doctor from ordering penicillin?",
    "Which drug should not be given to her?",
    "Which fuel gives the least amount of pollution?",
    "Which way to travel causes the LEAST amount of pollution?",
    "What flies but doesn't have wings?",
    "What rocks but does not roll?",
    "Which animal has wings and does not fly?",
    "Which planet has the least mass?",
    "Which of these materials is the least dense?",
    "What do people like least about winter?",
    "Where does it rain the least?",
    "Which city has at least two rivers?",
    "What is the least common multiple of four and six?",
    "Which plant needs the least water?",
    "Last but not least, which of these is a mammal?",
    "If a lamp is not plugged in, what will it be?",
    "If all friends but one arrive, except for the host, what is needed?",
    "When ice does not melt, which temperature is it?",
    "Although she was not hungry, what did she eat?",
    "Which animal, which does not hibernate, stores nuts?",
    "What has keys yet does not open locks?",
    "Which tree whose leaves do not fall is a conifer?",
    "Which organ works while the body does not move?",
    "Why do cats not swim?",
]


def test_that_there_are_thirty_questions_of_each_kind() -> None:
    assert len(EXCEPTIONS) == len(OTHERS) == 30


@pytest.mark.parametrize("question", EXCEPTIONS)
def test_questions_that_ask_for_the_exception(question: str) -> None:
    assert asks_for_exception(question)


@pytest.mark.parametrize("question", OTHERS)
def test_questions_that_do_not_ask_for_the_exception(question: str) -> None:
    assert not asks_for_exception(question)
