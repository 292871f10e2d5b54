"""Eleven short notes and questions on them: what is answered, and what is not."""

from __future__ import annotations

import pytest

from evidence_assets.reasoning.short_answers import ShortAnswer
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets_tests.reasoning.spans.test_pages import ask

NOTES = (
    "Our team moved into the Harbour building in March 2021. The office has 42 desks.",
    "The payroll system was bought in 2015. It replaced a set of spreadsheets.",
    "The newsletter has 3,500 subscribers. Editors choose its topics on Mondays.",
    "Maria Lopez founded the bakery in 1998.",
    "Lucia Ferrari won the city marathon in 2019.",
    "The bridge was designed by Tom Baker and opened in May 1932.",
    "Backups are stored in Frankfurt.",
    "The library is located in Lyon.",
    "The people team is led by Peter Okafor.",
    "Lunch is served in the canteen on the ground floor.",
    "The search service answers queries over all documents and was written in Rust by Anna Schmidt.",
)
QUESTIONS = {
    "How many desks does the office have?": "42",
    "When was the payroll system bought?": "2015",
    "How many subscribers does the newsletter have?": "3,500",
    "Who founded the bakery?": "Maria Lopez",
    "Who won the city marathon?": "Lucia Ferrari",
    "Who designed the bridge?": "Tom Baker",
    "Where are backups stored?": "Frankfurt",
    "Where is the library located?": "Lyon",
    "What city is the library in?": "Lyon",
    "Who leads the people team?": "Peter Okafor",
    "Who wrote the search service?": "Anna Schmidt",
}
UNANSWERABLE = (
    "Who wrote the payroll system of Norway?",
    "How many parking spaces does Lisbon have?",
    "When did Peter Okafor leave the company?",
    "Who painted the ceiling of the chapel?",
    "Are backups stored in Frankfurt or in Lyon?",
)


TEXTS = [EvidenceItem(f"e{number}", "chunk", f"note{number}", "", note) for number, note in enumerate(NOTES)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_on_the_notes_is_answered_by_a_span_with_its_note(question: str) -> None:
    answer = ask(question, TEXTS)
    assert (answer.answer, answer.status) == (QUESTIONS[question], "answered")
    [note] = answer.evidence_ids
    assert answer.answer and answer.answer in NOTES[int(note[1:])]
    assert answer.confidence is not None and 0 < answer.confidence <= 1


@pytest.mark.parametrize("question", UNANSWERABLE)
def test_a_question_that_no_note_answers_has_no_answer(question: str) -> None:
    assert ask(question, TEXTS) == ShortAnswer(None, "insufficient")
