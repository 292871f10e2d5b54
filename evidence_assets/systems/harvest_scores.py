"""What a harvest is worth on the sample, whose truth is known: rows of ``scores``.

The truth of a relation is what the corpus states of it and its seeds do not. Facts that were held back from the corpus
are the control: the model never read them, so it must not recover them above chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import hypergeom

from evidence_assets.datasets.seeds import Relation
from evidence_assets.lake.ids import content_id
from evidence_assets.methods.ranking_metrics import accuracy
from evidence_assets.methods.triple_metrics import (
    Direction,
    Fact,
    bootstrap,
    canonical_fact,
    relevance,
)

VERSION = "1"
K = 50

Number = tuple[float | None, float | None, float | None, int]
"""Value, lower and upper end of its 95 % interval, and what it rests on."""


def read_facts(path: Path) -> list[Fact]:
    """Head, relation and tail of each line."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(head, relation, tail) for head, relation, tail in rows]


@dataclass(frozen=True)
class Control:
    """Held-out facts of a relation: ``found`` of ``held`` were harvested.

    Chance is what would be found if each of the relation's ``untold`` pairs (its own heads with its own tails, stated
    ones left out), of which ``harvested`` were harvested, had been as likely to be the one held out.
    """

    found: int
    held: int
    harvested: int
    untold: int

    @property
    def expected(self) -> float:
        """Hits expected by chance: held · harvested / untold."""
        return self.held * self.harvested / self.untold if self.untold else 0.0


def control(relation: Relation, ranked: Sequence[Fact], stated: Iterable[Fact], held_out: Iterable[Fact]) -> Control:
    """Count the held-out facts among the harvested ones, and what chance would put there."""
    directions = {relation.id: Direction(symmetric=relation.symmetric)}

    def form(fact: Fact) -> Fact:
        return canonical_fact(fact, directions)

    told, held = {form(fact) for fact in stated}, {form(fact) for fact in held_out}
    every = told | held
    heads, tails = {fact[0] for fact in every}, {fact[2] for fact in every}
    if relation.symmetric:
        heads = tails = heads | tails
    untold = {form((head, relation.id, tail)) for head in heads for tail in tails if head != tail} - told
    found = {form(fact) for fact in ranked}
    return Control(len(found & held), len(held), len(found & untold), len(untold))


def above_chance(controls: Sequence[Control]) -> float:
    """P(as many held-out facts or more | chance), over all relations together (sum of hypergeometric counts)."""
    mass = np.ones(1)
    for one in controls:
        counts = np.arange(one.held + 1)
        mass = np.convolve(mass, hypergeom.pmf(counts, one.untold, one.harvested, one.held))
    return float(min(1.0, mass[sum(one.found for one in controls) :].sum()))


def score_rows(
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    *,
    stated: Sequence[Fact],
    held_out: Sequence[Fact],
    variants: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Rows for every relation of which the corpus states more than the seeds, and for every collection.

    ``variants`` says under which name each origin's triples are scored.

    Per relation the intervals are those of shares; a collection has the mean over its relations with a bootstrap
    interval over them, and the control over all its held-out facts together.
    """
    rows: list[dict[str, Any]] = []
    model = triples["model_id"][0] if triples.height else ""
    for origin, variant in variants.items():
        by_collection: dict[str, list[tuple[dict[str, Number], Control]]] = {}
        for relation in sorted(relations, key=lambda r: r.id):
            own = [fact for fact in stated if fact[1] == relation.id]
            held = [fact for fact in held_out if fact[1] == relation.id]
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
            numbers: dict[str, Number] = {
                f"precision@{K}": _share(sum(hits[:K]), K),
                "r_precision": _share(sum(hits[:truths]), truths),
                "recall": _share(sum(hits), truths),
            }
            rows += _rows("relation", relation.id, variant, model, {**numbers, **_control_numbers([checked])})
            by_collection.setdefault(relation.collection, []).append((numbers, checked))
        for collection, members in sorted(by_collection.items()):
            means = {}
            for metric in members[0][0]:
                estimate = bootstrap([numbers[metric][0] or 0.0 for numbers, _ in members])
                means[metric] = (estimate.value, estimate.low, estimate.high, estimate.n)
            together = _control_numbers([checked for _, checked in members])
            rows += _rows("collection", collection, variant, model, {**means, **together})
    return rows


def _share(right: int, of: int) -> Number:
    estimate = accuracy([True] * right + [False] * (of - right))
    return estimate.value, estimate.low, estimate.high, of


def _control_numbers(controls: Sequence[Control]) -> dict[str, Number]:
    found, held = sum(one.found for one in controls), sum(one.held for one in controls)
    if not held:
        return {}
    return {
        "held_out_recall": _share(found, held),
        "held_out_chance": (sum(one.expected for one in controls) / held, None, None, held),
        "held_out_p": (above_chance(controls), None, None, held),
    }


def _rows(kind: str, scope: str, variant: str, model: str, numbers: dict[str, Number]) -> list[dict[str, Any]]:
    return [
        {
            "score_id": content_id("score", kind, scope, variant, model, metric),
            "scope_kind": kind,
            "scope_id": scope,
            "selector": variant,
            "reasoner": "",
            "model_id": model,
            "metric": metric,
            "value": value,
            "low": low,
            "high": high,
            "n": n,
            "published": None,
            "published_source": None,
        }
        for metric, (value, low, high, n) in numbers.items()
    ]
