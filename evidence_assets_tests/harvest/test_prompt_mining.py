"""Stage 1 with small hand-written models."""

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.harvest.bertnet_prompts import mine_bertnet_prompts, reword_prompt, score_prompt_fit, weigh_prompts
from evidence_assets.harvest.prompt_mining import (
    EntityPair,
    MiningModels,
    bert_score,
    bleu,
    certainty,
    extract_keywords,
    find_substitutes,
    infill_prompts,
    mean_entropy,
    mean_probability,
    mine_prompts,
    restore_slots,
    write_sentences,
)
from evidence_assets.models.sequence_models import PermutedLM
from evidence_assets.text.prompt_text import HEAD, MASK_SLOT, TAIL, as_sentence, find_slot_error
from evidence_assets.text.words import split_words
from evidence_assets_tests.models.test_sequence_models import make_xlnet

VOCABULARY = ("the", "is", "of", "capital", "seat", "banana", "city", "Paris", "France", "in")
PAIRS = (("Paris", "France"), ("Rome", "Italy"))
PROMPT = "<HEAD> is the capital of <TAIL>"
MEANINGS = {"capital": 0, "seat": 0, "city": 0, "banana": 1}


def vector(word: str) -> npt.NDArray[np.float64]:
    """Synonyms share a direction; all other words have their own direction, determined by their letters."""
    base = np.zeros(12)
    if word in MEANINGS:
        base[MEANINGS[word]] = 1.0
    else:
        base[2 + sum(map(ord, word)) % 10] = 0.3
    return base


class FakeEncoder:
    """A fake encoder whose sentence vectors are sums of word vectors."""

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        return np.stack([np.sum([vector(word) for word in split_words(text)], axis=0) for text in texts])


class FakeMaskedLM:
    """A fake masked model with fixed successors; ``banana`` is always more probable than ``city``."""

    vocabulary = VOCABULARY

    def __init__(self, log_prob: Callable[[str], float] | None = None) -> None:
        self._log_prob = log_prob or (lambda text: -0.1 if "capital" in text or "seat" in text else -2.0)

    def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> npt.NDArray[np.float64]:
        rows = np.full((len(texts), len(VOCABULARY)), math.log(0.01))
        for row, text in zip(rows, texts, strict=True):
            before = text.split(MASK_SLOT)[0].split()
            last = before[-1] if before else ""
            follows = {"": "the", "is": "the", "the": "capital", "capital": "of", "seat": "of"}
            row[VOCABULARY.index(follows.get(last, "is"))] = math.log(0.5)
            for word, share in (("seat", 0.2), ("banana", 0.1), ("city", 0.05), ("Paris", 0.12)):
                row[VOCABULARY.index(word)] = max(row[VOCABULARY.index(word)], math.log(share))
        return rows

    def word_vectors(self, texts: Sequence[str]) -> list[Any]:
        return [SimpleNamespace(vectors=np.stack([vector(word) for word in split_words(text)])) for text in texts]

    def word_log_probs(self, texts: Sequence[str]) -> list[Any]:
        return [np.full(len(split_words(text)), self._log_prob(text)) for text in texts]


def models(sentences: Sequence[str] = (), masked: Any = None) -> MiningModels:
    """Models with a writer that always writes these sentences."""
    fakes: tuple[Any, Any] = masked or FakeMaskedLM(), FakeEncoder()
    return MiningModels(*fakes, lambda texts: [sentences] * len(texts))


def test_keywords_are_the_words_nearest_to_the_sentence() -> None:
    assert extract_keywords(PROMPT, PAIRS, FakeEncoder(), 2) == ["capital"]
    keywords = extract_keywords("the capital banana of <HEAD> is city <TAIL>", PAIRS, FakeEncoder(), 2)
    assert keywords == ["capital", "city"]
    assert extract_keywords("<HEAD> is in <TAIL>", PAIRS, FakeEncoder(), 2) == []


