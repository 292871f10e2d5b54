"""Search for the entity pairs that a masked model finds likeliest in a relation's prompts.

A pair has the words w_1 … w_k, the head's first, filled left to right. Under prompts with weights λ_p (their sum is 1)
the log-probability of word i is ℓ_i = Σ_p λ_p · log P_p(w_i | w_1 … w_{i−1}), and a pair's score is

* ``kbloom``: Σ_i ℓ_i, the prompt-weighted log-likelihood; one heap for each of the shapes 1-1, 1-2, 2-1, 2-2;
* ``bertnet``: (mean_i ℓ_i + mean over the two entities of their mean ℓ_i + min_i ℓ_i) / 3; one heap for all shapes.

Both only fall when a word is added and the missing words are counted as certain (ℓ = 0), so that this bound on a partly
filled pair is never under the score of a pair that it can become. Nodes are opened best bound first, a batch at a time
over prompts and shapes; a node whose bound is under the n-th best score of its heap is never opened. What comes out is
therefore the same for every batch size, and the same as scoring every pair.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

Shape = tuple[int, int]
ScoreForm = Literal["kbloom", "bertnet"]
SHAPES: tuple[Shape, ...] = ((1, 1), (1, 2), (2, 1), (2, 2))

_CHILDREN_KEPT = 4096
"""Children of a node held in memory at a time; it is opened again should the search need more."""


@dataclass(frozen=True)
class FillQuery:
    """One question to the model: which word comes next in this partly filled prompt?

    ``filled`` are positions in the vocabulary, the head's words first; the word asked is number ``len(filled)``.
    """

    prompt: int
    shape: Shape
    filled: tuple[int, ...]


LogProbModel = Callable[[Sequence[FillQuery]], npt.NDArray[np.floating]]
"""Answers queries with one row of log-probabilities over the vocabulary each."""


@dataclass(frozen=True)
class ScoredPair:
    """An entity pair, its score, and the prompt-weighted log-probability of each of its words, the head's first."""

    head: str
    tail: str
    shape: Shape
    score: float
    word_log_probs: tuple[float, ...]

    @property
    def log_likelihood(self) -> float:
        return sum(self.word_log_probs)


@dataclass(frozen=True)
class _Node:
    shape: Shape
    filled: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()


@dataclass
class _Siblings:
    """Children of one node, best bound first. They leave the frontier one at a time."""

    parent: _Node
    words: npt.NDArray[np.intp]
    log_probs: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]

    def node(self, index: int) -> _Node:
        filled = (*self.parent.filled, int(self.words[index]))
        return _Node(self.parent.shape, filled, (*self.parent.log_probs, float(self.log_probs[index])))


@dataclass
class _Heap:
    """The pairs of some shapes: those found, the best ``capacity`` scores, and the nodes not opened yet."""

    capacity: int
    frontier: list[tuple[float, int, _Siblings | _Node, int]] = field(default_factory=list)
    leaves: list[_Siblings] = field(default_factory=list)
    best: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def threshold(self) -> float:
        """Score that a pair must reach to be among the best ``capacity`` found so far."""
        return float(self.best.min()) if len(self.best) >= self.capacity else -np.inf

    @property
    def finished(self) -> bool:
        """Whether every pair at or above the threshold has been found."""
        return not self.frontier or -self.frontier[0][0] < self.threshold

    def add(self, scores: npt.NDArray[np.float64]) -> None:
        merged = np.concatenate([self.best, scores[scores > self.threshold]])
        if len(merged) > self.capacity:
            merged = np.partition(merged, len(merged) - self.capacity)[len(merged) - self.capacity :]
        self.best = merged

    def widen(self) -> None:
        self.capacity *= 2
        self.best = np.empty(0)
        if self.leaves:
            self.add(np.concatenate([leaf.bounds for leaf in self.leaves]))


