"""Words and prompts as text: slots, filling, what counts as a word, which words may not be an entity.

Belongs here: rules on strings that prompt mining, tuple search and triple scoring share. Nothing here asks a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

HEAD = "<HEAD>"
TAIL = "<TAIL>"
SLOT = "<MASK>"
"""Stands for one masked word in the texts that a masked model reads, whatever its own mask token is."""

_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_TOKEN = re.compile(r"\w+(?:[-'’]\w+)*")

_FUNCTION_WORDS = """
a about above after again against all almost along also although always am among an and another any anything are around
as at away back be became because become been before began behind being below between both but by came can cannot could
did do does doing done down during each either else enough etc even ever every everything few for from further gave get
gets give given go goes going gone got had has have having he hence her here hers herself him himself his how however i
if in indeed instead into is it its itself just kept least less let like made mainly make makes many may me might mine
more most mostly much must my myself near nearly neither never no nobody none nor not nothing now of off often on once
only onto or other others our ours ourselves out over own per perhaps put quite rather really said same seem seems
several shall she should since so some something sometimes somewhere soon still such than that the their theirs them
themselves then there these they thing things this those though through thus till to together too toward towards under
unless until up upon us usually very via was we well were what whatever when where whether which while who whoever
whole whom whose why will with within without would yes yet you your yours yourself yourselves
"""
_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions
billion billions trillion dozen first second third fourth fifth sixth seventh eighth ninth tenth half twice
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that carry no entity by themselves."""
NUMBER_WORDS = frozenset(_NUMBER_WORDS.split())


def is_word(text: str) -> bool:
    """Whether ``text`` is one word: letters, with single inner hyphens or apostrophes.

    >>> is_word("well-known"), is_word("##ing"), is_word("42nd"), is_word("[PAD]")
    (True, False, False, False)
    """
    return _WORD.fullmatch(text) is not None


def words_of(text: str) -> list[str]:
    """The words and numbers of ``text`` in order, without punctuation."""
    return _TOKEN.findall(text)


def missing_slot(prompt: str) -> str:
    """What is wrong with the slots of ``prompt``, as a sentence; empty when both stand in it exactly once."""
    for slot in (HEAD, TAIL):
        count = prompt.count(slot)
        if count == 0:
            return f"the prompt has no {slot}; write it where the {'head' if slot == HEAD else 'tail'} entity goes"
        if count > 1:
            return f"the prompt has {slot} {count} times; it must stand there once"
    return ""


def fill(prompt: str, head: str, tail: str) -> str:
    """``prompt`` with its two slots filled, in one pass so that an entity's own text is never taken for a slot."""
    return re.sub(f"{HEAD}|{TAIL}", lambda match: head if match[0] == HEAD else tail, prompt)


def prompt_words(prompt: str) -> list[str]:
    """The prompt's own words, slots left out."""
    return words_of(fill(prompt, " ", " "))


def same_prompt_key(prompt: str) -> str:
    """Equal for prompts that differ in case, spacing and punctuation alone.

    >>> same_prompt_key("The <HEAD>, is in <TAIL>!") == same_prompt_key("the <HEAD> is in <TAIL>")
    True
    """
    return " ".join(words_of(fill(prompt, " 0head0 ", " 0tail0 "))).casefold()


def entity_words(vocabulary: Sequence[str], prompts: Iterable[str]) -> npt.NDArray[np.intp]:
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
