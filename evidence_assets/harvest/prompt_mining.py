"""Stage 1 of K-Bloom: paraphrase a relation's prompt without labels.

Belongs here: keywords, their orders and substitutes, putting entities back to slots, the choice of the best prompts.
Models are callables, so that a fine-tuned generator takes the writer's place without a change here.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest.prompt_writing import Pair, SlotLogProbs
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.prompt_text import (
    HEAD,
    SLOT,
    TAIL,
    as_sentence,
    fill,
    missing_slot,
    prompt_words,
    same_prompt_key,
)
from evidence_assets.text.words import STOP_WORDS, is_word, words_of

_SMOOTHING = 0.01
_LOWEST_ENTROPY = 1e-6


def bert_score(reference: npt.NDArray[np.floating], candidate: npt.NDArray[np.floating]) -> float:
    """F1 of the greedy word matching between two sentences' word vectors (n × d and m × d).

    Recall is the mean over the reference's words of the best cosine in the candidate, precision the other way round.

    >>> bert_score(np.eye(2), np.eye(2))
    1.0
    """
    if not len(reference) or not len(candidate):
        return 0.0
    left, right = (unit_rows(np.asarray(vectors, dtype=np.float64)) for vectors in (reference, candidate))
    cosine = left @ right.T
    recall, precision = float(cosine.max(axis=1).mean()), float(cosine.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Sentence BLEU: brevity penalty × geometric mean of the clipped n-gram precisions, case ignored.

    n runs to 4, or to the length of the shorter sentence; a precision of 0 makes the whole 0.

    >>> bleu("a b c d e".split(), "a b c d e".split())
    1.0
    """
    longest = min(4, len(reference), len(candidate))
    if longest == 0:
        return 0.0
    wanted = [word.casefold() for word in reference]
    given = [word.casefold() for word in candidate]
    logs = []
    for size in range(1, longest + 1):
        known, ours = _ngrams(wanted, size), _ngrams(given, size)
        matches = sum((known & ours).values())
        if matches == 0:
            return 0.0
        logs.append(np.log(matches / sum(ours.values())))
    brevity = min(0.0, 1 - len(wanted) / len(given))
    return float(np.exp(brevity + np.mean(logs)))


def inverse_bleu(bleu_score: float) -> float:
    """sigmoid((1 + 0.01) / (BLEU + 0.01)): nearer to 1 the less a candidate copies."""
    return float(1 / (1 + np.exp(-(1 + _SMOOTHING) / (bleu_score + _SMOOTHING))))


def certainty(log_probs: npt.NDArray[np.floating]) -> float:
    """1 / Σ −P log P over the words of a sentence, P the model's probability of each; the entropy is at least 1e-6.

    As printed, an improbable word lowers the entropy just as a certain one does. ``mean_probability`` is the form
    without that fault.
    """
    values = np.asarray(log_probs, dtype=np.float64)
    return float(1 / max(_LOWEST_ENTROPY, float(-(np.exp(values) * values).sum())))


def mean_probability(log_probs: npt.NDArray[np.floating]) -> float:
    """Geometric mean of the model's probabilities of the words: certain only where the words are probable."""
    return float(np.exp(np.mean(log_probs))) if len(log_probs) else 0.0


def compatibility(bert: float, bleu_score: float, certain: float, *, alpha: float = 1.0, beta: float = 1.0) -> float:
    """α · (BERTScore + iBLEU) + β · certainty."""
    return alpha * (bert + inverse_bleu(bleu_score)) + beta * certain


def _ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


Choice = Literal["printed", "probable"]
Setting = Literal["initial", "top1", "multi"]
KEYWORDS, SUBSTITUTES = 2, 4
"""Keywords of a prompt, and substitutes of each, that prompts are written with."""
PROPOSALS, SIMILARITY = 20, 0.6
"""Words that are looked at as substitutes, and the least cosine of what they make of the sentence with the original."""
_LEAST_PROBABLE = 0.5

SentenceVectors = Callable[[Sequence[str]], npt.NDArray[np.floating]]
WordVectors = Callable[[Sequence[str]], Sequence[npt.NDArray[np.floating]]]
"""One matrix of contextual word vectors for each text."""
WordLogProbs = Callable[[Sequence[str]], Sequence[npt.NDArray[np.floating]]]
"""The log-probabilities of each text's words."""
Writer = Callable[[Sequence[Sequence[str]], Sequence[Pair]], Sequence[str]]
"""Keyword orders and seed pairs to sentences: with slots, or with the first pair's entities in their place."""
Likeness = Callable[[str], npt.NDArray[np.floating]]
"""How like each word of the vocabulary is to a word, as log-probabilities."""


