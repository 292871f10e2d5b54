"""What a harvest is worth on the sample, whose truth is known: rows of ``scores``.

The truth of a relation is what the corpus states of it and its seeds do not. Facts that were held back from the corpus
are the control: the model never read them, so it must not recover them above chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bare, bootstrap, paired_bootstrap
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.triple_metrics import (
    Direction,
    Fact,
    canonical_fact,
    diversity,
    extracted_facts,
    novelty,
    relevance,
)
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.kbloom.seeds import Relation

K = 50
TUNED, REPORTED = "tuned half", "reported half"
"""Scopes beside the collections: the relations that the default's ranking was chosen on, and the others."""


def read_facts(path: Path) -> list[Fact]:
    """Head, relation and tail of each line."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(head, relation, tail) for head, relation, tail in rows]


def half_of(relation: str) -> str:
    """The half that a relation lies on, by a hash of its name: no choice of ours, and it stays when others come."""
    return TUNED if int(content_id("half", relation), 16) % 2 == 0 else REPORTED


@dataclass(frozen=True)
class Control:
    """Held-out facts of a relation: ``found`` of ``held`` were harvested.

    ``chance`` is the probability that one is harvested that had been drawn by popularity alone: among the relation's
    untold pairs (its own heads with its own tails, stated ones left out), each in proportion to how many of its facts
    name the head times how many name the tail. What is named often is held out more often and harvested more often,
    whatever the model knows of it.
    """

    found: int
    held: int
    chance: float

    @property
    def expected(self) -> float:
        return self.held * self.chance


def control(relation: Relation, ranked: Sequence[Fact], stated: Iterable[Fact], held_out: Iterable[Fact]) -> Control:
    """Count the held-out facts among the harvested ones, and what chance would put there."""
    directions = {relation.id: Direction(symmetric=relation.symmetric)}

    def form(fact: Fact) -> Fact:
        return canonical_fact(fact, directions)

    told, held = {form(fact) for fact in stated}, {form(fact) for fact in held_out}
    heads, tails = Counter(fact[0] for fact in told | held), Counter(fact[2] for fact in told | held)
    if relation.symmetric:
        heads = tails = heads + tails
    untold = {form((head, relation.id, tail)) for head in heads for tail in tails if head != tail} - told
    weight = {fact: heads[fact[0]] * tails[fact[2]] for fact in untold}
    found = {form(fact) for fact in ranked}
    whole = sum(weight.values())
    chance = sum(weight[fact] for fact in found & untold) / whole if whole else 0.0
    return Control(len(found & held), len(held), chance)


def above_chance(controls: Sequence[Control]) -> float:
    """P(as many held-out facts or more | chance), over all relations together (sum of binomial counts)."""
    from scipy.stats import binom  # as slow to import as torch

    mass = np.ones(1)
    for one in controls:
        mass = np.convolve(mass, binom.pmf(np.arange(one.held + 1), one.held, one.chance))
    return float(min(1.0, mass[sum(one.found for one in controls) :].sum()))


def score_rows(
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    *,
    stated: Sequence[Fact],
    held_out: Sequence[Fact],
    variants: Mapping[str, str],
    known: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Rows for every relation of which the corpus states more than the seeds, for every collection and both halves.

    ``variants`` says under which name each origin's triples are scored; the first is compared with each of the others
    (``<metric>_over_<other>``, with the paired bootstrap interval over the same relations). ``known`` are entities that
    do not count as novel.

    Per relation the intervals are those of shares; a collection has the mean over its relations with a bootstrap
    interval over them, and the control over all its held-out facts together.
    """
    rows: list[dict[str, Any]] = []
    model = triples["model_id"][0] if triples.height else ""
    reference = set(known)
    scored: dict[str, dict[str, tuple[dict[str, Estimate], Control]]] = {}
    groups: dict[str, list[str]] = {}
    for relation in sorted(relations, key=lambda r: r.id):
        own = [fact for fact in stated if fact[1] == relation.id]
        held = [fact for fact in held_out if fact[1] == relation.id]
        for origin, variant in variants.items():
            harvested = triples.filter((pl.col("origin") == origin) & (pl.col("relation_id") == relation.id))
            ranked: list[Fact] = [
                (row["head"], relation.id, row["tail"]) for row in harvested.sort("rank").iter_rows(named=True)
            ]
            hits, truths = relevance(
                ranked,
                own,
                exclude=[(head, relation.id, tail) for head, tail in relation.pairs],
                directions={relation.id: Direction(symmetric=relation.symmetric)},
            )
            if not truths:
                continue
            checked = control(relation, ranked, own, held)
            numbers: dict[str, Estimate] = {
                f"precision@{K}": _share(sum(hits[:K]), K),
                "r_precision": _share(sum(hits[:truths]), truths),
                "recall": _share(sum(hits), truths),
            }
            size = _size_numbers(harvested, reference)
            whole = numbers | _control_numbers([checked]) | size
            rows += metric_rows(relation.id, variant, "", model, whole, kind="relation")
            scored.setdefault(variant, {})[relation.id] = numbers, checked
            for group in (relation.collection, half_of(relation.id)):
                members = groups.setdefault(group, [])
                members += [relation.id] if relation.id not in members else []
    for group, members in sorted(groups.items()):
        for variant, of_relation in scored.items():
            together = _control_numbers([of_relation[name][1] for name in members])
            means = {
                metric: bootstrap([of_relation[name][0][metric].value for name in members], resamples=1000)
                for metric in of_relation[members[0]][0]
            }
            rows += metric_rows(group, variant, "", model, means | together, kind="collection")
        rows += _comparison(group, members, scored, model)
    return rows


def _comparison(
    group: str,
    members: Sequence[str],
    scored: Mapping[str, Mapping[str, tuple[dict[str, Estimate], Control]]],
    model: str,
) -> list[dict[str, Any]]:
    first, *others = scored
    numbers: dict[str, Estimate] = {}
    for other in others:
        for metric in scored[first][members[0]][0]:
            ours, theirs = ([scored[v][name][0][metric].value for name in members] for v in (first, other))
            numbers[f"{metric}_over_{other}"] = paired_bootstrap(ours, theirs)
    return metric_rows(group, first, "", model, numbers, kind="collection")


def _share(right: int, of: int) -> Estimate:
    return accuracy([True] * right + [False] * (of - right))


def _size_numbers(harvested: pl.DataFrame, reference: set[str]) -> dict[str, Estimate]:
    """What needs no truth: how much there is, how varied, how new, and how far the prompts agree on it."""
    pairs = list(zip(harvested["head"], harvested["tail"], strict=True))
    if not pairs:
        return {}
    agreed = harvested["agreement"].drop_nulls()
    numbers: dict[str, float] = {
        "tuples": len(pairs),
        "extracted_facts": extracted_facts(pairs),
        "diversity": diversity(pairs),
    }
    if reference:
        numbers["novelty"] = novelty(pairs, reference)
    if len(agreed):
        numbers["agreement"] = float(agreed.to_numpy().mean())
    return {metric: bare(value, len(pairs)) for metric, value in numbers.items()}


def _control_numbers(controls: Sequence[Control]) -> dict[str, Estimate]:
    found, held = sum(one.found for one in controls), sum(one.held for one in controls)
    if not held:
        return {}
    return {
        "held_out_recall": _share(found, held),
        "held_out_chance": bare(sum(one.expected for one in controls) / held, held),
        "held_out_p": bare(above_chance(controls), held),
    }
