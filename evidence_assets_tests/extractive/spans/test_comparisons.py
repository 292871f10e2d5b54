"""Comparisons of two things by what two sentences say of them."""

import pytest

from evidence_assets.extractive.spans.comparisons import compare_statements
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.reasoning.tasks import EvidenceItem

TEXTS = (
    "The north path is 1,200 metres long and leads to the ridge.",
    "The mill path is 850 metres long.",
    "The forest path is closed in winter.",
    "The copper extractor weighs 48 kg.",
    "The steel extractor weighs 3900 g.",
    "The old barn was built in 1894.",
    "The visitor centre was built in 2003 by a firm from Tann.",
    "Lena Vogt has kept bees for 31 years.",
    "Karl Moser has kept bees for twelve years.",
    "The tour of the slope takes three hours, the tour of the pond takes 70 minutes.",
    "The barge costs 1 euro per night and the cabin costs 20 euros per night.",
    "Acacia honey costs 9 euros a jar.",
    "Forest honey costs 12 euros a jar.",
    "The café next to the library was opened in 1999.",
    "The station was opened in 1967.",
    "Ahorn has 1,120 inhabitants and Birk has 130 inhabitants.",
    "The pond may be 4 metres deep, the lake is 9 metres deep.",
)


def compare(question: str, *more: str) -> tuple[str, tuple[str, ...]] | None:
    items = [EvidenceItem(f"e{n}", "sentence", "d", "", text) for n, text in enumerate((*TEXTS, *more))]
    result = compare_statements(question, split_passages(items))
    return None if result is None else (result.text, result.evidence_ids)


@pytest.mark.parametrize(
    ("question", "expected", "cited"),
    [
        ("Which is longer, the north path or the mill path?", "the north path", (0, 1)),
        ("Which is longer: the mill path or the north path?", "the north path", (1, 0)),
        ("Which is shorter, the north path or the mill path?", "the mill path", (0, 1)),
        ("Is the mill path longer than the north path?", "no", (1, 0)),
        ("Which is heavier, the steel extractor or the copper extractor?", "the copper extractor", (4, 3)),
        ("Which is older, the visitor centre or the old barn?", "the old barn", (6, 5)),
        ("Which was built earlier, the visitor centre or the old barn?", "the old barn", (6, 5)),
        ("Who has kept bees longer, Karl Moser or Lena Vogt?", "Lena Vogt", (8, 7)),
        ("Does the tour of the slope take longer than the tour of the pond?", "yes", (9,)),
        ("Which is cheaper, the barge or the cabin?", "the barge", (10,)),
        ("Which honey is cheaper, acacia or forest honey?", "acacia", (11, 12)),
        ("Which village has more inhabitants, Birk or Ahorn?", "Ahorn", (15,)),
    ],
)
def test_the_side_with_the_greater_value_is_the_answer_and_both_are_cited(
    question: str, expected: str, cited: tuple[int, ...]
) -> None:
    assert compare(question) == (expected, tuple(f"e{n}" for n in cited))


@pytest.mark.parametrize(
    "question",
    [
        "Which is longer, the north path or the forest path?",
        "Which is wider, the north path or the mill path?",
        "Which is heavier, the copper extractor or the mill path?",
        "Which is more popular, acacia honey or forest honey?",
        "Who is older, Lena Vogt or Karl Moser?",
        "Which was opened earlier, the library or the station?",
        "Which is deeper, the pond or the lake?",
        "Which is longer, the north path or the north path?",
        "Is the north path longer than 900 metres?",
        "Which has more houses, Birk or Ahorn?",
    ],
)
def test_a_missing_other_or_uncertain_value_is_no_answer(question: str) -> None:
    assert compare(question) is None


@pytest.mark.parametrize(
    ("question", "first", "second"),
    [
        (
            "Which is cheaper, the tent or the hut?",
            "The tent costs 12 euros per night.",
            "The hut costs 50 euros per week.",
        ),
        (
            "Which is cheaper, the tent or the hut?",
            "The tent costs 20 euros for four people.",
            "The hut costs 12 euros.",
        ),
        ("Which is older, the tent or the hut?", "The tent was built before 1890.", "The hut was built in 1880."),
    ],
)
def test_rates_and_bounds_are_not_compared(question: str, first: str, second: str) -> None:
    assert compare(question, first, second) is None


def test_another_dimension_is_no_answer() -> None:
    question = "Which is higher, the garden wall or the tower?"
    assert compare(question, "The garden wall is 30 metres high.", "The tower is 20 metres high.") is not None
    assert compare(question, "The garden wall is 30 metres long.", "The tower is 20 metres high.") is None


def test_values_that_differ_or_are_equal_are_no_answer() -> None:
    question = "Which is longer, the north path or the mill path?"
    assert compare(question, "The mill path is 850 metres long.") == ("the north path", ("e0", "e17"))
    assert compare(question, "The mill path is 1,500 metres long.") is None
    assert compare("Which is longer, the north path or the east path?", "The east path is 1,200 metres long.") is None
