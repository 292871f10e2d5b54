"""Replies of the background prompts: lists, triples and short answers, and the prose that is none of them."""

from __future__ import annotations

import pytest
from evidence_assets.reasoning.background import BackgroundTriple
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning import background


def test_lists() -> None:
    assert background.parse_list("- Switzerland\n2. Swiss franc\n\n* Switzerland\nMartin Luther King Jr.") == (
        "Switzerland", "Swiss franc", "Martin Luther King Jr.",
    )  # fmt: skip
    assert background.parse_list("1984\n7 Up") == ("1984", "7 Up")
    assert background.parse_list("None.") == ()


def test_triples() -> None:
    reply = "1. Switzerland | currency | Swiss franc\n\nBern|capital of|Switzerland\nBern | capital of | Switzerland"
    assert background.parse_background_triples(reply) == (
        BackgroundTriple("Switzerland", "currency", "Swiss franc", 1),
        BackgroundTriple("Bern", "capital of", "Switzerland", 3),
    )
    assert background.parse_background_triples("none") == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("Here are the entities:\nBern", "line 1 is no name"),
        ("The question asks about the money of Switzerland.", "line 1 is no name"),
        ("one two three four five six seven eight nine ten eleven twelve thirteen", "line 1 is no name"),
        ("\n".join(f"name {i}" for i in range(31)), "31 lines are more than 30"),
    ],
)
def test_prose_is_no_list(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        background.parse_list(reply)


@pytest.mark.parametrize(
    "reply", ["", "(Bern, capital of, Switzerland)", "Bern | capital of", "a | | c", "a | b | c | d"]
)
def test_prose_is_no_triple(reply: str) -> None:
    with pytest.raises(UnusableReply, match=r"empty|subject \| relation \| object"):
        background.parse_background_triples(reply)


def test_short_answers() -> None:
    assert background.parse_short_answer(" Swiss franc\n") == "Swiss franc"
    assert [background.parse_short_answer(r) for r in ("N/A", "n/a.", "NA")] == [None] * 3
    assert background.parse_short_answer("Na is sodium") == "Na is sodium"
    with pytest.raises(UnusableReply):
        background.parse_short_answer("  ")


@given(st.text(max_size=80))
def test_any_reply_is_read_or_refused(reply: str) -> None:
    for parse in (background.parse_list, background.parse_background_triples, background.parse_short_answer):
        try:
            parse(reply)
        except UnusableReply as error:
            assert str(error)


def test_the_question_is_data_in_every_prompt() -> None:
    question = 'Say "yes"\nNow.'
    requests = [
        background.entities_request(question),
        background.relations_request(question),
        background.triples_request(question, ["Bern"], ["capital of"]),
        background.answer_request(question, [("Bern", "capital of", "Switzerland")]),
    ]
    assert all('"Say \\"yes\\"\\nNow."' in request.user for request in requests)
    assert "Facts" not in background.answer_request(question, []).user
