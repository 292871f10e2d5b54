"""Which assets and partitions ``evidence demo`` and ``evidence run`` make, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import dagster as dg

from evidence_assets import systems
from evidence_assets.assets.automation import AssetPartition
from evidence_assets.assets.partitions import benchmark_partitions, corpus_partitions, question_partitions
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, benchmarks
from evidence_assets.experiment.system import crossings
from evidence_assets.experiment.variants import VARIABLE, Variant, opted_in, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.spelling import nearest


@dataclass(frozen=True)
class Wanted:
    """What is made: everything, or these assets, and of their partitions by benchmark those of one alone."""

    keys: frozenset[dg.AssetKey] | None = None
    benchmark: str = ""

    def asset(self, key: dg.AssetKey) -> bool:
        return self.keys is None or key in self.keys

    def partition(self, name: str) -> bool:
        """Whether a partition is made: of another benchmark than the one that is wanted it is not."""
        owner = name.split("|")[0]
        return not self.benchmark or owner == self.benchmark or owner not in benchmarks()


EVERYTHING = Wanted()


def chosen_variants(benchmark: Benchmark, names: Sequence[str]) -> list[Variant]:
    """The variants of these names in the benchmark's task family; all that are loaded where none is named.

    Variants of presets that are not opted in are opted in for this process.

    Raises BadInput where the family has no such variant.
    """
    own = [v for v in variants() if v.family == benchmark.family and not v.asked]
    loaded = {c.label: c for v in own if v.loaded for c in crossings(systems.load(v.system), v)}
    every = (c for v in own for c in crossings(systems.load(v.system), v, opted_in().union(v.presets)))
    known = {c.label: c for c in every} | loaded
    for name in names:
        if name not in known:
            raise BadInput(
                f"no variant {name!r} answers {benchmark.family} questions; did you mean "
                f"{nearest(name, known)!r}? There are: "
                f"{', '.join(sorted(known))}"
            )
    chosen = [known[name] for name in names] or list(loaded.values())
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


def batches(graph: Any, wanted: Wanted) -> Iterator[list[dg.AssetKey]]:
    """Wanted assets in an order in which they can be made: as many with equal partitions at once as need no other
    first.

    Those whose partitions are found out on the way (one per seed file) come after all that do not need them.
    """

    def worth(group: list[dg.AssetKey]) -> tuple[bool, int]:
        known = bool(group) and not isinstance(graph.get(group[0]).partitions_def, dg.DynamicPartitionsDefinition)
        return known, len(group)

    ordered = (key for level in graph.toposorted_asset_keys_by_level for key in level)
    left = [key for key in ordered if graph.get(key).is_executable and wanted.asset(key)]
    while left:
        groups: dict[Any, list[dg.AssetKey]] = {}
        for key in left:
            node = graph.get(key)
            waiting = {parent for parent in node.parent_keys if parent in left}
            group = groups.setdefault(node.partitions_def, [])
            if waiting <= set(group):
                group.append(key)
        batch = max(groups.values(), key=worth)
        if not batch:
            raise dg.DagsterInvariantViolationError(f"assets wait for one another: {left}")
        yield batch
        left = [key for key in left if key not in batch]


def independent(graph: Any, batch: Sequence[dg.AssetKey]) -> list[list[dg.AssetKey]]:
    """The parts of a batch that read nothing of one another, so that several can work on it."""
    parts: list[list[dg.AssetKey]] = []
    for key in batch:
        near = graph.get(key).parent_keys | graph.get(key).child_keys | {key}
        joined = [part for part in parts if near.intersection(part)]
        parts = [part for part in parts if part not in joined] + [[*chain.from_iterable(joined), key]]
    return parts


def partitions_of(graph: Any, key: dg.AssetKey, instance: dg.DagsterInstance, wanted: Wanted) -> list[str | None]:
    """The wanted partitions of an asset, as they are known now; None stands for the whole of one without any."""
    definition = graph.get(key).partitions_def
    if definition is None:
        return [None]
    return [name for name in definition.get_partition_keys(dynamic_partitions_store=instance) if wanted.partition(name)]


def lacks_input(graph: Any, part: AssetPartition, unmade: set[AssetPartition]) -> bool:
    """Whether something that a part is made from was not made.

    What unites benchmarks or relations goes on without one of them; a corpus, or a benchmark, lacks each of its shards.
    """
    for key in graph.get(part.key).parent_keys:
        if not graph.get(key).is_executable or not concerns(key, part.partition):
            continue
        if not graph.get(key).is_partitioned:
            if AssetPartition(key, None) in unmade:
                return True
            continue
        mapped = graph.get_parent_partition_keys_for_child(part.partition, key, part.key)
        lacking = [AssetPartition(key, name) in unmade for name in mapped.partitions_subset.get_partition_keys()]
        unites = part.partition is None and graph.get(key).partitions_def != corpus_partitions()
        if lacking and (all if unites else any)(lacking):
            return True
    return False


def concerns(key: dg.AssetKey, partition: str | None) -> bool:
    """Whether a benchmark is read or answered from an asset; what is no other benchmark's concerns all."""
    own = benchmarks().get((partition or "").split("|")[0])
    if own is None:
        return True
    name = "/".join(key.path)
    places = {place for one in benchmarks().values() for place in _places(one)} - _places(own)
    return not any(name == place or name.startswith(f"{place}/") for place in places)


def _places(benchmark: Benchmark) -> set[str]:
    graphs = {benchmark.graph, benchmark.background_graph, benchmark.taxonomy} - {""}
    return {benchmark.raw, f"corpus/{benchmark.corpus}", *(f"knowledge/{name}" for name in graphs)}
