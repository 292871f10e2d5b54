"""What a harvest is worth where no truth is known: it is counted, compared with references and judged by models.

A score is a share where print gives per cent, and all relations of a collection are counted together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets.experiment.scores.metrics import Estimate, accuracy, bootstrap, normal, without_interval
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import (
    MatchRule,
    Spread,
    cohens_kappa,
    count_extracted_entities,
    diversity,
    find_novel_pairs,
    list_entities,
    novelty,
    reference_accuracy,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import Judge, Likelihood, verbalise_triple

Row = dict[str, Any]
Encode = Callable[[Sequence[str]], npt.NDArray[np.floating]]
MAX_REFERENCE_TUPLES = 20_000
"""Tuples of a relation that rounds draw from: as many as 200 rounds of 100 could draw; a larger reference is
thinned."""
INSPECTED_RELATION, INSPECTED_TUPLES = "UsedFor", 10
"""The relation, and how many of its best tuples, that are printed one by one."""


@dataclass(frozen=True)
class HarvestedRelations:
    """Harvested triples of some relations; ``names`` says under which name the triples of each origin are scored."""

    relations: Sequence[Relation]
    triples: pl.DataFrame
    names: Mapping[str, str]

    @property
    def collections(self) -> dict[str, list[Relation]]:
        names = sorted({relation.collection for relation in self.relations})
        return {name: [one for one in self.relations if one.collection == name] for name in names}

    @cached_property
    def model(self) -> str:
        return str(self.triples["model_id"][0]) if self.triples.height else ""

    def of(self, origin: str, relations: Sequence[Relation]) -> pl.DataFrame:
        """Triples of one origin and these relations."""
        chosen = (pl.col("origin") == origin) & pl.col("relation_id").is_in([one.id for one in relations])
        return self.triples.filter(chosen)

    def pairs(self, origin: str, relation: Relation) -> list[EntityPair]:
        """Head and tail of one origin's triples of a relation, best first."""
        return list(self.of(origin, [relation]).sort("rank").select("head", "tail").iter_rows())

    def unseeded(self, origin: str, relation: Relation) -> list[EntityPair]:
        """The pairs that are no seeds of the relation, however they are capitalised."""
        seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
        return [p for p in self.pairs(origin, relation) if (p[0].casefold(), p[1].casefold()) not in seeds]

    def rows(
        self, scope: str, origin: str, numbers: Mapping[str, Estimate], *, kind: str = "collection", by: str = ""
    ) -> list[Row]:
        """A row a metric; ``by`` is the model that judged."""
        return metric_rows(scope, self.names[origin], by, self.model, numbers, kind=kind)


def size_metrics(triples: pl.DataFrame, facts: str, reference: set[str] | None = None) -> dict[str, Estimate]:
    """What needs no truth: how much there is, how varied, how new, and how far the prompts agree on it."""
    pairs: list[EntityPair] = list(triples.select("head", "tail").iter_rows())
    if not pairs:
        return {}
    numbers: dict[str, float] = {
        "tuples": len(pairs),
        facts: count_extracted_entities(pairs),
        "diversity": diversity(pairs),
    }
    if reference:
        numbers["novelty"] = novelty(pairs, reference)
    agreed = triples["agreement"].drop_nulls()
    if len(agreed):
        numbers["agreement"] = float(agreed.to_numpy().mean())
    return {metric: without_interval(value, len(pairs)) for metric, value in numbers.items()}


def build_size_rows(harvested: HarvestedRelations) -> list[Row]:
    """``tuples``, ``fact_count`` (twice as many), ``diversity`` (distinct entities, case kept) and mean
    ``agreement``."""
    return [
        row
        for collection, members in harvested.collections.items()
        for origin in harvested.names
        for row in harvested.rows(collection, origin, size_metrics(harvested.of(origin, members), "fact_count"))
    ]


