"""Words without their inflections, so that a text and a question that say the same in other forms meet."""

from __future__ import annotations

import re

from evidence_assets.text.stop_words import STATEMENT_STOP_WORDS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SUFFIXES = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("ically", "ic"), ("sses", "ss"), ("ies", "y"), ("ied", "y"), ("ingly", ""), ("edly", ""), ("ing", ""), ("ed", ""),
    ("ly", ""), ("es", ""), ("s", ""),
)  # fmt: skip


def stem(word: str) -> str:
    """Word without its commonest English endings, lower-cased, so that "carving" and "carved" meet.

    >>> [stem(word) for word in ("carving", "carved", "carves", "carve", "diabetes", "illnesses", "bus", "Families")]
    ['carv', 'carv', 'carv', 'carv', 'diabet', 'illness', 'bus', 'family']
    """
    word = word.casefold()
    for suffix, ending in _SUFFIXES:
        root = word.removesuffix(suffix)
        if root == word or len(root) < 3 or (suffix == "s" and root.endswith(("s", "u", "i"))):
            continue
        word = root + ending
        if (
            suffix in ("ing", "ed", "ingly", "edly")
            and len(word) > 3
            and word[-1] == word[-2]
            and word[-1] not in "lsz"
        ):
            word = word[:-1]
        break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> list[str]:
    """Stems of the words of a text in order, words that say nothing left out; all words if no other is left."""
    words = [word.casefold() for word in _WORD.findall(text)]
    return [stem(word) for word in words if word not in STATEMENT_STOP_WORDS] or [stem(word) for word in words]
