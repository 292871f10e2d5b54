"""Words and the normal form of names: how two ways of writing the same thing are recognised without any model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources
from itertools import product
from threading import Lock
from typing import Any


def read_word_lists(file: str) -> dict[str, frozenset[str]]:
    """The lists of words in a file beside this one, by their headings."""
    text = (resources.files(__package__) / file).read_text(encoding="utf-8")
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    _, *parts = re.split(r"^\[(\w+)\]$", text, flags=re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}


_LISTS = read_word_lists("stop_words.txt")
STOP_WORDS = _LISTS["stop"]
"""English words that carry nothing of their own."""
TABLE_WORDS = _LISTS["tables"]
"""Stop words that say something in a table: they compare, order, deny, or head a column."""
GENERIC_TERMS = _LISTS["generic"]
"""Nouns and adjectives that name nothing that a graph could be asked about."""
NUMBER_WORDS = _LISTS["numbers"]

# Whatever is neither space nor punctuation is part of a name's word: Python's \w would cut words at combining vowel
# signs.
_NAME_WORD = re.compile(r"[^\s!-/:-@\[-`{-~\u00a1\u00ab\u00bb\u00bf\u2000-\u206f\u3000-\u303f\uff01-\uff0f]+")
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_APOSTROPHES = "'\u2019"
_ARTICLES = frozenset({"a", "an", "the"})

_IRREGULAR = dict(pair.split("=") for pair in _LISTS["irregular"])


def is_filler(words: Iterable[str]) -> bool:
    """Whether a span says nothing: every word a stop word or a generic term."""
    return all(word.casefold() in STOP_WORDS or word.casefold() in GENERIC_TERMS for word in words)


def words_with_offsets(text: str) -> list[tuple[str, int, int]]:
    """Words of a text with their character positions; the possessive ``'s`` belongs to no word.

    >>> words_with_offsets("The dog's U.S. tour")
    [('The', 0, 3), ('dog', 4, 7), ('U', 10, 11), ('S', 12, 13), ('tour', 15, 19)]
    """
    found = []
    for match in _NAME_WORD.finditer(text):
        start, end = match.span()
        word = match.group()
        # The curly apostrophe is general punctuation, hence never inside a word; the straight one is ASCII punctuation.
        if word in ("s", "S") and start and text[start - 1] in _APOSTROPHES and start > 1 and text[start - 2].isalnum():
            continue
        found.append((word, start, end))
    return found


def split_words(text: str) -> list[str]:
    """The words and numbers of ``text`` in order, without punctuation; a hyphen or an apostrophe joins."""
    return _WORD.findall(text)


def is_word(text: str) -> bool:
    """Whether ``text`` is one word: letters, with single inner hyphens or apostrophes.

    >>> is_word("well-known"), is_word("##ing"), is_word("42nd"), is_word("[PAD]")
    (True, False, False, False)
    """
    return _WORD.fullmatch(text) is not None and not any(map(str.isdecimal, text))


@lru_cache(maxsize=1 << 16)
def word_key(word: str) -> str:
    """Normal form of one word: Unicode NFKC, case folded, English plural taken back to the singular.

    >>> [word_key(w) for w in ("Berries", "boxes", "Buses", "analysis", "glass", "CHILDREN", "été")]
    ['berry', 'box', 'bus', 'analysis', 'glass', 'child', 'été']
    """
    # A ligature may unfold to several words; it stays one here.
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
    """The key under which names are compared: words without punctuation, normalised, joined by single spaces.

    A name without any word (``"+"``) is its own key, stripped. Word order and articles stay, so that "The Who" and
    "who" are two names.
    """
    return " ".join(word_key(word) for word, _, _ in words_with_offsets(name)) or name.strip()


def variant_keys(name: str, limit: int = 16) -> Iterator[str]:
    """Further keys to try for a concept whose own key names nothing, likeliest first.

    The leading article is dropped, and ``-ing`` and ``-ed`` are taken back to the bare verb in the ways that English
    spelling allows (``making`` → ``mak``, ``make``; ``running`` → ``runn``, ``runne``, ``run``).
    """
    parts = name_key(name).split(" ")
    if len(parts) > 1 and parts[0] in _ARTICLES:
        parts = parts[1:]
        yield " ".join(parts)
    readings = [[part, *_verb_stems(part)] for part in parts]
    if all(len(reading) == 1 for reading in readings):
        return
    for count, choice in enumerate(product(*readings)):
        if count > limit:
            return
        if count:
            yield " ".join(choice)


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
    import snowballstemmer  # 40 ms for all languages, which a command that compares no texts need not wait for

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """English word without its endings (Snowball), lower-cased, so that "carving" and "carved" meet.

    >>> [stem(word) for word in ("carving", "carved", "carves", "illnesses", "bus", "Families")]
    ['carv', 'carv', 'carv', 'ill', 'bus', 'famili']
    """
    with _STEMMING:
        return str(_stemmer().stemWord(word.casefold().replace("’", "'")))


_STEMMING = Lock()
"""A stemmer holds the word that it works on, and threads share it."""


def stems(text: str) -> list[str]:
    """Stems of the words of a text in order, stop words left out; all words if no other is left."""
    words = [word.casefold() for word in split_words(text.replace("-", " "))]
    return [stem(word) for word in words if word not in STOP_WORDS] or [stem(word) for word in words]