def build_reference_rows(
    harvested: HarvestedRelations, reference: str, stated: Mapping[str, Sequence[EntityPair]], encode: Encode
) -> list[Row]:
    """How a harvest compares with the tuples that a reference states of the same relations.

    ``novelty``: share of the distinct entities that are none of the reference's. ``accuracy``: share of the tuples
    that are like at least half of a hundred drawn ones of the relation, mean over 200 draws; ``accuracy_maximum``:
    like one of them at least. ``novel_only_precision``: the latter over what no other variant found. Intervals hold
    95 % of the draws. Relations that the reference does not state count for novelty and the harvest's size alone.
    """
    known = list_entities(pair for pairs in stated.values() for pair in pairs)
    theirs = {
        one.id: encode(_verbalise_pairs(one, _thin_pairs(stated[one.id])))
        for one in harvested.relations
        if stated.get(one.id)
    }
    rows: list[Row] = []
    for origin in harvested.names:
        pairs = {one.id: harvested.pairs(origin, one) for one in harvested.relations}
        found = [pair for own in pairs.values() for pair in own]
        if not found:
            continue
        spreads: dict[str, list[tuple[int, Spread]]] = {}
        for relation in (one for one in harvested.relations if one.id in theirs and pairs[one.id]):
            ours = encode(_verbalise_pairs(relation, pairs[relation.id]))
            others = [name for name in harvested.names if name != origin]
            elsewhere = [pair for name in others for pair in harvested.pairs(name, relation)]
            alone = ours[find_novel_pairs(pairs[relation.id], elsewhere) if others else []]
            compared: list[tuple[str, npt.NDArray[np.floating], MatchRule]] = [
                ("accuracy", ours, "share"),
                ("accuracy_maximum", ours, "maximum"),
                ("novel_only_precision", alone, "maximum"),
            ]
            for metric, vectors, rule in compared:
                if len(vectors):
                    spread = reference_accuracy(vectors, theirs[relation.id], rule)
                    spreads.setdefault(metric, []).append((len(vectors), spread))
        numbers = {
            "fact_count": without_interval(count_extracted_entities(found), len(found)),
            "diversity": without_interval(diversity(found), len(found)),
            "novelty": without_interval(novelty(found, known) / 100, len(found)),
        }
        rows += harvested.rows(
            reference, origin, numbers | {name: _pool_accuracies(own) for name, own in spreads.items()}
        )
    return rows


def _verbalise_pairs(relation: Relation, pairs: Sequence[EntityPair]) -> list[str]:
    return [verbalise_triple(relation, *pair) for pair in pairs]


def _thin_pairs(pairs: Sequence[EntityPair]) -> list[EntityPair]:
    """The pairs, each once; of more than can be drawn as many as can, spread over all."""
    distinct = sorted(set(pairs))
    if len(distinct) <= MAX_REFERENCE_TUPLES:
        return distinct
    return [distinct[int(i)] for i in np.linspace(0, len(distinct) - 1, MAX_REFERENCE_TUPLES)]


def _pool_accuracies(parts: Sequence[tuple[int, Spread]]) -> Estimate:
    """The relations' accuracies as one, each weighed by its tuples; the draws of one do not depend on another's."""
    whole = sum(size for size, _ in parts)
    mean = sum(size * spread.mean for size, spread in parts) / whole / 100
    deviation = sqrt(sum((size * spread.deviation) ** 2 for size, spread in parts)) / whole / 100
    return normal(mean, deviation, whole)


