"""What K-Bloom recovers of the facts that the sample corpus states, against its BertNet variant, with the control.

The assets of the profile `embedded` (3,000 training steps, 4 prompts, n = 120) are materialized in LAKE on every
relation of the sample that has a seed file, those of the demo among them, and read back. Then every ranking that the
product knows is scored on the same candidates: the one with the best mean precision@50 over the tuned half of the
relations (halves by a hash of their names) is what the default should be, and the reported half says what it is worth.
At last the control: the held-out facts that were harvested, with what the corpus states around them, against two ideas of
chance: every untold pair of the relation's heads and tails alike, and pairs in proportion to how often the relation's
facts name both, which is what the scores use.

With ``--variants`` the opted-in variants (published formulas and prompt settings) are harvested, too, on the relations
of the demo alone, in a lake of their own, and only their means are printed.

Run: python -m bench.measure_kbloom LAKE [--steps 3000] [--n 120] [--prompts 4] [--variants]
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl

from evidence_assets.experiment.metrics import bootstrap

PROFILE = """\
extends: embedded
name: measure_kbloom
harvesting: {{training_steps: {steps}, n: {n}, prompts: {prompts}, sample_relations: [{relations}]}}
"""


def materialize(root: Path, variants: bool, **numbers: int) -> list[str]:
    """Make everything up to the scores in the lake below ``root``; what is there and unchanged is taken over."""
    from evidence_assets import profiles
    from evidence_assets.sample.facts import load_world

    relations = profiles.load("embedded").harvesting.sample_relations if variants else load_world().prompted()
    root.mkdir(parents=True, exist_ok=True)
    profile = root / "profile.yaml"
    profile.write_text(PROFILE.format(relations=", ".join(relations), **numbers))
    os.environ |= {"EVIDENCE_LAKE": str(root / "data_lake"), "EVIDENCE_PROFILE": str(profile)}
    if variants:
        os.environ["EVIDENCE_PRESETS"] = "kbloom_prompts,kbloom_costs"
    import dagster as dg

    from evidence_assets.definitions import defs

    job = defs().resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:

        def make(*names: str, partition: str | None = None) -> None:
            started = time.process_time()
            job.execute_in_process(
                instance=instance, asset_selection=[dg.AssetKey(name.split("/")) for name in names],
                partition_key=partition, run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )  # fmt: skip
            print(f"  {time.process_time() - started:6.1f} CPU s  {', '.join(names)} {partition or ''}", flush=True)

        make("raw/sample")
        make("corpus/sample/chunks", partition="0")
        make("models/masked_lm", "raw/seeds")
        keys = {"/".join(key.path) for key in defs().resolve_asset_graph().materializable_asset_keys}
        made = sorted(key.split("/")[1] for key in keys if key.endswith("/harvest"))
        for relation in sorted(instance.get_dynamic_partitions("relations")):
            make("knowledge/seeds", *(f"knowledge/{name}/harvest" for name in made), partition=relation)
        make(*(f"scores/knowledge/{name}" for name in made), *(k for k in keys if k.endswith("_coverage")))
    return made


def by_relation(scores: pl.DataFrame, default: set[str]) -> None:
    """The table of the scores, relations of the demo first."""
    metrics = ("precision@50", "r_precision", "recall")
    value = {(r["scope_id"], r["selector"], r["metric"]): r for r in scores.iter_rows(named=True)}
    names = sorted({r["scope_id"] for r in scores.iter_rows(named=True) if r["scope_kind"] == "relation"})
    print(f"\n{'relation':34} half     truths  " + "  ".join(f"{m:>15}" for m in metrics) + "   (K-Bloom / BertNet)")
    from evidence_assets.systems.kbloom.scores import half_of

    for name in sorted(names, key=lambda each: (each not in default, each)):
        cells = "  ".join(
            f"{value[name, 'kbloom', m]['value']:.3f} / {value[name, 'bertnet', m]['value']:.3f}".rjust(15)
            for m in metrics
        )
        mark = "*" if name in default else " "
        print(f"{mark}{name:33} {half_of(name)[:8]} {value[name, 'kbloom', 'recall']['n']:6}  {cells}")
    shown = scores.filter((pl.col("scope_kind") == "collection") & ~pl.col("metric").str.contains("r_prec|recall_over"))
    print("\nmeans over relations, 95 %")
    for r in shown.sort("scope_id", "metric", "selector").iter_rows(named=True):
        interval = "" if r["low"] is None else f"({r['low']:.3f} to {r['high']:.3f})"
        print(f"  {r['scope_id']:14} {r['selector']:8} {r['metric']:28} {r['value']:.3f} {interval} n = {r['n']}")


def compare(lake: Any, variants: list[str]) -> None:
    """Means over the relations of every variant and of the baseline that ran beside it, and the coverage."""
    print("\nprecision@50 (95 % over relations), recall, means over the relations of the demo")
    for name in variants:
        scores = lake.read("scores", f"scores/knowledge/{name}").filter(pl.col("scope_kind") == "relation")
        for selector in scores["selector"].unique().sort(descending=True):
            own = scores.filter(pl.col("selector") == selector)
            precision, recall = (own.filter(metric=metric)["value"].to_list() for metric in ("precision@50", "recall"))
            mean = bootstrap(precision, resamples=1000)
            beside = "" if selector == name else " beside it"
            print(
                f"  {name if not beside else '':18} {selector if beside else '':8}{beside:10} {mean.value:.3f} "
                f"({mean.low:.3f} to {mean.high:.3f})  {np.mean(recall):.3f}  {mean.n} relations"
            )
    covered = lake.read("scores").filter(pl.col("metric").is_in(["coverage", "findable"]))
    for row in covered.sort("metric", "scope_id").iter_rows(named=True):
        print(f"  {row['selector']} {row['scope_id']:32} {row['metric']:9} {row['value']:.2f}, {row['n']} found")


def rankings(lake: Any) -> Iterator[tuple[str, str, list[tuple[str, str]], Any]]:
    """(form, relation, ranked pairs, relation) of every ranking of the candidates that lie in the lake."""
    from evidence_assets import profiles
    from evidence_assets.assets.models_in_use import masked_lm
    from evidence_assets.harvest.triple_scoring import FinalForm, FluencyForm, Ground, final_scores, nearness
    from evidence_assets.systems.kbloom import rows as harvest_rows
    from evidence_assets.systems.kbloom import system as kbloom

    harvesting = profiles.load().harvesting
    model = masked_lm(lake, harvesting.model)
    seeds = lake.read("relation_seeds", "knowledge/seeds")
    table = lake.read("candidate_tuples", "knowledge/kbloom/harvest").filter(pl.col("variant") == "kbloom")
    for relation in harvest_rows.relations_of(seeds):
        rows = table.filter(pl.col("relation_id") == relation.id).sort("probability_rank")
        found = [kbloom.Candidate(h, t, "1-1", 0, 0, 0) for h, t in rows.select("head", "tail").rows()]
        scored: dict[tuple[str, str], tuple[Any, Any]] = {}
        for ground, fluency in itertools.product(get_args(Ground), get_args(FluencyForm)):
            settings = kbloom.KBloomSettings(ground=ground, fluency=fluency)
            scored[ground, fluency] = kbloom._stage_three(relation, found, model, settings, None)  # type: ignore[arg-type]
        forms = {
            f"{fluency} + {final}" + ("" if ground == "cosine" else " (euclidean)"): final_scores(
                nearness(scored[ground, fluency][0], len(relation.pairs), ground), scored[ground, fluency][1], final
            )
            for (ground, fluency), final in itertools.product(scored, get_args(FinalForm))
            if final != "fluency" or ground == "cosine"
        }
        forms["likelihood of the search"] = -rows["probability_rank"].to_numpy().astype(float)
        for form, values in forms.items():
            order = sorted(range(len(found)), key=lambda i: (-values[i], found[i].head, found[i].tail))
            yield form, relation.id, [(found[i].head, found[i].tail) for i in order[: harvesting.n]], relation


def choice(lake: Any, scores: pl.DataFrame) -> None:
    """Choose the ranking on the tuned half, report on the other, beside the baseline."""
    from evidence_assets.experiment.metrics import paired_bootstrap
    from evidence_assets.harvest.triple_metrics import Direction, relevance
    from evidence_assets.systems.kbloom.scores import REPORTED, TUNED, half_of, read_facts

    stated = read_facts(lake.raw / "sample" / "stated.tsv")
    reached: dict[str, dict[str, float]] = {}
    for form, name, ranked, relation in rankings(lake):
        hits, truths = relevance(
            [(h, name, t) for h, t in ranked], [fact for fact in stated if fact[1] == name],
            exclude=[(h, name, t) for h, t in relation.pairs],
            directions={name: Direction(symmetric=relation.symmetric)},
        )  # fmt: skip
        if truths:
            reached.setdefault(form, {})[name] = sum(hits[:50]) / 50
    baseline = {
        r["scope_id"]: r["value"]
        for r in scores.iter_rows(named=True)
        if (r["scope_kind"], r["selector"], r["metric"]) == ("relation", "bertnet", "precision@50")
    }

    def mean(of: dict[str, float], half: str) -> float:
        return float(np.mean([value for name, value in of.items() if half_of(name) == half]))

    best = max(reached, key=lambda form: mean(reached[form], TUNED))
    print(f"\n{'precision@50 of each ranking of the same candidates':44} tuned  reported")
    for form in sorted(reached, key=lambda each: -mean(reached[each], TUNED)):
        print(
            f"{'>' if form == best else ' '} {form:42} {mean(reached[form], TUNED):.3f}  {mean(reached[form], REPORTED):.3f}"
        )
    print(f"  {'bertnet':42} {mean(baseline, TUNED):.3f}  {mean(baseline, REPORTED):.3f}")
    names = [name for name in baseline if half_of(name) == REPORTED]
    gain = paired_bootstrap([reached[best][n] for n in names], [baseline[n] for n in names])
    print(f"chosen on the tuned half: {best}; over bertnet on the reported half, {len(names)} relations: "
          f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})")  # fmt: skip


def held_out(lake: Any) -> None:
    """Every held-out fact that was harvested, its rank, and what the corpus states around it."""
    from evidence_assets.systems.kbloom.scores import read_facts

    stated = read_facts(lake.raw / "sample" / "stated.tsv")
    held = read_facts(lake.raw / "sample" / "held_out.tsv")
    triples = lake.read("triples", "knowledge/kbloom/harvest").filter(pl.col("origin") == "kbloom")
    rank = {
        (r["head"].casefold(), r["relation"], r["tail"].casefold()): r["rank"] for r in triples.iter_rows(named=True)
    }
    sentences = [
        chunk["text"][span["start"] : span["end"]]
        for chunk in lake.read("chunks", "corpus/sample/chunks").iter_rows(named=True)
        for span in chunk["sentence_offsets"]
    ]
    print("\nheld-out facts that were harvested")
    for head, relation, tail in held:
        place = rank.get((head.casefold(), relation, tail.casefold()))
        if place is None:
            continue
        print(f"  {head} {relation} {tail}: rank {place}")
        for other in stated:
            if {other[0], other[2]} == {head, tail}:
                print(f"      stated of the same pair: {other}")
        for fact in (f for f in stated if f[1] == relation and tail in (f[0], f[2])):
            print(f"      same tail: {fact[0]} {fact[1]} {fact[2]}")
        for fact in (f for f in stated if f[1] == relation and head in (f[0], f[2])):
            print(f"      same head: {fact[0]} {fact[1]} {fact[2]}")
        for text in (t for t in sentences if head.casefold() in t.casefold() and tail.casefold() in t.casefold()):
            print(f"      both in: {text}")


def drawn(found: set[Any], held: set[Any], weight: dict[Any, float]) -> Any:
    """The held-out facts among these pairs, of which one is drawn in proportion to its weight."""
    from evidence_assets.systems.kbloom.scores import Control

    whole = sum(weight.values())
    hit = sum(value for fact, value in weight.items() if fact in found)
    return Control(len(found & held & set(weight)), len(held & set(weight)), hit / whole if whole else 0.0)


def chance(lake: Any) -> None:
    """What two ideas of chance make of the held-out facts that were found."""
    from evidence_assets.harvest.triple_metrics import Direction, canonical_fact
    from evidence_assets.systems.kbloom import rows as harvest_rows
    from evidence_assets.systems.kbloom.scores import Control, above_chance, read_facts

    stated, held_out = (read_facts(lake.raw / "sample" / f"{name}.tsv") for name in ("stated", "held_out"))
    triples = lake.read("triples", "knowledge/kbloom/harvest").filter(pl.col("origin") == "kbloom")
    controls: dict[str, list[Control]] = {"all pairs alike": [], "by popularity": []}
    for relation in harvest_rows.relations_of(lake.read("relation_seeds", "knowledge/seeds")):
        directions = {relation.id: Direction(symmetric=relation.symmetric)}
        rows = triples.filter(pl.col("relation_id") == relation.id).select("head", "tail").rows()
        told, held, found = (
            {canonical_fact(fact, directions) for fact in facts if fact[1] == relation.id}
            for facts in (stated, held_out, [(head, relation.id, tail) for head, tail in rows])
        )
        known = told | held
        pairs = {(h, t) for h, _, t in known} | ({(t, h) for h, _, t in known} if relation.symmetric else set())
        heads, tails = Counter(h for h, _ in pairs), Counter(t for _, t in pairs)
        untold = {canonical_fact((h, relation.id, t), directions) for h in heads for t in tails if h != t} - told
        popular = {fact: float(heads[fact[0]] * tails[fact[2]]) for fact in untold}
        controls["all pairs alike"].append(drawn(found, held, dict.fromkeys(untold, 1.0)))
        controls["by popularity"].append(drawn(found, held, popular))
    print("\nheld-out facts found, expected by chance, P(as many or more)")
    for name, members in controls.items():
        found, held, expected = (sum(getattr(one, part) for one in members) for part in ("found", "held", "expected"))
        print(f"  {name:16} {found} of {held}, expected {expected:.2f}, p = {above_chance(members):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lake", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--n", type=int, default=120)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--variants", action="store_true")
    asked = parser.parse_args()
    root = asked.lake.resolve()
    made = materialize(root, asked.variants, steps=asked.steps, n=asked.n, prompts=asked.prompts)
    from evidence_assets import profiles
    from evidence_assets.lake.store import Lake

    lake = Lake(root / "data_lake")
    if asked.variants:
        compare(lake, made)
        return
    scores = lake.read("scores", "scores/knowledge/kbloom")
    by_relation(scores, set(profiles.load("embedded").harvesting.sample_relations))
    choice(lake, scores)
    held_out(lake)
    chance(lake)


if __name__ == "__main__":
    main()
