"""Scores a harvest without known facts: size, comparison with references, judgements by models.

Scores are shares where the paper prints percentages, and pool all relations of a collection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from math import nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from evidence_assets.benchmarks.graphs.formats import find_format
from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.experiment.scores.charts import draw_precision
from evidence_assets.experiment.scores.metrics import Estimate, accuracy, normal, without_interval
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.prompt_mining import EntityPair, Floats
from evidence_assets.harvest.triple_metrics import (
    MatchRule,
    Spread,
    Triple,
    list_entities,
    novelty,
    precision_curve,
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

Row = dict[str, object]
Encode = Callable[[Sequence[str]], Floats]
ComparedForm = Literal["statements", "tuples"]
"""Texts that are compared with references: triples in words, or their pairs of entities as published."""
MAX_REFERENCE_TUPLES = 20_000
"""Reference tuples per relation: as many as 200 rounds of 100 can draw. Larger references are thinned."""
PRECISION_CUTOFF = 50
"""Rank down to which precision is measured and drawn."""
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
            facts: Iterable[Triple] = read_lama_facts(files[0])
        else:
            facts = ((fact.head, fact.relation, fact.tail) for fact in find_format(self.format, files).read(*files))
        pairs: dict[str, list[EntityPair]] = {}
        for head, relation, tail in facts:
            pairs.setdefault(relation, []).append((head, tail))
        return pairs


@cache
def load_references() -> dict[str, Reference]:
    return {name: Reference(name=name, **fields) for name, fields in read_yaml_mapping(REFERENCES_FILE).items()}


@dataclass(frozen=True)
class HarvestedRelations:
    """Harvested triples of some relations; ``selectors`` maps each origin to the selector of its scores.

    ``statements``: Text of a relation that states a triple to judges.
    ``compared``: What is compared with references: statements, or the pairs of entities alone.
    """

    relations: Sequence[Relation]
    triples: pl.DataFrame
    selectors: Mapping[str, str]
    statements: StatementForm = "template"
    compared: ComparedForm = "statements"

    @property
    def collections(self) -> dict[str, list[Relation]]:
        """Relations of each collection, by name."""
        names = sorted({relation.collection for relation in self.relations})
        return {name: [relation for relation in self.relations if relation.collection == name] for name in names}

    @cached_property
    def model_id(self) -> str:
        return str(self.triples["model_id"][0]) if self.triples.height else ""

    def select_triples(self, origin: str, relations: Sequence[Relation]) -> pl.DataFrame:
        """Triples of one origin and these relations."""
        ids = [relation.id for relation in relations]
        return self.triples.filter((pl.col("origin") == origin) & pl.col("relation_id").is_in(ids))

    def pairs(self, origin: str, relation: Relation) -> list[EntityPair]:
        """Head and tail of one origin's triples of a relation, best first."""
        return list(self.select_triples(origin, [relation]).sort("rank").select("head", "tail").iter_rows())

    def non_seed_pairs(self, origin: str, relation: Relation) -> list[EntityPair]:
        """Pairs that are not seeds of the relation, ignoring case."""
        seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
        return [p for p in self.pairs(origin, relation) if (p[0].casefold(), p[1].casefold()) not in seeds]

    def verbalise(self, relation: Relation, pairs: Sequence[EntityPair]) -> list[str]:
        return [verbalise_triple(relation, *pair, self.statements) for pair in pairs]

    def comparable_texts(self, relation: Relation, pairs: Sequence[EntityPair]) -> list[str]:
        """The texts of pairs whose vectors are compared with those of reference tuples."""
        if self.compared == "tuples":
            return [f"({head}, {tail})" for head, tail in pairs]
        return self.verbalise(relation, pairs)

    def build_rows(
        self, scope: str, origin: str, estimates: Mapping[str, Estimate], *, kind: str = "collection", by: str = ""
    ) -> list[Row]:
        """One row for each metric; ``by`` is the model that judged."""
        return metric_rows(scope, self.selectors[origin], by, self.model_id, estimates, kind=kind)


def estimate_exactly(values: Mapping[str, float], n: int) -> dict[str, Estimate]:
    """Estimates of these values of n items, without intervals."""
    return {metric: without_interval(value, n) for metric, value in values.items()}


def size_metrics(triples: pl.DataFrame, facts_metric: str, reference: Collection[str] = ()) -> dict[str, Estimate]:
    """Metrics that need no known facts: size, diversity, novelty and agreement of the prompts."""
    pairs: list[EntityPair] = list(triples.select("head", "tail").iter_rows())
    if not pairs:
        return {}
    n = len(pairs)
    values: dict[str, float] = {"tuples": n, facts_metric: 2 * n, "diversity": len(list_entities(pairs))}
    if reference:
        values["novelty"] = novelty(pairs, reference) / 100
    agreements = triples["agreement"].drop_nulls()
    if len(agreements):
        values["agreement"] = float(agreements.to_numpy().mean())
    return estimate_exactly(values, n)


