"""What a harvest is worth on the sample: rows of ``scores``.

The truth of a relation is what the corpus states of it and its seeds do not. Facts that were held back from the corpus
are the control: the model never read them, so it must not recover them above chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, paired_bootstrap, without_interval
from evidence_assets.harvest.triple_metrics import Direction, Triple, canonical_triple, judge_relevance
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.kbloom.scores import HarvestedRelations, Row, size_metrics
from evidence_assets.systems.kbloom.seeds import Relation

PRECISION_CUTOFF = 50
TUNING_HALF, REPORTED_HALF = "tuned half", "reported half"
"""Scopes beside the collections: the relations that the default's ranking was chosen on, and the others."""


def read_facts(path: Path) -> list[Triple]:
    """Head, relation and tail of each line."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(head, relation, tail) for head, relation, tail in rows]


def assign_half(relation: str) -> str:
    """The half that a relation is in, by a hash of its name: no choice of ours, and it stays when others come."""
    return TUNING_HALF if int(content_id("half", relation), 16) % 2 == 0 else REPORTED_HALF


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


def measure_control(
    relation: Relation, ranked: Sequence[Triple], stated: Iterable[Triple], held_out: Iterable[Triple]
) -> Control:
    """Count the held-out facts among the harvested ones, and what chance would put there."""
    directions = {relation.id: Direction(symmetric=relation.symmetric)}
    told, held, found = ({canonical_triple(fact, directions) for fact in facts} for facts in (stated, held_out, ranked))
    heads, tails = Counter(fact[0] for fact in told | held), Counter(fact[2] for fact in told | held)
    if relation.symmetric:
        heads = tails = heads + tails
    pairs = [(head, relation.id, tail) for head in heads for tail in tails if head != tail]
    untold = {canonical_triple(fact, directions) for fact in pairs} - told
    weight = {fact: heads[fact[0]] * tails[fact[2]] for fact in untold}
    whole = sum(weight.values())
    chance = sum(weight[fact] for fact in found & untold) / whole if whole else 0.0
    return Control(len(found & held), len(held), chance)


def recovery_p_value(controls: Sequence[Control]) -> float:
    """P(as many held-out facts or more | chance), over all relations together (sum of binomial counts)."""
    from scipy.stats import binom  # as slow to import as torch

    mass = np.ones(1)
    for one in controls:
        mass = np.convolve(mass, binom.pmf(np.arange(one.held + 1), one.held, one.chance))
    return float(min(1.0, mass[sum(one.found for one in controls) :].sum()))


def build_sample_rows(
    harvested: HarvestedRelations, *, stated: Sequence[Triple], held_out: Sequence[Triple], known: Iterable[str] = ()
) -> list[Row]:
    """Rows for every relation of which the corpus states more than the seeds, for every collection and both halves.

    The first origin is compared with each of the others (``<metric>_over_<other>``, paired over the same relations).
    ``known`` are entities that do not count as novel. A collection has the mean over its relations with a bootstrap
    interval over them, and the control over all its held-out facts together.
    """
    rows, reference = list[Row](), set(known)
    scored: dict[str, dict[str, tuple[dict[str, Estimate], Control]]] = {origin: {} for origin in harvested.names}
    groups: dict[str, dict[str, None]] = {}
    for relation in sorted(harvested.relations, key=lambda one: one.id):
        own, held = ([fact for fact in facts if fact[1] == relation.id] for facts in (stated, held_out))
        for origin in harvested.names:
            ranked: list[Triple] = [(head, relation.id, tail) for head, tail in harvested.pairs(origin, relation)]
            seeds = [(head, relation.id, tail) for head, tail in relation.pairs]
            directions = {relation.id: Direction(symmetric=relation.symmetric)}
            hits, truths = judge_relevance(ranked, own, exclude=seeds, directions=directions)
            if not truths:
                continue
            checked = measure_control(relation, ranked, own, held)
            numbers = {
                f"precision@{PRECISION_CUTOFF}": _share(sum(hits[:PRECISION_CUTOFF]), PRECISION_CUTOFF),
                "r_precision": _share(sum(hits[:truths]), truths),
                "recall": _share(sum(hits), truths),
            }
            whole = numbers | _control_metrics([checked])
            whole |= size_metrics(harvested.of(origin, [relation]), "extracted_facts", reference)
            rows += harvested.rows(relation.id, origin, whole, kind="relation")
            scored[origin][relation.id] = numbers, checked
            for group in (relation.collection, assign_half(relation.id)):
                groups.setdefault(group, {})[relation.id] = None
    for group, members in sorted(groups.items()):
        values = {
            origin: {metric: [of[name][0][metric].value for name in members] for metric in of[next(iter(members))][0]}
            for origin, of in scored.items()
        }
        for origin, of in scored.items():
            means = {metric: bootstrap(own, resamples=1000) for metric, own in values[origin].items()}
            together = _control_metrics([of[name][1] for name in members])
            rows += harvested.rows(group, origin, means | together)
        first, *others = values
        compared = {
            f"{metric}_over_{harvested.names[other]}": paired_bootstrap(ours, values[other][metric])
            for other in others
            for metric, ours in values[first].items()
        }
        rows += harvested.rows(group, first, compared)
    return rows


def _share(right: int, of: int) -> Estimate:
    return accuracy([True] * right + [False] * (of - right))


def _control_metrics(controls: Sequence[Control]) -> dict[str, Estimate]:
    found, held = sum(one.found for one in controls), sum(one.held for one in controls)
    if not held:
        return {}
    return {
        "held_out_recall": _share(found, held),
        "held_out_chance": without_interval(sum(one.held * one.chance for one in controls) / held, held),
        "held_out_p": without_interval(recovery_p_value(controls), held),
    }
