"""Reading copies of cells, headers and claims: without markup, in tokens and stems; the original is never changed."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from rapidfuzz import fuzz

from evidence_assets.text import words

# Named marks and tags only: "[MASK]", "<unk>" and "p<0.05 and >3" are content in real tables.
_BRACKET_MARK = re.compile(r"\[(?:BOLD|ITALIC|UNDERLINE|EMPTY|CONTINUE|SUP|SUB)\]", re.IGNORECASE)
_BREAKING_TAG = re.compile(r"</?(?:br|p|div|hr|td|th|tr|li|ul|ol)(?:\s[^<>]*)?\s?/?>", re.IGNORECASE)
_INLINE_TAG = re.compile(
    r"</?(?:b|bold|i|italic|em|strong|u|underline|sub|sup|span|font|a|small|code|tt|center|ref)(?:\s[^<>]*)?\s?/?>",
    re.IGNORECASE,
)
# A raised number behind a number is an exponent or the mark of a note, never its next digits.
_RAISED = re.compile(r"(?<=\d)((?:</[a-z]+>)*\s?)<sup(?:\s[^<>]*)?>\s?([+\-−–]?\d[\d, ]*)</sup>", re.IGNORECASE)
_TO_SUPERSCRIPT = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
# A narrow or unbreakable space inside a number is a thousands separator and stays.
_SPACE = re.compile(r"(?!(?<=\d)[\u00a0\u202f\u2009]\d{3}(?!\d))\s+")
# Letters and digits in one go are one word ("F1", "M0"); a number keeps its point and its separators.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_SIGNS = dict(zip("٫٬−﹣－＋％٪∗＊．＜＞＝", ".,---+%%**.<>=", strict=True))
_BRACKETS_AT_END = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*$")
NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_SIMILAR_SPELLING = 80.0

STOP_WORDS = words.STOP_WORDS - words.TABLE_WORDS - words.NUMBER_WORDS


def plain_text(text: str) -> str:
    """Reading copy of a text: marks, tags and entities resolved, spaces collapsed; "[EMPTY]" becomes nothing.

    >>> plain_text("10<sup>3</sup>"), plain_text("76.4<sup>1</sup>")
    ('10³', '76.4¹')
    """
    text = _BRACKET_MARK.sub(" ", text)
    if "<" in text:
        text = _RAISED.sub(lambda match: match[1] + match[2].translate(_TO_SUPERSCRIPT), text)
        text = _INLINE_TAG.sub("", _BREAKING_TAG.sub(" ", text))
    return _SPACE.sub(" ", html.unescape(text)).strip()


def latin_digits(text: str) -> str:
    """Replace every decimal digit by 0–9, and foreign signs by ours, one character for one, so that offsets hold."""
    if text.isascii():
        return text
    return "".join(_SIGNS.get(character) or str(unicodedata.decimal(character, character)) for character in text)


def tokens_at(plain: str) -> list[tuple[str, int, int]]:
    """Normalised tokens of a reading copy in order, with their offsets: NFKC, folded case, Latin digits."""
    found = _TOKEN.finditer(latin_digits(plain))
    return [(unicodedata.normalize("NFKC", match[0]).casefold(), *match.span()) for match in found]


def tokens(text: str) -> list[str]:
    """Normalised tokens of a text in order, without punctuation and markup."""
    return [token for token, _, _ in tokens_at(plain_text(text))]


def token_set(texts: Iterable[str]) -> frozenset[str]:
    """Set of normalised tokens of several texts."""
    return frozenset(token for text in texts for token in tokens(text))


def stem(word: str) -> str:
    """Stem of a token; a number without its separators, one in words as its digits."""
    if word in NUMBER_WORDS:
        return str(NUMBER_WORDS.index(word))
    return re.sub(r",(?=\d{3}(?:\D|$))", "", word) if word[:1].isdigit() else words.stem(word)


def content_stems(text: str) -> list[str]:
    """Stems of the tokens that carry content, in order."""
    return [stem(token) for token in tokens(text) if token not in STOP_WORDS]


@lru_cache(maxsize=1 << 16)
def word_set(text: str) -> frozenset[str]:
    """Content words of a text; of a text without any all its words."""
    return frozenset(content_stems(text) or map(stem, tokens(text)))


@lru_cache(maxsize=1 << 16)
def letter_runs(text: str) -> frozenset[str]:
    """Runs of three signs in the content tokens of a text, each token set off by spaces."""
    padded = (f" {token} " for token in tokens(text) if token not in STOP_WORDS)
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def alternatives(text: str) -> list[str]:
    """A cell's text, and each of its parts where semicolons list alternatives."""
    parts = [part for part in re.split(r"\s*;\s*", text) if part]
    return [text, *parts] if len(parts) > 1 else [text]


def without_unit(header: str) -> str:
    """A header as it is spoken: without the unit or remark that follows in brackets."""
    return _BRACKETS_AT_END.sub("", header) or header


def unit_in(header: str) -> str:
    """What stands in brackets at the end of a header."""
    match = _BRACKETS_AT_END.search(header)
    return match[1].strip() if match and match.start() > 0 else ""


@lru_cache(maxsize=1 << 16)
def same_word(left: str, right: str) -> bool:
    """Whether two words differ at most by a spelling mistake; numbers never do."""
    if left[0] != right[0] or min(len(left), len(right)) < 4 or left[0].isdigit():
        return False
    return fuzz.ratio(left, right) >= _SIMILAR_SPELLING
