"""Metrics of a harvest: sets and rankings of entity pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.models.vectors import unit_rows

MatchRule = Literal["share", "maximum"]
_MIN_COSINE = 0.75
_MIN_SHARE = 0.5
_ROUNDS = 200
_SAMPLE_SIZE = 100


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over repeated rounds."""

    mean: float
    deviation: float


def list_entities(pairs: Iterable[EntityPair]) -> set[str]:
    """Distinct entity strings, case-sensitive, heads and tails together; their number is the diversity."""
    return {entity for pair in pairs for entity in pair}


def novelty(pairs: Iterable[EntityPair], reference: Collection[str]) -> float:
    """Percentage of distinct entities that are not in the reference (exact string); NaN without entities."""
    distinct = list_entities(pairs)
    return 100 * len(distinct - set(reference)) / len(distinct) if distinct else float("nan")


def reference_accuracy(generated: npt.ArrayLike, reference: npt.ArrayLike, rule: MatchRule = "share") -> Spread:
    """Percentage of generated tuples that are similar to reference tuples of the same relation.

    Each of 200 rounds samples 100 reference tuples without replacement (all if there are fewer). A tuple is correct if
    its cosine exceeds 0.75 with at least half of them (``share``) or with any (``maximum``, the rule printed for tuples
    that the baseline did not find). The result is the mean and standard deviation over the rounds.

    ``generated``, ``reference``: One vector per tuple, n × d, of any norm.
    """
    rows = unit_rows(np.asarray(generated, dtype=np.float64))
    reference_rows = unit_rows(np.asarray(reference, dtype=np.float64))
    is_similar = rows @ reference_rows.T > _MIN_COSINE
    random = np.random.default_rng(0)
    sample_size = min(_SAMPLE_SIZE, is_similar.shape[1])
    values = np.empty(_ROUNDS)
    for number in range(_ROUNDS):
        hits = is_similar[:, random.choice(is_similar.shape[1], size=sample_size, replace=False)].mean(axis=1)
        values[number] = 100 * np.mean(hits >= _MIN_SHARE if rule == "share" else hits > 0)
    return Spread(float(values.mean()), float(values.std()))


def sampled_precision(verdicts: Sequence[Sequence[bool]]) -> Spread:
    """Percentage of correct tuples over 200 experiments, each of 100 tuples drawn from every relation (all if fewer).

    ``verdicts``: Whether each tuple is correct, by relation.
    """
    random = np.random.default_rng(0)
    parts = [np.asarray(of_relation, dtype=float) for of_relation in verdicts if len(of_relation)]
    rounds = [
        np.concatenate([random.choice(part, size=min(_SAMPLE_SIZE, len(part)), replace=False) for part in parts]).mean()
        for _ in range(_ROUNDS)
    ]
    return Spread(100 * float(np.mean(rounds)), 100 * float(np.std(rounds)))


def find_supporting_prompts(log_likelihoods: npt.ArrayLike, shapes: Sequence[Hashable]) -> list[tuple[int, ...]]:
    """For each candidate, the prompts that would find it on their own.

    A prompt finds the more probable half of the candidates of each shape; likelihoods of different shapes are not
    comparable. ``log_likelihoods``: candidates × prompts.
    """
    values = np.asarray(log_likelihoods)
    finds = np.zeros(values.shape, dtype=bool)
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, shape in enumerate(shapes):
        groups[shape].append(row)
    for rows in groups.values():
        half = max(1, round(len(rows) / 2))
        lowest = np.sort(values[rows], axis=0)[len(rows) - half]
        finds[rows] = values[rows] >= lowest
    return [tuple(int(prompt) for prompt in np.flatnonzero(row)) for row in finds]


def flag_contradictions(pairs: Sequence[EntityPair]) -> list[bool]:
    """For a functional relation: whether the pair's head has more than one tail (case ignored)."""
    tails: defaultdict[str, set[str]] = defaultdict(set)
    for head, tail in pairs:
        tails[head.casefold()].add(tail.casefold())
    return [len(tails[head.casefold()]) > 1 for head, _ in pairs]


@dataclass(frozen=True)
class Direction:
    """Whether a relation is symmetric, and its inverse relation if there is one."""

    symmetric: bool = False
    inverse: str | None = None


Triple = tuple[str, str, str]
"""Head, relation, tail."""


def canonical_triple(triple: Triple, directions: Mapping[str, Direction]) -> Triple:
    """Canonical form of a triple, case ignored.

    Triples of symmetric relations have head and tail in alphabetical order. Of a relation and its inverse, the
    alphabetically first one is used.
    """
    relation = triple[1]
    ends = [triple[0].casefold(), triple[2].casefold()]
    inverse = directions.get(relation, Direction()).inverse
    inverse = inverse or next((name for name, other in directions.items() if other.inverse == relation), None)
    if inverse is not None and inverse < relation:
        relation = inverse
        ends.reverse()
    if directions.get(relation, Direction()).symmetric:
        ends.sort()
    return ends[0], relation, ends[1]


def judge_relevance(
    ranking: Sequence[Triple],
    truth: Iterable[Triple],
    *,
    exclude: Iterable[Triple] = (),
    directions: Mapping[str, Direction] | None = None,
) -> tuple[list[bool], int]:
    """For each ranked triple whether it is true, and the number of true triples.

    Excluded triples (the seeds) are ignored. A triple that occurs twice, such as in both directions of a symmetric
    relation, counts once, at its best rank.
    """
    directions = directions or {}
    excluded = {canonical_triple(triple, directions) for triple in exclude}
    true = {canonical_triple(triple, directions) for triple in truth} - excluded
    previous: set[Triple] = set()
    hits = []
    for triple in ranking:
        form = canonical_triple(triple, directions)
        if form not in excluded and form not in previous:
            previous.add(form)
            hits.append(form in true)
    return hits, len(true)


def precision_curve(hits: Sequence[Sequence[bool]], depth: int) -> list[float]:
    """Mean over the relations of the share of correct triples among the first k, for k from 1 to ``depth``.

    ``hits``: Whether each triple of a relation is correct, best first. Missing triples count as wrong.
    """
    gains = np.zeros((len(hits), depth))
    for row, of_relation in zip(gains, hits, strict=True):
        row[: len(of_relation)] = of_relation[:depth]
    curve: list[float] = (gains.cumsum(axis=1) / np.arange(1, depth + 1)).mean(axis=0).tolist()
    return curve
