"""Relation prompts with slots for head and tail: filling them, their words, and the vocabulary of entities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.text.words import NUMBER_WORDS, STOP_WORDS, is_word, split_words

HEAD = "<HEAD>"
TAIL = "<TAIL>"
MASK_SLOT = "<MASK>"
"""Placeholder of one masked word in texts for a masked language model, independent of its mask token."""


def find_slot_error(prompt: str) -> str:
    """An error message about the slots of ``prompt``; empty if it has both exactly once."""
    for slot in (HEAD, TAIL):
        count = prompt.count(slot)
        if count == 0:
            return f"the prompt has no {slot}; write it where the {'head' if slot == HEAD else 'tail'} entity goes"
        if count > 1:
            return f"the prompt has {slot} {count} times; write it once"
    return ""


def fill_prompt(prompt: str, head: str, tail: str) -> str:
    """Fill both slots in one pass, so that text of an entity is never mistaken for a slot."""
    return re.sub(f"{HEAD}|{TAIL}", lambda match: head if match[0] == HEAD else tail, prompt)


def prompt_words(prompt: str) -> list[str]:
    """The words of a prompt without its slots."""
    return split_words(fill_prompt(prompt, " ", " "))


def same_prompt_key(prompt: str) -> str:
    """Key that is equal for prompts that differ only in case, spacing and punctuation.

    >>> same_prompt_key("The <HEAD>, is in <TAIL>!") == same_prompt_key("the <HEAD> is in <TAIL>")
    True
    """
    return " ".join(split_words(fill_prompt(prompt, " 0head0 ", " 0tail0 "))).casefold()


def entity_word_positions(vocabulary: Sequence[str], prompts: Iterable[str]) -> npt.NDArray[np.intp]:
    """Positions in ``vocabulary`` of the words that may occur in an entity.

    Excludes non-words, single letters, stop words, number words and the words of ``prompts``.
    """
    banned = STOP_WORDS | NUMBER_WORDS | {word.casefold() for prompt in prompts for word in prompt_words(prompt)}
    positions = [i for i, w in enumerate(vocabulary) if len(w) > 1 and is_word(w) and w.casefold() not in banned]
    return np.asarray(positions, dtype=np.intp)


def as_sentence(text: str) -> str:
    """``text`` with a final full stop if it has no end mark.

    At the very end of a text, a masked language model predicts the full stop instead of an entity.
    """
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
