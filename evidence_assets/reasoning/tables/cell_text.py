"""Plain text of cells, headers and claims: without markup, as tokens, stems and units."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from evidence_assets.text import words

# Only these markers and tags are markup: "[MASK]", "<unk>" and "p<0.05 and >3" are content in real tables.
_BRACKET_MARKER = re.compile(r"\[(?:BOLD|ITALIC|UNDERLINE|EMPTY|CONTINUE|SUP|SUB)\]", re.IGNORECASE)
_BREAKING_TAG = re.compile(r"</?(?:br|p|div|hr|td|th|tr|li|ul|ol)(?:\s[^<>]*)?\s?/?>", re.IGNORECASE)
_INLINE_TAG = re.compile(
    r"</?(?:b|bold|i|italic|em|strong|u|underline|sub|sup|span|font|a|small|code|tt|center|ref)(?:\s[^<>]*)?\s?/?>",
    re.IGNORECASE,
)
# A superscript number after a number is an exponent or a footnote mark, never more digits.
_RAISED = re.compile(r"(?<=\d)((?:</[a-z]+>)*\s?)<sup(?:\s[^<>]*)?>\s?([+\-−–]?\d[\d, ]*)</sup>", re.IGNORECASE)
_TO_SUPERSCRIPT = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")
# Keep narrow and non-breaking spaces inside numbers: they separate thousands.
_SPACE = re.compile(r"(?!(?<=\d)[\u00a0\u202f\u2009]\d{3}(?!\d))\s+")
# Unlike in text.words, a number keeps its decimal point and separators, and a hyphen separates tokens.
_TABLE_TOKEN = re.compile(r"\d+(?:[.,:]\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_ASCII_SIGNS = dict(zip("٫٬−﹣－＋％٪∗＊．＜＞＝", ".,---+%%**.<>=", strict=True))
_FINAL_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]\s*$")
NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
_HEADER_PREPOSITIONS = frozenset(("of", "per", "in", "for", "to", "from", "at", "on", "by"))
_LISTS = words.read_word_lists("answer_words.txt")
_VERBS = dict(pair.split("=") for pair in _LISTS["irregular_verbs"])

_DATE_WORDS = {name[:n]: name for key in ("days", "months") for name in _LISTS[key] for n in (3, 4)}

STOP_WORDS = words.STOP_WORDS - words.TABLE_WORDS - words.NUMBER_WORDS


def strip_markup(text: str) -> str:
    """Text without markers, tags and entities, with single spaces; "[EMPTY]" becomes "".

    >>> strip_markup("10<sup>3</sup>"), strip_markup("76.4<sup>1</sup>")
    ('10³', '76.4¹')
    """
    text = _BRACKET_MARKER.sub(" ", text)
    if "<" in text:
        text = _RAISED.sub(lambda match: match[1] + match[2].translate(_TO_SUPERSCRIPT), text)
        text = _INLINE_TAG.sub("", _BREAKING_TAG.sub(" ", text))
    return _SPACE.sub(" ", html.unescape(text)).strip()


def normalize_digits(text: str) -> str:
    """Text with digits and signs of other scripts in ASCII, character by character, so offsets stay valid."""
    if text.isascii():
        return text
    return "".join(_ASCII_SIGNS.get(char) or str(unicodedata.decimal(char, char)) for char in text)


def tokenize_with_offsets(plain: str) -> list[tuple[str, int, int]]:
    """Tokens of a plain text with their offsets: NFKC, case-folded, ASCII digits."""
    matches = _TABLE_TOKEN.finditer(normalize_digits(plain))
    return [(unicodedata.normalize("NFKC", match[0]).casefold(), *match.span()) for match in matches]


def tokenize(text: str) -> list[str]:
    """Tokens of a text without punctuation and markup."""
    return [token for token, _, _ in tokenize_with_offsets(strip_markup(text))]


def collect_tokens(texts: Iterable[str]) -> frozenset[str]:
    """The set of tokens of several texts."""
    return frozenset(token for text in texts for token in tokenize(text))


def stem(word: str) -> str:
    """Stem of a token, of "drew" that of "draw", of "Fri" that of "Friday"; a number word as digits."""
    if word in NUMBER_WORDS:
        return str(NUMBER_WORDS.index(word))
    return (
        re.sub(r",(?=\d{3}(?:\D|$))", "", word)
        if word[:1].isdigit()
        else words.stem(_DATE_WORDS.get(word) or _VERBS.get(word, word))
    )


def stem_content_words(text: str) -> list[str]:
    """Stems of the tokens that are not stop words."""
    return [stem(token) for token in tokenize(text) if token not in STOP_WORDS]


@lru_cache(maxsize=1 << 16)
def collect_words(text: str) -> frozenset[str]:
    """The set of stems of a text, without stop words unless it has no other words."""
    return frozenset(stem_content_words(text) or map(stem, tokenize(text)))


@lru_cache(maxsize=1 << 16)
def trigrams(text: str) -> frozenset[str]:
    """Character trigrams of the content tokens, each token padded with spaces."""
    padded = (f" {token} " for token in tokenize(text) if token not in STOP_WORDS)
    return frozenset(word[i : i + 3] for word in padded for i in range(len(word) - 2))


def split_alternatives(text: str) -> list[str]:
    """The text, and the alternatives in it, which semicolons separate."""
    alternatives = [phrase for phrase in re.split(r"\s*;\s*", text) if phrase] if ";" in text else []
    return [text, *alternatives] if len(alternatives) > 1 else [text]


def strip_unit(header: str) -> str:
    """A header without its unit or remark in final brackets."""
    return _FINAL_BRACKETS.sub("", header) or header


@lru_cache(maxsize=1 << 12)
def header_noun(header: str) -> str:
    """Stem of the noun that a header is about: "head" of "Head of office", "people" of "Number of people"."""
    words = tokenize(strip_unit(header))
    border = next((n for n, word in enumerate(words) if word in _HEADER_PREPOSITIONS), len(words))
    noun = words[border - 1 : border] or words[-1:]
    return stem(words[-1] if noun == ["number"] else noun[0]) if words else ""


def extract_unit(header: str) -> str:
    """The text in the final brackets of a header, or ""."""
    match = _FINAL_BRACKETS.search(header)
    return match[1].strip() if match and match.start() > 0 else ""
