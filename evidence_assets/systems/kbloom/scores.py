"""Scores a harvest without known facts: size, comparison with references, judgements by models.

Scores are shares where the paper prints percentages, and pool all relations of a collection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from math import nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import BaseModel, ConfigDict

from evidence_assets.benchmarks.graphs.formats import find_format
from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.experiment.scores.metrics import Estimate, accuracy, normal, without_interval
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import (
    MatchRule,
    Spread,
    list_entities,
    novelty,
    reference_accuracy,
    sampled_precision,
)
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import JUDGE, StatementForm, verbalise_triple
from evidence_assets.text.words import name_key

if TYPE_CHECKING:  # it imports torch
    from evidence_assets.models.sequence_models import TextLikelihood

Row = dict[str, Any]
Encode = Callable[[Sequence[str]], npt.NDArray[np.floating]]
MAX_REFERENCE_TUPLES = 20_000
"""Reference tuples per relation: as many as 200 rounds of 100 can draw. Larger references are thinned."""
INSPECTED_RELATION = "UsedFor"
INSPECTED_TUPLES = 10
"""Relation whose best tuples the paper prints one by one, and their number."""
REFERENCES_FILE = Path(__file__).with_name("references.yaml")
LAMA = "lama"


class Reference(BaseModel):
    """A reference: a collection of relations, and the files with its tuples."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    collection: str
    """Collection of the relations that it covers."""
    format: str
    """A graph format (``benchmarks.graphs.formats``), or ``lama``."""
    paths: tuple[str, ...]
    """Paths of its files, relative to the lake's ``raw`` folder."""
    contents: str
    """Content of the files and where to obtain them."""

    @property
    def key(self) -> str:
        """Key of the raw asset that observes its files."""
        return f"raw/references/{self.name}"

    def read_pairs(self, raw: Path) -> dict[str, list[EntityPair]]:
        """Head and tail of every reference tuple by relation id, without tuples labelled false."""
        files = [raw / path for path in self.paths]
        if self.format == LAMA:
            facts = ((relation, head, tail) for head, relation, tail in read_lama_facts(files[0]))
        else:
            facts = ((fact.relation, fact.head, fact.tail) for fact in find_format(self.format, files).read(*files))
        pairs: dict[str, list[EntityPair]] = defaultdict(list)
        for relation, head, tail in facts:
            pairs[relation].append((head, tail))
        return dict(pairs)


@cache
def load_references() -> dict[str, Reference]:
    return {name: Reference(name=name, **fields) for name, fields in read_yaml_mapping(REFERENCES_FILE).items()}


@dataclass(frozen=True)
class HarvestedRelations:
    """Harvested triples of some relations; ``selectors`` maps each origin to the selector of its scores.

    ``statements``: Text of a relation that states a triple to judges and references.
    """

    relations: Sequence[Relation]
    triples: pl.DataFrame
    selectors: Mapping[str, str]
    statements: StatementForm = "template"

    @property
    def collections(self) -> dict[str, list[Relation]]:
        names = sorted({relation.collection for relation in self.relations})
        return {name: [one for one in self.relations if one.collection == name] for name in names}

    @cached_property
    def model_id(self) -> str:
        return str(self.triples["model_id"][0]) if self.triples.height else ""

    def select_triples(self, origin: str, relations: Sequence[Relation]) -> pl.DataFrame:
        """Triples of one origin and these relations."""
        is_selected = (pl.col("origin") == origin) & pl.col("relation_id").is_in([one.id for one in relations])
        return self.triples.filter(is_selected)

    def pairs(self, origin: str, relation: Relation) -> list[EntityPair]:
        """Head and tail of one origin's triples of a relation, best first."""
        return list(self.select_triples(origin, [relation]).sort("rank").select("head", "tail").iter_rows())

    def non_seed_pairs(self, origin: str, relation: Relation) -> list[EntityPair]:
        """Pairs that are not seeds of the relation, ignoring case."""
        seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
        return [p for p in self.pairs(origin, relation) if (p[0].casefold(), p[1].casefold()) not in seeds]

    def verbalise(self, relation: Relation, pairs: Sequence[EntityPair]) -> list[str]:
        return [verbalise_triple(relation, *pair, self.statements) for pair in pairs]

    def build_rows(
        self, scope: str, origin: str, estimates: Mapping[str, Estimate], *, kind: str = "collection", by: str = ""
    ) -> list[Row]:
        """One row for each metric; ``by`` is the model that judged."""
        return metric_rows(scope, self.selectors[origin], by, self.model_id, estimates, kind=kind)


def size_metrics(triples: pl.DataFrame, facts_metric: str, reference: set[str] | None = None) -> dict[str, Estimate]:
    """Metrics that need no known facts: size, diversity, novelty and agreement of the prompts."""
    pairs: list[EntityPair] = list(triples.select("head", "tail").iter_rows())
    if not pairs:
        return {}
    counts = {"tuples": len(pairs), facts_metric: 2 * len(pairs), "diversity": len(list_entities(pairs))}
    values: dict[str, float] = dict(counts)
    if reference:
        values["novelty"] = novelty(pairs, reference) / 100
    agreements = triples["agreement"].drop_nulls()
    if len(agreements):
        values["agreement"] = float(agreements.to_numpy().mean())
    return {metric: without_interval(value, len(pairs)) for metric, value in values.items()}


