"""The pruned, batched search against scoring every pair."""

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.harvest import tuple_search
from evidence_assets.harvest.tuple_search import SHAPES, FillQuery, ScoredPair, ScoreForm, Shape, search_tuples

WORDS = ("ash", "birch", "cedar", "elm", "fir")


class TableModel:
    """Random but fixed conditional distributions; coarse values make ties common."""

    def __init__(self, seed: int, words: int, *, grain: float = 0.0) -> None:
        self.seed, self.words, self.grain = seed, words, grain

    def row(self, query: FillQuery) -> npt.NDArray[np.float64]:
        entropy = [self.seed, query.prompt, *query.shape, len(query.filled), *query.filled]
        logits = np.random.default_rng(entropy).normal(scale=2.0, size=self.words + 1)
        log_probs = logits - np.log(np.exp(logits).sum())
        if self.grain:
            log_probs = np.round(log_probs / self.grain) * self.grain
        return log_probs[: self.words]

    def __call__(self, queries: Sequence[FillQuery]) -> npt.NDArray[np.float64]:
        return np.stack([self.row(query) for query in queries])


def every_pair(
    model: TableModel, words: Sequence[str], weights: Sequence[float], shapes: Sequence[Shape], variant: ScoreForm
) -> list[ScoredPair]:
    share = np.asarray(weights) / np.sum(weights)
    pairs = []
    for shape in shapes:
        for choice in itertools.product(range(len(words)), repeat=sum(shape)):
            head, tail = choice[: shape[0]], choice[shape[0] :]
            if head == tail or len(set(head)) < len(head) or len(set(tail)) < len(tail):
                continue
            values = []
            for position in range(len(choice)):
                value = 0.0
                for prompt, weight in enumerate(share):
                    if weight > 0:
                        value += weight * model.row(FillQuery(prompt, shape, choice[:position]))[choice[position]]
                values.append(min(value, 0.0))
            names = " ".join(words[w] for w in head), " ".join(words[w] for w in tail)
            pairs.append(ScoredPair(*names, shape, scored(values, shape, variant), tuple(values)))
    return sorted(pairs, key=lambda pair: (-pair.score, pair.head, pair.tail))


def scored(values: Sequence[float], shape: Shape, variant: ScoreForm) -> float:
    """The published scores, computed directly."""
    if variant == "kbloom":
        return sum(values)
    head, tail = values[: shape[0]], values[shape[0] :]
    entities = (sum(head) / len(head) + sum(tail) / len(tail)) / 2
    return (sum(values) / len(values) + entities + min(values)) / 3


def select_best(pairs: Sequence[ScoredPair], n: int, variant: ScoreForm) -> list[ScoredPair]:
    counts: Counter[Shape | str] = Counter()
    selected = []
    for pair in pairs:
        group: Shape | str = pair.shape if variant == "kbloom" else "all"
        if counts[group] < n:
            counts[group] += 1
            selected.append(pair)
    return selected


def assert_same(results: Sequence[ScoredPair], expected: Sequence[ScoredPair]) -> None:
    assert [(pair.head, pair.tail, pair.shape) for pair in results] == [
        (pair.head, pair.tail, pair.shape) for pair in expected
    ]
    assert [pair.score for pair in results] == pytest.approx([pair.score for pair in expected], abs=1e-12)


@pytest.mark.parametrize("variant", ["kbloom", "bertnet"])
@pytest.mark.parametrize("weights", [(1.0,), (0.5, 0.2, 0.3)])
def test_top_n_equals_exhaustive_enumeration(variant: ScoreForm, weights: tuple[float, ...]) -> None:
    model = TableModel(3, len(WORDS))
    everything = every_pair(model, WORDS, weights, SHAPES, variant)
    for n, batch_size in ((1, 64), (7, 1), (7, 3), (10_000, 64)):
        results = search_tuples(
            model, WORDS, weights, n=n, max_occurrences=None, variant=variant, batch_size=batch_size
        )
        assert_same(results, select_best(everything, n, variant))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 5), st.sampled_from(["kbloom", "bertnet"]))
def test_the_occurrence_limit_is_greedy_over_all_pairs(seed: int, n: int, cap: int, variant: ScoreForm) -> None:
    model, words = TableModel(seed, 4), WORDS[:4]
    occurrences: Counter[str] = Counter()
    counts: Counter[Shape | str] = Counter()
    expected = []
    for pair in every_pair(model, words, (0.4, 0.6), SHAPES, variant):
        group: Shape | str = pair.shape if variant == "kbloom" else "all"
        if counts[group] < n and max(occurrences[pair.head], occurrences[pair.tail]) < cap:
            occurrences.update((pair.head, pair.tail))
            counts[group] += 1
            expected.append(pair)
    results = search_tuples(model, words, (0.4, 0.6), n=n, max_occurrences=cap, variant=variant)
    assert_same(results, expected)


@pytest.mark.parametrize("variant", ["kbloom", "bertnet"])
def test_nodes_are_expanded_again_for_more_children(monkeypatch: pytest.MonkeyPatch, variant: ScoreForm) -> None:
    model = TableModel(7, 5, grain=1.0)
    expected = search_tuples(model, WORDS, (0.4, 0.6), n=40, max_occurrences=None, variant=variant)
    monkeypatch.setattr(tuple_search, "_CHILDREN_PER_EXPANSION", 2)
    assert search_tuples(model, WORDS, (0.4, 0.6), n=40, max_occurrences=None, variant=variant) == expected