def search_tuples(
    log_probs: LogProbModel,
    vocabulary: Sequence[str],
    weights: Sequence[float],
    *,
    n: int = 1000,
    shapes: Sequence[Shape] = SHAPES,
    max_occurrences: int | None = 10,
    variant: ScoreForm = "kbloom",
    batch_size: int = 64,
) -> list[ScoredPair]:
    """The best ``n`` pairs of each heap, all together by descending score, ties by text.

    Pairs of an entity with itself and entities that repeat a word are never formed.

    ``log_probs``: Answers queries; word i of its rows is ``vocabulary[i]``.
    ``weights``: One for each prompt; they are normalised to sum to 1.
    ``max_occurrences``: How often one entity may stand in the result, as head or tail. Applied over all shapes together
        in the order of the result, so that it does not depend on the order of the search; heaps widen until ``n`` of
        each survive or there are no more pairs.
    ``batch_size``: Nodes opened at a time; each asks one query a prompt.
    """
    share = np.asarray(weights, dtype=np.float64)
    search = _Search(log_probs, vocabulary, share / share.sum(), variant)
    groups = [[shape] for shape in shapes] if variant == "kbloom" else [list(shapes)]
    heaps = [search.heap(group, n) for group in groups]
    while True:
        search.finish(heaps, batch_size)
        kept, blocked = _greedy(heaps, search.pairs, n, max_occurrences)
        if not blocked:
            return kept
        for heap in blocked:
            heap.widen()


