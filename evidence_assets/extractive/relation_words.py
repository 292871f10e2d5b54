"""What a question asks for and a relation says: words and phrases by meaning, such as "born" and "birthplace"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.text.words import split_words, stem

WORDS_FILE = Path(__file__).with_suffix(".yaml")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where the words of "bornIn" meet."""


class WordWithMeaning(NamedTuple):
    """A word or phrase of a text that asks for a relation or names one: its stems and its meanings."""

    stems: tuple[str, ...]
    meanings: frozenset[str]

    @property
    def is_light(self) -> bool:
        """Whether it asks for a relation only if no other word does, such as "made"."""
        return len(self.stems) == 1 and self.stems[0] in _light_stems()


@lru_cache
def _light_stems() -> frozenset[str]:
    return frozenset(map(stem, read_yaml_mapping(WORDS_FILE)["light"]))


@lru_cache
def _meanings_of_stems() -> dict[tuple[str, ...], frozenset[str]]:
    meanings: dict[tuple[str, ...], set[str]] = {}
    for meaning, phrases in read_yaml_mapping(WORDS_FILE)["meanings"].items():
        for phrase in phrases:
            meanings.setdefault(_split_stems(phrase), set()).add(meaning)
    return {stems: frozenset(names) for stems, names in meanings.items()}


@lru_cache
def relation_words_version() -> str:
    """Changes with the words and their meanings."""
    words = sorted((stems, sorted(names)) for stems, names in _meanings_of_stems().items())
    return content_id("relation words", words, sorted(_light_stems()))


def find_meanings(text: str) -> list[WordWithMeaning]:
    """Words and phrases with a meaning, in order; of overlapping ones the longest.

    >>> [(word.stems, sorted(word.meanings)) for word in find_meanings("Who took the place of her wife?")]
    [(('took', 'the', 'place'), ['replacement']), (('wife',), ['wife'])]
    >>> [sorted(word.meanings) for word in find_meanings("bornIn")]
    [['birth']]
    """
    stems = _split_stems(text)
    meanings = _meanings_of_stems()
    longest = max(map(len, meanings))
    words = []
    start = 0
    while start < len(stems):
        phrases = (stems[start : start + length] for length in range(longest, 0, -1))
        phrase = next((phrase for phrase in phrases if phrase in meanings), None)
        if phrase is None:
            start += 1
            continue
        words.append(WordWithMeaning(phrase, meanings[phrase]))
        start += len(phrase)
    return words


def join_meanings(texts: Sequence[str]) -> frozenset[str]:
    """All meanings of the words of some texts."""
    return frozenset(meaning for text in texts for word in find_meanings(text) for meaning in word.meanings)


def _split_stems(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in split_words(_JOINT.sub(" ", text)))
