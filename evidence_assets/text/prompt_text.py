"""Prompts with slots for a head and a tail: filling them, their own words, the words that an entity may be made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.text.words import NUMBER_WORDS, STOP_WORDS, is_word, split_words

HEAD = "<HEAD>"
TAIL = "<TAIL>"
MASK_SLOT = "<MASK>"
"""Stands for one masked word in the texts that a masked model reads, whatever its own mask token is."""


def find_slot_error(prompt: str) -> str:
    """What is wrong with the slots of ``prompt``, as a sentence; empty when both stand in it exactly once."""
    for slot in (HEAD, TAIL):
        count = prompt.count(slot)
        if count == 0:
            return f"the prompt has no {slot}; write it where the {'head' if slot == HEAD else 'tail'} entity goes"
        if count > 1:
            return f"the prompt has {slot} {count} times; it must stand there once"
    return ""


def fill_prompt(prompt: str, head: str, tail: str) -> str:
    """``prompt`` with its two slots filled, in one pass so that an entity's own text is never taken for a slot."""
    return re.sub(f"{HEAD}|{TAIL}", lambda match: head if match[0] == HEAD else tail, prompt)


def prompt_words(prompt: str) -> list[str]:
    """The prompt's own words, slots left out."""
    return split_words(fill_prompt(prompt, " ", " "))


def same_prompt_key(prompt: str) -> str:
    """Equal for prompts that differ in case, spacing and punctuation alone.

    >>> same_prompt_key("The <HEAD>, is in <TAIL>!") == same_prompt_key("the <HEAD> is in <TAIL>")
    True
    """
    return " ".join(split_words(fill_prompt(prompt, " 0head0 ", " 0tail0 "))).casefold()


def entity_word_positions(vocabulary: Sequence[str], prompts: Iterable[str]) -> npt.NDArray[np.intp]:
    """Positions in ``vocabulary`` of the words that an entity may be made of.

    Left out: what is not a word, single letters, stop words, number words and the own words of ``prompts``.
    """
    banned = STOP_WORDS | NUMBER_WORDS | {word.casefold() for prompt in prompts for word in prompt_words(prompt)}
    kept = [
        position
        for position, word in enumerate(vocabulary)
        if len(word) > 1 and is_word(word) and word.casefold() not in banned
    ]
    return np.asarray(kept, dtype=np.intp)


def as_sentence(text: str) -> str:
    """``text`` with a full stop where it ends without a mark.

    A masked model that meets a slot at the very end of a text expects the full stop there, not an entity.
    """
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
