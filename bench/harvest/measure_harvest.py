"""What a harvest depends on and what verification is worth, on the sample's 21 relations and the facts that it states.

    EVIDENCE_LAKE=<lake with models/masked_lm> python -m bench.harvest.measure_harvest [reversed | suggested]

Differences are paired over relations (95 %, bootstrap), on the half of the relations that the ranking was tuned on and
on the other. R-precision leaves out the seeds of both sides.

``seeds``: the seed pairs against each four of them, against sets with one pair replaced by a stated fact, and against
seeds of which two are reversed; stated facts that share one entity against stated facts that share none.
``reversed``: share of the reversed seeds, minus that of the given ones, whose reverse the masked model prefers in the
initial prompt; the same for sets of seeds (two reversed, or as given) with at least one such seed.
``suggested``: two of the harvest's own triples, confirmed as stated facts in the order of a suggestion, as seeds beside
the given ones, against two random stated facts beside them. ``random, given``: these against the given seeds alone.
``verified``: triples that pass a check against as many of the best triples. ``prompts``: at least half of the kept
prompts find the triple alone; ``systems``: the baseline harvests it, too; ``direction``: its reverse is no better.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import evidence_assets
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import mean, paired_bootstrap
from evidence_assets.harvest.prompt_mining import EntityPair, MiningModels
from evidence_assets.harvest.triple_metrics import Direction, judge_relevance
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import MaskedLM
from evidence_assets.models.registry import get_encoder, get_masked_lm
from evidence_assets.systems.kbloom.harvesting import (
    Harvest,
    HarvestedTriple,
    KBloomSettings,
    _bertnet_pair_scores,
    harvest_relation,
    mine_relation_prompts,
)
from evidence_assets.systems.kbloom.sample_scores import read_facts
from evidence_assets.systems.kbloom.seeds import Relation, read_seed_folder

SAMPLE = Path(evidence_assets.__file__).parent / "sample" / "full"
SETTINGS = KBloomSettings(n=120, max_prompts=4, fluency="probability", final="fluency")
DRAWS, MIN_SHARED, ADDED_SEEDS = 3, 3, 2
Checks = dict[str, Callable[[HarvestedTriple], bool]]


@dataclass(frozen=True)
class Case:
    """A relation, the pairs that the sample states, and how to harvest from seeds."""

    relation: Relation
    truths: tuple[EntityPair, ...]
    harvest: Callable[..., Harvest]
    masked: MaskedLM

    def judge(self, triples: Iterable[HarvestedTriple], exclude: Collection[EntityPair]) -> tuple[list[bool], int]:
        """Whether each triple that is no seed is stated, and the number of stated facts that are no seeds."""
        name, directions = self.relation.id, {self.relation.id: Direction(symmetric=self.relation.symmetric)}
        facts, truths, seeds = (
            [(h, name, t) for h, t in pairs]
            for pairs in ([(triple.head, triple.tail) for triple in triples], self.truths, exclude)
        )
        return judge_relevance(facts, truths, exclude=seeds, directions=directions)

    def r_precision(self, seeds: Sequence[EntityPair], other: Sequence[EntityPair]) -> float:
        hits, count = self.judge(self.harvest(tuple(seeds)).triples, {*seeds, *other})
        return sum(hits[:count]) / count

    def overlap(self, seeds: Sequence[EntityPair], other: Sequence[EntityPair]) -> float:
        """Share of the triples of both harvests that both have."""
        first, second = ({(t.head, t.tail) for t in self.harvest(tuple(s)).triples} for s in (seeds, other))
        return len(first & second) / len(first | second)


def assign_half(relation: str) -> str:
    """The half of a relation by a hash of its name: the default ranking was tuned on one, and is reported on the other.

    New relations do not move the others.
    """
    return "tuned half" if int(content_id("half", relation), 16) % 2 == 0 else "reported half"


def read_cases() -> list[Case]:
    lake, profile = Lake(Path(os.environ["EVIDENCE_LAKE"])), profiles.load()
    models = MiningModels(get_masked_lm(lake, profile.masked_model), get_encoder(profile.encoder))
    facts = read_facts(SAMPLE / "stated.tsv")

    def build(relation: Relation) -> Case:
        @cache
        def harvest(seeds: tuple[EntityPair, ...], variant: Any = "kbloom") -> Harvest:
            settings, seeded = replace(SETTINGS, variant=variant), replace(relation, pairs=seeds)
            return harvest_relation(seeded, models.masked, mine_relation_prompts(seeded, models, settings), settings)

        return Case(relation, tuple((h, t) for h, r, t in facts if r == relation.id), harvest, models.masked)

    return [build(relation) for relation in read_seed_folder(SAMPLE / "seeds").relations]


def draw_wide(case: Case, count: int, draw: random.Random) -> list[EntityPair]:
    """Stated facts that share no entity."""
    chosen: list[EntityPair] = []
    for pair in draw.sample(case.truths, len(case.truths)):
        if len(chosen) < count and not {*pair} & {entity for other in chosen for entity in other}:
            chosen.append(pair)
    return chosen


def compare_seeds(case: Case) -> dict[str, tuple[float, float]]:
    """R-precision of pairs of seed sets, and the overlap of their triples."""
    draw, seeds = random.Random(case.relation.id), list(case.relation.pairs)
    others = [pair for pair in case.truths if pair not in seeds]
    swaps = [[*seeds[:i], draw.choice(others), *seeds[i + 1 :]] for i in range(len(seeds))]
    sets = {"one left out": [(seeds[:i] + seeds[i + 1 :], seeds) for i in range(len(seeds))]}
    sets |= {"one replaced": [(swap, seeds) for swap in swaps]}
    if not case.relation.symmetric:
        sets["two reversed"] = [([*((t, h) for h, t in seeds[:2]), *seeds[2:]], seeds)]
    entity, _ = Counter(entity for pair in case.truths for entity in pair).most_common(1)[0]
    shared = [pair for pair in case.truths if entity in pair]
    if len(shared) >= MIN_SHARED:
        narrow = [draw.sample(shared, min(len(seeds), len(shared))) for _ in range(DRAWS)]
        sets["narrow, not wide"] = [(pairs, draw_wide(case, len(pairs), draw)) for pairs in narrow]
    result = {}
    for name, pairs in sets.items():
        differences = [case.r_precision(a, b) - case.r_precision(b, a) for a, b in pairs]
        result[name] = mean(differences).value, mean([case.overlap(a, b) for a, b in pairs]).value
    return result


def compare_suggestions(case: Case) -> dict[str, tuple[float, float, float]]:
    """R-precision with seeds that a suggestion adds and with random ones, and the triples that a user would judge."""
    seeds, draw = list(case.relation.pairs), random.Random(case.relation.id)
    others = [pair for pair in case.truths if pair not in seeds]
    if len(others) < 2 * ADDED_SEEDS:
        return {}
    random_sets = [[*seeds, *draw.sample(others, ADDED_SEEDS)] for _ in range(DRAWS)]
    triples = [triple for triple in case.harvest(tuple(seeds)).triples if "seed" not in triple.flags]

    def mean_precisions(pairs: Sequence[tuple[Sequence[EntityPair], Sequence[EntityPair]]]) -> tuple[float, float]:
        first, second = ([case.r_precision(a, b) for a, b in pairs], [case.r_precision(b, a) for a, b in pairs])
        return mean(first).value, mean(second).value

    orders = {
        "best": triples,
        "least agreed": sorted(triples, key=lambda t: t.agreement),
        "most agreed": sorted(triples, key=lambda t: -t.agreement),
    }
    result = {}
    for name, order in orders.items():
        places = [n for n, hit in enumerate(case.judge(order, seeds)[0]) if hit][:ADDED_SEEDS]
        added = [*seeds, *((order[n].head, order[n].tail) for n in places)]
        judged = float(places[-1] + 1 if places else len(order))
        result[name] = *mean_precisions([(added, random_seeds) for random_seeds in random_sets]), judged
    return result | {"random, given": (*mean_precisions([(each, seeds) for each in random_sets]), 0.0)}


def prefer_reverse(case: Case) -> dict[str, tuple[float, float]]:
    """Share of the reversed seeds and of the given ones whose reverse the masked model prefers."""
    if case.relation.symmetric:
        return {}
    prompt = case.relation.prompt

    def share(pairs: Sequence[EntityPair]) -> float:
        forward = _bertnet_pair_scores(case.masked, [(prompt, pair) for pair in pairs])
        backward = _bertnet_pair_scores(case.masked, [(prompt, (t, h)) for h, t in pairs])
        return mean([float(b > a) for a, b in zip(forward, backward, strict=True)]).value

    seeds = case.relation.pairs
    file_share, reverse_share = share(seeds), share([(t, h) for h, t in seeds])
    two = [*((t, h) for h, t in seeds[:2]), *seeds[2:]]
    return {
        "reversed, given": (reverse_share, file_share),
        "any of five": (float(share(two) > 0), float(file_share > 0)),
    }


def build_checks(case: Case) -> Checks:
    """The checks of a triple."""
    seeds = case.relation.pairs
    ranks = {(t.head, t.tail): t.rank for t in case.harvest(seeds).triples}
    baseline = {(t.head, t.tail) for t in case.harvest(seeds, "bertnet").triples}
    checks: Checks = {
        "prompts": lambda t: t.agreement >= 0.5,
        "systems": lambda t: (t.head, t.tail) in baseline,
        "direction": lambda t: case.relation.symmetric or ranks.get((t.tail, t.head), len(ranks)) >= t.rank,
    }
    checks["prompts, systems"] = lambda t: checks["prompts"](t) and checks["systems"](t)
    checks["all"] = lambda t: checks["prompts, systems"](t) and checks["direction"](t)
    return checks


def verify(case: Case) -> dict[str, tuple[float, float, float, float]]:
    """For each check: precision with it and of as many best triples, share that passes, recall that remains."""
    triples, seeds = case.harvest(case.relation.pairs).triples, case.relation.pairs
    triples = tuple(triple for triple in triples if "seed" not in triple.flags)
    all_hits, _ = case.judge(triples, seeds)
    result = {}
    for name, check in build_checks(case).items():
        hits, _ = case.judge([triple for triple in triples if check(triple)], seeds)
        if hits:
            best = all_hits[: len(hits)]
            shares = sum(hits) / len(hits), sum(best) / len(best)
            result[name] = (*shares, len(hits) / len(all_hits), sum(hits) / max(1, sum(all_hits)))
    return result


def print_halves(title: str, results: Mapping[str, Mapping[str, tuple[float, ...]]], paired: bool) -> None:
    for half in sorted({assign_half(relation) for relation in results}):
        for name in dict.fromkeys(name for result in results.values() for name in result):
            rows = [
                result[name] for relation, result in results.items() if assign_half(relation) == half and name in result
            ]
            first, second, *rest = map(list, zip(*rows, strict=True))
            difference = paired_bootstrap(first, second if paired else [0.0] * len(first))
            means = " ".join(f"{mean(values).value:.3f}" for values in (first, second, *rest))
            interval = f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
            print(f"{title:9} {half:14} {name:18} n = {len(rows):2} {interval}  means {means}")


def main() -> None:
    cases = read_cases()
    if sys.argv[1:] == ["suggested"]:
        print_halves("suggested", {case.relation.id: compare_suggestions(case) for case in cases}, paired=True)
        return
    print_halves("reversed", {case.relation.id: prefer_reverse(case) for case in cases}, paired=True)
    if sys.argv[1:] == ["reversed"]:
        return
    print_halves("verified", {case.relation.id: verify(case) for case in cases}, paired=True)
    print_halves("seeds", {case.relation.id: compare_seeds(case) for case in cases}, paired=False)


if __name__ == "__main__":
    main()
