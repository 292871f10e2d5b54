"""What the harvest of a whole collection is worth where no truth is known: rows of ``scores`` under the collection's name, or
under the name of the reference that it is compared with.

Here a score is a share where the same thing is printed in per cent, and all relations of the collection are counted
together, each tuple alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.harvest.triple_metrics import (
    Pair,
    Rule,
    Spread,
    cohens_kappa,
    diversity,
    entities,
    extracted_facts,
    novel_only,
    novelty,
    reference_accuracy,
)
from evidence_assets.systems.kbloom.judging import Likelihood, statement
from evidence_assets.systems.kbloom.scores import Number, rows_of
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judging import Judge

MOST_REFERENCES = 20_000
"""Tuples of a relation that rounds draw from: as many as 200 rounds of 100 could draw; a larger reference is thinned."""

LOOKED_AT, BEST = "UsedFor", 10
"""The relation, and how many of its best tuples, that are printed one by one."""

Encode = Callable[[Sequence[str]], npt.NDArray[np.floating]]


def pairs_of(triples: pl.DataFrame, origin: str, relations: Sequence[Relation]) -> dict[str, list[Pair]]:
    """Head and tail of one origin's triples by relation, best first."""
    own = triples.filter(pl.col("origin") == origin).sort("rank")
    named = {relation.id: own.filter(pl.col("relation_id") == relation.id) for relation in relations}
    return {name: list(rows.select("head", "tail").iter_rows()) for name, rows in named.items() if rows.height}


def size_rows(
    relations: Sequence[Relation], triples: pl.DataFrame, variants: Mapping[str, str]
) -> list[dict[str, Any]]:
    """``tuples``, ``fact_count`` (twice as many), ``diversity`` (distinct entities, case kept) and mean ``agreement``."""
    rows: list[dict[str, Any]] = []
    for collection, members in _collections(relations).items():
        for origin, variant in variants.items():
            pairs = [pair for own in pairs_of(triples, origin, members).values() for pair in own]
            if not pairs:
                continue
            mine = triples.filter((pl.col("origin") == origin) & pl.col("relation_id").is_in([r.id for r in members]))
            numbers: dict[str, Number] = {
                "tuples": (len(pairs), None, None, len(pairs)),
                "fact_count": (extracted_facts(pairs), None, None, len(pairs)),
                "diversity": (diversity(pairs), None, None, len(pairs)),
            }
            agreed = mine["agreement"].drop_nulls()
            if len(agreed):
                numbers["agreement"] = (float(agreed.to_numpy().mean()), None, None, len(agreed))
            rows += rows_of("collection", collection, variant, str(mine["model_id"][0]), numbers)
    return rows


def reference_rows(
    reference: str,
    stated: Mapping[str, Sequence[Pair]],
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    variants: Mapping[str, str],
    encode: Encode,
) -> list[dict[str, Any]]:
    """How a harvest compares with the tuples that a reference states of the same relations.

    ``novelty``: share of the distinct entities that are none of the reference's. ``accuracy``: share of the tuples that are
    like at least half of a hundred drawn ones of the relation, mean over 200 draws; ``accuracy_maximum``: like one of them at
    least. ``novel_only_precision``: the latter over what no other variant found. Intervals hold 95 % of the draws.
    Relations that the reference does not state count for novelty and the harvest's size alone.
    """
    known = entities(pair for pairs in stated.values() for pair in pairs)
    by_id = {relation.id: relation for relation in relations}
    harvested = {origin: pairs_of(triples, origin, relations) for origin in variants}
    theirs = {name: encode(_texts(by_id[name], _thinned(stated[name]))) for name in by_id if stated.get(name)}
    rows: list[dict[str, Any]] = []
    for origin, variant in variants.items():
        pairs = harvested[origin]
        if not pairs:
            continue
        ours = {name: encode(_texts(by_id[name], own)) for name, own in pairs.items() if name in theirs}
        share, maximum, novel = (
            _together([(len(own[name]), reference_accuracy(own[name], theirs[name], rule=rule)) for name in own])
            for own, rule in _ruled(ours, pairs, [other for name, other in harvested.items() if name != origin])
        )
        found = [pair for own in pairs.values() for pair in own]
        numbers: dict[str, Number] = {
            "fact_count": (extracted_facts(found), None, None, len(found)),
            "diversity": (diversity(found), None, None, len(found)),
            "novelty": (novelty(found, known) / 100, None, None, len(found)),
        }
        for metric, number in (("accuracy", share), ("accuracy_maximum", maximum), ("novel_only_precision", novel)):
            if number is not None:
                numbers[metric] = number
        model = str(triples.filter(pl.col("origin") == origin)["model_id"][0])
        rows += rows_of("collection", reference, variant, model, numbers)
    return rows