class _Search:
    def __init__(
        self, log_probs: LogProbModel, vocabulary: Sequence[str], weights: npt.NDArray[np.float64], variant: ScoreForm
    ) -> None:
        self._ask, self._vocabulary, self._weights, self._variant = log_probs, vocabulary, weights, variant
        self._order = itertools.count()

    def heap(self, shapes: Sequence[Shape], n: int) -> _Heap:
        heap = _Heap(n)
        for shape in shapes:
            self._push(heap, 0.0, _Node(shape), 0)
        return heap

    def finish(self, heaps: Sequence[_Heap], batch_size: int) -> None:
        """Open nodes until each heap knows every pair at or above its threshold."""
        while open_heaps := [heap for heap in heaps if not heap.finished]:
            quota = max(1, batch_size // len(open_heaps))
            batch = [(heap, *opened) for heap in open_heaps for opened in self._next(heap, quota)]
            self._expand(batch)

    def pairs(self, heap: _Heap) -> list[ScoredPair]:
        """The pairs of a finished heap at or above its threshold."""
        found = []
        threshold = heap.threshold
        for leaf in heap.leaves:
            for index in range(int(np.searchsorted(-leaf.bounds, -threshold, side="right"))):
                node, size = leaf.node(index), leaf.parent.shape[0]
                words = [self._vocabulary[word] for word in node.filled]
                head, tail = " ".join(words[:size]), " ".join(words[size:])
                found.append(ScoredPair(head, tail, node.shape, float(leaf.bounds[index]), node.log_probs))
        return found

    def _push(self, heap: _Heap, bound: float, item: _Siblings | _Node, index: int) -> None:
        heapq.heappush(heap.frontier, (-bound, next(self._order), item, index))

    def _next(self, heap: _Heap, count: int) -> list[tuple[_Node, int]]:
        """Take up to ``count`` nodes off the frontier, each with the rank of its first child that is not known yet."""
        taken: list[tuple[_Node, int]] = []
        while len(taken) < count and not heap.finished:
            _, _, item, index = heapq.heappop(heap.frontier)
            if isinstance(item, _Node):
                taken.append((item, index))
                continue
            taken.append((item.node(index), 0))
            if index + 1 < len(item.words):
                self._push(heap, float(item.bounds[index + 1]), item, index + 1)
        return taken

    def _expand(self, batch: Sequence[tuple[_Heap, _Node, int]]) -> None:
        prompts = range(len(self._weights))
        queries = [FillQuery(prompt, node.shape, node.filled) for _, node, _ in batch for prompt in prompts]
        answers = np.asarray(self._ask(queries))
        if np.isnan(answers).any():
            raise ValueError("the model answered NaN as a log-probability")
        rows = answers.reshape(len(batch), len(prompts), -1)
        values = np.zeros((len(batch), len(self._vocabulary)))
        for prompt, weight in enumerate(self._weights):  # one after the other: the same sum for every batch size
            if weight > 0:
                values += weight * rows[:, prompt]
        np.minimum(values, 0.0, out=values)
        for (heap, node, skip), row in zip(batch, values, strict=True):
            self._add_children(heap, node, skip, row)

    def _add_children(self, heap: _Heap, node: _Node, skip: int, row: npt.NDArray[np.float64]) -> None:
        bounds = _bound(node, row, self._variant)
        bounds[_banned(node)] = -np.inf
        ranking = np.argsort(-bounds, kind="stable")
        ranking = ranking[: int(np.isfinite(bounds).sum())]
        chosen, left = ranking[skip : skip + _CHILDREN_KEPT], ranking[skip + _CHILDREN_KEPT :]
        if len(left):
            self._push(heap, float(bounds[left[0]]), node, skip + _CHILDREN_KEPT)
        if not len(chosen):
            return
        children = _Siblings(node, chosen, row[chosen], bounds[chosen])
        if len(node.filled) + 1 == sum(node.shape):
            heap.leaves.append(children)
            heap.add(children.bounds)
        else:
            self._push(heap, float(children.bounds[0]), children, 0)


def bertnet_score(head: Sequence[float], tail: Sequence[float]) -> float:
    """The baseline's score of a pair from the log-probabilities of its words, the head's and the tail's.

    >>> round(bertnet_score([-1.0], [-2.0, -3.0]), 4)
    -2.25
    """
    entities = (sum(head) / len(head) + sum(tail) / len(tail)) / 2
    return (sum((*head, *tail)) / (len(head) + len(tail)) + entities + min(*head, *tail)) / 3


def _bound(node: _Node, row: npt.NDArray[np.float64], variant: ScoreForm) -> npt.NDArray[np.float64]:
    """Best score that each child of ``node`` can reach: words still missing count as certain."""
    total: npt.NDArray[np.float64] = sum(node.log_probs) + row
    if variant == "kbloom":
        return total
    head_length, tail_length = node.shape
    entities = total / head_length
    if len(node.filled) >= head_length:
        head, tail = sum(node.log_probs[:head_length]), sum(node.log_probs[head_length:])
        entities = head / head_length + (tail + row) / tail_length
    lowest = np.minimum(min(node.log_probs, default=0.0), row)
    return (total / (head_length + tail_length) + entities / 2 + lowest) / 3


def _banned(node: _Node) -> list[int]:
    """Words that would repeat within an entity, or make the tail equal to the head."""
    head_length, tail_length = node.shape
    head, tail = node.filled[:head_length], node.filled[head_length:]
    if len(node.filled) < head_length:
        return list(head)
    banned = list(tail)
    if len(tail) + 1 == tail_length == head_length and tail == head[: len(tail)]:
        banned.append(head[-1])
    return banned


def _greedy(
    heaps: Sequence[_Heap], pairs: Callable[[_Heap], list[ScoredPair]], n: int, max_occurrences: int | None
) -> tuple[list[ScoredPair], list[_Heap]]:
    """Take pairs of all heaps in order, ``n`` of each at most, while their entities may still occur.

    The second result names the heaps that lack pairs although there are more under their threshold: they must be
    widened, and everything taken again.
    """
    known = [(pair, number) for number, heap in enumerate(heaps) for pair in pairs(heap)]
    known.sort(key=lambda item: (-item[0].score, item[0].head, item[0].tail))
    lacking = dict.fromkeys(range(len(heaps)), n)
    occurrences: Counter[str] = Counter()
    kept: list[ScoredPair] = []
    for pair, number in known:
        if not lacking[number]:
            continue
        if max_occurrences is not None:
            if max(occurrences[pair.head], occurrences[pair.tail]) >= max_occurrences:
                continue
            occurrences.update((pair.head, pair.tail))
        kept.append(pair)
        lacking[number] -= 1
    return kept, [heaps[number] for number, missing in lacking.items() if missing and heaps[number].threshold > -np.inf]
