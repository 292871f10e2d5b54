"""Which known name a misspelt one is most like, for messages that say what to write."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_name(name: str, known: Iterable[str]) -> str:
    """The known name that is most like ``name``; the empty text where none is known."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)
    return near[0] if near else ""