def build_size_rows(harvest: HarvestedRelations) -> list[Row]:
    """``tuples``, ``fact_count`` (twice as many), ``diversity`` (distinct entities) and ``agreement``."""
    return [
        row
        for collection, members in harvest.collections.items()
        for origin in harvest.selectors
        for metrics in [size_metrics(harvest.select_triples(origin, members), "fact_count")]
        for row in harvest.build_rows(collection, origin, metrics)
    ]


def build_reference_rows(
    harvest: HarvestedRelations, reference: str, reference_pairs: Mapping[str, Sequence[EntityPair]], encode: Encode
) -> list[Row]:
    """Compare a harvest with reference tuples of the same relations.

    ``novelty``: share of the distinct entities that the reference lacks; ``novelty_by_entity``: the same where names
    that differ in case, punctuation or inflection are one entity. ``accuracy``: share of the tuples that are
    similar to at least half of 100 reference tuples drawn from the relation, mean over 200 draws;
    ``accuracy_maximum``: similar to at least one. ``novel_only_precision``: ``accuracy_maximum`` over the tuples that
    no other variant found. Intervals hold 95 % of the draws. Relations without reference tuples count for novelty and
    size only.
    """
    reference_entities = list_entities(pair for pairs in reference_pairs.values() for pair in pairs)
    reference_keys = {name_key(entity) for entity in reference_entities}
    covered = [relation for relation in harvest.relations if reference_pairs.get(relation.id)]
    reference_vectors = {r.id: encode(harvest.verbalise(r, _thin_pairs(reference_pairs[r.id]))) for r in covered}
    rows: list[Row] = []
    for origin in harvest.selectors:
        pairs = {one.id: harvest.pairs(origin, one) for one in harvest.relations}
        pooled = [pair for values in pairs.values() for pair in values]
        if not pooled:
            continue
        spreads: dict[str, list[tuple[int, Spread]]] = {}
        for relation in (relation for relation in covered if pairs[relation.id]):
            vectors = encode(harvest.verbalise(relation, pairs[relation.id]))
            others = [name for name in harvest.selectors if name != origin]
            other_pairs = {pair for name in others for pair in harvest.pairs(name, relation)}
            is_novel = [bool(others) and pair not in other_pairs for pair in pairs[relation.id]]
            comparisons: list[tuple[str, npt.NDArray[np.floating], MatchRule]] = [
                ("accuracy", vectors, "share"),
                ("accuracy_maximum", vectors, "maximum"),
                ("novel_only_precision", vectors[is_novel], "maximum"),
            ]
            for metric, compared, rule in comparisons:
                if len(compared):
                    spread = reference_accuracy(compared, reference_vectors[relation.id], rule)
                    spreads.setdefault(metric, []).append((len(compared), spread))
        keyed = [(name_key(head), name_key(tail)) for head, tail in pooled]
        estimates = {
            "fact_count": without_interval(2 * len(pooled), len(pooled)),
            "diversity": without_interval(len(list_entities(pooled)), len(pooled)),
            "novelty": without_interval(novelty(pooled, reference_entities) / 100, len(pooled)),
            "novelty_by_entity": without_interval(novelty(keyed, reference_keys) / 100, len(pooled)),
        }
        accuracies = {name: _pool_accuracies(values) for name, values in spreads.items()}
        rows += harvest.build_rows(reference, origin, estimates | accuracies)
    return rows


def _thin_pairs(pairs: Sequence[EntityPair]) -> list[EntityPair]:
    """Distinct pairs in order; of more than ``MAX_REFERENCE_TUPLES``, an evenly spaced sample."""
    distinct = sorted(set(pairs))
    if len(distinct) <= MAX_REFERENCE_TUPLES:
        return distinct
    return [distinct[int(i)] for i in np.linspace(0, len(distinct) - 1, MAX_REFERENCE_TUPLES)]


def _pool_accuracies(parts: Sequence[tuple[int, Spread]]) -> Estimate:
    """Pooled accuracy of several relations, weighted by their tuples; relations are drawn independently."""
    total = sum(size for size, _ in parts)
    mean = sum(size * spread.mean for size, spread in parts) / total / 100
    deviation = sqrt(sum((size * spread.deviation) ** 2 for size, spread in parts)) / total / 100
    return normal(mean, deviation, total)


