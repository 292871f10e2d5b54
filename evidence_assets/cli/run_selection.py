"""Which assets and partitions ``evidence demo`` and ``evidence run`` materialize, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.automation import AssetPartition
from evidence_assets.assets.partitions import benchmark_partitions, corpus_partitions, question_partitions
from evidence_assets.assets.seeds import RELATIONS, SEED_FOLDER, read_seeds
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, Benchmark, all_benchmarks, benchmarks
from evidence_assets.experiment.evidence.sources import missing_source_reason, read_sources
from evidence_assets.experiment.methods import combine_models
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, enabled_presets
from evidence_assets.text.spelling import did_you_mean

SOURCE_KINDS = ("corpus", "knowledge", "raw")
"""First parts of the keys of a benchmark's sources."""
ANSWER_KINDS = ("chains", "predictions", "citations", "counterfactuals")
"""First parts of the keys of a variant's answers."""


@dataclass(frozen=True)
class RunSelection:
    """Assets to materialize (all if ``keys`` is None), in all partitions or only those that are needed.

    ``benchmarks``: The benchmarks of each asset; assets that are not named have all.
    ``collections``: The collections whose relations are harvested; all by default.
    """

    keys: frozenset[dg.AssetKey] | None = None
    benchmarks: Mapping[dg.AssetKey, frozenset[str]] = field(default_factory=dict)
    collections: frozenset[str] | None = None

    def has_asset(self, key: dg.AssetKey) -> bool:
        return self.keys is None or key in self.keys

    def has_partition(self, key: dg.AssetKey, name: str) -> bool:
        """Whether a partition of an asset is selected; partitions of other benchmarks are not."""
        owner = name.split("|")[0]
        return key not in self.benchmarks or owner in self.benchmarks[key] or owner not in benchmarks()


EVERYTHING = RunSelection()


def join_selections(selections: Iterable[RunSelection]) -> RunSelection:
    """One selection with the assets and partitions of all; each must name its assets."""
    keys: set[dg.AssetKey] = set()
    benchmarks_by_key: dict[dg.AssetKey, frozenset[str]] = {}
    collections: set[str] = set()
    for selection in selections:
        keys |= selection.keys or frozenset()
        collections |= selection.collections or frozenset()
        for key, names in selection.benchmarks.items():
            benchmarks_by_key[key] = benchmarks_by_key.get(key, frozenset()) | names
    return RunSelection(frozenset(keys), benchmarks_by_key, frozenset(collections))


def select_variants(benchmark: Benchmark, names: Sequence[str]) -> list[Variant]:
    """The variants with these names in the benchmark's task family; without names, all loaded ones with a source.

    Enables the presets of variants that are not loaded, for this process only.
    Raises BadInput if the family has no such variant.
    """
    family_variants = [v for v in variants() if v.family == benchmark.family and not v.only_ad_hoc]
    loaded_by_label = {
        c.variant.label: c.variant
        for v in family_variants
        if v.is_loaded
        for c in combine_models(systems.open_method(v))
    }
    combinations = (
        method.variant
        for v in family_variants
        for method in combine_models(systems.open_method(v), enabled_presets().union(v.printed.presets))
    )
    by_label = {c.label: c for c in combinations} | loaded_by_label
    for name in names:
        if name not in by_label:
            raise BadInput(
                f"no variant {name!r} answers {benchmark.family} questions{did_you_mean(name, by_label)} "
                f"`evidence variants {benchmark.family}` lists them"
            )
    selected = [by_label[name] for name in names] or [
        v for v in loaded_by_label.values() if not missing_source_reason(systems.open_method(v).sources, benchmark)
    ]
    enable_presets(required_presets(v for v in selected if v.label not in loaded_by_label))
    return selected


def required_presets(variants: Iterable[Variant]) -> set[str]:
    """Presets that load these variants.

    A variant with a named model may get it from any of its presets; others need one preset only.
    """
    return {p for v in variants for p in (v.printed.presets if v.active_models else v.printed.presets[:1])}


def enable_presets(presets: Collection[str]) -> None:
    """Enable these presets for this process."""
    if presets:
        os.environ[PRESETS_VARIABLE] = ",".join(
            sorted({*filter(None, os.environ.get(PRESETS_VARIABLE, "").split(",")), *presets})
        )


def find_benchmark(name: str) -> Benchmark:
    """The declared benchmark with this name, if the current profile runs it."""
    if name not in benchmarks():
        if name in all_benchmarks():
            raise _other_profile_error(all_benchmarks()[name])
        raw = find_lake() / "raw"
        with_files = sorted(n for n, b in benchmarks().items() if all((raw / file).exists() for file in b.files))
        names = with_files or sorted(benchmarks())
        raise BadInput(
            f"there is no benchmark {name!r} in this profile{did_you_mean(name, names)} `evidence add benchmark` adds "
            "one of your own"
        )
    return benchmarks()[name]


