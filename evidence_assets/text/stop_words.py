"""Words that carry nothing of their own; ``stop_words.txt`` lists them and says who leaves which of them out."""

from __future__ import annotations

import re
from importlib import resources


def _lists() -> dict[str, frozenset[str]]:
    text = (resources.files(__package__) / "stop_words.txt").read_text(encoding="utf-8")
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    _, *parts = re.split(r"^\[(\w+)\]$", text, flags=re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}


_LISTS = _lists()
CONCEPT_STOP_WORDS = _LISTS["all"] | _LISTS["concepts"]
"""Words that begin or end no concept."""
STATEMENT_STOP_WORDS = _LISTS["all"] | _LISTS["statements"]
"""Words by which a statement is not compared with a question."""
PROMPT_STOP_WORDS = _LISTS["all"] | _LISTS["prompts"]
"""Words that are no entity and no keyword of a prompt."""
GENERIC_TERMS = _LISTS["generic"]
"""Nouns and adjectives that name nothing that a graph could be asked about."""
NUMBER_WORDS = _LISTS["numbers"]


def is_filler(words: list[str] | tuple[str, ...]) -> bool:
    """Whether a span says nothing: every word a stop word or a generic term."""
    return all(word.casefold() in CONCEPT_STOP_WORDS or word.casefold() in GENERIC_TERMS for word in words)
