"""Stage 1 of K-Bloom: paraphrase a relation's prompt without labels, and select the best paraphrases.

A keyword-to-sentence model or a masked language model writes them. The masked model fills gaps of a few masked words
between the keywords, from left to right, with the most probable words for all pairs together.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder, MaskedLM
from evidence_assets.models.vectors import Array, unit_rows
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
from evidence_assets.text.words import STOP_WORDS, is_word, split_words, words_with_offsets

if TYPE_CHECKING:  # it imports torch
    from evidence_assets.models.sequence_models import PermutedLM

EntityPair = tuple[str, str]
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
SentenceGenerator = Callable[[Sequence[str]], Sequence[Sequence[str]]]
"""Writes sentences from each text: from keywords, or as paraphrases."""
MAX_PROMPTS = 60
MAX_LAYOUTS = 1200
"""Maximum prompts returned, and layouts tried, those with the fewest gap words first."""
_SMOOTHING = 0.01
_LOWEST_ENTROPY = 1e-6


def bert_score(reference: Floats, candidate: Floats) -> float:
    """F1 of the greedy matching of two sentences' word vectors (n × d and m × d).

    Recall is the mean best cosine of the reference's words in the candidate, precision that of the candidate's words.
    """
    if not len(reference) or not len(candidate):
        return 0.0
    rows = unit_rows(np.asarray(candidate, dtype=np.float64))
    cosine = unit_rows(np.asarray(reference, dtype=np.float64)) @ rows.T
    recall = float(cosine.max(axis=1).mean())
    precision = float(cosine.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Sentence BLEU: brevity penalty × geometric mean of the clipped n-gram precisions, case ignored.

    n is at most 4 and at most the length of the shorter sentence. A precision of 0 makes the score 0.
    """
    longest = min(4, len(reference), len(candidate))
    if longest == 0:
        return 0.0
    reference_words = [word.casefold() for word in reference]
    candidate_words = [word.casefold() for word in candidate]
    logs = []
    for size in range(1, longest + 1):
        reference_ngrams = _ngrams(reference_words, size)
        ngrams = _ngrams(candidate_words, size)
        matches = sum((reference_ngrams & ngrams).values())
        if matches == 0:
            return 0.0
        logs.append(np.log(matches / sum(ngrams.values())))
    brevity = min(0.0, 1 - len(reference_words) / len(candidate_words))
    return float(np.exp(brevity + np.mean(logs)))


def inverse_bleu(bleu_score: float) -> float:
    """sigmoid((1 + 0.01) / (BLEU + 0.01)): the less a candidate copies, the closer to 1."""
    return float(1 / (1 + np.exp(-(1 + _SMOOTHING) / (bleu_score + _SMOOTHING))))


def certainty(log_probs: Floats) -> float:
    """1 / Σ −P log P over the words of a sentence (5.2, 5.3), P the model's probability of each; the sum is ≥ 1e-6.

    As printed, an improbable word lowers the sum just as a certain word does. ``mean_entropy`` is the other reading.
    """
    values = np.asarray(log_probs, dtype=np.float64)
    return float(1 / max(_LOWEST_ENTROPY, float(-(np.exp(values) * values).sum())))


def mean_entropy(text: str, model: MaskedLM) -> float:
    """Entropy of the model's distribution over its whole words, mean over the words of a text, each hidden in turn."""
    hidden = [text[:start] + MASK_SLOT + text[end:] for _, start, end in words_with_offsets(text)]
    log_probs = np.asarray(model.slot_log_probs(hidden, [0] * len(hidden)), dtype=np.float64)
    log_probs -= np.log(np.exp(log_probs).sum(axis=1, keepdims=True))
    return float(-(np.exp(log_probs) * log_probs).sum(axis=1).mean())


def mean_probability(log_probs: Floats) -> float:
    """Geometric mean of the model's probabilities of the words."""
    return float(np.exp(np.mean(log_probs))) if len(log_probs) else 0.0


def _ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(size)), strict=False))


CertaintyForm = Literal["printed", "entropy", "probable"]
PromptSetting = Literal["initial", "top1", "multi"]
KEYWORDS_PER_PROMPT = 2
SUBSTITUTES_PER_KEYWORD = 4
"""Keywords of a prompt, and substitutes of each keyword, used to write prompts."""
KEYWORD_SEPARATOR = "| "
"""Separates the keywords of a text for a keyword-to-sentence model, as the package keytotext does."""
WRITER_PAIRS = 2
"""Seed pairs for which the masked model writes prompts."""
MAX_PROPOSALS = 20
MIN_SIMILARITY = 0.6
"""Maximum candidate substitutes, and minimum cosine between the sentence with a substitute and the original."""
_MIN_RELATIVE_PROBABILITY = 0.5


