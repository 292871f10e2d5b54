"""Searches the most probable entity pairs of a relation's prompts under a masked language model.

A pair has the words w_1 … w_k, the head's first, filled left to right. Under prompts with weights λ_p (their sum is 1)
the log-probability of word i is ℓ_i = Σ_p λ_p · log P_p(w_i | w_1 … w_{i−1}), and a pair's score is

* ``kbloom``: Σ_i ℓ_i, the prompt-weighted log-likelihood; one heap for each of the shapes 1-1, 1-2, 2-1, 2-2;
* ``bertnet``: (mean_i ℓ_i + mean over the two entities of their mean ℓ_i + min_i ℓ_i) / 3; one heap for all shapes.

Counting missing words as certain (ℓ = 0) gives an upper bound on the score of every completion of a partial pair.
Nodes are expanded in the order of their bounds, in batches over prompts and shapes. A node whose bound is below the
n-th best score of its heap is never expanded. The result is the same for every batch size, and the same as scoring all
pairs.

A heap of capacity n stores children (20 bytes each) down to the score of its ``_RESERVE`` · n-th best pair, and drops
the others; if a wider heap needs them, their node is expanded again. A batch holds batch size × prompts × words
log-probabilities.
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

_CHILDREN_PER_EXPANSION = 4096
"""Children of a node in memory at a time; the node is expanded again if the search needs more."""
_RESERVE = 8
"""Pairs whose scores a heap keeps, per pair of its capacity, so that it can widen without expanding nodes again."""


@dataclass(frozen=True)
class FillQuery:
    """Asks for the next word of a partly filled prompt.

    ``filled`` are positions in the vocabulary, the head's words first; the next word has number ``len(filled)``.
    """

    prompt: int
    shape: Shape
    filled: tuple[int, ...]


LogProbModel = Callable[[Sequence[FillQuery]], npt.NDArray[np.floating]]
"""Returns one row of log-probabilities over the vocabulary for each query."""


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
    """Children of one node, best bound first; ``rank`` is that of the first one among all children."""

    parent: _Node
    rank: int
    words: npt.NDArray[np.int32]
    log_probs: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]

    def count(self, lowest: float) -> int:
        """Number of children whose bound is at least ``lowest``."""
        return int(np.searchsorted(-self.bounds, -lowest, side="right"))

    def slice(self, start: int, end: int) -> _Siblings:
        words, log_probs = self.words[start:end].copy(), self.log_probs[start:end].copy()
        return _Siblings(self.parent, self.rank + start, words, log_probs, self.bounds[start:end].copy())

    def node(self, index: int) -> _Node:
        filled = (*self.parent.filled, int(self.words[index]))
        return _Node(self.parent.shape, filled, (*self.parent.log_probs, float(self.log_probs[index])))


@dataclass
class _Heap:
    """Search state for some shapes: complete pairs, the best scores, and the unexpanded nodes.

    ``threshold`` is the score of the ``capacity``-th best pair so far, ``floor`` that of the last one of the reserve;
    children below the floor are not stored. ``size`` is the number of stored children, ``pruned_size`` that after the
    last pruning.
    """

    capacity: int
    frontier: list[tuple[float, int, _Siblings | _Node, int]] = field(default_factory=list)
    leaves: list[_Siblings] = field(default_factory=list)
    new_scores: list[npt.NDArray[np.float64]] = field(default_factory=list)
    best: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    threshold: float = -np.inf
    floor: float = -np.inf
    size: int = 0
    pruned_size: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether every pair at or above the threshold has been found."""
        return not self.frontier or -self.frontier[0][0] < self.threshold

    def update(self) -> None:
        """Update threshold and floor by the new scores."""
        best, limit = np.concatenate([self.best, *self.new_scores]), _RESERVE * self.capacity
        self.new_scores = []
        if len(best) >= limit:
            best = np.partition(best, len(best) - limit)[len(best) - limit :]
            self.floor = float(best.min())
        if len(best) >= self.capacity:
            self.threshold = float(np.partition(best, len(best) - self.capacity)[len(best) - self.capacity])
        self.best = best

    def widen(self) -> None:
        self.capacity *= 2
        self.best, self.threshold, self.floor = np.empty(0), -np.inf, -np.inf
        self.new_scores = [leaf.bounds for leaf in self.leaves]
        self.update()


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
    """The best ``n`` pairs of each heap, sorted by descending score, ties by text.

    Pairs of an entity with itself and entities that repeat a word are excluded.

    ``log_probs``: Answers queries; column i of its rows is the word ``vocabulary[i]``.
    ``weights``: One per prompt, normalised to sum to 1.
    ``max_occurrences``: Maximum pairs of an entity, as head or tail. Applied to all shapes together in the order of the
        result, so it does not depend on the order of the search. Heaps widen until ``n`` pairs of each remain or there
        are no more pairs.
    ``batch_size``: Nodes expanded at a time, with one query per prompt.
    """
    share = np.asarray(weights, dtype=np.float64)
    search = _Search(log_probs, vocabulary, share / share.sum(), variant)
    groups = [[shape] for shape in shapes] if variant == "kbloom" else [list(shapes)]
    heaps = [search.heap(group, n) for group in groups]
    while True:
        search.finish(heaps, batch_size)
        pairs, incomplete = _select_pairs(heaps, search.pairs, n, max_occurrences)
        if not incomplete:
            return pairs
        for heap in incomplete:
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
        """Expand nodes until each heap has every pair at or above its threshold."""
        while open_heaps := [heap for heap in heaps if not heap.is_finished]:
            quota = max(1, batch_size // len(open_heaps))
            batch = [(heap, *node) for heap in open_heaps for node in self._pop_nodes(heap, quota)]
            self._expand(batch)
            for heap in open_heaps:
                heap.update()
                self._prune(heap)

    def pairs(self, heap: _Heap) -> list[ScoredPair]:
        """The pairs of a finished heap at or above its threshold."""
        pairs = []
        threshold = heap.threshold
        for leaf in heap.leaves:
            for index in range(leaf.count(threshold)):
                node, size = leaf.node(index), leaf.parent.shape[0]
                words = [self._vocabulary[word] for word in node.filled]
                head, tail = " ".join(words[:size]), " ".join(words[size:])
                pairs.append(ScoredPair(head, tail, node.shape, float(leaf.bounds[index]), node.log_probs))
        return pairs

    def _push(self, heap: _Heap, bound: float, item: _Siblings | _Node, index: int) -> None:
        heapq.heappush(heap.frontier, (-bound, next(self._order), item, index))

    def _pop_nodes(self, heap: _Heap, count: int) -> list[tuple[_Node, int]]:
        """Pop up to ``count`` nodes of the frontier, each with the rank of its first unexpanded child."""
        nodes: list[tuple[_Node, int]] = []
        while len(nodes) < count and not heap.is_finished:
            _, _, item, index = heapq.heappop(heap.frontier)
            if isinstance(item, _Node):
                nodes.append((item, index))
                continue
            nodes.append((item.node(index), 0))
            if index + 1 < len(item.words):
                self._push(heap, float(item.bounds[index + 1]), item, index + 1)
        return nodes

    def _prune(self, heap: _Heap) -> None:
        """Drop children below the floor once as many were added as the last pruning left."""
        if not np.isfinite(heap.floor) or heap.size < 2 * max(heap.pruned_size, _CHILDREN_PER_EXPANSION):
            return
        frontier, leaves = heap.frontier, heap.leaves
        heap.frontier, heap.leaves = [entry for entry in frontier if isinstance(entry[2], _Node)], []
        heapq.heapify(heap.frontier)
        heap.size = 0
        stored = [(item, index, True) for _, _, item, index in frontier if isinstance(item, _Siblings)]
        for siblings, start, is_open in [*stored, *((leaf, 0, False) for leaf in leaves)]:
            end = max(start, siblings.count(heap.floor))
            if end < len(siblings.words):
                self._push(heap, float(siblings.bounds[end]), siblings.parent, siblings.rank + end)
            if start == end:
                continue
            remaining = siblings.slice(start, end)
            heap.size += end - start
            if is_open:
                self._push(heap, float(remaining.bounds[0]), remaining, 0)
            else:
                heap.leaves.append(remaining)
        heap.pruned_size = heap.size

    def _expand(self, batch: Sequence[tuple[_Heap, _Node, int]]) -> None:
        prompts = range(len(self._weights))
        queries = [FillQuery(prompt, node.shape, node.filled) for _, node, _ in batch for prompt in prompts]
        answers = np.asarray(self._ask(queries))
        if np.isnan(answers).any():
            raise ValueError("the model returned NaN log-probabilities; fetch its weights again")
        rows = answers.reshape(len(batch), len(prompts), -1)
        values = np.zeros((len(batch), len(self._vocabulary)))
        for prompt, weight in enumerate(
            self._weights
        ):  # in a fixed order, so that sums do not depend on the batch size
            if weight > 0:
                values += weight * rows[:, prompt]
        np.minimum(values, 0.0, out=values)
        for (heap, node, skip), row in zip(batch, values, strict=True):
            self._add_children(heap, node, skip, row)

    def _add_children(self, heap: _Heap, node: _Node, skip: int, row: npt.NDArray[np.float64]) -> None:
        bounds = _bound(node, row, self._variant)
        bounds[_excluded_words(node)] = -np.inf
        words = np.flatnonzero((bounds >= heap.floor) & np.isfinite(bounds))
        words = words[np.argsort(-bounds[words], kind="stable")][: skip + _CHILDREN_PER_EXPANSION]
        later = bounds.copy()
        later[words] = -np.inf
        if np.isfinite(next_bound := float(later.max(initial=-np.inf))):
            self._push(heap, next_bound, node, max(skip, len(words)))
        words = words[skip:]
        heap.size += len(words)
        if not len(words):
            return
        children = _Siblings(node, skip, words.astype(np.int32), row[words], bounds[words])
        if len(node.filled) + 1 == sum(node.shape):
            heap.leaves.append(children)
            heap.new_scores.append(children.bounds)
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
    """Upper bound on the score of each child of ``node``: missing words count as certain."""
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


def _excluded_words(node: _Node) -> list[int]:
    """Words that would repeat within an entity, or make the tail equal to the head."""
    head_length, tail_length = node.shape
    head, tail = node.filled[:head_length], node.filled[head_length:]
    if len(node.filled) < head_length:
        return list(head)
    excluded = list(tail)
    if len(tail) + 1 == tail_length == head_length and tail == head[: len(tail)]:
        excluded.append(head[-1])
    return excluded


def _select_pairs(
    heaps: Sequence[_Heap], pairs: Callable[[_Heap], list[ScoredPair]], n: int, max_occurrences: int | None
) -> tuple[list[ScoredPair], list[_Heap]]:
    """Select pairs of all heaps in order, at most ``n`` of each, up to the maximum occurrences of their entities.

    Also returns the heaps that lack pairs but have more below their threshold. They must be widened before another
    selection.
    """
    ranking = [(pair, number) for number, heap in enumerate(heaps) for pair in pairs(heap)]
    ranking.sort(key=lambda item: (-item[0].score, item[0].head, item[0].tail))
    missing_counts = dict.fromkeys(range(len(heaps)), n)
    occurrences: Counter[str] = Counter()
    selected: list[ScoredPair] = []
    for pair, number in ranking:
        if not missing_counts[number]:
            continue
        if max_occurrences is not None:
            if max(occurrences[pair.head], occurrences[pair.tail]) >= max_occurrences:
                continue
            occurrences.update((pair.head, pair.tail))
        selected.append(pair)
        missing_counts[number] -= 1
    incomplete = [heaps[number] for number, count in missing_counts.items() if count]
    return selected, [heap for heap in incomplete if heap.threshold > -np.inf]
