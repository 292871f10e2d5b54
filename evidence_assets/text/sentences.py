"""Segmentation into sentences and clauses, without changing the text."""

from __future__ import annotations

import re

Span = tuple[int, int]
"""Start and end within a text."""

_ABBREVIATION_LIST = """
    dr mr mrs ms prof st sr jr vs etc e.g i.e cf al fig figs eq no nos vol approx ca inc ltd co corp dept est
    gen rev hon capt lt sgt col jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m viz resp
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
"""A full stop after one of these does not end a sentence."""
# Possessive quantifiers: backtracking over a page of dots would take quadratic time.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|[。！？]++[」』”’）]*+|\n(?=\s*\n|\s*(?:[-*•]|\d{1,3}[.)])\s)"
)
_WORD_BEFORE = re.compile(r"([\w.°/]+)\.$")
_LIST_NUMBER = re.compile(r"\s*\d{1,3}\.")
MAX_LIST_NUMBER = 20
_AMBIGUOUS = frozenset(("a.m", "p.m"))
"""Abbreviations that may end a sentence, like a single letter: "at 7 p.m. It …", "vitamin C. They …"."""
_FIRST_WORD = re.compile(r"\s*(?:However|In|It|Its|The|Their|There|These|They|This)\s")


def sentence_spans(text: str) -> list[Span]:
    """Start and end of each sentence, without the white space between them.

    >>> [ "Dr. Ada wrote it. It ran!"[a:b] for a, b in sentence_spans("Dr. Ada wrote it. It ran!") ]
    ['Dr. Ada wrote it.', 'It ran!']
    """
    spans: list[Span] = []
    start = 0
    for match in _END.finditer(text):
        if _ends_sentence(text, start, match):
            spans.append((start, match.end()))
            start = match.end()
    spans.append((start, len(text)))
    return [(a, b) for a, b in (trim_span(text, span) for span in spans) if a < b]


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a mark ends the sentence from ``start``: no number of a list, abbreviation or initial."""
    mark = match.group()
    end = match.end()
    if not mark.startswith("."):
        return True
    if end - start < MAX_LIST_NUMBER and _LIST_NUMBER.fullmatch(text, start, end):
        return False
    if mark.rstrip("\"'”’)]") != ".":
        return True
    word_before = _WORD_BEFORE.search(text[max(start, match.start() - 12) : match.start() + 1])
    word = word_before.group(1).lower() if word_before else ""
    is_initial = len(word) == 1 and word.isalpha() and mark == "."
    if (is_initial or word in _AMBIGUOUS) and _FIRST_WORD.match(text, end):
        return True
    return not (is_initial or word in _ABBREVIATIONS or text[end : end + 40].lstrip()[:1].islower())


def trim_span(text: str, span: Span) -> Span:
    """Trim the white space at both ends of a span."""
    piece = text[span[0] : span[1]]
    leading = len(piece) - len(piece.lstrip())
    return (span[0] + leading, span[0] + max(leading, len(piece.rstrip())))


_PRONOUN = re.compile(r"\s*(?:it|its|they|their|them|this|these|those|he|his|she|her|such)\b", re.IGNORECASE)


def starts_with_pronoun(text: str, start: int = 0) -> bool:
    """Whether the first word from ``start`` may stand for the subject of the previous sentence."""
    return _PRONOUN.match(text, start) is not None


_CLAUSE_END = re.compile(
    r";\s+|,\s+(?=(?:whereas|while|although|though|but|however|unlike)\b)|\s+(?=whereas\b)|,\s+(?=and\s+(?:\S+\s+){3})"
)


def split_clauses(sentence: str) -> list[str]:
    """The clauses of a sentence in order, verbatim.

    >>> split_clauses("Iron rusts, whereas gold does not; both conduct.")
    ['Iron rusts', 'whereas gold does not', 'both conduct.']
    """
    return [clause for clause in _CLAUSE_END.split(sentence) if clause.strip()]
