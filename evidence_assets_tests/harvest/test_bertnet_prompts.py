"""BertNet's prompts: rewordings taken and weighed as published, against sums by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from evidence_assets.harvest.bertnet_prompts import (
    fits,
    mine_bertnet_prompts,
    reworded,
    weights,
)
from evidence_assets.harvest.prompt_mining import Pair, written_sentences
from evidence_assets.text.prompt_text import HEAD, TAIL

PROMPT = "<HEAD> is the capital of <TAIL>"
PAIRS: list[Pair] = [("Paris", "France"), ("Rome", "Italy")]
SEAT, GOVERNED, RUN = "the seat of <TAIL> is <HEAD>", "<TAIL> is governed out of <HEAD>", "from <HEAD> one runs <TAIL>"


def by_seeds(asked: Sequence[tuple[str, Pair]]) -> list[float]:
    """A seed pair fits by how long the prompt is, a mixed one hardly; the last prompt cannot tell them apart."""
    return [-len(prompt) / 10 if pair in PAIRS or prompt == RUN else -9.0 for prompt, pair in asked]


def test_what_is_reworded_is_reworded_again_until_nothing_is_new() -> None:
    told = {
        "Paris is the capital of France.": [
            "The seat of France is Paris.",
            "Paris it is",
            "Paris is the capital of France!",
        ],
        "The seat of France is Paris.": ["France is governed out of Paris"],
        "France is governed out of Paris.": ["The seat of France is Paris"],
    }
    asked: list[str] = []

    def paraphrase(sentences: Sequence[str]) -> list[list[str]]:
        asked.extend(sentences)
        return [told.get(sentence, []) for sentence in sentences]

    found = reworded(PROMPT, PAIRS[:1], paraphrase)
    assert [text.lower() for text in found] == [SEAT.lower(), GOVERNED.lower()]
    assert asked.count("Paris is the capital of France.") == 3, "two rounds that bring something, and one that does not"
    assert reworded(PROMPT, PAIRS, lambda sentences: [["no slot"] for _ in sentences]) == []


def test_a_prompt_is_as_good_as_it_tells_seeds_from_mixed_pairs() -> None:
    asked: list[Pair] = []

    def score(rows: Sequence[tuple[str, Pair]]) -> list[float]:
        asked.extend(pair for _, pair in rows)
        return by_seeds(rows)

    [seat, run] = fits([SEAT, RUN], PAIRS, score)
    mixed = {("Paris", "Italy"), ("Rome", "France")}
    assert set(asked) == {*PAIRS, *mixed}
    assert seat == pytest.approx(-len(SEAT) / 10 + 4.5) and run == pytest.approx(-len(RUN) / 20)
    assert fits([SEAT], PAIRS[:1], by_seeds) == [-len(SEAT) / 10], "one pair cannot be mixed"


def test_weights_are_a_softmax_without_its_tail() -> None:
    share = weights([0.0, -1.0, -9.0])
    assert share[2] == 0 and share[0] / share[1] == pytest.approx(math.e)


def test_settings() -> None:
    two = mine_bertnet_prompts(PROMPT, PAIRS, [SEAT, RUN], by_seeds, setting="multi", n=2)
    kept = {one.text: one.weight for one in two if one.kept}
    assert set(kept) == {SEAT, PROMPT} and sum(kept.values()) == pytest.approx(1)
    assert kept[SEAT] / kept[PROMPT] == pytest.approx(math.exp((len(PROMPT) - len(SEAT)) / 10))


def test_written_sentences_keep_all_keywords_in_their_order() -> None:
    said = {
        "Paris capital France": [
            "Paris is the capital of France.",
            "Paris, in France, is the capital",
            "Paris is in France",
        ],
        "France capital Paris": ["France has the capital Paris."],
    }
    orders = [(HEAD, "capital", TAIL), (TAIL, "capital", HEAD)]
    found = written_sentences(orders, PAIRS, lambda texts: [said[text] for text in texts])
    assert found == ["Paris is the capital of France.", "France has the capital Paris."]
