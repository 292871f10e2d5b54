"""Dates of birth and death in brackets."""

import pytest

from evidence_assets import profiles
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.extractive.spans.life_dates import find_life_date, lacks_event
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortTask
from evidence_assets.reasoning.tasks import EvidenceItem

FOUNDED = "The club was founded in 1911 by Anna Falk (1880–1951), a teacher."


def answer(question: str, *texts: str) -> str | None:
    items = [EvidenceItem(f"e{n}", "sentence", "d", "", text) for n, text in enumerate(texts)]
    date = find_life_date(question, split_passages(items))
    return None if date is None else date.text


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("When was Anna Falk born?", FOUNDED, "1880"),
        ("In which year did Anna Falk die?", FOUNDED, "1951"),
        ("When did Falk pass away?", FOUNDED, "1951"),
        ("What is the birthday of Anna Falk?", "Anna Falk (12 May 1880 – 3 June 1951) taught here.", "12 May 1880"),
        ("When was Anna Falk born?", "Anna Falk (12 May 1880 – 3 June 1951) taught here.", "12 May 1880"),
        ("When was Ida Roth born?", "Ida Roth (/rɒt/; German: [ʁoːt]; 9 May 1883 – 1946) sang.", "9 May 1883"),
        ("When was Anna Falk born?", "Our teacher, Anna Falk (born 1962), retires.", "1962"),
        ("When was Anna Falk born?", "Our teacher, Anna Falk (* 1962), retires.", "1962"),
        ("When did Anna Falk die?", "A bench remembers Anna Falk († 1951).", "1951"),
        ("When did Anna Falk die?", "Our teacher, Anna Falk (born 1962), retires.", None),
        ("When was Anna Holm born?", FOUNDED, None),
        ("When was the mother of Anna Falk born?", FOUNDED, None),
        ("When was the club founded?", FOUNDED, None),
        ("When was Mia Falk born?", "Anna Falk's (1880–1951) pupil Mia Falk paints.", None),
    ],
)
def test_a_date_after_a_name_is_of_its_birth_or_death(question: str, text: str, expected: str | None) -> None:
    assert answer(question, text) == expected


def test_different_dates_are_no_answer() -> None:
    assert answer("When was Anna Falk born?", FOUNDED, "Anna Falk (1920–1999) rowed.") is None
    assert answer("When was Anna Falk born?", FOUNDED, "Anna Falk (1880–1951) rowed.") == "1880"


@pytest.mark.parametrize(
    ("question", "sentence", "lacks"),
    [
        ("When was Anna Falk born?", "Anna Falk founded the club in 1911.", True),
        ("Where did Anna Falk die?", "Anna Falk founded the club in Bremen.", True),
        ("When was Anna Falk born?", "Anna Falk's birthday is 12 May.", False),
        ("Where did Anna Falk die?", "Her death in Bremen was sudden.", False),
        ("When did Anna Falk found the club?", "Anna Falk founded the club in 1911.", False),
    ],
)
def test_another_event_is_no_birth_or_death(question: str, sentence: str, lacks: bool) -> None:
    assert lacks_event(question, sentence) == lacks


def test_the_year_of_another_event_is_not_served() -> None:
    solver = ExtractiveShortAnswers(get_encoder(profiles.load().encoder))
    row = EvidenceItem("e", "sentence", "d", "", "Anna Falk founded the club in 1911 in Bremen.")
    for question in ("When was Anna Falk born?", "Where was Anna Falk born?"):
        [served] = solver.answer([ShortTask(Question("", "", "kgqa", question), (), (row,))])
        assert isinstance(served, ShortAnswer) and served.answer is None
