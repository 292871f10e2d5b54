"""What a preset asks for, before anything runs: counted where it is known, timed where it was measured here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, declared
from evidence_assets.experiment.scores.published_figures import RECORDED, Key, figures_of
from evidence_assets.experiment.system import OwnStages, crossings
from evidence_assets.experiment.variants import Variant, known, presets, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import MODEL_KINDS
from evidence_assets.reproduction.cells import CellSource, MeasuredScore
from evidence_assets.text.spelling import nearest

SECONDS_PER_QUESTION = "seconds_per_question"
SECONDS_PER_RELATION = "seconds"
"""Metadata of every step; of a harvest, whose partitions are relations, it is the time of one."""
MATERIALIZATIONS_READ = 10
"""Last materializations among which one is looked for that computed anything."""


@dataclass(frozen=True)
class PlanRow:
    """One variant on one benchmark, or on all relations; None is what is not known here."""

    variant: str
    benchmark: str
    questions: int | None
    calls: int | None
    seconds: float | None


def plan(name: str, lake: Lake | None, instance: dg.DagsterInstance, model: str = "") -> list[PlanRow]:
    """Every variant of the preset ``name`` with every model that it is crossed with, or with one, on each benchmark.

    Raises BadInput where there is no such preset, or no such model.
    """
    known([name], "preset")
    profile = profiles.load()
    kinds = [kind for kind in MODEL_KINDS if model in profile.model_names(kind)]
    if model and not kinds:
        names = [known_name for kind in MODEL_KINDS for known_name in profile.model_names(kind)]
        raise BadInput(f"profile {profile.name} has no model {model!r}; did you mean {nearest(model, names)!r}?")
    chosen = [
        crossed
        for variant in variants()
        if name in variant.presets
        for crossed in crossings(systems.load(variant.system), variant, frozenset([name]))
        if not model or any(crossed.profile.model_names(kind)[0] == model for kind in kinds)
    ]
    return plan_variants(chosen, presets()[name].benchmarks, lake, instance, presets()[name].relations)


def plan_variants(
    chosen: Sequence[Variant], on: Sequence[str], lake: Lake | None, instance: dg.DagsterInstance, relations: int = 0
) -> list[PlanRow]:
    """These variants on those of these benchmarks that they can answer; harvests on the lake's ``relations``."""
    planned = []
    for variant in chosen:
        if variant.family == "knowledge":
            seeds = lake.read("relation_seeds", columns=["relation_id"])["relation_id"].n_unique() if lake else 0
            each = measured_seconds(instance, [f"{variant.place}/harvest"], metadata=SECONDS_PER_RELATION)
            n = seeds or relations
            planned.append(PlanRow(f"knowledge/{variant.label}", "all relations", n, 0, each and each * n))
            continue
        if isinstance(systems.load(variant.system).method_of(variant), OwnStages) and variant.method != RECORDED:
            continue  # prepares what others answer from
        each = measured_seconds(instance, steps_of(variant))
        for benchmark in (declared()[name] for name in on):
            if benchmark.family == variant.family:
                questions, options = benchmark_size(benchmark, lake)
                calls = _calls(variant, questions, options) if questions else None
                seconds = each * questions if each and questions else None
                planned.append(PlanRow(variant.label, benchmark.name, questions or None, calls, seconds))
    return planned


def benchmark_size(benchmark: Benchmark, lake: Lake | None) -> tuple[int, int]:
    """Questions of a benchmark and options of all of them together: the lake's, else as declared; 0 where unknown."""
    if lake is not None:
        rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
        options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
        if len(options):
            return len(options), int(options.sum())
    return benchmark.expected.questions, benchmark.expected.questions * benchmark.expected.options


def steps_of(variant: Variant) -> list[str]:
    """Assets that a question goes through on its way to an answer of the variant."""
    method = systems.load(variant.system).method_of(variant)
    evidence = variant.at(f"evidence/{variant.family}/{variant.selector}", method.models(method.settings_of(variant)))
    return [evidence, *([f"chains/{variant.place}"] if _explains(variant) else []), f"predictions/{variant.place}"]


def _explains(variant: Variant) -> bool:
    return variant.explain and variant.family in ("mcqa", "table")


def _calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model, where their number does not depend on what comes back."""
    if variant.profile.generator.backend == "extractive" or variant.method == RECORDED:
        return 0
    if variant.family in ("mcqa", "table"):
        return questions + (options if _explains(variant) else 0)
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0


def measured_times(
    instance: dg.DagsterInstance, able: Sequence[CellSource], lake: Lake
) -> dict[Key, list[MeasuredScore]]:
    """What is compared with printed times: the last seconds a question of the steps, times the lake's questions."""
    compared: dict[Key, list[MeasuredScore]] = defaultdict(list)
    for candidate in able:
        variant, name = candidate.variant, candidate.benchmark
        partitions = [f"{name}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed in variant.timed:
            steps = [step for step in steps_of(variant) if step.partition("/")[0] in timed.steps]
            each = measured_seconds(instance, steps, partitions)
            if each is None:
                continue
            questions, _ = benchmark_size(declared()[name], lake)
            spans = {"hours": each * questions / 3600, "minutes": each * questions / 60}
            for figure in figures_of(name, timed, candidate.model_id):
                model = candidate.model_id if figure.model or "predictions" in timed.steps else ""
                label, value = variant.label if model else variant.name, spans.get(figure.metric, each / 60)
                ours = MeasuredScore(label, name, model, value, None, None, questions, differs=timed.differs)
                if ours not in compared[figure.key]:
                    compared[figure.key].append(ours)
    return compared


def pace(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata of a step that made rows of questions: seconds per question that was not reused.

    How fast questions are answered is a fact of runs, so it is in no row.
    """
    if "question_id" not in rows.column_names or rows.num_rows == reused or not seconds:
        return {}
    return {SECONDS_PER_QUESTION: seconds / (len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows))}


def measured_seconds(
    instance: dg.DagsterInstance,
    assets: Sequence[str],
    partitions: Sequence[str] | None = None,
    metadata: str = SECONDS_PER_QUESTION,
) -> float | None:
    """Seconds a question through all of these steps together, each as last computed; None where one never was."""
    total = 0.0
    for asset in assets:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")), asset_partitions=partitions)
        records = instance.fetch_materializations(wanted, limit=MATERIALIZATIONS_READ).records
        events = [record.asset_materialization for record in records if record.asset_materialization]
        measured = [event.metadata[metadata].value for event in events if metadata in event.metadata]
        if not measured:
            return None
        total += float(str(measured[0]))
    return total