def build_judgement_rows(
    harvested: HarvestedRelations, judges: Sequence[Judge], likelihood: Likelihood | None = None
) -> list[Row]:
    """What models say of the statements of each relation and each collection, seeds left out.

    ``precision`` and ``noisy_percent`` are by each judge, ``precision_novel`` over what the other variants did not
    find; a statement without a usable verdict counts neither way. ``kappa`` and ``exact_agreement`` are of the first
    two judges, over what both judged. ``likelihood`` of a relation: mean log-probability of the statement after the
    relation's seed statements.
    """
    scopes = [("relation", one.id, [one]) for one in sorted(harvested.relations, key=lambda one: one.id)]
    scopes += [("collection", name, members) for name, members in harvested.collections.items()]
    every = [
        text
        for one in harvested.relations
        for name in harvested.names
        for text in _verbalise_pairs(one, harvested.unseeded(name, one))
    ]
    statements = list(dict.fromkeys(every))
    said = [dict(zip(statements, judge.judge(statements), strict=True)) for judge in judges] if statements else []
    rows: list[Row] = []
    for (kind, scope, members), origin in product(scopes, harvested.names):
        texts, novel = list[str](), list[int]()
        for relation in members:
            own = harvested.unseeded(origin, relation)
            others = [p for name in harvested.names if name != origin for p in harvested.unseeded(name, relation)]
            novel += [len(texts) + place for place in find_novel_pairs(own, others)] if others else []
            texts += _verbalise_pairs(relation, own)
        if not texts:
            continue
        verdicts = [[v if isinstance(v := of[text], bool) else None for text in texts] for of in said]
        for judge, own_verdicts in zip(judges, verdicts, strict=True):
            usable = [verdict for verdict in own_verdicts if verdict is not None]
            new = [verdict for place in novel if (verdict := own_verdicts[place]) is not None]
            numbers = {"precision": accuracy(usable), "noisy_percent": accuracy([not v for v in usable])}
            numbers |= {"precision_novel": accuracy(new)} if new else {}
            rows += harvested.rows(scope, origin, numbers if usable else {}, kind=kind, by=judge.model_id)
        both = [pair for pair in zip(*verdicts[:2], strict=True) if None not in pair] if len(judges) > 1 else []
        if both:
            numbers = {"kappa": without_interval(cohens_kappa(*zip(*both, strict=True)), len(both))}
            numbers["exact_agreement"] = accuracy([one == other for one, other in both])
            rows += harvested.rows(scope, origin, numbers, kind=kind, by=judges[0].model_id)
        if likelihood is not None and kind == "relation":
            before = " ".join(_verbalise_pairs(members[0], members[0].pairs))
            numbers = {"likelihood": bootstrap(likelihood.score([(before, text) for text in texts]), resamples=1000)}
            rows += harvested.rows(scope, origin, numbers, kind=kind, by=likelihood.model_id)
    return rows


def build_inspection_rows(
    harvested: HarvestedRelations, judges: Sequence[Judge], likelihood: Likelihood | None
) -> list[Row]:
    """What models say of the ten best tuples of ``UsedFor``, seeds left out, as scores of its collection.

    ``correct_of_10``: how many the first judge calls correct. ``bartscore_*``: mean, greatest and least likelihood of a
    tuple's statement after that of one seed, over all tuples and seeds, the extremes with two decimals and with one;
    ``pairs_with_higher_bartscore``: at how many ranks the mean over the seeds is above that of the other harvest.
    """
    rows: list[Row] = []
    for relation in (one for one in harvested.relations if one.id == INSPECTED_RELATION):
        rated: dict[str, npt.NDArray[np.floating]] = {}
        for origin in harvested.names:
            texts = _verbalise_pairs(relation, harvested.unseeded(origin, relation)[:INSPECTED_TUPLES])
            if texts and judges:
                right = sum(verdict is True for verdict in judges[0].judge(texts))
                numbers = {f"correct_of_{INSPECTED_TUPLES}:{INSPECTED_RELATION}": without_interval(right, len(texts))}
                rows += harvested.rows(relation.collection, origin, numbers, by=judges[0].model_id)
            if texts and likelihood is not None:
                asked = [(verbalise_triple(relation, *seed), text) for text in texts for seed in relation.pairs]
                rated[origin] = own = likelihood.score(asked).reshape(len(texts), -1).astype(float)
                values = {"mean": float(own.mean())}
                for name, value in (("max", float(own.max())), ("min", float(own.min()))):
                    values |= {f"{name}:range": round(value, 2), f"{name}:rounded": round(value, 1)}
                numbers = {f"bartscore_{name}": without_interval(value, len(texts)) for name, value in values.items()}
                rows += harvested.rows(relation.collection, origin, numbers, by=likelihood.model_id)
        if likelihood is not None and len(rated) == 2:
            ours, theirs = (of.mean(axis=1) for of in rated.values())
            count = min(len(ours), len(theirs))
            numbers = {
                "pairs_with_higher_bartscore": without_interval(int((ours[:count] > theirs[:count]).sum()), count)
            }
            rows += harvested.rows(relation.collection, next(iter(rated)), numbers, by=likelihood.model_id)
    return rows
