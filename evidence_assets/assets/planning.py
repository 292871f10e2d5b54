"""The cost of a preset before it runs: questions, model calls, and time as in earlier runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.experiment.scores.published_figures import RECORDED_ANSWERS, Key, figures_of
from evidence_assets.experiment.system import CustomStages, model_combinations
from evidence_assets.experiment.variants import Variant, check_preset_names, presets, variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import MODEL_KINDS
from evidence_assets.reproduction.cells import CellSource, MeasuredScore
from evidence_assets.text.spelling import closest_name

SECONDS_PER_QUESTION = "seconds_per_question"
SECONDS_PER_RELATION = "seconds"
"""Metadata of every materialization; for a harvest, which has one partition per relation, seconds per relation."""
MATERIALIZATIONS_READ = 10
"""Latest materializations to search for one that computed rows."""


@dataclass(frozen=True)
class PlanRow:
    """The cost of one variant on one benchmark, or on all relations; None if unknown."""

    variant: str
    benchmark: str
    questions: int | None
    calls: int | None
    seconds: float | None


def plan(name: str, lake: Lake | None, instance: dg.DagsterInstance, model: str = "") -> list[PlanRow]:
    """The cost of each variant of a preset on each benchmark, for all its models or for ``model``.

    Raises BadInput if the preset or the model does not exist.
    """
    check_preset_names([name], "preset")
    profile, preset = profiles.load(), presets()[name]
    kinds = [kind for kind in MODEL_KINDS if model in profile.model_names(kind)]
    if model and not kinds:
        suggestion = closest_name(model, [n for kind in MODEL_KINDS for n in profile.model_names(kind)])
        raise BadInput(f"profile {profile.name} has no model {model!r}; did you mean {suggestion!r}?")
    selected = [
        combination
        for variant in variants()
        if name in variant.presets
        for combination in model_combinations(systems.load(variant.system), variant, frozenset([name]))
        if not model or any(combination.profile.model_names(kind)[0] == model for kind in kinds)
    ]
    return plan_variants(selected, preset.benchmarks, lake, instance, preset.relations)


def plan_variants(
    selected: Sequence[Variant],
    benchmarks: Sequence[str],
    lake: Lake | None,
    instance: dg.DagsterInstance,
    relations: int = 0,
) -> list[PlanRow]:
    """The cost of each variant on each benchmark; a lake without seeds counts as ``relations`` relations."""
    rows = []
    for variant in selected:
        if variant.family == "knowledge":
            seeds = lake.read("relation_seeds", columns=["relation_id"])["relation_id"].n_unique() if lake else 0
            pace = measured_seconds(instance, [f"{variant.key}/harvest"], metadata=SECONDS_PER_RELATION)
            n_relations, label = seeds or relations, f"knowledge/{variant.label}"
            rows.append(PlanRow(label, "all relations", n_relations, 0, pace and pace * n_relations))
            continue
        method = systems.load(variant.system).method_of(variant)
        if isinstance(method, CustomStages) and variant.method != RECORDED_ANSWERS:
            continue  # builds sources for other variants and answers no questions
        pace = measured_seconds(instance, list_steps(variant))
        for benchmark in (all_benchmarks()[name] for name in benchmarks):
            if benchmark.family == variant.family:
                questions, options = benchmark_size(benchmark, lake)
                calls = _model_calls(variant, questions, options) if questions else None
                seconds = pace * questions if pace and questions else None
                rows.append(PlanRow(variant.label, benchmark.name, questions or None, calls, seconds))
    return rows


def benchmark_size(benchmark: Benchmark, lake: Lake | None) -> tuple[int, int]:
    """Numbers of questions and of all their options, from the lake, as declared or from the files; 0 if unknown."""
    if lake is not None:
        rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
        options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
        if len(options):
            return len(options), int(options.sum())
        if not benchmark.expected.questions and all(lake.raw_path(file).exists() for file in benchmark.files):
            questions = (q for q in read_benchmark_questions(lake, benchmark) if q.split == benchmark.split)
            counts = [len(question.options) for question in questions]
            return len(counts), sum(counts)
    return benchmark.expected.questions, benchmark.expected.questions * benchmark.expected.options


def list_steps(variant: Variant) -> list[str]:
    """The assets that compute a variant's answers."""
    method = systems.load(variant.system).method_of(variant)
    kinds = method.resolve_model_kinds(method.settings_of(variant))
    evidence = variant.with_models(f"evidence/{variant.family}/{variant.selector}", kinds)
    return [evidence, *([f"chains/{variant.key}"] if _has_explanations(variant) else []), f"predictions/{variant.key}"]


def _has_explanations(variant: Variant) -> bool:
    return variant.explain and variant.family in ("mcqa", "table")


def _model_calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model; None if their number depends on its replies."""
    if variant.profile.generator.backend == "extractive" or variant.method == RECORDED_ANSWERS:
        return 0
    if variant.family in ("mcqa", "table"):
        return questions + (options if _has_explanations(variant) else 0)
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0


def measured_times(
    instance: dg.DagsterInstance, sources: Sequence[CellSource], lake: Lake
) -> dict[Key, list[MeasuredScore]]:
    """Our times for published ones: latest seconds per question of the steps × the lake's questions."""
    times: dict[Key, list[MeasuredScore]] = defaultdict(list)
    for source in sources:
        variant, name = source.variant, source.benchmark
        partitions = [f"{name}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed in variant.timed:
            steps = [step for step in list_steps(variant) if step.partition("/")[0] in timed.steps]
            pace = measured_seconds(instance, steps, partitions)
            if pace is None:
                continue
            questions, _ = benchmark_size(all_benchmarks()[name], lake)
            seconds = pace * questions
            values = {"hours": seconds / 3600, "minutes": seconds / 60, "minutes_per_question": pace / 60}
            for figure in figures_of(name, timed, source.model_id):
                model = source.model_id if figure.model or "predictions" in timed.steps else ""
                label, value = variant.label if model else variant.name, values[figure.metric]
                time = MeasuredScore(label, name, model, value, None, None, questions, differs=timed.differs)
                if time not in times[figure.key]:
                    times[figure.key].append(time)
    return times


def pace_metadata(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata: seconds per computed question. Rows do not store it, so that they are reproducible."""
    if "question_id" not in rows.column_names or rows.num_rows == reused or not seconds:
        return {}
    return {SECONDS_PER_QUESTION: seconds / (len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows))}


def measured_seconds(
    instance: dg.DagsterInstance,
    assets: Sequence[str],
    partitions: Sequence[str] | None = None,
    metadata: str = SECONDS_PER_QUESTION,
) -> float | None:
    """Latest seconds per question, summed over these steps; None if any step was never measured."""
    total = 0.0
    for asset in assets:
        records_filter = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")), asset_partitions=partitions)
        records = instance.fetch_materializations(records_filter, limit=MATERIALIZATIONS_READ).records
        events = [record.asset_materialization for record in records if record.asset_materialization]
        values = [event.metadata[metadata].value for event in events if metadata in event.metadata]
        if not values:
            return None
        total += float(str(values[0]))
    return total