@dataclass(frozen=True)
class MiningModels:
    """What Stage 1 asks of models.

    ``vocabulary`` and ``slot_log_probs`` are of the model that proposes substitutes; where it knows of ``likeness``,
    that counts as much as what fits the place.
    """

    vocabulary: Sequence[str]
    slot_log_probs: SlotLogProbs
    word_vectors: WordVectors
    word_log_probs: WordLogProbs
    sentence_vectors: SentenceVectors
    write: Writer
    likeness: Likeness | None = None


@dataclass(frozen=True)
class MinedPrompt:
    """A prompt with its scores, means over the seed pairs. ``weight`` is 0 where the prompt is not kept.

    ``bert_score``, ``ibleu`` and ``certainty`` make up K-Bloom's compatibility; BertNet's is one number.
    """

    text: str
    weight: float
    bert_score: float | None
    ibleu: float | None
    certainty: float | None
    compatibility: float
    kept: bool


def mine_prompts(
    prompt: str,
    pairs: Sequence[Pair],
    models: MiningModels,
    *,
    setting: Setting = "multi",
    n: int = 20,
    choice: Choice = "printed",
) -> list[MinedPrompt]:
    """Candidate prompts, best first; those kept carry weights that sum to 1.

    ``initial`` keeps the given prompt alone, ``top1`` the best prompt that the search wrote (the given one where it
    wrote none), ``multi`` the best ``n``, the given one among the candidates.

    ``choice="printed"`` scores as published, with certainty 1 / Σ −P log P, which an improbable sentence wins.
    ``probable`` takes the words' mean probability as certainty and drops candidates whose words are less than half as
    probable as those of the given prompt.
    """
    if fault := missing_slot(prompt):
        raise ValueError(fault)
    if not pairs:
        raise ValueError("a relation needs at least one seed pair")
    candidates = [prompt]
    if setting != "initial":
        candidates += paraphrases(prompt, pairs, models)
    scored = score_prompts(prompt, candidates, pairs, models, choice)
    eligible = scored
    if choice == "probable":
        certain = {item.text: item.certainty or 0.0 for item in scored}
        eligible = [item for item in scored if certain[item.text] >= _LEAST_PROBABLE * certain[prompt]]
    if setting == "top1":
        written = [item for item in eligible if item.text != prompt]
        chosen = (written or eligible)[:1]
    else:
        chosen = eligible[:n]
    total = sum(item.compatibility for item in chosen)
    texts = {item.text for item in chosen}
    return [
        replace(item, weight=item.compatibility / total, kept=True) if item.text in texts else item for item in scored
    ]


def paraphrases(prompt: str, pairs: Sequence[Pair], models: MiningModels) -> list[str]:
    """Prompts that say the same in other words; duplicates up to case and punctuation are one."""
    keywords = extract_keywords(prompt, pairs, models.sentence_vectors, KEYWORDS)
    found: list[str] = []
    keyword_sets = [list(keywords)]
    for position, keyword in enumerate(keywords):
        for word in substitutes(prompt, keyword, pairs, models, SUBSTITUTES):
            found.append(_replace_word(prompt, keyword, word))
            keyword_sets.append([*keywords[:position], word, *keywords[position + 1 :]])
    orders = [order for items in keyword_sets for order in keyword_orders(items)]
    for text in models.write(orders, pairs):
        written = to_prompt(text, *pairs[0])
        if written is not None:
            found.append(written)
    unique: dict[str, str] = {}
    for text in found:
        unique.setdefault(same_prompt_key(text), text)
    unique.pop(same_prompt_key(prompt), None)
    return list(unique.values())


def extract_keywords(prompt: str, pairs: Sequence[Pair], sentence_vectors: SentenceVectors, count: int) -> list[str]:
    """The prompt's own words that say most of what the filled prompt says, in their order there.

    A word counts by the mean cosine of its vector with that of the filled sentences; stop words are passed over. The
    two entities are keywords too and are not listed.
    """
    words = list(
        dict.fromkeys(word for word in prompt_words(prompt) if word.casefold() not in STOP_WORDS and is_word(word))
    )
    if not words:
        return []
    sentences = [as_sentence(fill(prompt, *pair)) for pair in pairs]
    vectors = unit_rows(np.asarray(sentence_vectors([*words, *sentences]), dtype=np.float64))
    closeness = (vectors[: len(words)] @ vectors[len(words) :].T).mean(axis=1)
    best = sorted(range(len(words)), key=lambda index: (-closeness[index], index))[:count]
    return [words[index] for index in sorted(best)]


