"""Searches the most probable entity pairs of a relation's prompts under a masked language model.

A pair has the words w_1 … w_k, the head's first, filled left to right. Under prompts with weights λ_p (their sum is 1)
the log-probability of word i is ℓ_i = Σ_p λ_p · log P_p(w_i | w_1 … w_{i−1}), and a pair's score is

* ``kbloom``: Σ_i ℓ_i, the prompt-weighted log-likelihood; one heap for each of the shapes 1-1, 1-2, 2-1, 2-2;
* ``bertnet``: (mean_i ℓ_i + mean over the two entities of their mean ℓ_i + min_i ℓ_i) / 3; one heap for all shapes.

Counting missing words as certain (ℓ = 0) gives an upper bound on the score of every completion of a partial pair. The
search expands nodes in the order of their bounds (A*), in batches over prompts and shapes, so that pairs appear in the
order of their scores. The result is the same for every batch size, and the same as scoring all pairs.

An expanded node stores its best ``_CHILDREN_PER_EXPANSION`` children (20 bytes each) and is expanded again if the
search needs more. A batch holds batch size × prompts × words log-probabilities.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Shape = tuple[int, int]
ScoreForm = Literal["kbloom", "bertnet"]
SHAPES: tuple[Shape, ...] = ((1, 1), (1, 2), (2, 1), (2, 2))

_CHILDREN_PER_EXPANSION = 128
"""Children of a node in memory at a time; the node is expanded again if the search needs more."""


@dataclass(frozen=True)
class FillQuery:
    """Asks for the next word of a partly filled prompt.

    ``filled`` are positions in the vocabulary, the head's words first; the next word has number ``len(filled)``.
    """

    prompt: int
    shape: Shape
    filled: tuple[int, ...]


LogProbModel = Callable[[Sequence[FillQuery]], npt.NDArray[np.float32] | npt.NDArray[np.float64]]
"""Returns one row of log-probabilities over the vocabulary for each query."""


@dataclass(frozen=True)
class ScoredPair:
    """An entity pair, its score, and the sum of the prompt-weighted log-probabilities of its words."""

    head: str
    tail: str
    shape: Shape
    score: float
    log_likelihood: float


@dataclass(frozen=True)
class _Node:
    """A pair whose words are filled or missing; its best ``skip`` children have been stored before."""

    shape: Shape
    filled: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    skip: int = 0


@dataclass(frozen=True)
class _Children:
    """Children of one node, best bound first, ties by text."""

    parent: _Node
    words: npt.NDArray[np.int32]
    log_probs: npt.NDArray[np.float64]
    bounds: npt.NDArray[np.float64]

    def node(self, index: int) -> _Node:
        filled = (*self.parent.filled, int(self.words[index]))
        return _Node(self.parent.shape, filled, (*self.parent.log_probs, float(self.log_probs[index])))


_Entry = tuple[float, tuple[str, ...], int, _Node, _Children | None, int]


def search_tuples(
    log_probs: LogProbModel,
    vocabulary: Sequence[str],
    weights: Sequence[float],
    *,
    n: int = 1000,
    max_occurrences: int | None = 10,
    variant: ScoreForm = "kbloom",
    batch_size: int = 64,
) -> list[ScoredPair]:
    """The best ``n`` pairs of each heap, sorted by descending score, ties by text.

    Pairs of an entity with itself and entities that repeat a word are excluded.

    ``log_probs``: Answers queries; column i of its rows is the word ``vocabulary[i]``.
    ``weights``: One per prompt, normalised to sum to 1.
    ``max_occurrences``: Maximum pairs of an entity, as head or tail, over all shapes and in the order of the result.
    ``batch_size``: Nodes expanded at a time, with one query per prompt.
    """
    share = np.asarray(weights, dtype=np.float64)
    search = _Search(log_probs, vocabulary, share / share.sum(), variant)
    for shape in SHAPES:
        search.push(0.0, _Node(shape))
    counts: Counter[tuple[Shape, ...]] = Counter()
    occurrences: Counter[str] = Counter()
    selected: list[ScoredPair] = []
    while (pair := search.next_pair(batch_size)) is not None:
        if max_occurrences is not None and max(occurrences[pair.head], occurrences[pair.tail]) >= max_occurrences:
            continue
        occurrences.update((pair.head, pair.tail))
        selected.append(pair)
        heap = (pair.shape,) if variant == "kbloom" else SHAPES
        counts[heap] += 1
        if counts[heap] == n:
            search.close(heap)
    return sorted(selected, key=lambda pair: (-pair.score, pair.head, pair.tail))


class _Search:
    """Best-first search over all shapes.

    An entry of a heap has a negative bound, the pair's head and tail if it is complete, a number, the node, and its
    siblings with its position among them; the next sibling follows when the node is removed.
    """

    def __init__(
        self, log_probs: LogProbModel, vocabulary: Sequence[str], weights: npt.NDArray[np.float64], variant: ScoreForm
    ) -> None:
        self._ask = log_probs
        self._vocabulary = vocabulary
        self._weights = weights
        self._variant = variant
        self._text_ranks = np.argsort(np.argsort(np.asarray(vocabulary)))
        self._order = itertools.count()
        self._incomplete: list[_Entry] = []
        self._complete: list[_Entry] = []

    def push(self, bound: float, node: _Node, siblings: _Children | None = None, index: int = 0) -> None:
        pair = self._find_pair(node)
        entry = (-bound, pair, next(self._order), node, siblings, index)
        heapq.heappush(self._complete if pair else self._incomplete, entry)

    def close(self, shapes: Sequence[Shape]) -> None:
        """Stop searching pairs of these shapes."""
        for heap in (self._incomplete, self._complete):
            heap[:] = [entry for entry in heap if entry[3].shape not in shapes]
            heapq.heapify(heap)

    def next_pair(self, batch_size: int) -> ScoredPair | None:
        """The best pair that has not been returned yet; None if there is none."""
        while self._incomplete or self._complete:
            if self._complete and (not self._incomplete or self._complete[0][0] < self._incomplete[0][0]):
                score, (head, tail), _, node, *_ = self._pop(self._complete)
                return ScoredPair(head, tail, node.shape, -score, sum(node.log_probs))
            nodes = list[_Node]()
            while self._incomplete and len(nodes) < batch_size:
                nodes.append(self._pop(self._incomplete)[3])
            self._expand(nodes)
        return None

    def _find_pair(self, node: _Node) -> tuple[str, ...]:
        """Head and tail of a node; empty if words are missing."""
        head_length, tail_length = node.shape
        if len(node.filled) < head_length + tail_length:
            return ()
        words = [self._vocabulary[word] for word in node.filled]
        return " ".join(words[:head_length]), " ".join(words[head_length:])

    def _push_sibling(self, siblings: _Children | None, index: int) -> None:
        if siblings is not None and index < len(siblings.words):
            self.push(float(siblings.bounds[index]), siblings.node(index), siblings, index)

    def _pop(self, heap: list[_Entry]) -> _Entry:
        entry = heapq.heappop(heap)
        *_, siblings, index = entry
        self._push_sibling(siblings, index + 1)
        return entry

    def _expand(self, nodes: Sequence[_Node]) -> None:
        prompts = range(len(self._weights))
        answers = np.asarray(self._ask([FillQuery(prompt, n.shape, n.filled) for n in nodes for prompt in prompts]))
        rows = answers.reshape(len(nodes), len(prompts), -1)
        values = np.zeros((len(nodes), len(self._vocabulary)))
        # In a fixed order, so that sums do not depend on the batch size.
        for prompt, weight in enumerate(self._weights):
            if weight > 0:
                values += weight * rows[:, prompt]
        for node, row in zip(nodes, np.minimum(values, 0.0), strict=True):
            self._add_children(node, row)

    def _add_children(self, node: _Node, row: npt.NDArray[np.float64]) -> None:
        bounds = _bound(node, row, self._variant)
        bounds[_excluded_words(node)] = -np.inf
        count = min(node.skip + _CHILDREN_PER_EXPANSION, len(bounds))
        lowest = np.partition(bounds, len(bounds) - count)[len(bounds) - count]
        is_stored = (bounds >= lowest) & np.isfinite(bounds)
        words = np.flatnonzero(is_stored)
        words = words[np.lexsort((self._text_ranks[words], -bounds[words]))]
        next_bound = bounds[~is_stored].max(initial=-np.inf)
        if np.isfinite(next_bound):
            self.push(float(next_bound), replace(node, skip=len(words)))
        words = words[node.skip :]
        self._push_sibling(_Children(node, words.astype(np.int32), row[words], bounds[words]), 0)


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
        head = sum(node.log_probs[:head_length])
        tail = sum(node.log_probs[head_length:])
        entities = head / head_length + (tail + row) / tail_length
    lowest = np.minimum(min(node.log_probs, default=0.0), row)
    return (total / (head_length + tail_length) + entities / 2 + lowest) / 3


def _excluded_words(node: _Node) -> list[int]:
    """Words that would repeat within an entity, or make the tail equal to the head."""
    head_length, tail_length = node.shape
    head = node.filled[:head_length]
    tail = node.filled[head_length:]
    if len(node.filled) < head_length:
        return list(head)
    excluded = list(tail)
    if len(tail) + 1 == tail_length == head_length and tail == head[: len(tail)]:
        excluded.append(head[-1])
    return excluded
