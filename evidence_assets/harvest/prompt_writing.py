"""Writes candidate prompts out of keywords: by a keyword-to-sentence model, or by a masked one that stands in for it.

For a masked model a sentence is laid out as its keywords with gaps of a few masked words between them, filled left to
right with the words likeliest for all pairs together, so that a connective fits the relation rather than one pair.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.text.prompt_text import HEAD, SLOT, TAIL, as_sentence, fill
from evidence_assets.text.words import is_word, words_of

Pair = tuple[str, str]
SlotLogProbs = Callable[[Sequence[str], Sequence[int]], npt.NDArray[np.floating]]
"""Texts with ``SLOT`` and which slot is asked of each; answers rows of log-probabilities over a vocabulary."""
Sentences = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Keywords, side by side, to sentences for each."""


def written_sentences(orders: Sequence[Sequence[str]], pairs: Sequence[Pair], write: Sentences) -> list[str]:
    """What a keyword-to-sentence model writes of each order with the first pair's entities in it.

    A sentence that lost a keyword, or the order of them, is dropped.
    """
    named = [[fill(item, *pairs[0]) for item in order] for order in orders]
    replies = write([" ".join(items) for items in named])
    return [text for items, own in zip(named, replies, strict=True) for text in own if _in_order(text, items)]


def _in_order(text: str, items: Sequence[str]) -> bool:
    words, at = f" {' '.join(words_of(text))} ".casefold(), 0
    for item in items:
        found = words.find(f" {' '.join(words_of(item))} ".casefold(), at)
        if found < 0:
            return False
        at = found + 1
    return True


def infill_prompts(
    orders: Sequence[Sequence[str]],
    pairs: Sequence[Pair],
    slot_log_probs: SlotLogProbs,
    vocabulary: Sequence[str],
    *,
    keep: int = 60,
    max_layouts: int = 1200,
) -> list[str]:
    """Prompts that hold all items of an order, in that order, with gaps filled by the model.

    ``orders``: Keyword orders; ``<HEAD>`` and ``<TAIL>`` are items like the others.
    ``keep``: How many prompts come back: those whose gap words have the highest mean log-probability.
    ``max_layouts``: Layouts tried at most, those with the fewest gap words first.
    """
    layouts = _layouts(orders, max_layouts)
    if not layouts or not pairs:
        return []
    own = {word.casefold() for pair in pairs for entity in pair for word in entity.split()}
    allowed = np.asarray([is_word(word) and word.casefold() not in own for word in vocabulary])
    position = {word: number for number, word in enumerate(vocabulary)}
    scores = np.zeros(len(layouts))
    gaps = np.asarray([layout.count(SLOT) for layout in layouts])
    for _ in range(int(gaps.max())):
        open_layouts = [number for number, layout in enumerate(layouts) if SLOT in layout]
        if not open_layouts or not allowed.any():
            break
        texts = [as_sentence(fill(" ".join(layouts[number]), *pair)) for number in open_layouts for pair in pairs]
        rows = slot_log_probs(texts, [0] * len(texts))
        mean = rows.reshape(len(open_layouts), len(pairs), -1).mean(axis=1, dtype=np.float64)
        mean[:, ~allowed] = -np.inf
        for number, row in zip(open_layouts, mean, strict=True):
            at = layouts[number].index(SLOT)
            if at and layouts[number][at - 1] in position:  # a word is not said twice in a row
                row[position[layouts[number][at - 1]]] = -np.inf
            best = int(row.argmax())
            layouts[number][at] = vocabulary[best]
            scores[number] += row[best]
    scores = np.where(gaps > 0, scores / np.maximum(gaps, 1), 0.0)
    ranking = sorted(range(len(layouts)), key=lambda number: (-scores[number], layouts[number]))
    return list(dict.fromkeys(" ".join(layouts[number]) for number in ranking))[:keep]


def _layouts(orders: Sequence[Sequence[str]], limit: int) -> list[list[str]]:
    found: list[tuple[int, int, list[str]]] = []
    for rank, order in enumerate(orders):
        widest = 3 if len(order) <= 3 else 2
        inner = [range(widest + 1)] * (len(order) - 1)
        for before, after, *between in itertools.product(range(3 if len(order) <= 3 else 2), range(2), *inner):
            layout = [SLOT] * before + [order[0]]
            for size, item in zip(between, order[1:], strict=True):
                layout += [SLOT] * size + [item]
            layout += [SLOT] * after
            # Nothing could say how head and tail are related where they touch.
            if abs(layout.index(HEAD) - layout.index(TAIL)) > 1:
                found.append((layout.count(SLOT), rank, layout))
    found.sort(key=lambda item: item[:2])
    return [layout for _, _, layout in found[:limit]]
