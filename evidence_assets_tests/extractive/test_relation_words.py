"""Meanings of words that ask for a relation: phrases before words, spellings of relations, kinship."""

import pytest

from evidence_assets.extractive.relation_words import find_meanings, join_meanings


@pytest.mark.parametrize(
    ("question", "relation"),
    [
        ("Who founded it?", "founded_by"),
        ("When was it set up?", "founded in"),
        ("Where are her parents?", "father"),
        ("Who is his wife?", "spouse"),
        ("Who looks after it?", "maintainedBy"),
        ("How heavy is it?", "weight in kg"),
    ],
)
def test_other_words_ask_for_the_same_relation(question: str, relation: str) -> None:
    assert join_meanings([question]) & join_meanings([relation])


@pytest.mark.parametrize(
    ("question", "relation"),
    [
        ("When was she born?", "date of death"),
        ("Who is his husband?", "wife"),
        ("Who is her mother?", "father"),
        ("Who is its captain?", "president"),
        ("When does it close?", "opens_at"),
        ("How tall is it?", "width in cm"),
    ],
)
def test_other_relations_have_another_meaning(question: str, relation: str) -> None:
    assert join_meanings([question]) and join_meanings([relation])
    assert not join_meanings([question]) & join_meanings([relation])


def test_a_phrase_is_one_word_with_its_own_meaning() -> None:
    (phrase,) = find_meanings("Which is the day of the week?")
    assert (len(phrase.stems), phrase.meanings) == (4, {"weekday"})


def test_a_text_without_such_words_asks_for_nothing() -> None:
    assert find_meanings("Which city is it?") == [] and join_meanings([]) == frozenset()


def test_light_words_ask_only_alone() -> None:
    assert [word.is_light for word in find_meanings("Who made the first ascent?")] == [True, False]
