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

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bare, normal
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.prompt_mining import MinedPrompt
from evidence_assets.harvest.triple_metrics import (
    Pair,
    Rule,
    Spread,
    capture_recapture,
    diversity,
    entities,
    extracted_facts,
    novel_only,
    novelty,
    reference_accuracy,
)
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.systems.kbloom.judging import (
    Judge,
    Likelihood,
    agreement,
    pairs_of,
    statement,
    unseeded,
    verdicts_of,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.system import KBloomSettings, Kinds, SentenceEncoder, harvest

MOST_REFERENCES = 20_000
"""Tuples of a relation that rounds draw from: as many as 200 rounds of 100 could draw; a larger reference is thinned."""

LOOKED_AT, BEST = "UsedFor", 10
"""The relation, and how many of its best tuples, that are printed one by one."""

Encode = Callable[[Sequence[str]], npt.NDArray[np.floating]]


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
            numbers = {"tuples": bare(len(pairs), len(pairs)), **_sizes(pairs)}
            agreed = mine["agreement"].drop_nulls()
            if len(agreed):
                numbers["agreement"] = bare(float(agreed.to_numpy().mean()), len(agreed))
            rows += metric_rows(collection, variant, "", str(mine["model_id"][0]), numbers, kind="collection")
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
        numbers = _sizes(found) | {"novelty": bare(novelty(found, known) / 100, len(found))}
        compared = {"accuracy": share, "accuracy_maximum": maximum, "novel_only_precision": novel}
        numbers |= {metric: number for metric, number in compared.items() if number is not None}
        model = str(triples.filter(pl.col("origin") == origin)["model_id"][0])
        rows += metric_rows(reference, variant, "", model, numbers, kind="collection")
    return rows


def judged_rows(
    relations: Sequence[Relation], triples: pl.DataFrame, variants: Mapping[str, str], judges: Sequence[Judge]
) -> list[dict[str, Any]]:
    """``precision`` and ``noisy_percent`` of a collection's statements by each judge, and of the first two, over what both
    judged, Cohen's ``kappa`` and their ``exact_agreement``. Seeds are left out."""
    rows: list[dict[str, Any]] = []
    for collection, members in _collections(relations).items():
        by_id = {relation.id: relation for relation in members}
        for origin, variant in variants.items():
            harvested = pairs_of(triples, origin, members).items()
            texts = [t for name, own in harvested for t in _texts(by_id[name], unseeded(by_id[name], own))]
            if not texts:
                continue
            model = str(triples["model_id"][0])
            said = [verdicts_of(judge, texts) for judge in judges]
            for judge, verdicts in zip(judges, said, strict=True):
                usable = [verdict for verdict in verdicts if verdict is not None]
                if usable:
                    wrong = [not verdict for verdict in usable]
                    numbers = {"precision": accuracy(usable), "noisy_percent": accuracy(wrong)}
                    rows += metric_rows(collection, variant, judge.model_id, model, numbers, kind="collection")
            kappa, agreed = agreement(said) if len(said) > 1 else (0.0, [])
            if agreed:
                numbers = {"kappa": bare(kappa, len(agreed)), "exact_agreement": accuracy(agreed)}
                rows += metric_rows(collection, variant, judges[0].model_id, model, numbers, kind="collection")
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
        rated: dict[str, npt.NDArray[np.floating]] = {}

        def add(origin: str, reasoner: str, numbers: dict[str, Estimate], scope: str = relation.collection) -> None:
            harvester = str(triples["model_id"][0])
            rows.extend(metric_rows(scope, variants[origin], reasoner, harvester, numbers, kind="collection"))

        for origin in variants:
            best = unseeded(relation, pairs_of(triples, origin, [relation]).get(relation.id, []))[:BEST]
            if not best:
                continue
            texts = _texts(relation, best)
            if judges:
                right = sum(verdict is True for verdict in judges[0].judge(texts))
                add(origin, judges[0].model_id, {f"correct_of_{BEST}:{LOOKED_AT}": bare(right, len(best))})
            if likelihood is None:
                continue
            asked = [(statement(relation, *seed), text) for text in texts for seed in relation.pairs]
            rated[origin] = likelihood.score(asked).reshape(len(best), -1).astype(float)
            numbers = {"bartscore_mean": bare(float(rated[origin].mean()), len(best))}
            for name, value in (("max", rated[origin].max()), ("min", rated[origin].min())):
                for said, digits in (("range", 2), ("rounded", 1)):
                    numbers[f"bartscore_{name}:{said}"] = bare(round(float(value), digits), len(best))
            add(origin, likelihood.model_id, numbers)
        if likelihood is not None and len(rated) == 2:
            ours, theirs = (of.mean(axis=1) for of in rated.values())
            count = min(len(ours), len(theirs))
            higher = bare(int((ours[:count] > theirs[:count]).sum()), count)
            add(next(iter(rated)), likelihood.model_id, {"pairs_with_higher_bartscore": higher})
    return rows


def _sizes(pairs: Sequence[Pair]) -> dict[str, Estimate]:
    """How much there is, and how varied."""
    return {"fact_count": bare(extracted_facts(pairs), len(pairs)), "diversity": bare(diversity(pairs), len(pairs))}


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


def _together(parts: Sequence[tuple[int, Spread]]) -> Estimate | None:
    """The relations' accuracies as one, each weighed by its tuples; the draws of one do not depend on another's."""
    whole = sum(size for size, _ in parts)
    if not whole:
        return None
    mean = sum(size * spread.mean for size, spread in parts) / whole / 100
    deviation = sqrt(sum((size * spread.deviation) ** 2 for size, spread in parts)) / whole / 100
    return normal(mean, deviation, whole)


def deal(prompts: pl.DataFrame) -> tuple[list[MinedPrompt], list[MinedPrompt]]:
    """Two disjoint sets of the kept prompts (rows of ``prompts``): dealt in turn, the heaviest first."""
    own = pl.col("variant").fill_null("kbloom") != "bertnet"
    kept = prompts.filter(pl.col("kept") & own).sort("weight", "prompt_id", descending=[True, False])
    mined = [
        MinedPrompt(row["text"], row["weight"], row["bert_score"], row["ibleu"], row["certainty"], 0.0, True)
        for row in kept.iter_rows(named=True)
    ]
    return mined[0::2], mined[1::2]


def coverage_rows(
    relations: Sequence[Relation],
    prompts: pl.DataFrame,
    model: MaskedLM,
    encoder: SentenceEncoder,
    settings: KBloomSettings,
    variant: str,
    model_key: str,
    kinds: Kinds | None = None,
) -> list[dict[str, Any]]:
    """``coverage`` and ``findable`` tuples of every relation with two kept prompts; ``n`` is what both sets found."""
    rows: list[dict[str, Any]] = []
    for relation in sorted(relations, key=lambda each: each.id):
        halves = deal(prompts.filter(pl.col("relation_id") == relation.id))
        if not all(halves):
            continue
        catches = [
            {
                (triple.head, triple.tail)
                for triple in harvest(relation, model, encoder, settings, prompts=half, kinds=kinds).triples
            }
            for half in halves
        ]
        estimate = capture_recapture(*catches)
        found = len(catches[0] | catches[1])
        numbers = {"coverage": bare(estimate.share, found), "findable": bare(estimate.population, found)}
        rows += metric_rows(relation.id, variant, "", model_key, numbers, kind="relation")
    return rows
