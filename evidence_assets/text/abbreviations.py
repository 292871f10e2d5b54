"""Short forms and what they stand for, as a text itself states them: "transition zone (TZ)", "TZ: transition zone".

What belongs here: finding such pairs in one string, and reading a text in the forms that another one uses. A pair is
believed only where the letters of the short form stand in the long one in order, beginning with the first letter of a
word (Schwartz and Hearst, 2003), so that "(left)" or "Figure: results" define nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

_SHORT = r"[A-Za-z][A-Za-z0-9&/.+-]{1,9}"
_BEHIND = re.compile(rf"\(\s*({_SHORT})\s*\)")
_BEFORE = re.compile(rf"(?<![\w-])({_SHORT})\s*\(([^()]{{4,80}})\)")
_LISTED = re.compile(rf"(?<![\w-])({_SHORT})\s*(?:=|:|,? (?:stands|is short) for|denotes)\s*([^;:=.,()]{{4,80}})")
_WORD = re.compile(r"\S+")
# So many signs before a short form in parentheses its long form may begin.
_LONGEST = 120


def is_short_form(text: str) -> bool:
    """Whether a text looks like an abbreviation: one word of at most ten signs, at least two of them capitals or digits.

    Examples
    --------
    >>> [is_short_form(text) for text in ("TZ", "PI-RADS", "mpMRI", "Zone", "transition zone")]
    [True, True, True, False, False]
    """
    return bool(re.fullmatch(_SHORT, text)) and sum(c.isupper() or c.isdigit() for c in text) >= 2


def stands_for(short: str, long: str) -> bool:
    """Whether the letters of a short form stand in a long form in order, the first at its very beginning.

    Examples
    --------
    >>> stands_for("TZ", "transition zone"), stands_for("TZ", "central zone"), stands_for("mpMRI", "multiparametric MRI")
    (True, False, True)
    """
    return _long_form(short, long) == long.strip()


def _long_form(short: str, before: str) -> str:
    """The shortest end of a text that a short form abbreviates; empty if none does."""
    at = len(before) - 1
    letters = [c.lower() for c in short if c.isalnum()]
    for k in range(len(letters) - 1, -1, -1):
        while at >= 0 and (
            before[at].lower() != letters[k]
            or (k == 0 and at > 0 and (before[at - 1].isalnum() or before[at - 1] == "-"))
        ):
            at -= 1
        if at < 0:
            return ""
        at -= 1
    found = before[at + 1 :].strip()
    return found if len(found) > len(short) and found.lower() != short.lower() else ""


def definitions(text: str) -> dict[str, str]:
    """Short forms that a text defines, with their long forms.

    Examples
    --------
    >>> definitions("Lesions of the transition zone (TZ) are rare; PZ: peripheral zone. See Table (left).")
    {'TZ': 'transition zone', 'PZ': 'peripheral zone'}
    """
    found: dict[str, str] = {}
    for match in _BEHIND.finditer(text):
        short = match[1]
        words = [word.start() for word in _WORD.finditer(text, max(0, match.start() - _LONGEST), match.start())]
        reach = min(len(short) + 5, 2 * len(short))
        start = words[-min(reach, len(words))] if words else 0
        if is_short_form(short) and (long := _long_form(short, text[start : match.start()].strip())):
            found.setdefault(short, long)
    for match in (*_BEFORE.finditer(text), *_LISTED.finditer(text)):
        short, long = match[1], match[2].strip()
        if is_short_form(short) and stands_for(short, long):
            found.setdefault(short, long)
    return found


def _form(form: str) -> re.Pattern[str]:
    """A form as a text may have it: a short one as it stands, a long one in any case, either in the plural."""
    return re.compile(rf"(?<!\w){re.escape(form)}(?:s|es)?(?!\w)", 0 if is_short_form(form) else re.IGNORECASE)


def in_words_of(text: str, known: Mapping[str, str], names: Collection[str]) -> str:
    """A text with every form that ``names`` do not use replaced by the one that they do use.

    Examples
    --------
    >>> in_words_of("The transition zone is larger.", {"TZ": "transition zone"}, ["TZ", "PZ"])
    'The TZ is larger.'
    """
    for short, long in known.items():
        for said, other in ((long, short), (short, long)):
            if any(map(_form(other).search, names)) and not any(map(_form(said).search, names)):
                text = _form(said).sub(other.replace("\\", r"\\"), text)
    return text


def definitions_in(texts: Iterable[str]) -> dict[str, str]:
    """Short forms that any of several texts defines; the first definition counts."""
    found: dict[str, str] = {}
    for text in texts:
        if "(" in text or ":" in text or "=" in text or " for " in text or "denotes" in text:
            found = definitions(text) | found
    return found
