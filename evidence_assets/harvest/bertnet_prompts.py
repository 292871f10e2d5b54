"""Stage 1 of BertNet (Hao et al. 2023): paraphrases of a prompt, weighted by the seed pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np

from evidence_assets.harvest.prompt_mining import (
    EntityPair,
    MinedPrompt,
    PromptSetting,
    SentenceGenerator,
    restore_slots,
)
from evidence_assets.models.vectors import Array, softmax
from evidence_assets.text.prompt_text import as_sentence, fill_prompt, same_prompt_key

PairScorer = Callable[[Sequence[tuple[str, EntityPair]]], Sequence[float]]
"""Scores each pair in its prompt; see ``tuple_search.bertnet_score``."""
MAX_SIMILARITY = 0.75
MIN_PROMPTS = 10
MAX_PROMPTS = 20
MAX_ROUNDS = 5
MIN_WEIGHT = 0.05
_MIXED_PAIR_WEIGHT = 0.5


def reword_prompt(prompt: str, pairs: Sequence[EntityPair], write: SentenceGenerator) -> list[str]:
    """Paraphrases of a prompt from sentences about the pairs, reworded until there are no new ones."""
    prompts: list[str] = []
    for _ in range(MAX_ROUNDS):
        inputs = [(source, pair) for source in (prompt, *prompts) for pair in pairs]
        replies = write([as_sentence(fill_prompt(source, *pair)) for source, pair in inputs])
        texts = [
            restore_slots(text.strip().rstrip("."), *pair)
            for (_, pair), sentences in zip(inputs, replies, strict=True)
            for text in sentences
        ]
        candidates = [text for text in texts if text and same_prompt_key(text) != same_prompt_key(prompt)]
        extended = select_distinct(candidates, prompts)
        if len(extended) == len(prompts):
            break
        prompts = extended[:MAX_PROMPTS]
        if len(prompts) >= MIN_PROMPTS:
            break
    return prompts


def select_distinct(candidates: Iterable[str], selected: Sequence[str] = ()) -> list[str]:
    """``selected`` plus the candidates, shortest first, that are under 75 % similar to each earlier one."""
    prompts = list(selected)
    for text in sorted(set(candidates), key=lambda text: (len(text), text)):
        if all(SequenceMatcher(None, text, other, autojunk=False).ratio() < MAX_SIMILARITY for other in prompts):
            prompts.append(text)
    return prompts


def score_prompt_fit(prompts: Sequence[str], pairs: Sequence[EntityPair], score: PairScorer) -> list[float]:
    """Fit of each prompt: mean score of the seed pairs − ½ · mean score of mixed pairs.

    Mixed pairs combine a pair's head with the tails of other pairs, and its tail with their heads.
    """
    mixed = [
        mixed_pair
        for head, tail in pairs
        for h, t in pairs
        for mixed_pair, differs in (((head, t), t != tail), ((h, tail), h != head))
        if differs
    ]
    inputs = [(prompt, pair) for prompt in prompts for pair in (*pairs, *mixed)]
    rows = np.asarray(score(inputs), dtype=np.float64).reshape(len(prompts), -1)
    right = rows[:, : len(pairs)].mean(axis=1)
    wrong = rows[:, len(pairs) :].mean(axis=1) if mixed else np.zeros(len(prompts))
    return [float(value) for value in right - _MIXED_PAIR_WEIGHT * wrong]


def weigh_prompts(scores: Sequence[float]) -> Array:
    """Softmax of the scores, with weights under 5 % set to 0; if all are under it, they are kept."""
    share = softmax(scores)
    if share.max() >= MIN_WEIGHT:
        share[share < MIN_WEIGHT] = 0
    return np.asarray(share / share.sum())


def mine_bertnet_prompts(
    prompt: str,
    pairs: Sequence[EntityPair],
    candidates: Sequence[str],
    score: PairScorer,
    *,
    setting: PromptSetting,
    n: int,
) -> list[MinedPrompt]:
    """The prompt and its paraphrases, best first, with BertNet's weights; ``setting`` as in ``mine_prompts``."""
    if setting == "initial":
        return [MinedPrompt(prompt, 1.0, None, None, None, 0.0, True)]
    texts = list(dict.fromkeys([prompt, *candidates]))
    scored = sorted(zip(score_prompt_fit(texts, pairs, score), texts, strict=True), key=lambda i: (-i[0], i[1]))
    selected = scored[:n]
    if setting == "top1":
        selected = [item for item in scored if item[1] != prompt][:1] or selected[:1]
    weights = dict(zip((text for _, text in selected), weigh_prompts([value for value, _ in selected]), strict=True))
    return [MinedPrompt(t, share := float(weights.get(t, 0)), None, None, None, v, share > 0) for v, t in scored]
