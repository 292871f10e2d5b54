"""Stage 1 of BertNet (Hao et al. 2023): rewordings of a prompt, and their weights by the seed pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest.prompt_mining import (
    EntityPair,
    MinedPrompt,
    PromptSetting,
    SentenceGenerator,
    restore_slots,
)
from evidence_assets.text.prompt_text import as_sentence, fill_prompt, same_prompt_key

PairScorer = Callable[[Sequence[tuple[str, EntityPair]]], Sequence[float]]
"""How probable each pair is in its prompt; see ``tuple_search.bertnet_score``."""
MAX_SIMILARITY = 0.75
MIN_PROMPTS = 10
MAX_ROUNDS = 5
MIN_WEIGHT = 0.05
_MIXED = 0.5


def reword_prompt(prompt: str, pairs: Sequence[EntityPair], paraphrase: SentenceGenerator, most: int = 20) -> list[str]:
    """Prompts in other words, out of sentences about the pairs; reworded again until nothing is new."""
    found: list[str] = []
    for _ in range(MAX_ROUNDS):
        asked = [(source, pair) for source in (prompt, *found) for pair in pairs]
        replies = paraphrase([as_sentence(fill_prompt(source, *pair)) for source, pair in asked])
        texts = [
            restore_slots(text.strip().rstrip("."), *pair)
            for (_, pair), own in zip(asked, replies, strict=True)
            for text in own
        ]
        more = select_distinct(
            [text for text in texts if text and same_prompt_key(text) != same_prompt_key(prompt)], found
        )
        if len(more) == len(found):
            break
        found = more[:most]
        if len(found) >= MIN_PROMPTS:
            break
    return found


def select_distinct(candidates: Iterable[str], taken: Sequence[str] = ()) -> list[str]:
    """``taken`` and, the shortest first, candidates with less than 75 % of their letters in common with each before."""
    kept = list(taken)
    for text in sorted(set(candidates), key=lambda text: (len(text), text)):
        if all(SequenceMatcher(None, text, other, autojunk=False).ratio() < MAX_SIMILARITY for other in kept):
            kept.append(text)
    return kept


def score_prompt_fit(prompts: Sequence[str], pairs: Sequence[EntityPair], score: PairScorer) -> list[float]:
    """How well each prompt tells seed pairs from others: mean score of the pairs − ½ · mean score of mixed ones.

    Mixed are a pair's head with the tails of the others, and its tail with their heads.
    """
    mixed = [
        wrong
        for head, tail in pairs
        for h, t in pairs
        for wrong, differs in (((head, t), t != tail), ((h, tail), h != head))
        if differs
    ]
    asked = [(prompt, pair) for prompt in prompts for pair in (*pairs, *mixed)]
    rows = np.asarray(score(asked), dtype=np.float64).reshape(len(prompts), -1)
    right = rows[:, : len(pairs)].mean(axis=1)
    wrong = rows[:, len(pairs) :].mean(axis=1) if mixed else np.zeros(len(prompts))
    return [float(value) for value in right - _MIXED * wrong]


def weigh_prompts(scores: Sequence[float]) -> npt.NDArray[np.float64]:
    """Softmax of the scores; what is under 5 % counts for nothing, unless all are."""
    raised = np.exp(np.asarray(scores, dtype=np.float64) - max(scores))
    share = raised / raised.sum()
    if share.max() >= MIN_WEIGHT:
        share[share < MIN_WEIGHT] = 0
    weighed: npt.NDArray[np.float64] = share / share.sum()
    return weighed


def mine_bertnet_prompts(
    prompt: str,
    pairs: Sequence[EntityPair],
    candidates: Sequence[str],
    score: PairScorer,
    *,
    setting: PromptSetting,
    n: int,
) -> list[MinedPrompt]:
    """The given prompt and its rewordings, best first, with BertNet's weights; ``setting`` as for ``mine_prompts``."""
    if setting == "initial":
        return [MinedPrompt(prompt, 1.0, None, None, None, 0.0, True)]
    texts = list(dict.fromkeys([prompt, *candidates]))
    scored = sorted(
        zip(score_prompt_fit(texts, pairs, score), texts, strict=True), key=lambda item: (-item[0], item[1])
    )
    chosen = scored[:n]
    if setting == "top1":
        chosen = [item for item in scored if item[1] != prompt][:1] or chosen[:1]
    weighed = dict(zip((text for _, text in chosen), weigh_prompts([value for value, _ in chosen]), strict=True))
    return [
        MinedPrompt(text, share := float(weighed.get(text, 0)), None, None, None, value, share > 0)
        for value, text in scored
    ]