def test_substitutes_are_likely_and_mean_the_same() -> None:
    assert find_substitutes(PROMPT, "capital", PAIRS, models(), 5) == [
        "seat",
        "city",
    ]  # banana is likelier, Paris an entity
    assert find_substitutes(PROMPT, "capital", PAIRS, models(), 1) == ["seat"]


def test_entities_are_replaced_by_slots() -> None:
    assert restore_slots("The capital of France is Paris.", "Paris", "France") == "The capital of <TAIL> is <HEAD>."
    assert restore_slots("egg white is in egg", "egg white", "egg") == "<HEAD> is in <TAIL>"
    assert restore_slots("Paris is a capital", "Paris", "France") is None
    assert restore_slots("Parisian France", "Paris", "France") is None
    assert restore_slots("Paris, Paris in France", "Paris", "France") is None


def test_mining_keeps_the_best_and_normalises() -> None:
    sentences = [
        "Paris is the seat of France",
        "the capital of France is Paris",
        "The capital of France, is Paris!",
        "Paris is old",
    ]
    mined = mine_prompts(PROMPT, PAIRS, models(sentences), n=3, choice="probable")
    texts = [item.text for item in mined]
    assert {PROMPT, "<HEAD> is the seat of <TAIL>", "the capital of <TAIL> is <HEAD>"} <= set(texts)
    assert len(texts) == len(set(texts)) and "The capital of <TAIL>, is <HEAD>!" not in texts
    assert not any(find_slot_error(text) for text in texts)
    selected = [item for item in mined if item.kept]
    assert selected == mined[:3]
    assert sum(item.weight for item in selected) == pytest.approx(1)
    assert [item.weight for item in selected] == pytest.approx(
        [item.compatibility / sum(other.compatibility for other in selected) for item in selected]
    )
    assert all(item.weight == 0 for item in mined[3:])


def test_the_initial_prompt_alone_or_the_best_mined_one_is_kept() -> None:
    sentences = ["Paris is the seat of France"]
    [only] = mine_prompts(PROMPT, PAIRS, models(sentences), setting="initial")
    assert (only.text, only.weight, only.kept) == (PROMPT, 1.0, True)
    top = [item for item in mine_prompts(PROMPT, PAIRS, models(sentences), setting="top1") if item.kept]
    assert len(top) == 1 and top[0].text != PROMPT and top[0].weight == 1


def test_printed_certainty_prefers_improbable_text_and_probable_drops_it() -> None:
    sentences = ["Paris capital banana France", "the capital of France is Paris"]
    pieces = models(sentences, FakeMaskedLM(lambda text: -9.0 if "banana" in text else -0.5))
    mined = mine_prompts(PROMPT, PAIRS, pieces, choice="printed")
    assert mined[0].text == "<HEAD> capital banana <TAIL>" and mined[0].weight > 0.9
    probable = mine_prompts(PROMPT, PAIRS, pieces, choice="probable")
    assert "<HEAD> capital banana <TAIL>" not in [item.text for item in probable if item.kept]
    by_entropy = {item.text: item for item in mine_prompts(PROMPT, PAIRS, pieces, choice="entropy")}
    nonsense = by_entropy["<HEAD> capital banana <TAIL>"]
    assert 0.3 < nonsense.weight < 0.7, "its distribution is as uncertain as the other"
    texts = [f"{head} capital banana {tail}." for head, tail in PAIRS]
    assert nonsense.certainty == pytest.approx(np.mean([1 / mean_entropy(text, pieces.masked) for text in texts]))


def test_only_generated_sentences_compete_as_published() -> None:
    pieces = models(["Paris is the seat of France", "the capital of France is Paris"])
    generated = {"<HEAD> is the seat of <TAIL>", "the capital of <TAIL> is <HEAD>"}
    for choice in ("printed", "entropy"):
        mined = mine_prompts(PROMPT, PAIRS, pieces, choice=choice)  # type: ignore[arg-type]
        assert {item.text for item in mined if item.kept} == generated
    mined = mine_prompts(PROMPT, PAIRS, pieces, choice="probable")
    assert "<HEAD> is the city of <TAIL>" in {item.text for item in mined}, "a plain replacement"
    assert PROMPT in {item.text for item in mined if item.kept}
    [only] = mine_prompts(PROMPT, PAIRS, models(), choice="printed")
    assert (only.text, only.kept, only.weight) == (PROMPT, True, 1.0), "if nothing was generated"