def judged_rows(
    relations: Sequence[Relation], triples: pl.DataFrame, variants: Mapping[str, str], judges: Sequence[Judge]
) -> list[dict[str, Any]]:
    """``precision`` and ``noisy_percent`` of a collection's statements by each judge, and of the first two, over what both
    judged, Cohen's ``kappa`` and their ``exact_agreement``. Seeds are left out."""
    rows: list[dict[str, Any]] = []
    for collection, members in _collections(relations).items():
        by_id = {relation.id: relation for relation in members}
        seeds = {(r.id, head.casefold(), tail.casefold()) for r in members for head, tail in r.pairs}
        for origin, variant in variants.items():
            texts = [
                statement(by_id[name], *pair)
                for name, own in pairs_of(triples, origin, members).items()
                for pair in own
                if (name, pair[0].casefold(), pair[1].casefold()) not in seeds
            ]
            if not texts:
                continue
            model = str(triples["model_id"][0])
            said = [[v if isinstance(v, bool) else None for v in judge.judge(texts)] for judge in judges]
            for judge, verdicts in zip(judges, said, strict=True):
                usable = [verdict for verdict in verdicts if verdict is not None]
                if usable:
                    right, noisy = accuracy(usable), accuracy([not verdict for verdict in usable])
                    numbers: dict[str, Number] = {
                        "precision": (right.value, right.low, right.high, right.n),
                        "noisy_percent": (noisy.value, noisy.low, noisy.high, noisy.n),
                    }
                    rows += rows_of("collection", collection, variant, model, numbers, judge.model_id)
            both = (
                [(a, b) for a, b in zip(*said[:2], strict=True) if a is not None and b is not None]
                if len(said) > 1
                else []
            )
            if both:
                kappa, agreed = cohens_kappa(*zip(*both, strict=True)), accuracy([a == b for a, b in both])
                numbers = {
                    "kappa": (None if kappa != kappa else kappa, None, None, len(both)),
                    "exact_agreement": (agreed.value, agreed.low, agreed.high, agreed.n),
                }
                rows += rows_of("collection", collection, variant, model, numbers, judges[0].model_id)
    return rows


def best_rows(
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    variants: Mapping[str, str],
    judges: Sequence[Judge],
    likelihood: Likelihood | None,
) -> list[dict[str, Any]]:
    """What models say of the ten best tuples of ``UsedFor``, seeds left out, as scores of its collection.

    ``correct_of_10``: how many the first judge calls correct. ``bartscore_*``: mean, greatest and least likelihood of a
    tuple's statement after that of one seed, over all tuples and seeds, the extremes with two decimals and with one;
    ``pairs_with_higher_bartscore``: at how many ranks the mean over the seeds is above that of the other harvest.
    """
    rows: list[dict[str, Any]] = []
    for relation in (one for one in relations if one.id == LOOKED_AT):
        seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
        rated: dict[str, npt.NDArray[np.floating]] = {}
        for origin in variants:
            found = pairs_of(triples, origin, [relation]).get(relation.id, [])
            best = [pair for pair in found if (pair[0].casefold(), pair[1].casefold()) not in seeds][:BEST]
            if not best:
                continue
            texts = [statement(relation, *pair) for pair in best]
            numbers: dict[str, Number] = {}
            model = str(triples["model_id"][0])
            if judges:
                right = sum(verdict is True for verdict in judges[0].judge(texts))
                number: Number = (right, None, None, len(best))
                scored = {f"correct_of_{BEST}:{LOOKED_AT}": number}
                rows += rows_of("collection", relation.collection, variants[origin], model, scored, judges[0].model_id)
            if likelihood is None:
                continue
            asked = [(statement(relation, *seed), text) for text in texts for seed in relation.pairs]
            rated[origin] = likelihood.score(asked).reshape(len(best), -1).astype(float)
            numbers = {"bartscore_mean": (float(rated[origin].mean()), None, None, len(best))}
            for name, value in (("max", rated[origin].max()), ("min", rated[origin].min())):
                for said, digits in (("range", 2), ("rounded", 1)):
                    numbers[f"bartscore_{name}:{said}"] = (round(float(value), digits), None, None, len(best))
            rows += rows_of("collection", relation.collection, variants[origin], model, numbers, likelihood.model_id)
        if likelihood is not None and len(rated) == 2:
            ours, theirs = (of.mean(axis=1) for of in rated.values())
            count = min(len(ours), len(theirs))
            number = (int((ours[:count] > theirs[:count]).sum()), None, None, count)
            scored = {"pairs_with_higher_bartscore": number}
            rows += rows_of(
                "collection", relation.collection, variants[next(iter(rated))], model, scored, likelihood.model_id
            )
    return rows


def _collections(relations: Sequence[Relation]) -> dict[str, list[Relation]]:
    names = sorted({relation.collection for relation in relations})
    return {name: [relation for relation in relations if relation.collection == name] for name in names}


def _texts(relation: Relation, pairs: Sequence[Pair]) -> list[str]:
    return [statement(relation, *pair) for pair in pairs]


def _thinned(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs, each once; of more than can be drawn as many as can, spread over all."""
    distinct = sorted(set(pairs))
    if len(distinct) <= MOST_REFERENCES:
        return distinct
    return [distinct[int(i)] for i in np.linspace(0, len(distinct) - 1, MOST_REFERENCES)]


Vectors = dict[str, npt.NDArray[np.floating]]


def _ruled(
    ours: Vectors, pairs: Mapping[str, Sequence[Pair]], others: Sequence[Mapping[str, Sequence[Pair]]]
) -> list[tuple[Vectors, Rule]]:
    """The vectors of a harvest with the rule that they are compared by: all by either, by the second what is found by it alone."""
    alone: Vectors = {}
    if others:
        for name, vectors in ours.items():
            elsewhere = [pair for other in others for pair in other.get(name, ())]
            kept = novel_only(pairs[name], elsewhere)
            alone |= {name: vectors[kept]} if kept else {}
    return [(ours, "share"), (ours, "maximum"), (alone, "maximum")]


def _together(parts: Sequence[tuple[int, Spread]]) -> Number | None:
    """The relations' accuracies as one, each weighed by its tuples; the draws of one do not depend on another's."""
    whole = sum(size for size, _ in parts)
    if not whole:
        return None
    mean = sum(size * spread.mean for size, spread in parts) / whole / 100
    deviation = sqrt(sum((size * spread.deviation) ** 2 for size, spread in parts)) / whole / 100
    return mean, max(0.0, mean - 1.96 * deviation), min(1.0, mean + 1.96 * deviation), whole