def _other_profile_error(benchmark: Benchmark) -> BadInput:
    """The error for a benchmark that is declared, but not for the active profile."""
    names = " or ".join(benchmark.profiles)
    message = f"benchmark {benchmark.name!r} is declared for the profile {names}, not for {profiles.load().name}"
    remedy = f"set EVIDENCE_PROFILE={benchmark.profiles[0]}"
    if benchmark.reader != "own":
        added = f"`evidence add benchmark NAME --reader {benchmark.reader} --questions FOLDER`"
        remedy += f", or add its files under another name with {added}"
    return BadInput(f"{message}: {remedy}")


def select_assets(
    graph: Any, benchmark: Benchmark, selected: Sequence[Variant], *, has_answers: bool = True
) -> RunSelection:
    """The scores of these variants and all their upstream assets that the benchmark needs.

    ``has_answers``: Otherwise only evidence is scored, and no question is answered.
    """
    targets = [f"scores/{v.key}" for v in selected]
    if has_answers:
        targets += [f"counterfactuals/{v.key}" for v in selected if v.counterfactual]
        return select_upstream(graph, benchmark, targets)
    return select_evidence_scores(graph, benchmark, targets)


def select_evidence_scores(graph: Any, benchmark: Benchmark, scores: Sequence[str]) -> RunSelection:
    """These scores and their upstream assets that the benchmark needs, without those of answers."""
    score_keys = (dg.AssetKey(name.split("/")) for name in scores)
    keys = frozenset(key for key in score_keys if graph.has(key))
    parents = {parent for key in keys for parent in graph.get(key).parent_keys}
    inputs = ["/".join(parent.path) for parent in parents if parent.path[0] not in ANSWER_KINDS]
    scores_alone = RunSelection(keys, dict.fromkeys(keys, frozenset({benchmark.name})), frozenset())
    return join_selections([select_upstream(graph, benchmark, inputs), scores_alone])


def select_upstream(graph: Any, benchmark: Benchmark, targets: Sequence[str]) -> RunSelection:
    """These assets and all their upstream assets that the benchmark needs."""
    # Assets with these partitions depend on the sources of every benchmark in the family; keep those that they read.
    shared = (question_partitions(benchmark.family), benchmark_partitions(benchmark.family))

    def needs_parent(key: dg.AssetKey, parent: dg.AssetKey) -> bool:
        is_shared = graph.get(key).partitions_def in shared
        return not is_shared or not _is_other_source(parent, _read_sources(key, benchmark))

    keys = _walk_upstream(graph, targets, needs_parent)
    names = frozenset({benchmark.name})
    return RunSelection(keys, dict.fromkeys(keys, names), _find_collections(graph, keys))


def select_graph(graph: Any, name: str) -> RunSelection:
    """All assets of a declared graph and everything upstream, for the relations of the collections that it joins."""
    targets = [key.to_user_string() for key in graph.get_all_asset_keys() if key.path[:2] == ["knowledge", name]]
    if not targets:
        raise BadInput(f"the graph {name} is declared for other profiles than {profiles.load().name}")
    keys = _walk_upstream(graph, targets, lambda key, parent: True)
    return RunSelection(keys, collections=_find_collections(graph, keys))


def select_harvest_scores(graph: Any, targets: Sequence[str], collections: Collection[str]) -> RunSelection:
    """These scores of harvests and all their upstream assets, for the relations of these collections.

    ``raw/seeds`` is upstream of some only, but adds the partitions of all relations.
    """
    keys = _walk_upstream(graph, [*targets, "/".join(SEED_FOLDER.path)], lambda key, parent: True)
    return RunSelection(keys, collections=frozenset(collections))


def _walk_upstream(
    graph: Any, targets: Sequence[str], needs_parent: Callable[[dg.AssetKey, dg.AssetKey], bool]
) -> frozenset[dg.AssetKey]:
    """These assets of the graph and all upstream assets that they need."""
    queue = [dg.AssetKey(target.split("/")) for target in targets]
    keys: set[dg.AssetKey] = set()
    while queue:
        key = queue.pop()
        if key not in keys and graph.has(key):
            keys.add(key)
            queue += [parent for parent in graph.get(key).parent_keys if needs_parent(key, parent)]
    return frozenset(keys)


def _read_sources(key: dg.AssetKey, benchmark: Benchmark) -> frozenset[str]:
    """The benchmark's sources that an asset reads: those of its variant's method, or all if it has no variant."""
    if key.path[0] == "subgraphs":
        return read_sources(["subgraphs"], benchmark)
    variant_key = "/".join(key.path[1:3])
    variant = next((v for v in variants() if v.key == variant_key and v.family in FAMILIES), None)
    if variant is None:
        return frozenset(_source_keys(benchmark))
    return read_sources(systems.open_method(variant).sources, benchmark)


def _find_collections(graph: Any, keys: Collection[dg.AssetKey]) -> frozenset[str]:
    """Collections of harvested relations among these assets: ``knowledge/<harvest>/<collection>``."""
    return frozenset(
        key.path[2]
        for key in keys
        if len(key.path) == 3 and dg.AssetKey([*key.path[:2], "harvest"]) in graph.get(key).parent_keys
    )