def build_size_rows(harvest: HarvestedRelations) -> list[Row]:
    """``tuples``, ``fact_count`` (twice as many), ``diversity`` (distinct entities) and ``agreement``."""
    rows: list[Row] = []
    for (collection, relations), origin in product(harvest.collections.items(), harvest.selectors):
        metrics = size_metrics(harvest.select_triples(origin, relations), "fact_count")
        rows += harvest.build_rows(collection, origin, metrics)
    return rows


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
    reference_entities = list_entities(chain.from_iterable(reference_pairs.values()))
    reference_keys = {name_key(entity) for entity in reference_entities}
    reference_vectors = {
        relation.id: encode(harvest.comparable_texts(relation, _thin_pairs(reference_pairs[relation.id])))
        for relation in harvest.relations
        if reference_pairs.get(relation.id)
    }
    rows: list[Row] = []
    for origin in harvest.selectors:
        pairs = [pair for relation in harvest.relations for pair in harvest.pairs(origin, relation)]
        if not pairs:
            continue
        keys = [(name_key(head), name_key(tail)) for head, tail in pairs]
        values = {
            "fact_count": 2 * len(pairs),
            "diversity": len(list_entities(pairs)),
            "novelty": novelty(pairs, reference_entities) / 100,
            "novelty_by_entity": novelty(keys, reference_keys) / 100,
        }
        accuracies = _compare_with_references(harvest, origin, reference_vectors, encode)
        rows += harvest.build_rows(reference, origin, estimate_exactly(values, len(pairs)) | accuracies)
    return rows


def _compare_with_references(
    harvest: HarvestedRelations, origin: str, reference_vectors: Mapping[str, Floats], encode: Encode
) -> dict[str, Estimate]:
    """Accuracies of one origin over the relations with reference tuples."""
    spreads: dict[str, list[tuple[int, Spread]]] = {}
    others = [name for name in harvest.selectors if name != origin]
    for relation in harvest.relations:
        pairs = harvest.pairs(origin, relation)
        if not pairs or relation.id not in reference_vectors:
            continue
        vectors = encode(harvest.comparable_texts(relation, pairs))
        other_pairs = {pair for name in others for pair in harvest.pairs(name, relation)}
        is_novel = [bool(others) and pair not in other_pairs for pair in pairs]
        comparisons: list[tuple[str, Floats, MatchRule]] = [
            ("accuracy", vectors, "share"),
            ("accuracy_maximum", vectors, "maximum"),
            ("novel_only_precision", vectors[is_novel], "maximum"),
        ]
        for metric, compared, rule in comparisons:
            if len(compared):
                spread = reference_accuracy(compared, reference_vectors[relation.id], rule)
                spreads.setdefault(metric, []).append((len(compared), spread))
    return {metric: _pool_accuracies(parts) for metric, parts in spreads.items()}


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


@dataclass(frozen=True)
class Verdicts:
    """Usable verdicts of each judge on a collection's harvest of one origin.

    ``statements``: Statements of each relation without seeds, best first. ``by_judge``: For each judge, whether a
    statement is correct.
    """

    collection: str
    origin: str
    statements: Sequence[Sequence[str]]
    by_judge: Sequence[Mapping[str, bool]]

    def by_relation(self, judge: int) -> list[list[bool]]:
        """A judge's verdicts for each relation, best triple first."""
        verdicts = self.by_judge[judge]
        return [[verdicts[text] for text in of_relation if text in verdicts] for of_relation in self.statements]


def judge_harvest(harvest: HarvestedRelations, judges: Sequence[LanguageModel]) -> list[Verdicts]:
    """Judge the statements of each collection and origin, without seeds, by language models."""
    verdicts = []
    for (collection, relations), origin in product(harvest.collections.items(), harvest.selectors):
        texts = [harvest.verbalise(relation, harvest.non_seed_pairs(origin, relation)) for relation in relations]
        statements = list(chain.from_iterable(texts))
        by_judge = [_judge_statements(judge, statements) for judge in judges]
        verdicts.append(Verdicts(collection, origin, texts, by_judge))
    return verdicts


def build_judgement_rows(
    harvest: HarvestedRelations, judges: Sequence[LanguageModel], verdicts: Iterable[Verdicts]
) -> list[Row]:
    """Scores of the verdicts on a harvest.

    By judge: ``precision`` and ``noisy_percent`` are means over 200 experiments of 100 tuples per relation, with the
    interval that holds 95 % of the experiments. Statements without a usable verdict are ignored. ``kappa`` and
    ``exact_agreement`` compare the first two judges on the statements that both judged.
    """
    rows: list[Row] = []
    for each in verdicts:
        for number, judge in enumerate(judges):
            if each.by_judge[number]:
                by_relation = each.by_relation(number)
                estimates = _precision_estimates(sampled_precision(by_relation), sum(map(len, by_relation)))
                rows += harvest.build_rows(each.collection, each.origin, estimates, by=judge.model_id)
        if len(judges) > 1:
            first, second = each.by_judge[:2]
            statements = chain.from_iterable(each.statements)
            both = [(first[text], second[text]) for text in statements if text in first and text in second]
            agreement = _agreement_estimates(both)
            rows += harvest.build_rows(each.collection, each.origin, agreement, by=judges[0].model_id)
    return rows


