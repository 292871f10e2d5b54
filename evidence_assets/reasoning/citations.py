"""The citation check: does the cited evidence exist, and does it contain the quotation?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from evidence_assets.reasoning.tasks import Chain, ChainStep, EvidenceItem

Verdict = Literal["verified", "absent", "misquoted"]

_QUOTES = str.maketrans(dict.fromkeys("\"“”„«»'‘’`", ""))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—−", "-"))
_NUMBER_BEFORE = r"(?<!\w)(?<!\d[.,])(?<!(?<!\w)-)"
"""No digit, decimal mark or sign before a number; a hyphen after a word, as in 2019-2020, is not a sign."""
_ELLIPSIS = re.compile(r"\s*(?:\[?\.{3,}\]?|\[?…\]?)\s*")


@dataclass(frozen=True)
class Citation:
    """A citation of a chain, with its verdict.

    ``step`` counts from 0. ``evidence_id`` is empty if a step quotes without citing; ``quoted`` is empty if it cites
    without quoting. ``absent``: the evidence does not exist; ``misquoted``: it does not contain the quotation.
    """

    step: int
    evidence_id: str
    quoted: str
    verdict: Verdict


def check_citations(chain: Chain, evidence: Sequence[EvidenceItem]) -> list[Citation]:
    """Check every citation of a chain against the chain's evidence.

    A quotation must occur in one of the rows that its step cites. Case, white space and quotation marks are ignored.
    Numbers must match completely: 5 does not occur in 535, 3.5 or -5.

    >>> from evidence_assets.reasoning.tasks import ChainStep
    >>> item = EvidenceItem("e1", "cell", "t", "r1c1", "-5.2 mmol")
    >>> [c.verdict for c in check_citations(Chain("A", (ChainStep("", ("e1", "e9"), ("5.2",)),)), [item])]
    ['misquoted', 'absent']
    """
    texts = {item.evidence_id: item.text for item in evidence}
    return [citation for number, step in enumerate(chain.steps) for citation in _check_step(number, step, texts)]


def _check_step(number: int, step: ChainStep, texts: Mapping[str, str]) -> Iterator[Citation]:
    """Citations of missing quotations first, then those of the cited evidence in order."""
    cited = list(dict.fromkeys(step.cited))
    quotes = [quote for quote in dict.fromkeys(step.quoted) if _plain(quote).strip(" .,;:!?")]
    quote_words = {quote: _words(quote) for quote in quotes}  # a step may quote and cite thousands of cells
    matches = {id_: _find_quotes(quote_words, texts[id_]) for id_ in cited if id_ in texts}
    missing_quotes = [quote for quote in quotes if not any(quote in present for present in matches.values())]
    fallback_id = next((id_ for id_, present in matches.items() if not present), next(iter([*matches, *cited]), ""))
    for quote in missing_quotes:
        yield Citation(number, fallback_id, quote, "misquoted" if fallback_id in texts else "absent")
    for id_ in cited:
        present = matches.get(id_, [])
        if present or id_ != fallback_id or not missing_quotes:
            verdict: Verdict = "verified" if id_ in texts else "absent"
            yield from (Citation(number, id_, quote, verdict) for quote in present or [""])


def _find_quotes(quote_words: Mapping[str, frozenset[str]], text: str) -> list[str]:
    """The quotations that a text contains, given their words."""
    words = _words(text)
    return [quote for quote, each in quote_words.items() if each <= words and contains_quote(quote, text)]


def contains_quote(quote: str, text: str) -> bool:
    """Whether a text contains a quotation: its parts in order, each a sequence of complete words and numbers."""
    normalized = _plain(text)
    start = 0
    parts = _patterns(quote)
    for part in parts:
        match = part.search(normalized, start)
        if match is None:
            return False
        start = match.end()
    return bool(parts)


@lru_cache(maxsize=4096)  # a step that compares a column checks each of its quotations against each cited cell
def _patterns(quote: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of the parts of a quotation, split at ellipses."""
    patterns = []
    for part in _ELLIPSIS.split(_plain(quote)):
        words = part.strip(" .,;:!?")
        if words:
            before = _NUMBER_BEFORE if words[:1].isdigit() else r"(?<!\w)"
            patterns.append(re.compile(before + re.escape(words) + r"(?!\w)(?![.,]\d)"))
    return tuple(patterns)


@lru_cache(maxsize=16384)
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _plain(text)))


@lru_cache(maxsize=16384)
def _plain(text: str) -> str:
    text = unicodedata.normalize("NFC", text).translate(_DASHES).translate(_QUOTES)
    return " ".join(text.casefold().split())
