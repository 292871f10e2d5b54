"""``evidence run``: all that the answers to one benchmark need, upstream included, and nothing else.

Belongs here: which assets and partitions that is. They are made by the runs of ``cli.demo``, which the Dagster UI shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.partitions import benchmark_partitions, question_partitions
from evidence_assets.benchmarks.declared import Benchmark, benchmarks
from evidence_assets.cli.demo import Wanted, concerns, partitions_of
from evidence_assets.experiment.system import crossings
from evidence_assets.experiment.variants import VARIABLE, Variant, opted_in, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import KINDS
from evidence_assets.text.nearest import nearest


def chosen_variants(benchmark: Benchmark, names: Sequence[str], model: str = "") -> list[Variant]:
    """The variants of these names in the benchmark's task family; all that are loaded where none is named.

    Variants of presets that are not opted in are opted in for this process.

    Raises BadInput where the family has no such variant.
    """
    own = [v for v in variants() if v.family == benchmark.family and not v.asked]
    loaded = {c.label: c for v in own if v.loaded for c in crossings(systems.load(v.system), v)}
    every = (c for v in own for c in crossings(systems.load(v.system), v, opted_in().union(v.presets)))
    known = {c.label: c for c in every} | loaded
    # The first model of its kind goes without saying.
    if model and model not in [profiles.load().names(kind)[0] for kind in KINDS]:
        names = [name if "@" in name else f"{name}@{model}" for name in names] or [
            name for name, v in known.items() if v.loaded and name.endswith(f"@{model}")
        ]
        if not names:
            raise BadInput(f"no variant reasons with a model {model!r}; variants are {', '.join(sorted(known))}")
    for name in names:
        if name not in known:
            raise BadInput(
                f"no variant {name!r} answers {benchmark.family} questions; did you mean {nearest(name, known)!r}? There are: "
                f"{', '.join(sorted(known))}"
            )
    chosen = [known[name] for name in names] or [v for v in loaded.values() if not (model and v.using)]
    # Only where a model is named does it take more than one preset to know which crosses the variant with it.
    presets = {p for v in chosen if v.label not in loaded for p in (v.presets if v.using else v.presets[:1])}
    opt_in(presets)
    return chosen


def opt_in(presets: Collection[str]) -> None:
    """Opt these presets in for this process."""
    if presets:
        os.environ[VARIABLE] = ",".join(sorted({*filter(None, os.environ.get(VARIABLE, "").split(",")), *presets}))


def benchmark_named(name: str) -> Benchmark:
    """The declared benchmark of this name, that the profile in use runs."""
    if name not in benchmarks():
        near = nearest(name, benchmarks())
        raise BadInput(
            f"there is no benchmark {name!r} in this profile; did you mean {near!r}? There are: "
            f"{', '.join(sorted(benchmarks()))}. `evidence add benchmark` adds one of your own"
        )
    return benchmarks()[name]


def needed(graph: Any, benchmark: Benchmark, chosen: Sequence[Variant]) -> Wanted:
    """The scores of these variants with all that they are made from, as far as it concerns the benchmark."""
    wanted = [dg.AssetKey(f"scores/{v.place}".split("/")) for v in chosen]
    wanted += [dg.AssetKey(f"counterfactuals/{v.place}".split("/")) for v in chosen if v.counterfactual]
    # These read what any benchmark of the family is answered from; what they read is for one, whatever it is made of.
    shared = (question_partitions(benchmark.family), benchmark_partitions(benchmark.family))

    def reads(key: dg.AssetKey, parent: dg.AssetKey) -> bool:
        return graph.get(key).partitions_def not in shared or concerns(parent, f"{benchmark.name}|0")

    return Wanted(_with_parents(graph, wanted, reads), benchmark.name)


def harvested(graph: Any, chosen: Sequence[Variant]) -> Wanted:
    """All scores of these harvests with all that they are made from."""
    scored = tuple(f"scores/{v.place}" for v in chosen)
    wanted = [
        key
        for key in graph.materializable_asset_keys
        if any("/".join(key.path) in (s, f"{s}_judged") or "/".join(key.path).startswith(f"{s}_on_") for s in scored)
    ]
    return Wanted(_with_parents(graph, wanted, lambda key, parent: True))


def _with_parents(
    graph: Any, left: list[dg.AssetKey], reads: Callable[[dg.AssetKey, dg.AssetKey], bool]
) -> frozenset[dg.AssetKey]:
    """These assets of the graph with all that they, and in turn those, read."""
    keys: set[dg.AssetKey] = set()
    while left:
        key = left.pop()
        if key not in keys and graph.has(key):
            keys.add(key)
            left += [parent for parent in graph.get(key).parent_keys if reads(key, parent)]
    return frozenset(keys)


@dataclass(frozen=True)
class Part:
    """An asset of a plan: how many partitions of it are wanted, and how many of them lie in the lake already."""

    asset: str
    partitions: int
    there: int


def parts(graph: Any, wanted: Wanted, lake: Lake, instance: dg.DagsterInstance) -> list[Part]:
    """What will be looked at, in the order in which it is made; what is there is only made again where it has changed."""
    planned, made = [], lake.assets()
    for level in graph.toposorted_asset_keys_by_level:
        for key in level:
            if not wanted.asset(key) or not graph.get(key).is_executable:
                continue
            name, names = "/".join(key.path), partitions_of(graph, key, instance, wanted)
            table = graph.get(key).metadata.get("table")
            if table is not None:
                there = sum(lake.has(str(table), name, partition or "") for partition in names)
            else:
                there = int(("indexes", name) in made or instance.get_latest_materialization_event(key) is not None)
            planned.append(Part(name, len(names), there))
    return planned