def batches(graph: Any, selection: RunSelection) -> Iterator[list[dg.AssetKey]]:
    """Batches of selected assets in topological order; the assets of a batch have equal partitions.

    Assets with dynamic partitions (one per seed file) come last, because the partitions are created during the run.
    """

    def priority(group: list[dg.AssetKey]) -> tuple[bool, int]:
        is_static = bool(group) and not isinstance(graph.get(group[0]).partitions_def, dg.DynamicPartitionsDefinition)
        return is_static, len(group)

    ordered = (key for level in graph.toposorted_asset_keys_by_level for key in level)
    pending = [key for key in ordered if graph.get(key).is_executable and selection.has_asset(key)]
    while pending:
        groups: dict[Any, list[dg.AssetKey]] = {}
        for key in pending:
            node = graph.get(key)
            pending_parents = {parent for parent in node.parent_keys if parent in pending}
            group = groups.setdefault(node.partitions_def, [])
            if pending_parents <= set(group):
                group.append(key)
        batch = max(groups.values(), key=priority)
        yield batch
        pending = [key for key in pending if key not in batch]


def split_independent(graph: Any, batch: Sequence[dg.AssetKey]) -> list[list[dg.AssetKey]]:
    """The parts of a batch that can run in parallel.

    Assets that run no model stay together, because a run costs a third of a second. The chunks of a corpus are alone:
    most other assets need them, and few the vectors.
    """
    if graph.get(batch[0]).partitions_def == corpus_partitions():
        return [[key] for key in batch]
    parts: list[list[dg.AssetKey]] = []
    for key in batch:
        neighbours = graph.get(key).parent_keys | graph.get(key).child_keys
        joined = [part for part in parts if not neighbours.isdisjoint(part)]
        parts = [*(part for part in parts if part not in joined), [*chain.from_iterable(joined), key]]
    with_models = [part for part in parts if any(graph.get(key).pools for key in part)]
    fast_assets = [key for part in parts if part not in with_models for key in part]
    return [*with_models, fast_assets] if fast_assets else with_models


def list_partitions(
    graph: Any, key: dg.AssetKey, instance: dg.DagsterInstance, selection: RunSelection
) -> list[str | None]:
    """The selected partitions that an asset has now; [None] for an unpartitioned asset."""
    definition = graph.get(key).partitions_def
    if definition is None:
        return [None]
    names = definition.get_partition_keys(dynamic_partitions_store=instance)
    if definition == RELATIONS and selection.collections is not None:
        collections = _read_collections(find_lake(), tuple(names))
        # Faulty files have no collection; they are selected, so that their errors are reported.
        return [name for name in names if collections.get(name) in (None, *selection.collections)]
    return [name for name in names if selection.has_partition(key, name)]


@lru_cache(maxsize=1)
def _read_collections(lake: Path, relations: tuple[str, ...]) -> dict[str, str]:
    """Collection of each relation by the name of its seed file; read again when ``relations`` change."""
    return {name: relation.collection for name, relation in read_seeds(Lake(lake)).relations.items()}


def is_missing_input(graph: Any, asset: AssetPartition, missing_assets: set[AssetPartition]) -> bool:
    """Whether an upstream asset that this partition needs is missing.

    An unpartitioned asset over several benchmarks or relations runs unless all are missing; one over a corpus needs
    every shard.
    """
    for key in graph.get(asset.key).parent_keys:
        node = graph.get(key)
        names = [None]
        if not node.is_executable or not is_relevant(key, asset.partition):
            continue
        if node.is_partitioned:
            mapped = graph.get_parent_partition_keys_for_child(asset.partition, key, asset.key)
            names = mapped.partitions_subset.get_partition_keys()
        gaps = [AssetPartition(key, name) in missing_assets for name in names]
        tolerates_gaps = asset.partition is None and node.partitions_def != corpus_partitions()
        if gaps and (all if tolerates_gaps else any)(gaps):
            return True
    return False


def is_relevant(key: dg.AssetKey, partition: str | None) -> bool:
    """Whether an asset can be upstream of a benchmark's partition: sources of other benchmarks are not."""
    benchmark = benchmarks().get((partition or "").split("|")[0])
    return benchmark is None or not _is_other_source(key, _source_keys(benchmark))


def _is_other_source(key: dg.AssetKey, sources: Collection[str]) -> bool:
    """Whether an asset belongs to a source of some benchmark that is not among ``sources``."""
    names = {"/".join(key.path[:2]), "/".join(key.path)}
    if key.path[0] not in SOURCE_KINDS or not names.isdisjoint(sources):
        return False
    return any(not names.isdisjoint(_source_keys(b)) for b in benchmarks().values())


def _source_keys(benchmark: Benchmark) -> set[str]:
    graphs = {benchmark.graph, benchmark.background_graph, benchmark.taxonomy} - {""}
    return {benchmark.raw_asset, f"corpus/{benchmark.corpus}", *(f"knowledge/{name}" for name in graphs)}