def build_judgement_rows(harvest: HarvestedRelations, judges: Sequence[LanguageModel]) -> list[Row]:
    """Judge the statements of each collection, without seeds, by language models.

    By judge: ``precision`` and ``noisy_percent`` are means over 200 experiments of 100 tuples per relation, with the
    interval that holds 95 % of the experiments. Statements without a usable verdict are ignored. ``kappa`` and
    ``exact_agreement`` compare the first two judges on the statements that both judged.
    """
    rows: list[Row] = []
    for (collection, members), origin in product(harvest.collections.items(), harvest.selectors):
        texts = [harvest.verbalise(one, harvest.non_seed_pairs(origin, one)) for one in members]
        statements = list(dict.fromkeys(chain.from_iterable(texts)))
        judgements: list[dict[str, bool]] = []
        for judge in judges if statements else ():
            verdicts = zip(statements, JUDGE.ask(judge, statements), strict=True)
            judgements.append({text: verdict for text, verdict in verdicts if isinstance(verdict, bool)})
            by_relation = [[judgements[-1][t] for t in of_relation if t in judgements[-1]] for of_relation in texts]
            if any(by_relation):
                estimates = _precision_estimates(sampled_precision(by_relation), sum(map(len, by_relation)))
                rows += harvest.build_rows(collection, origin, estimates, by=judge.model_id)
        if len(judgements) > 1:
            first, second = judgements[:2]
            both_judged = [(first[t], second[t]) for t in chain.from_iterable(texts) if t in first and t in second]
            estimates = _agreement_estimates(both_judged) if both_judged else {}
            rows += harvest.build_rows(collection, origin, estimates, by=judges[0].model_id)
    return rows


def _agreement_estimates(verdicts: Sequence[tuple[bool, bool]]) -> dict[str, Estimate]:
    """Agreement of two judges."""
    from sklearn.metrics import cohen_kappa_score

    is_defined = len(set(chain.from_iterable(verdicts))) > 1
    kappa = cohen_kappa_score(*zip(*verdicts, strict=True), labels=[False, True]) if is_defined else nan
    is_equal = [one == other for one, other in verdicts]
    return {"kappa": without_interval(kappa, len(verdicts)), "exact_agreement": accuracy(is_equal)}


def _precision_estimates(spread: Spread, n: int) -> dict[str, Estimate]:
    """Precision and its complement; without an interval if all experiments draw the same tuples."""
    shares = {"precision": spread.mean / 100, "noisy_percent": 1 - spread.mean / 100}
    if not spread.deviation:
        return {metric: without_interval(share, n) for metric, share in shares.items()}
    return {metric: normal(share, spread.deviation / 100, n) for metric, share in shares.items()}


def build_inspection_rows(
    harvest: HarvestedRelations, judges: Sequence[LanguageModel], likelihood: TextLikelihood | None
) -> list[Row]:
    """Judge the ten best tuples of ``UsedFor``, without seeds, as scores of its collection.

    ``correct_of_10``: number that the first judge calls correct. ``bartscore_*``: mean, maximum and minimum likelihood
    of a tuple's statement after the statement of one seed, over all tuples and seeds; the extremes are rounded to two
    decimals and to one. ``pairs_with_higher_bartscore``: number of ranks at which the mean over the seeds is higher
    than in the other harvest.
    """
    rows: list[Row] = []
    for relation in (one for one in harvest.relations if one.id == INSPECTED_RELATION):
        ratings: dict[str, npt.NDArray[np.floating]] = {}
        for origin in harvest.selectors:
            texts = harvest.verbalise(relation, harvest.non_seed_pairs(origin, relation)[:INSPECTED_TUPLES])
            if texts and judges:
                n_correct = sum(verdict is True for verdict in JUDGE.ask(judges[0], texts))
                estimates = {
                    f"correct_of_{INSPECTED_TUPLES}:{INSPECTED_RELATION}": without_interval(n_correct, len(texts))
                }
                rows += harvest.build_rows(relation.collection, origin, estimates, by=judges[0].model_id)
            if texts and likelihood is not None:
                seed_texts = harvest.verbalise(relation, relation.pairs)
                text_pairs = [(seed_text, text) for text in texts for seed_text in seed_texts]
                ratings[origin] = scores = likelihood.score(text_pairs).reshape(len(texts), -1).astype(float)
                values = {"mean": float(scores.mean())}
                for name, value in (("max", float(scores.max())), ("min", float(scores.min()))):
                    values |= {f"{name}:range": round(value, 2), f"{name}:rounded": round(value, 1)}
                estimates = {f"bartscore_{name}": without_interval(value, len(texts)) for name, value in values.items()}
                rows += harvest.build_rows(relation.collection, origin, estimates, by=likelihood.model_id)
        if likelihood is not None and len(ratings) == 2:
            first_means, second_means = (scores_of_origin.mean(axis=1) for scores_of_origin in ratings.values())
            count = min(len(first_means), len(second_means))
            n_higher = int((first_means[:count] > second_means[:count]).sum())
            estimates = {"pairs_with_higher_bartscore": without_interval(n_higher, count)}
            rows += harvest.build_rows(relation.collection, next(iter(ratings)), estimates, by=likelihood.model_id)
    return rows
