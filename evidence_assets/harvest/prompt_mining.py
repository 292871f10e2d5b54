"""Stage 1 of K-Bloom: paraphrase a relation's prompt without labels, and choose the best paraphrases.

They are written by a keyword-to-sentence model, or by a masked one: a sentence is then laid out as its keywords with
gaps of a few masked words between them, filled left to right with the words likeliest for all pairs together.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder, MaskedLM
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.prompt_text import (
    HEAD,
    MASK_SLOT,
    TAIL,
    as_sentence,
    fill_prompt,
    find_slot_error,
    prompt_words,
    same_prompt_key,
)
from evidence_assets.text.words import STOP_WORDS, is_word, split_words

EntityPair = tuple[str, str]
SentenceGenerator = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Texts to sentences written of each: of keywords, or in other words."""
MAX_PROMPTS, MAX_LAYOUTS = 60, 1200
"""Prompts that are kept, and layouts that are tried, those with the fewest gap words first."""
_SMOOTHING = 0.01
_LOWEST_ENTROPY = 1e-6


def bert_score(reference: npt.NDArray[np.floating], candidate: npt.NDArray[np.floating]) -> float:
    """F1 of the greedy word matching between two sentences' word vectors (n × d and m × d).

    Recall is the mean over the reference's words of the best cosine in the candidate, precision the other way round.
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


def _ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


CertaintyForm = Literal["printed", "probable"]
PromptSetting = Literal["initial", "top1", "multi"]
KEYWORDS_PER_PROMPT, SUBSTITUTES_PER_KEYWORD = 2, 4
"""Keywords of a prompt, and substitutes of each, that prompts are written with."""
WRITER_PAIRS = 2
"""Seed pairs that the masked model writes prompts for."""
MAX_PROPOSALS, MIN_SIMILARITY = 20, 0.6
"""Words that are looked at as substitutes, and the least cosine of what they make of the sentence with the original."""
_LEAST_PROBABLE = 0.5


class SubstituteModel(Protocol):
    """What proposes substitutes for a word: by what fits its place, and by ``likeness``, both as log-probabilities."""

    @property
    def vocabulary(self) -> Sequence[str]: ...
    def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> npt.NDArray[np.floating]: ...
    def log_similarities(self, word: str) -> npt.NDArray[np.floating]: ...


@dataclass(frozen=True)
class MiningModels:
    """What Stage 1 asks of models; the masked one stands in for each writer that is not named.

    ``write`` makes sentences out of keywords and ``propose`` substitutes, both for K-Bloom; ``paraphrase`` rewords
    sentences for the baseline.
    """

    masked: MaskedLM
    encoder: Encoder
    write: SentenceGenerator | None = None
    propose: SubstituteModel | None = None
    paraphrase: SentenceGenerator | None = None


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
    pairs: Sequence[EntityPair],
    models: MiningModels,
    *,
    setting: PromptSetting = "multi",
    n: int = 20,
    choice: CertaintyForm = "printed",
) -> list[MinedPrompt]:
    """Candidate prompts, best first; those kept carry weights that sum to 1.

    ``initial`` keeps the given prompt alone, ``top1`` the best prompt that the search wrote (the given one where it
    wrote none), ``multi`` the best ``n``, the given one among the candidates.

    ``choice="printed"`` scores as published, with certainty 1 / Σ −P log P, which an improbable sentence wins.
    ``probable`` takes the words' mean probability as certainty and drops candidates whose words are less than half as
    probable as those of the given prompt.
    """
    candidates = [prompt]
    if setting != "initial":
        candidates += write_paraphrases(prompt, pairs, models)
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


def write_paraphrases(prompt: str, pairs: Sequence[EntityPair], models: MiningModels) -> list[str]:
    """Prompts that say the same in other words; duplicates up to case and punctuation are one."""
    keywords = extract_keywords(prompt, pairs, models.encoder, KEYWORDS_PER_PROMPT)
    found: list[str] = []
    keyword_sets = [list(keywords)]
    for position, keyword in enumerate(keywords):
        for word in find_substitutes(prompt, keyword, pairs, models, SUBSTITUTES_PER_KEYWORD):
            found.append(_replace_word(prompt, keyword, word))
            keyword_sets.append([*keywords[:position], word, *keywords[position + 1 :]])
    orders = [order for items in keyword_sets for order in itertools.permutations((HEAD, *items, TAIL))]
    if models.write is not None:
        written = write_sentences(orders, pairs, models.write)
    else:
        written = infill_prompts(orders, pairs[:WRITER_PAIRS], models.masked)
    found += filter(None, (restore_slots(text, *pairs[0]) for text in written))
    unique: dict[str, str] = {}
    for text in found:
        unique.setdefault(same_prompt_key(text), text)
    unique.pop(same_prompt_key(prompt), None)
    return list(unique.values())


def extract_keywords(prompt: str, pairs: Sequence[EntityPair], encoder: Encoder, count: int) -> list[str]:
    """The prompt's own words that say most of what the filled prompt says, in their order there.

    A word counts by the mean cosine of its vector with that of the filled sentences; stop words are passed over. The
    two entities are keywords too and are not listed.
    """
    words = list(
        dict.fromkeys(word for word in prompt_words(prompt) if word.casefold() not in STOP_WORDS and is_word(word))
    )
    if not words:
        return []
    sentences = [as_sentence(fill_prompt(prompt, *pair)) for pair in pairs]
    vectors = unit_rows(np.asarray(encoder.encode_sentences([*words, *sentences]), dtype=np.float64))
    closeness = (vectors[: len(words)] @ vectors[len(words) :].T).mean(axis=1)
    best = sorted(range(len(words)), key=lambda index: (-closeness[index], index))[:count]
    return [words[index] for index in sorted(best)]


def find_substitutes(
    prompt: str, keyword: str, pairs: Sequence[EntityPair], models: MiningModels, count: int
) -> list[str]:
    """Words that can replace ``keyword``, the likeliest first.

    The sentence with the substitute must have a mean cosine of at least ``MIN_SIMILARITY`` with the original.
    """
    masked = _replace_word(prompt, keyword, MASK_SLOT)
    proposer = models.propose or models.masked
    rows = proposer.slot_log_probs([as_sentence(fill_prompt(masked, *pair)) for pair in pairs], [0] * len(pairs))
    mean = rows.mean(axis=0, dtype=np.float64)
    if models.propose is not None:
        mean = mean + models.propose.log_similarities(keyword)
    own = {word.casefold() for word in prompt_words(prompt)}
    own |= {word.casefold() for pair in pairs for entity in pair for word in split_words(entity)}
    proposed: list[str] = []
    for position in np.argsort(-mean, kind="stable"):
        word = proposer.vocabulary[position]
        if is_word(word) and word.casefold() not in STOP_WORDS and word.casefold() not in own:
            proposed.append(word)
        if len(proposed) == MAX_PROPOSALS:
            break
    if not proposed:
        return []
    texts = [
        as_sentence(fill_prompt(text, *pair))
        for pair in pairs
        for text in (prompt, *(_replace_word(prompt, keyword, word) for word in proposed))
    ]
    vectors = unit_rows(np.asarray(models.encoder.encode_sentences(texts), dtype=np.float64))
    vectors = vectors.reshape(len(pairs), 1 + len(proposed), -1)
    cosine = np.einsum("pd,pwd->pw", vectors[:, 0], vectors[:, 1:]).mean(axis=0)
    return [word for word, close in zip(proposed, cosine, strict=True) if close >= MIN_SIMILARITY][:count]


def restore_slots(sentence: str, head: str, tail: str) -> str | None:
    """Put the entities of a written sentence back to slots; None where a slot is lost or stands twice."""
    prompt = sentence
    for slot, entity in sorted(((HEAD, head), (TAIL, tail)), key=lambda item: -len(item[1])):
        if slot not in prompt:
            prompt = re.sub(rf"(?<!\w){re.escape(entity)}(?!\w)", slot, prompt, flags=re.IGNORECASE)
    return None if find_slot_error(prompt) else " ".join(prompt.split())


def score_prompts(
    initial: str, candidates: Sequence[str], pairs: Sequence[EntityPair], models: MiningModels, choice: CertaintyForm
) -> list[MinedPrompt]:
    """Score candidates against the initial prompt, means over the pairs; best first, ties by text."""
    prompts = list(dict.fromkeys([initial, *candidates]))
    texts = [as_sentence(fill_prompt(prompt, *pair)) for prompt in prompts for pair in pairs]
    vectors = [item.vectors for item in models.masked.word_vectors(texts)]
    log_probs = [item.log_probs for item in models.masked.word_log_probs(texts)]
    words = [split_words(text) for text in texts]
    measure = certainty if choice == "printed" else mean_probability
    scored = []
    for number, prompt in enumerate(prompts):
        rows = [number * len(pairs) + pair for pair in range(len(pairs))]
        bert = float(np.mean([bert_score(vectors[pair], vectors[row]) for pair, row in enumerate(rows)]))
        copied = float(np.mean([bleu(words[pair], words[row]) for pair, row in enumerate(rows)]))
        certain = float(np.mean([measure(log_probs[row]) for row in rows]))
        compatibility = bert + inverse_bleu(copied) + certain  # α = β = 1
        scored.append(MinedPrompt(prompt, 0.0, bert, inverse_bleu(copied), certain, compatibility, False))
    return sorted(scored, key=lambda item: (-item.compatibility, item.text))


def _replace_word(prompt: str, word: str, other: str) -> str:
    return re.sub(rf"(?<![\w<]){re.escape(word)}(?![\w>])", lambda _: other, prompt, count=1)


# Writing ------------------------------------------------------------------------------------------------------------


def write_sentences(
    orders: Sequence[Sequence[str]], pairs: Sequence[EntityPair], write: SentenceGenerator
) -> list[str]:
    """What a keyword-to-sentence model writes of each order with the first pair's entities in it.

    A sentence that lost a keyword, or the order of them, is dropped.
    """
    named = [[fill_prompt(item, *pairs[0]) for item in order] for order in orders]
    replies = write([" ".join(items) for items in named])
    return [text for items, own in zip(named, replies, strict=True) for text in own if _in_order(text, items)]


def _in_order(text: str, items: Sequence[str]) -> bool:
    words, at = f" {' '.join(split_words(text))} ".casefold(), 0
    for item in items:
        found = words.find(f" {' '.join(split_words(item))} ".casefold(), at)
        if found < 0:
            return False
        at = found + 1
    return True


def infill_prompts(
    orders: Sequence[Sequence[str]], pairs: Sequence[EntityPair], model: MaskedLM, keep: int = MAX_PROMPTS
) -> list[str]:
    """Prompts that hold all items of an order, in that order, with gaps filled by the model.

    ``orders``: Keyword orders; ``<HEAD>`` and ``<TAIL>`` are items like the others.
    ``keep``: How many prompts come back: those whose gap words have the highest mean log-probability.
    """
    layouts, vocabulary = _layouts(orders), model.vocabulary
    own = {word.casefold() for pair in pairs for entity in pair for word in entity.split()}
    allowed = np.asarray([is_word(word) and word.casefold() not in own for word in vocabulary])
    position = {word: number for number, word in enumerate(vocabulary)}
    scores = np.zeros(len(layouts))
    gaps = np.asarray([layout.count(MASK_SLOT) for layout in layouts])
    for _ in range(int(gaps.max())):
        open_layouts = [number for number, layout in enumerate(layouts) if MASK_SLOT in layout]
        if not open_layouts or not allowed.any():
            break
        texts = [
            as_sentence(fill_prompt(" ".join(layouts[number]), *pair)) for number in open_layouts for pair in pairs
        ]
        rows = model.slot_log_probs(texts, [0] * len(texts))
        mean = rows.reshape(len(open_layouts), len(pairs), -1).mean(axis=1, dtype=np.float64)
        mean[:, ~allowed] = -np.inf
        for number, row in zip(open_layouts, mean, strict=True):
            at = layouts[number].index(MASK_SLOT)
            if at and layouts[number][at - 1] in position:  # a word is not said twice in a row
                row[position[layouts[number][at - 1]]] = -np.inf
            best = int(row.argmax())
            layouts[number][at] = vocabulary[best]
            scores[number] += row[best]
    scores = np.where(gaps > 0, scores / np.maximum(gaps, 1), 0.0)
    ranking = sorted(range(len(layouts)), key=lambda number: (-scores[number], layouts[number]))
    return list(dict.fromkeys(" ".join(layouts[number]) for number in ranking))[:keep]


def _layouts(orders: Sequence[Sequence[str]]) -> list[list[str]]:
    found: list[tuple[int, int, list[str]]] = []
    for rank, order in enumerate(orders):
        widest = 3 if len(order) <= 3 else 2
        inner = [range(widest + 1)] * (len(order) - 1)
        for before, after, *between in itertools.product(range(3 if len(order) <= 3 else 2), range(2), *inner):
            layout = [MASK_SLOT] * before + [order[0]]
            for size, item in zip(between, order[1:], strict=True):
                layout += [MASK_SLOT] * size + [item]
            layout += [MASK_SLOT] * after
            # Nothing could say how head and tail are related where they touch.
            if abs(layout.index(HEAD) - layout.index(TAIL)) > 1:
                found.append((layout.count(MASK_SLOT), rank, layout))
    found.sort(key=lambda item: item[:2])
    return [layout for _, _, layout in found[:MAX_LAYOUTS]]
