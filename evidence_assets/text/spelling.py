"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_name(name: str, names: Iterable[str]) -> str:
    """The most similar known name; empty if there are none."""
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.0)
    return matches[0] if matches else ""
