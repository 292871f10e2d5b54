"""Scores a harvest against the facts that the sample corpus states: rows of ``scores``.

The reference facts of a relation are those that the corpus states, without the seeds. Facts held out of the corpus are
the control: the model never read them, so it must not recover them above chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, paired_bootstrap, without_interval
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import Direction, Triple, canonical_triple, judge_relevance
from evidence_assets.systems.kbloom.scores import (
    PRECISION_CUTOFF,
    HarvestedRelations,
    Row,
    draw_precision_curves,
    size_metrics,
)
from evidence_assets.systems.kbloom.seeds import Relation


def read_facts(path: Path) -> list[Triple]:
    """Head, relation and tail of each line."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(head, relation, tail) for head, relation, tail in rows]


@dataclass(frozen=True)
class Control:
    """Held-out facts of a relation: ``n_recovered`` of ``n_held_out`` were harvested.

    ``chance`` is the probability that a fact drawn by popularity alone was harvested. It is drawn from the relation's
    unstated pairs (its heads × its tails, without the stated facts) in proportion to how many of its facts have the
    head times how many have the tail. Popular entities are held out and harvested more often, whatever the model knows.
    """

    n_recovered: int
    n_held_out: int
    chance: float


def measure_control(
    relation: Relation,
    harvested_facts: Sequence[Triple],
    stated_facts: Iterable[Triple],
    held_out_facts: Iterable[Triple],
) -> Control:
    """Count the held-out facts among the harvested ones, and compute the chance to harvest one."""
    directions = {relation.id: Direction(symmetric=relation.symmetric)}

    def canonical(facts: Iterable[Triple]) -> set[Triple]:
        return {canonical_triple(fact, directions) for fact in facts if fact[1] == relation.id}

    stated_set = canonical(stated_facts)
    held_out_set = canonical(held_out_facts)
    harvested_set = canonical(harvested_facts)
    corpus_facts = stated_set | held_out_set
    heads = Counter(fact[0] for fact in corpus_facts)
    tails = Counter(fact[2] for fact in corpus_facts)
    if relation.symmetric:
        heads = tails = heads + tails
    unstated = canonical((h, relation.id, t) for h in heads for t in tails if h != t) - stated_set
    weights = {fact: heads[fact[0]] * tails[fact[2]] for fact in unstated}
    total = sum(weights.values())
    chance = sum(weights[fact] for fact in harvested_set & unstated) / total if total else 0.0
    return Control(len(harvested_set & held_out_set), len(held_out_set), chance)


def build_sample_rows(
    harvest: HarvestedRelations,
    *,
    stated_facts: Sequence[Triple],
    held_out_facts: Sequence[Triple],
    known_entities: Collection[str] = (),
) -> list[Row]:
    """Rows for every collection, and for every relation with stated facts other than its seeds.

    The first origin is compared with each of the others (``<metric>_over_<other>``, paired over the same relations).
    ``known_entities`` do not count as novel. A collection has the mean over its relations with a bootstrap interval
    over them, and the control over all its held-out facts together.
    """
    rows = list[Row]()
    for collection, relations in harvest.collections.items():
        shares: dict[str, dict[str, list[float]]] = {}
        for origin in harvest.selectors:
            shares[origin] = defaultdict(list)
            controls = list[Control]()
            for relation in sorted(relations, key=lambda relation: relation.id):
                pairs = harvest.pairs(origin, relation)
                estimates = _estimate_hits(*_judge_facts(relation, pairs, stated_facts))
                if not estimates:
                    continue
                facts = [(head, relation.id, tail) for head, tail in pairs]
                controls.append(measure_control(relation, facts, stated_facts, held_out_facts))
                size = size_metrics(harvest.select_triples(origin, [relation]), "extracted_facts", known_entities)
                metrics = estimates | _control_metrics(controls[-1:]) | size
                rows += harvest.build_rows(relation.id, origin, metrics, kind="relation")
                for metric, estimate in estimates.items():
                    shares[origin][metric].append(estimate.value)
            means = {metric: bootstrap(values, resamples=1000) for metric, values in shares[origin].items()}
            rows += harvest.build_rows(collection, origin, means | _control_metrics(controls))
        rows += harvest.build_rows(collection, next(iter(shares)), _compare_origins(shares, harvest.selectors))
    return rows


def _compare_origins(
    shares: Mapping[str, Mapping[str, Sequence[float]]], selectors: Mapping[str, str]
) -> dict[str, Estimate]:
    """Differences of the first origin to each of the others, over the relations."""
    first, *others = shares
    return {
        f"{metric}_over_{selectors[other]}": paired_bootstrap(values, shares[other][metric])
        for other in others
        for metric, values in shares[first].items()
    }


def draw_sample_precision(harvest: HarvestedRelations, stated_facts: Sequence[Triple]) -> dict[str, str]:
    """A picture of each collection's precision at k, by origin, over the relations with stated facts."""
    hits: dict[str, dict[str, list[list[bool]]]] = {}
    for (collection, relations), (origin, selector) in product(harvest.collections.items(), harvest.selectors.items()):
        judged = [_judge_facts(relation, harvest.pairs(origin, relation), stated_facts) for relation in relations]
        of_relations = [of_relation for of_relation, n_truths in judged if n_truths]
        if any(of_relations):
            hits.setdefault(collection, {})[selector] = of_relations
    return draw_precision_curves(hits)


def _judge_facts(
    relation: Relation, pairs: Iterable[EntityPair], stated_facts: Iterable[Triple]
) -> tuple[list[bool], int]:
    """Whether each ranked pair that is no seed is stated, and the number of stated facts without seeds."""
    facts = [(head, relation.id, tail) for head, tail in pairs]
    seeds = [(head, relation.id, tail) for head, tail in relation.pairs]
    truths = [fact for fact in stated_facts if fact[1] == relation.id]
    directions = {relation.id: Direction(symmetric=relation.symmetric)}
    return judge_relevance(facts, truths, exclude=seeds, directions=directions)


def _estimate_hits(hits: Sequence[bool], n_truths: int) -> dict[str, Estimate]:
    """Precision and recall of ranked facts without seeds; empty if no other fact of the relation is stated."""
    if not n_truths:
        return {}
    return {
        f"precision@{PRECISION_CUTOFF}": _share(sum(hits[:PRECISION_CUTOFF]), PRECISION_CUTOFF),
        "r_precision": _share(sum(hits[:n_truths]), n_truths),
        "recall": _share(sum(hits), n_truths),
    }


def _share(count: int, total: int) -> Estimate:
    return accuracy([True] * count + [False] * (total - count))


def _control_metrics(controls: Sequence[Control]) -> dict[str, Estimate]:
    n_recovered = sum(c.n_recovered for c in controls)
    n_held_out = sum(c.n_held_out for c in controls)
    if not n_held_out:
        return {}
    return {
        "held_out_recall": _share(n_recovered, n_held_out),
        "held_out_chance": without_interval(sum(c.n_held_out * c.chance for c in controls) / n_held_out, n_held_out),
    }
