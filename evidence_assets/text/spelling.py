"""Suggestions for unknown names in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LISTED_NAMES = 20
"""Most names that a message lists."""


def closest_name(name: str, names: Iterable[str]) -> str:
    """The most similar of ``names``, upper or lower case; empty if none is similar."""
    by_text = {each.casefold(): each for each in names}
    return next((by_text[text] for text in difflib.get_close_matches(name.casefold(), by_text, n=1)), "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the closest name as a question, or all names if none is similar."""
    listed = list(names)
    if nearest := closest_name(name, listed):
        return f"; did you mean {nearest!r}?"
    more = ", …" if len(listed) > LISTED_NAMES else ""
    return f". There are: {', '.join(listed[:LISTED_NAMES])}{more}." if listed else ". There are none."
