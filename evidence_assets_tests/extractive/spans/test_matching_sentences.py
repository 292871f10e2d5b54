"""Answers from sentences that say, besides the words of a question, only the answer."""

import pytest

from evidence_assets.extractive.spans.matching_sentences import find_matching_answer
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.reasoning.tasks import EvidenceItem


def answer(question: str, *texts: str) -> tuple[str, tuple[str, ...]] | None:
    items = [EvidenceItem(f"e{n}", "sentence", "d", f"{n * 100}:{n * 100 + 9}", t) for n, t in enumerate(texts)]
    result = find_matching_answer(question, items, split_passages(items))
    return None if result is None else (result.text, result.evidence_ids)


@pytest.mark.parametrize(
    ("question", "sentence", "expected"),
    [
        ("Who locks the gate at dusk?", "The gate is locked at dusk by the caretaker.", "caretaker"),
        ("Who washes the honey jars?", "The cook washes the honey jars.", "cook"),
        ("Who washes the honey jars in May?", "In May the honey jars are washed by the cook.", "cook"),
        ("Who maintains the website?", "The website is maintained by bee_tom.", "bee_tom"),
        ("By whom is the guest book kept?", "The guest book is kept by the secretary.", "secretary"),
        ("Who gives tours?", "Tours are given by volunteers from the village.", "volunteers from the village"),
        ("What does the station sell?", "The station sells honey, mead and wax.", "honey, mead and wax"),
        ("Who are the members of the board?", "The members of the board are Lena and Karl.", "Lena and Karl"),
        ("Who are the members of the board?", "Lena and Karl are the members of the board.", "Lena and Karl"),
        ("Which tools are kept in the shed?", "Two tools are kept in the shed: a hive tool and a brush.", None),
        ("What is mead made from?", "Mead is made from honey and water.", "honey and water"),
    ],
)
def test_the_words_that_a_question_lacks_are_the_answer(question: str, sentence: str, expected: str | None) -> None:
    expected = expected or "a hive tool and a brush"
    assert answer(question, sentence) == (expected, ("e0",))


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who repairs the roof?", "The roof is heated with wood."),
        ("Who paid the bill?", "The bill was paid by card."),
        ("Who cleans the hut?", "The hut is cleaned by noon."),
        ("Who held the feast?", "The feast was held by the river."),
        ("Who must return the keys?", "The keys must be returned by the end of June."),
        ("Who catches wasps?", "Swarms are caught by the youngest apprentice."),
        ("Whom did Tom help yesterday?", "Tom was helped yesterday by Ann."),
        ("Whom did Tom help yesterday?", "Ann helped Tom yesterday."),
        ("Who helped Tom yesterday?", "Tom helped Ann yesterday."),
        ("Who locks the gate?", "The gate is locked at dusk by the caretaker."),
        ("Who locks the gate?", "The gate is locked in 1994 by the caretaker."),
        ("What does the station sell?", "The station may sell honey."),
        ("What does the station sell?", "The station might sell honey."),
        ("What does the station sell?", "The station only sells honey."),
        ("What does the station sell?", "The station does not sell honey."),
        ("What must the visitors bring?", "The visitors may bring gloves."),
        ("Where are the hives kept?", "The hives are kept by the pond."),
        ("How many tools does the shed hold?", "The shed holds tools and brushes."),
        ("Who sings?", "The cook sings."),
        ("What magnitude was the tremor?", "The magnitude tremor was particularly destructive."),
        ("Which colour is the roof?", "The colour of the roof is fading."),
    ],
    ids=str,
)
def test_another_role_word_or_modality_is_no_answer(question: str, sentence: str) -> None:
    assert answer(question, sentence) is None


def test_two_sentences_with_different_answers_are_none() -> None:
    texts = ("The cook washes the jars.", "The jars are washed by the cook.", "The porter washes the jars.")
    assert answer("Who washes the jars?", *texts[:2]) == ("cook", ("e0",))
    assert answer("Who washes the jars?", *texts) is None


LIST = "Visitors must bring:\n\n- a veil\n- gloves\n\nTours start at noon.\n"


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("What must visitors bring?", LIST, "a veil; gloves"),
        (
            "Which animals are not admitted?",
            "The following animals are not admitted:\n1. dogs\n2) goats",
            "dogs; goats",
        ),
        ("What may visitors bring?", LIST, None),
        ("What must children bring?", LIST, None),
        ("What must visitors not bring?", LIST, None),
        ("What must visitors bring?", "Visitors must bring:\n\nA veil and gloves.", None),
    ],
)
def test_the_list_below_the_words_of_a_question_is_the_answer(question: str, text: str, expected: str | None) -> None:
    assert answer(question, text) == (expected and (expected, ("e0",)))


def test_a_list_whose_items_are_rows_of_their_own_cites_them() -> None:
    rows = ("Visitors must bring:", "- a veil", "- gloves", "Tours start at noon.")
    starts = (0, 21, 30, 39)
    items = [
        EvidenceItem(f"e{n}", "sentence", "d", f"{s}:", t) for n, (s, t) in enumerate(zip(starts, rows, strict=True))
    ]
    result = find_matching_answer("What must visitors bring?", items, split_passages(items))
    assert result is not None and (result.text, result.evidence_ids) == ("a veil; gloves", ("e0", "e1", "e2"))