def test_entropy_is_that_of_the_models_distribution_at_each_word() -> None:
    class Uniform(FakeMaskedLM):
        def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> npt.NDArray[np.float64]:
            assert all(text.count(MASK_SLOT) == 1 for text in texts) and set(slots) == {0}
            rows = np.full((len(texts), 8), math.log(0.1))  # 0.8 of the mass: the rest is no whole word
            rows[0] = [0.0] + [-1e3] * 7
            return rows

    assert mean_entropy("Paris is old.", Uniform()) == pytest.approx(2 / 3 * math.log(8))  # type: ignore[arg-type]


def test_infilled_prompts_keep_all_items_in_order() -> None:
    orders = list(permutations((HEAD, "capital", TAIL)))
    sentences = infill_prompts(orders, PAIRS, FakeMaskedLM())  # type: ignore[arg-type]
    assert "<HEAD> is the capital of <TAIL>" in sentences
    for text in sentences:
        assert not find_slot_error(text) and MASK_SLOT not in text and "capital" in text.split()
        assert not set(split_words(text)) & {"Paris", "France", "Rome", "Italy"}
        assert HEAD + " " + TAIL not in text and TAIL + " " + HEAD not in text


# BLEU, BERTScore, certainty


def test_bleu_by_hand() -> None:
    reference, candidate = ["the", "cat", "sat", "on", "the", "mat"], ["the", "cat", "on", "the", "mat"]
    # precisions 5/5, 3/4, 1/3; no 4-gram matches
    assert bleu(reference, candidate) == 0
    longer = ["yes", "the", "cat", "sat", "on", "the", "mat"]
    assert bleu(reference, longer) == pytest.approx((6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)
    assert bleu(["a", "b", "c"], ["a", "b"]) == pytest.approx(math.exp(1 - 3 / 2))
    assert bleu([], ["a"]) == 0 and bleu(["The"], ["the"]) == 1


def test_bert_score_against_all_pairs() -> None:
    random = np.random.default_rng(0)
    one, other = random.normal(size=(4, 5)), random.normal(size=(3, 5))
    cosines = [[float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for b in other] for a in one]
    recall = sum(max(row) for row in cosines) / 4
    precision = sum(max(cosines[i][j] for i in range(4)) for j in range(3)) / 3
    assert bert_score(one, other) == pytest.approx(2 * precision * recall / (precision + recall))
    assert bert_score(one, np.zeros((0, 5))) == 0


def test_certainty_is_floored_and_as_printed() -> None:
    assert certainty(np.log([0.5, 0.25])) == pytest.approx(1 / (0.5 * math.log(2) + 0.25 * math.log(4)))
    assert certainty(np.zeros(3)) == pytest.approx(1e6)
    assert mean_probability(np.log([0.5, 0.125])) == pytest.approx(0.25)


# BertNet's -----------------------------------------------------------------------------------------------------------


SEAT, GOVERNED, RUN = "the seat of <TAIL> is <HEAD>", "<TAIL> is governed out of <HEAD>", "from <HEAD> one runs <TAIL>"


def score_by_length(rows: Sequence[tuple[str, EntityPair]]) -> list[float]:
    """Score seed pairs by the length of the prompt, mixed pairs low; ``RUN`` does not distinguish them."""
    return [-len(prompt) / 10 if pair in PAIRS or prompt == RUN else -9.0 for prompt, pair in rows]


def test_prompts_are_reworded_until_there_are_no_new_ones() -> None:
    paraphrases = {
        "Paris is the capital of France.": [
            "The seat of France is Paris.",
            "Paris it is",
            "Paris is the capital of France!",
        ],
        "The seat of France is Paris.": ["France is governed out of Paris"],
        "France is governed out of Paris.": ["The seat of France is Paris"],
    }
    inputs: list[str] = []

    def paraphrase(sentences: Sequence[str]) -> list[list[str]]:
        inputs.extend(sentences)
        return [paraphrases.get(sentence, []) for sentence in sentences]

    prompts = reword_prompt(PROMPT, PAIRS[:1], paraphrase)
    assert [text.lower() for text in prompts] == [SEAT.lower(), GOVERNED.lower()]
    assert inputs.count("Paris is the capital of France.") == 3, "two rounds with new prompts and one without"
    assert reword_prompt(PROMPT, PAIRS, lambda sentences: [["no slot"] for _ in sentences]) == []


def test_prompt_fit_is_the_score_of_seeds_minus_half_that_of_mixed_pairs() -> None:
    scored_pairs: list[EntityPair] = []

    def score(rows: Sequence[tuple[str, EntityPair]]) -> list[float]:
        scored_pairs.extend(pair for _, pair in rows)
        return score_by_length(rows)

    [seat, run] = score_prompt_fit([SEAT, RUN], PAIRS, score)
    mixed = {("Paris", "Italy"), ("Rome", "France")}
    assert set(scored_pairs) == {*PAIRS, *mixed}
    assert seat == pytest.approx(-len(SEAT) / 10 + 4.5) and run == pytest.approx(-len(RUN) / 20)
    assert score_prompt_fit([SEAT], PAIRS[:1], score_by_length) == [-len(SEAT) / 10], "one pair cannot be mixed"


def test_weights_are_a_softmax_without_its_tail() -> None:
    share = weigh_prompts([0.0, -1.0, -9.0])
    assert share[2] == 0 and share[0] / share[1] == pytest.approx(math.e)


def test_settings_of_the_baseline() -> None:
    two = mine_bertnet_prompts(PROMPT, PAIRS, [SEAT, RUN], score_by_length, setting="multi", n=2)
    weights = {one.text: one.weight for one in two if one.kept}
    assert set(weights) == {SEAT, PROMPT} and sum(weights.values()) == pytest.approx(1)
    assert weights[SEAT] / weights[PROMPT] == pytest.approx(math.exp((len(PROMPT) - len(SEAT)) / 10))


def test_written_sentences_have_all_keywords_in_order() -> None:
    replies = {
        "Paris| capital| France": [
            "Paris is the capital of France.",
            "Paris, in France, is the capital",
            "Paris is in France",
        ],
        "France| capital| Paris": ["France has the capital Paris."],
    }
    orders = [(HEAD, "capital", TAIL), (TAIL, "capital", HEAD)]
    sentences = write_sentences(orders, PAIRS, lambda texts: [replies[text] for text in texts])
    assert sentences == ["Paris is the capital of France.", "France has the capital Paris."]


def test_an_xlnet_proposes_words_by_context_and_embedding(tmp_path: Path) -> None:
    words = ("▁Paris", "▁France", "▁is", "▁the", "▁capital", "▁of", "▁seat", "▁city", "▁banana", "▁Rome", "▁Italy")
    xlnet = PermutedLM(make_xlnet(tmp_path / "tiny-xlnet", words), device="cpu")
    equal = SimpleNamespace(encode_sentences=lambda texts: np.ones((len(texts), 2)))
    mining_models = MiningModels(FakeMaskedLM(), equal, propose=xlnet)  # type: ignore[arg-type]
    texts = [as_sentence(f"{head} is the {MASK_SLOT} of {tail}") for head, tail in PAIRS]
    by_context = xlnet.slot_log_probs(texts, [0, 0]).mean(axis=0)
    scores = dict(zip(xlnet.vocabulary, by_context + xlnet.log_similarities("capital"), strict=True))
    expected = sorted(("seat", "city", "banana"), key=lambda word: -scores[word])
    assert find_substitutes(PROMPT, "capital", PAIRS, mining_models, 3) == expected
    contexts = dict(zip(xlnet.vocabulary, by_context, strict=True))
    assert expected != sorted(expected, key=lambda word: -contexts[word]), "without embeddings another order"
