"""What a harvest is worth: numbers about sets and rankings of entity pairs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.models.vectors import unit_rows

MatchRule = Literal["share", "maximum"]
_ALIKE, _REQUIRED, _ROUNDS, _DRAWN = 0.75, 0.5, 200, 100


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over repeated rounds."""

    mean: float
    deviation: float


def list_entities(pairs: Iterable[EntityPair]) -> set[str]:
    return {entity for pair in pairs for entity in pair}


def diversity(pairs: Iterable[EntityPair]) -> int:
    """Number of distinct entity strings, case kept, heads and tails together."""
    return len(list_entities(pairs))


def count_extracted_entities(pairs: Sequence[EntityPair]) -> int:
    """Entities extracted, each occurrence counted: twice the number of tuples."""
    return 2 * len(pairs)


def novelty(pairs: Iterable[EntityPair], reference: Collection[str]) -> float:
    """100 × share of the distinct entities that are no entity of the reference (exact string); NaN for no entity."""
    found = list_entities(pairs)
    return 100 * len(found - set(reference)) / len(found) if found else float("nan")


def reference_accuracy(
    generated: npt.NDArray[np.floating], reference: npt.NDArray[np.floating], rule: MatchRule = "share"
) -> Spread:
    """Percentage of generated tuples that are like the reference's tuples of the relation.

    Each of 200 rounds draws 100 reference tuples without replacement (all where there are fewer). A tuple is right
    when its cosine with at least half of them exceeds 0.75 (``share``), or with any (``maximum``, the rule printed
    for tuples that the baseline did not find). Mean and standard deviation over the rounds.

    ``generated``, ``reference``: One vector a tuple, n × d; scaled to unit length here.
    """
    ours, theirs = (unit_rows(np.asarray(vectors, dtype=np.float64)) for vectors in (generated, reference))
    alike = ours @ theirs.T > _ALIKE
    random = np.random.default_rng(0)
    drawn = min(_DRAWN, alike.shape[1])
    values = np.empty(_ROUNDS)
    for number in range(_ROUNDS):
        hits = alike[:, random.choice(alike.shape[1], size=drawn, replace=False)].mean(axis=1)
        values[number] = 100 * np.mean(hits >= _REQUIRED if rule == "share" else hits > 0)
    return Spread(float(values.mean()), float(values.std()))


def find_novel_pairs(pairs: Sequence[EntityPair], baseline: Iterable[EntityPair]) -> list[int]:
    """Positions of the tuples that the baseline did not find."""
    known = set(baseline)
    return [position for position, pair in enumerate(pairs) if pair not in known]


def cohens_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """(p_o − p_e) / (1 − p_e): agreement of two judges beyond chance; NaN where chance alone explains everything.

    >>> cohens_kappa([1, 1, 0, 0], [1, 0, 0, 0])
    0.5
    """
    observed = sum(one == other for one, other in zip(first, second, strict=True)) / len(first)
    ours, theirs = Counter(first), Counter(second)
    expected = sum(count * theirs[label] for label, count in ours.items()) / len(first) ** 2
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


def find_supporting_prompts(
    log_likelihoods: npt.NDArray[np.floating], shapes: Sequence[Hashable]
) -> list[tuple[int, ...]]:
    """Which prompts would find each candidate by themselves.

    A prompt finds a candidate that is in the likelier half of its shape under that prompt alone; likelihoods of
    different shapes cannot be compared. ``log_likelihoods``: candidates × prompts.
    """
    values = np.asarray(log_likelihoods)
    finds = np.zeros(values.shape, dtype=bool)
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, shape in enumerate(shapes):
        groups[shape].append(row)
    for rows in groups.values():
        cut = max(1, round(len(rows) / 2))
        lowest = np.sort(values[rows], axis=0)[len(rows) - cut]
        finds[rows] = values[rows] >= lowest
    return [tuple(int(prompt) for prompt in np.flatnonzero(row)) for row in finds]


def flag_contradictions(pairs: Sequence[EntityPair]) -> list[bool]:
    """For a functional relation: whether the pair's head was given more than one tail (case ignored)."""
    tails: defaultdict[str, set[str]] = defaultdict(set)
    for head, tail in pairs:
        tails[head.casefold()].add(tail.casefold())
    return [len(tails[head.casefold()]) > 1 for head, _ in pairs]


@dataclass(frozen=True)
class Direction:
    """How a relation relates to its own reverse: symmetric, or the inverse of another relation."""

    symmetric: bool = False
    inverse: str | None = None


Triple = tuple[str, str, str]
"""Head, relation, tail."""


def canonical_triple(fact: Triple, directions: Mapping[str, Direction]) -> Triple:
    """One form for a fact that can be said in two: the sides of a symmetric relation in order, case ignored, and of a
    relation and its inverse the one whose name comes first."""
    head, relation, tail = fact[0].casefold(), fact[1], fact[2].casefold()
    direction = directions.get(relation, Direction())
    inverse = direction.inverse or next((name for name, other in directions.items() if other.inverse == relation), None)
    if inverse is not None and inverse < relation:
        head, relation, tail = tail, inverse, head
        direction = directions.get(relation, Direction())
    if direction.symmetric and tail < head:
        head, tail = tail, head
    return head, relation, tail


def judge_relevance(
    ranked: Sequence[Triple],
    truth: Iterable[Triple],
    *,
    exclude: Iterable[Triple] = (),
    directions: Mapping[str, Direction] | None = None,
) -> tuple[list[bool], int]:
    """Which ranked facts are true, and how many truths there are to find.

    Excluded facts (the seeds) count neither way; a fact said twice, as in both directions of a symmetric relation,
    counts once, at its best rank.
    """
    known = directions or {}
    left_out = {canonical_triple(fact, known) for fact in exclude}
    true = {canonical_triple(fact, known) for fact in truth} - left_out
    seen: set[Triple] = set()
    hits = []
    for fact in ranked:
        form = canonical_triple(fact, known)
        if form not in left_out and form not in seen:
            seen.add(form)
            hits.append(form in true)
    return hits, len(true)
