"""Checking citations mechanically: does what a chain cites exist, and does what it quotes stand there?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from evidence_assets.reasoning.tasks import Chain, EvidenceItem

Verdict = Literal["verified", "absent", "misquoted"]

_QUOTES = str.maketrans(dict.fromkeys("\"“”„«»'‘’`", ""))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—−", "-"))
_NUMBER_BEFORE = r"(?<!\w)(?<!\d[.,])(?<!(?<!\w)-)"
"""Before a number stands no part of another and no sign; a hyphen after a word, as in 2019-2020, is no sign."""
_ELLIPSIS = re.compile(r"\s*(?:\[?\.{3,}\]?|\[?…\]?)\s*")


@dataclass(frozen=True)
class Citation:
    """One citation of a chain, judged.

    ``step`` counts from 0. ``evidence_id`` is empty where a step quotes without citing; ``quoted`` is empty where it
    cites without quoting. ``absent``: no such evidence was given; ``misquoted``: it was, but the words are not in it.
    """

    step: int
    evidence_id: str
    quoted: str
    verdict: Verdict


def check_citations(chain: Chain, evidence: Sequence[EvidenceItem]) -> list[Citation]:
    """Judge every citation of a chain against the evidence that it was given.

    A quotation must stand in one of the rows that its own step cites, whatever its case, white space and marks; but a
    value must be whole, so 5 is not found in 535, 3.5 or -5.

    >>> from evidence_assets.reasoning.tasks import ChainStep
    >>> item = EvidenceItem("e1", "cell", "t", "r1c1", "-5.2 mmol")
    >>> [c.verdict for c in check_citations(Chain("A", (ChainStep("", ("e1", "e9"), ("5.2",)),)), [item])]
    ['misquoted', 'absent']
    """
    known = {item.evidence_id: item.text for item in evidence}
    citations: list[Citation] = []
    for number, step in enumerate(chain.steps):
        cited = list(dict.fromkeys(step.cited))
        given = [each for each in cited if each in known]
        quotes = [quote for quote in dict.fromkeys(step.quoted) if _plain(quote).strip(" .,;:!?")]
        placed = {each: [quote for quote in quotes if contains_quote(quote, known[each])] for each in given}
        misplaced = [quote for quote in quotes if not any(quote in own for own in placed.values())]
        blamed = next((each for each in given if not placed[each]), next(iter([*given, *cited]), ""))
        for quote in misplaced:
            citations.append(Citation(number, blamed, quote, "misquoted" if blamed in known else "absent"))
        for identifier in cited:
            own = placed.get(identifier, [])
            if own or identifier != blamed or not misplaced:
                verdict: Verdict = "verified" if identifier in known else "absent"
                citations += [Citation(number, identifier, quote, verdict) for quote in own or [""]]
    return citations


def contains_quote(quote: str, text: str) -> bool:
    """Whether the quoted words stand in the text, in order, each part a run of whole words and whole numbers."""
    plain, start, parts = _plain(text), 0, _patterns(quote)
    for part in parts:
        match = part.search(plain, start)
        if match is None:
            return False
        start = match.end()
    return bool(parts)


@lru_cache(maxsize=4096)  # a step that compares a column quotes as many cells as it cites, each beside each
def _patterns(quote: str) -> tuple[re.Pattern[str], ...]:
    """What finds the parts of a quotation that an ellipsis parts."""
    patterns = []
    for part in _ELLIPSIS.split(_plain(quote)):
        words = part.strip(" .,;:!?")
        if words:
            before = _NUMBER_BEFORE if words[:1].isdigit() else r"(?<!\w)"
            patterns.append(re.compile(before + re.escape(words) + r"(?!\w)(?![.,]\d)"))
    return tuple(patterns)


@lru_cache(maxsize=16384)
def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).translate(_DASHES).translate(_QUOTES)
    return " ".join(text.casefold().split())