@dataclass(frozen=True)
class MiningModels:
    """Models of Stage 1. The masked model replaces every writer that is None.

    For K-Bloom, ``write`` writes sentences from keywords and ``propose`` proposes substitutes. For the baseline,
    ``paraphrase`` rewords sentences.
    """

    masked: MaskedLM
    encoder: Encoder
    write: SentenceGenerator | None = None
    propose: PermutedLM | None = None
    paraphrase: SentenceGenerator | None = None


@dataclass(frozen=True)
class MinedPrompt:
    """A prompt with its mean scores over the seed pairs. ``weight`` is 0 if the prompt is not kept.

    K-Bloom's compatibility is the sum of ``bert_score``, ``ibleu`` and ``certainty``; BertNet has a single number.
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
    """Candidate prompts, best first. The weights of the kept prompts sum to 1.

    ``initial`` keeps the given prompt only, ``top1`` the best written prompt (the given one if none was written),
    ``multi`` the best ``n``.

    ``choice`` has two published readings: certainty is 1 / Σ −P log P over the sentence's own words (``printed``),
    which favours improbable sentences, or 1 / the mean entropy of the model's distribution at each word (``entropy``).
    Only generated sentences compete. With ``probable``, the given prompt and prompts with one word replaced compete,
    too; certainty is the words' mean probability, and candidates below half of the given prompt's are dropped.
    """
    candidates = [prompt]
    if setting != "initial":
        candidates += write_paraphrases(prompt, pairs, models, with_replacements=choice == "probable")
    prompts = score_prompts(prompt, candidates, pairs, models, choice)
    eligible = prompts
    if choice == "probable":
        [initial] = (item for item in prompts if item.text == prompt)
        lowest = _MIN_RELATIVE_PROBABILITY * (initial.certainty or 0.0)
        eligible = [item for item in prompts if (item.certainty or 0.0) >= lowest]
    if choice != "probable" or setting == "top1":
        eligible = [item for item in eligible if item.text != prompt] or eligible
    selected = eligible[: 1 if setting == "top1" else n]
    total = sum(item.compatibility for item in selected)
    texts = {item.text for item in selected}
    return [
        replace(item, weight=item.compatibility / total, kept=True) if item.text in texts else item for item in prompts
    ]


def write_paraphrases(
    prompt: str, pairs: Sequence[EntityPair], models: MiningModels, *, with_replacements: bool = True
) -> list[str]:
    """Paraphrases of a prompt, without duplicates up to case and punctuation.

    ``with_replacements``: Also return the prompt with one keyword replaced by each of its substitutes.
    """
    keywords = extract_keywords(prompt, pairs, models.encoder, KEYWORDS_PER_PROMPT)
    prompts: list[str] = []
    keyword_sets = [list(keywords)]
    for position, keyword in enumerate(keywords):
        for word in find_substitutes(prompt, keyword, pairs, models, SUBSTITUTES_PER_KEYWORD):
            if with_replacements:
                prompts.append(_replace_word(prompt, keyword, word))
            keyword_sets.append([*keywords[:position], word, *keywords[position + 1 :]])
    orders = [order for items in keyword_sets for order in itertools.permutations((HEAD, *items, TAIL))]
    if models.write is not None:
        sentences = write_sentences(orders, pairs, models.write)
    else:
        sentences = infill_prompts(orders, pairs[:WRITER_PAIRS], models.masked)
    prompts += filter(None, (restore_slots(text, *pairs[0]) for text in sentences))
    unique: dict[str, str] = {}
    for text in prompts:
        unique.setdefault(same_prompt_key(text), text)
    unique.pop(same_prompt_key(prompt), None)
    return list(unique.values())


def extract_keywords(prompt: str, pairs: Sequence[EntityPair], encoder: Encoder, count: int) -> list[str]:
    """The prompt's words closest in meaning to the filled prompt, in their original order.

    Words are ranked by the mean cosine of their vectors with those of the filled sentences, without stop words. The two
    entities are also keywords but are not returned.
    """
    words = list(dict.fromkeys(w for w in prompt_words(prompt) if w.casefold() not in STOP_WORDS and is_word(w)))
    vectors = _encode([*words, *fill_pairs([prompt], pairs)], encoder)
    closeness = (vectors[: len(words)] @ vectors[len(words) :].T).mean(axis=1)
    best = sorted(range(len(words)), key=lambda index: (-closeness[index], index))[:count]
    return [words[index] for index in sorted(best)]


def find_substitutes(
    prompt: str, keyword: str, pairs: Sequence[EntityPair], models: MiningModels, count: int
) -> list[str]:
    """Words that can replace ``keyword``, the most probable first.

    The sentence with the substitute must have a mean cosine of at least ``MIN_SIMILARITY`` with the original.
    """
    proposed = _propose_substitutes(prompt, keyword, pairs, models)
    texts = [prompt, *(_replace_word(prompt, keyword, word) for word in proposed)]
    sentences = [as_sentence(fill_prompt(text, *pair)) for pair in pairs for text in texts]
    vectors = _encode(sentences, models.encoder).reshape(len(pairs), len(texts), -1)
    cosine = np.einsum("pd,pwd->pw", vectors[:, 0], vectors[:, 1:]).mean(axis=0)
    return [word for word, close in zip(proposed, cosine, strict=True) if close >= MIN_SIMILARITY][:count]


def _propose_substitutes(prompt: str, keyword: str, pairs: Sequence[EntityPair], models: MiningModels) -> list[str]:
    """The most probable words in the place of ``keyword``."""
    proposer = models.propose or models.masked
    sentences = fill_pairs([_replace_word(prompt, keyword, MASK_SLOT)], pairs)
    scores = proposer.slot_log_probs(sentences, [0] * len(pairs)).mean(axis=0, dtype=np.float64)
    if models.propose is not None:
        scores = scores + models.propose.log_similarities(keyword)
    excluded = STOP_WORDS | {word.casefold() for word in prompt_words(prompt)}
    excluded |= {word.casefold() for pair in pairs for entity in pair for word in split_words(entity)}
    ranked = (proposer.vocabulary[position] for position in np.argsort(-scores, kind="stable"))
    suitable = (word for word in ranked if is_word(word) and word.casefold() not in excluded)
    return list(itertools.islice(suitable, MAX_PROPOSALS))


def restore_slots(sentence: str, head: str, tail: str) -> str | None:
    """Replace the entities of a sentence by slots; None if a slot is missing or occurs twice."""
    prompt = sentence
    for slot, entity in sorted(((HEAD, head), (TAIL, tail)), key=lambda item: -len(item[1])):
        if slot not in prompt:
            prompt = re.sub(rf"(?<!\w){re.escape(entity)}(?!\w)", slot, prompt, flags=re.IGNORECASE)
    return None if find_slot_error(prompt) else " ".join(prompt.split())


def score_prompts(
    initial: str, candidates: Sequence[str], pairs: Sequence[EntityPair], models: MiningModels, choice: CertaintyForm
) -> list[MinedPrompt]:
    """Mean scores of candidates against the initial prompt over the pairs; best first, ties by text."""
    prompts = list(dict.fromkeys([initial, *candidates]))
    texts = fill_pairs(prompts, pairs)
    vectors = [item.vectors for item in models.masked.word_vectors(texts)]
    words = [split_words(text) for text in texts]
    certainties = _measure_certainties(texts, models.masked, choice)
    scored = []
    for number, prompt in enumerate(prompts):
        rows = range(number * len(pairs), (number + 1) * len(pairs))
        bert = float(np.mean([bert_score(vectors[pair], vectors[row]) for pair, row in enumerate(rows)]))
        novelty = inverse_bleu(float(np.mean([bleu(words[pair], words[row]) for pair, row in enumerate(rows)])))
        certain = float(np.mean(certainties[rows.start : rows.stop]))
        scored.append(MinedPrompt(prompt, 0.0, bert, novelty, certain, bert + novelty + certain, False))  # α = β = 1
    return sorted(scored, key=lambda item: (-item.compatibility, item.text))


def _measure_certainties(texts: Sequence[str], model: MaskedLM, choice: CertaintyForm) -> list[float]:
    if choice == "entropy":
        return [1 / max(_LOWEST_ENTROPY, mean_entropy(text, model)) for text in texts]
    measure = certainty if choice == "printed" else mean_probability
    return [measure(log_probs) for log_probs in model.word_log_probs(texts)]


def fill_pairs(prompts: Iterable[str], pairs: Sequence[EntityPair]) -> list[str]:
    """Each prompt as a sentence about each pair."""
    return [as_sentence(fill_prompt(prompt, *pair)) for prompt in prompts for pair in pairs]


def _encode(texts: Sequence[str], encoder: Encoder) -> Array:
    return unit_rows(np.asarray(encoder.encode_sentences(texts), dtype=np.float64))


def _replace_word(prompt: str, word: str, other: str) -> str:
    return re.sub(rf"(?<![\w<]){re.escape(word)}(?![\w>])", lambda _: other, prompt, count=1)


# Writing ------------------------------------------------------------------------------------------------------------


def write_sentences(
    orders: Sequence[Sequence[str]], pairs: Sequence[EntityPair], write: SentenceGenerator
) -> list[str]:
    """Sentences that a keyword-to-sentence model writes from each order with the first pair's entities.

    Sentences without a keyword, or with keywords in another order, are dropped.
    """
    keywords = [[fill_prompt(item, *pairs[0]) for item in order] for order in orders]
    replies = write([KEYWORD_SEPARATOR.join(items) for items in keywords])
    return [text for items, texts in zip(keywords, replies, strict=True) for text in texts if _is_in_order(text, items)]


def _is_in_order(text: str, items: Sequence[str]) -> bool:
    words = f" {' '.join(split_words(text))} ".casefold()
    start = 0
    for item in items:
        position = words.find(f" {' '.join(split_words(item))} ".casefold(), start)
        if position < 0:
            return False
        start = position + 1
    return True


def infill_prompts(orders: Sequence[Sequence[str]], pairs: Sequence[EntityPair], model: MaskedLM) -> list[str]:
    """Prompts with all items of an order, in that order, and gaps filled by the model.

    ``orders``: Keyword orders, including ``<HEAD>`` and ``<TAIL>``.
    Returns those whose gap words have the highest mean log-probability.
    """
    layouts = _list_layouts(orders)
    n_gaps = np.asarray([layout.count(MASK_SLOT) for layout in layouts])
    scores = _fill_gaps(layouts, pairs, model) / np.maximum(n_gaps, 1)
    ranking = sorted(zip((-scores).tolist(), layouts, strict=True))
    return list(dict.fromkeys(" ".join(layout) for _, layout in ranking))[:MAX_PROMPTS]


def _fill_gaps(layouts: Sequence[list[str]], pairs: Sequence[EntityPair], model: MaskedLM) -> Array:
    """Fill the gaps of layouts, in place, and return the summed log-probabilities of their words."""
    vocabulary = model.vocabulary
    excluded = {word.casefold() for pair in pairs for entity in pair for word in entity.split()}
    allowed = np.asarray([is_word(word) and word.casefold() not in excluded for word in vocabulary])
    position = {word: number for number, word in enumerate(vocabulary)}
    scores = np.zeros(len(layouts))
    while allowed.any() and (gaps := [n for n, layout in enumerate(layouts) if MASK_SLOT in layout]):
        texts = fill_pairs((" ".join(layouts[number]) for number in gaps), pairs)
        rows = model.slot_log_probs(texts, [0] * len(texts)).reshape(len(gaps), len(pairs), -1)
        for number, row in zip(gaps, rows.mean(axis=1, dtype=np.float64), strict=True):
            layout = layouts[number]
            slot = layout.index(MASK_SLOT)
            row[~allowed] = -np.inf
            previous = position.get(layout[slot - 1]) if slot else None
            if previous is not None:  # avoid repeating a word
                row[previous] = -np.inf
            best = int(row.argmax())
            layout[slot] = vocabulary[best]
            scores[number] += row[best]
    return scores


def _list_layouts(orders: Sequence[Sequence[str]]) -> list[list[str]]:
    layouts: list[list[str]] = []
    for order in orders:
        widest = 3 if len(order) <= 3 else 2
        inner = [range(widest + 1)] * (len(order) - 1)
        for before, after, *between in itertools.product(range(3 if len(order) <= 3 else 2), range(2), *inner):
            layout = [MASK_SLOT] * before
            for item, size in zip(order, (*between, after), strict=True):
                layout += [item, *[MASK_SLOT] * size]
            # adjacent head and tail leave no room for the relation
            if abs(layout.index(HEAD) - layout.index(TAIL)) > 1:
                layouts.append(layout)
    return sorted(layouts, key=lambda layout: layout.count(MASK_SLOT))[:MAX_LAYOUTS]