def keyword_orders(keywords: Sequence[str]) -> list[tuple[str, ...]]:
    """All orders of the two slots and the keywords."""
    return list(itertools.permutations((HEAD, *keywords, TAIL)))


def substitutes(prompt: str, keyword: str, pairs: Sequence[Pair], models: MiningModels, count: int) -> list[str]:
    """Words that can stand for ``keyword``: the model's likeliest there, kept where the sentence still means the same.

    The sentence with the substitute must have a mean cosine of at least ``SIMILARITY`` with the original; the likeliest
    come first.
    """
    masked = _replace_word(prompt, keyword, SLOT)
    rows = models.slot_log_probs([as_sentence(fill(masked, *pair)) for pair in pairs], [0] * len(pairs))
    mean = rows.mean(axis=0, dtype=np.float64)
    if models.likeness is not None:
        mean = mean + models.likeness(keyword)
    own = {word.casefold() for word in prompt_words(prompt)}
    own |= {word.casefold() for pair in pairs for entity in pair for word in words_of(entity)}
    proposed: list[str] = []
    for position in np.argsort(-mean, kind="stable"):
        word = models.vocabulary[position]
        if is_word(word) and word.casefold() not in STOP_WORDS and word.casefold() not in own:
            proposed.append(word)
        if len(proposed) == PROPOSALS:
            break
    if not proposed:
        return []
    texts = [
        as_sentence(fill(text, *pair))
        for pair in pairs
        for text in (prompt, *(_replace_word(prompt, keyword, word) for word in proposed))
    ]
    vectors = unit_rows(np.asarray(models.sentence_vectors(texts), dtype=np.float64))
    vectors = vectors.reshape(len(pairs), 1 + len(proposed), -1)
    cosine = np.einsum("pd,pwd->pw", vectors[:, 0], vectors[:, 1:]).mean(axis=0)
    return [word for word, close in zip(proposed, cosine, strict=True) if close >= SIMILARITY][:count]


def to_prompt(sentence: str, head: str, tail: str) -> str | None:
    """Put the entities of a written sentence back to slots; None where a slot is lost or stands twice."""
    prompt = sentence
    for slot, entity in sorted(((HEAD, head), (TAIL, tail)), key=lambda item: -len(item[1])):
        if slot not in prompt:
            prompt = re.sub(rf"(?<!\w){re.escape(entity)}(?!\w)", slot, prompt, flags=re.IGNORECASE)
    return None if missing_slot(prompt) else " ".join(prompt.split())


def score_prompts(
    initial: str, candidates: Sequence[str], pairs: Sequence[Pair], models: MiningModels, choice: Choice
) -> list[MinedPrompt]:
    """Score candidates against the initial prompt, means over the pairs; best first, ties by text."""
    prompts = list(dict.fromkeys([initial, *candidates]))
    texts = [as_sentence(fill(prompt, *pair)) for prompt in prompts for pair in pairs]
    vectors = models.word_vectors(texts)
    log_probs = models.word_log_probs(texts)
    words = [words_of(text) for text in texts]
    measure = certainty if choice == "printed" else mean_probability
    scored = []
    for number, prompt in enumerate(prompts):
        rows = [number * len(pairs) + pair for pair in range(len(pairs))]
        bert = float(np.mean([bert_score(vectors[pair], vectors[row]) for pair, row in enumerate(rows)]))
        copied = float(np.mean([bleu(words[pair], words[row]) for pair, row in enumerate(rows)]))
        certain = float(np.mean([measure(log_probs[row]) for row in rows]))
        total = compatibility(bert, copied, certain)
        scored.append(MinedPrompt(prompt, 0.0, bert, inverse_bleu(copied), certain, total, False))
    return sorted(scored, key=lambda item: (-item.compatibility, item.text))


def _replace_word(prompt: str, word: str, other: str) -> str:
    return re.sub(rf"(?<![\w<]){re.escape(word)}(?![\w>])", lambda _: other, prompt, count=1)
