"""Replies of the recalling prompts: lists and triples, and the prose that is none of them."""

from __future__ import annotations

import pytest

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.systems.background.recall import parse_list, parse_triples


def test_lists() -> None:
    assert parse_list("- Switzerland\n2. Swiss franc\n\n* Switzerland\nMartin Luther King Jr.") == (
        "Switzerland",
        "Swiss franc",
        "Martin Luther King Jr.",
    )
    assert parse_list("1984\n7 Up") == ("1984", "7 Up")
    assert parse_list("None.") == ()


def test_triples() -> None:
    reply = "1. Switzerland | currency | Swiss franc\n\nBern|capital of|Switzerland\nBern | capital of | Switzerland"
    assert parse_triples(reply) == (
        ("Switzerland", "currency", "Swiss franc"),
        ("Bern", "capital of", "Switzerland"),
    )
    assert parse_triples("none") == ()


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
        parse_list(reply)