def draw_judged_precision(harvest: HarvestedRelations, verdicts: Iterable[Verdicts]) -> dict[str, str]:
    """A picture of each collection's precision at k, by origin, as the first judge sees it."""
    hits: dict[str, dict[str, list[list[bool]]]] = {}
    for each in verdicts:
        if each.by_judge and any(by_relation := each.by_relation(0)):
            hits.setdefault(each.collection, {})[harvest.selectors[each.origin]] = by_relation
    return draw_precision_curves(hits)


def draw_precision_curves(hits: Mapping[str, Mapping[str, Sequence[Sequence[bool]]]]) -> dict[str, str]:
    """A picture for each collection; ``hits`` are by collection and selector, as in ``precision_curve``."""
    pictures = {}
    for collection, by_selector in hits.items():
        longest = max(len(of_relation) for relations in by_selector.values() for of_relation in relations)
        depth = min(PRECISION_CUTOFF, longest)
        curves = {selector: precision_curve(relations, depth) for selector, relations in by_selector.items()}
        pictures[f"precision on {collection}"] = draw_precision(f"Precision at k on {collection}", curves)
    return pictures


def _judge_statements(judge: LanguageModel, statements: Sequence[str]) -> dict[str, bool]:
    """Usable verdicts on the distinct statements."""
    distinct = list(dict.fromkeys(statements))
    replies = zip(distinct, JUDGE.ask(judge, distinct), strict=True)
    return {text: reply for text, reply in replies if isinstance(reply, bool)}


def _agreement_estimates(verdicts: Sequence[tuple[bool, bool]]) -> dict[str, Estimate]:
    """Agreement of two judges; empty without verdicts."""
    if not verdicts:
        return {}
    from sklearn.metrics import cohen_kappa_score

    is_defined = len(set(chain.from_iterable(verdicts))) > 1
    kappa = cohen_kappa_score(*zip(*verdicts, strict=True), labels=[False, True]) if is_defined else nan
    is_equal = [one == other for one, other in verdicts]
    return {"kappa": without_interval(kappa, len(verdicts)), "exact_agreement": accuracy(is_equal)}


def _precision_estimates(spread: Spread, n: int) -> dict[str, Estimate]:
    """Precision and its complement; without an interval if all experiments draw the same tuples."""
    shares = {"precision": spread.mean / 100, "noisy_percent": 1 - spread.mean / 100}
    if not spread.deviation:
        return estimate_exactly(shares, n)
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
    relation = next((relation for relation in harvest.relations if relation.id == INSPECTED_RELATION), None)
    if relation is None:
        return []
    rows: list[Row] = []
    best_texts = {
        origin: harvest.verbalise(relation, harvest.non_seed_pairs(origin, relation)[:INSPECTED_TUPLES])
        for origin in harvest.selectors
    }
    for origin, texts in best_texts.items():
        if texts and judges:
            n_correct = sum(verdict is True for verdict in JUDGE.ask(judges[0], texts))
            estimates = estimate_exactly({f"correct_of_{INSPECTED_TUPLES}:{INSPECTED_RELATION}": n_correct}, len(texts))
            rows += harvest.build_rows(relation.collection, origin, estimates, by=judges[0].model_id)
    if likelihood is not None:
        rows += _build_likelihood_rows(harvest, relation, best_texts, likelihood)
    return rows


def _build_likelihood_rows(
    harvest: HarvestedRelations, relation: Relation, best_texts: Mapping[str, Sequence[str]], likelihood: TextLikelihood
) -> list[Row]:
    rows: list[Row] = []
    seed_texts = harvest.verbalise(relation, relation.pairs)
    means = list[Floats]()
    for origin, texts in best_texts.items():
        if texts:
            scores = likelihood.score([(seed_text, text) for text in texts for seed_text in seed_texts])
            ratings = scores.reshape(len(texts), -1).astype(float)
            means.append(ratings.mean(axis=1))
            estimates = estimate_exactly(_summarise_ratings(ratings), len(texts))
            rows += harvest.build_rows(relation.collection, origin, estimates, by=likelihood.model_id)
    if len(means) == 2:
        count = min(map(len, means))
        n_higher = int((means[0][:count] > means[1][:count]).sum())
        estimates = estimate_exactly({"pairs_with_higher_bartscore": n_higher}, count)
        rows += harvest.build_rows(relation.collection, next(iter(best_texts)), estimates, by=likelihood.model_id)
    return rows


def _summarise_ratings(ratings: Floats) -> dict[str, float]:
    values = {"bartscore_mean": float(ratings.mean())}
    for name, value in (("max", float(ratings.max())), ("min", float(ratings.min()))):
        values[f"bartscore_{name}:range"] = round(value, 2)
        values[f"bartscore_{name}:rounded"] = round(value, 1)
    return values
