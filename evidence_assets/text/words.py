"""Words, stems and normal forms of names, which match different spellings without a model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources
from itertools import islice, product
from threading import Lock
from typing import Any


def read_word_lists(file: str) -> dict[str, frozenset[str]]:
    """Word lists of a file in this package, by heading."""
    text = (resources.files(__package__) / file).read_text(encoding="utf-8")
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    _, *sections = re.split(r"^\[(\w+)\]$", text, flags=re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in zip(sections[::2], sections[1::2], strict=True)}


_LISTS = read_word_lists("stop_words.txt")
STOP_WORDS = _LISTS["stop"]
"""English stop words."""
TABLE_WORDS = _LISTS["tables"]
"""Stop words with a meaning in tables: they compare, order, negate, or head a column."""
GENERIC_TERMS = _LISTS["generic"]
"""Generic nouns and adjectives, which are never linked to a graph."""
NUMBER_WORDS = _LISTS["numbers"]

# Words of a name: everything except spaces and punctuation; \w would split words at combining vowel signs.
_NAME_WORD = re.compile(r"[^\s!-/:-@\[-`{-~\u00a1\u00ab\u00bb\u00bf\u2000-\u206f\u3000-\u303f\uff01-\uff0f]+")
# Words of a sentence, with inner hyphens and apostrophes.
_SENTENCE_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_APOSTROPHES = "'\u2019"
_ARTICLES = frozenset({"a", "an", "the"})
_MAX_VARIANTS = 16

_IRREGULAR = dict(pair.split("=") for pair in _LISTS["irregular"])


def is_filler(words: Iterable[str]) -> bool:
    """Whether all words are stop words or generic terms."""
    return all(word.casefold() in STOP_WORDS or word.casefold() in GENERIC_TERMS for word in words)


def words_with_offsets(text: str) -> list[tuple[str, int, int]]:
    """Words of a text with their character positions, without the possessive ``'s``.

    >>> words_with_offsets("The dog's U.S. tour")
    [('The', 0, 3), ('dog', 4, 7), ('U', 10, 11), ('S', 12, 13), ('tour', 15, 19)]
    """
    words = []
    for match in _NAME_WORD.finditer(text):
        start, end = match.span()
        word = match.group()
        # The curly apostrophe is general punctuation, hence never inside a word; the straight one is ASCII punctuation.
        if word in ("s", "S") and start and text[start - 1] in _APOSTROPHES and start > 1 and text[start - 2].isalnum():
            continue
        words.append((word, start, end))
    return words


def split_words(text: str) -> list[str]:
    """The words and numbers of ``text`` in order, without punctuation; hyphens and apostrophes join words."""
    return _SENTENCE_WORD.findall(text)


def is_word(text: str) -> bool:
    """Whether ``text`` is one word: letters, with single inner hyphens or apostrophes.

    >>> is_word("well-known"), is_word("##ing"), is_word("42nd"), is_word("[PAD]")
    (True, False, False, False)
    """
    return _SENTENCE_WORD.fullmatch(text) is not None and not any(map(str.isdecimal, text))


@lru_cache(maxsize=1 << 16)
def word_key(word: str) -> str:
    """Normal form of a word: NFKC, case-folded, English plurals as singulars.

    >>> [word_key(w) for w in ("Berries", "boxes", "Buses", "analysis", "glass", "CHILDREN", "été")]
    ['berry', 'box', 'bus', 'analysis', 'glass', 'child', 'été']
    """
    # NFKC may expand a ligature to several words, which are joined again.
    key = "".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).split())
    if not key.isascii() or len(key) < 4 or not key.endswith("s"):
        return _IRREGULAR.get(key, key)
    if key in _IRREGULAR:
        return _IRREGULAR[key]
    if key.endswith("ies") and len(key) > 4:
        return key[:-3] + "y"
    if key.endswith(("sses", "shes", "ches", "xes", "zzes", "uses", "oes")) and len(key) > 4:
        # "uses" is the plural of -us ("buses", "viruses") but also of -use ("houses", "causes").
        return key[:-1] if key.endswith(("ouses", "auses")) else key[:-2]
    if key.endswith(("ss", "us", "is")):
        return key
    return key[:-1]


def name_key(name: str) -> str:
    """Comparison key of a name: its normalized words without punctuation, joined by single spaces.

    A name without words (``"+"``) is its own key, stripped. The key keeps word order and articles, so that "The Who"
    and "who" differ.
    """
    return " ".join(word_key(word) for word, _, _ in words_with_offsets(name)) or name.strip()


def variant_keys(name: str) -> Iterator[str]:
    """Further keys to try if a name's own key has no match, most likely first.

    They drop a leading article and reduce ``-ing`` and ``-ed`` to possible verb stems (``making`` → ``mak``, ``make``;
    ``running`` → ``runn``, ``runne``, ``run``).
    """
    words = name_key(name).split(" ")
    if len(words) > 1 and words[0] in _ARTICLES:
        words = words[1:]
        yield " ".join(words)
    forms_by_word = [[word, *_verb_stems(word)] for word in words]
    yield from map(" ".join, islice(product(*forms_by_word), 1, _MAX_VARIANTS + 1))


def _verb_stems(word: str) -> list[str]:
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 2 and word.isascii() and re.search("[aeiouy]", stem):
            stems = [stem, stem + "e"]
            if len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
                stems.append(stem[:-1])
            return stems
    return []


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import snowballstemmer  # takes 40 ms, so it is imported only for stemming

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Snowball stem of an English word, lower-cased.

    >>> [stem(word) for word in ("carving", "carved", "carves", "illnesses", "bus", "Families")]
    ['carv', 'carv', 'carv', 'ill', 'bus', 'famili']
    """
    with _STEMMING:
        return str(_stemmer().stemWord(word.casefold().replace("’", "'")))


_STEMMING = Lock()
"""Stemmers are stateful and threads share one."""


_MAX_NAME_WORDS = 5


def is_name_or_number(text: str) -> bool:
    """Whether a text is a name or a few words with a number: a sentence that states it must contain the same words.

    >>> [is_name_or_number(t) for t in ("Tom Okafor", "180 degrees", "the Sea of Japan", "a cold sea", "Cold seas")]
    [True, True, True, False, False]
    """
    words = [word for word in split_words(text) if word.casefold() not in STOP_WORDS]
    is_name = bool(words) and all(word[0].isupper() for word in words)
    return len(words) <= _MAX_NAME_WORDS and (is_name or any(map(str.isdecimal, text)))


def stems(text: str) -> list[str]:
    """Stems of the words of a text in order, without stop words unless it has no others."""
    words = [word.casefold() for word in split_words(text.replace("-", " "))]
    return [stem(word) for word in words if word not in STOP_WORDS] or [stem(word) for word in words]
