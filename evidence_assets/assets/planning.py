"""The cost of a run before it starts: questions, model calls, and time as in earlier runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.model_calls import USAGE_COUNTS
from evidence_assets.reproduction.cells import CellSource, MeasuredScore
from evidence_assets.reproduction.published_figures import RECORDED_ANSWERS, Figure, Key, PublishedTiming, figures_of

SECONDS_PER_QUESTION = "seconds_per_question"
"""Metadata of materializations that computed rows of questions."""
MATERIALIZATIONS_READ = 10
"""Latest materializations to search for one that computed rows."""
PlanRow = tuple[str, int | None, int | None, float | None]
"""The cost of one variant on a benchmark: its label, questions, model calls and seconds; None if unknown."""


@dataclass(frozen=True)
class PlannedWork:
    """The cost of one variant on a benchmark or of a harvest; None if it was not measured or is not known.

    ``items``: Questions, or relations of a harvest.
    ``tokens_in``, ``tokens_out``: Tokens of all requests and replies, at the mean of the latest runs.
    """

    benchmark: str
    variant: str
    items: int | None
    requests: int | None
    tokens_in: int | None
    tokens_out: int | None
    seconds: float | None


def plan_work(variant: Variant, benchmark: Benchmark, lake: Lake | None, instance: dg.DagsterInstance) -> PlannedWork:
    """The cost of a variant on a benchmark; without its files, from the official number of questions."""
    questions, options = benchmark_size(benchmark, lake) if lake else (0, 0)
    if not questions:
        questions = benchmark.official_size or 0
        options = questions * count_options(benchmark)
    steps = list_steps(variant)
    pace = measured_seconds(instance, steps)
    requests = _model_calls(variant, questions, options) if questions else None
    means = measured_tokens(instance, steps) if requests else None
    tokens_in, tokens_out = (round(requests * mean) for mean in means) if requests and means else (None, None)
    seconds = pace * questions if pace and questions else None
    return PlannedWork(benchmark.name, variant.label, questions or None, requests, tokens_in, tokens_out, seconds)


def count_options(benchmark: Benchmark) -> int:
    """Options of each question, if its declared format says so; 0 if they differ or are not known."""
    if benchmark.task == "verification":
        return len(CLAIM_LABELS)
    dataset = load_datasets().get(benchmark.reader)
    fields = dataset.fields if dataset else None
    if fields is None:
        return 0
    if isinstance(fields.options, tuple):
        return len(fields.options)
    return 0 if fields.options else len(fields.labels)


def plan_variants(
    selected: Sequence[Variant], benchmark: Benchmark, lake: Lake, instance: dg.DagsterInstance
) -> list[PlanRow]:
    """The cost of each variant on a benchmark."""
    questions, options = benchmark_size(benchmark, lake)
    rows = []
    for variant in selected:
        pace = measured_seconds(instance, list_steps(variant))
        calls = _model_calls(variant, questions, options) if questions else None
        rows.append((variant.label, questions or None, calls, pace * questions if pace and questions else None))
    return rows


def benchmark_size(benchmark: Benchmark, lake: Lake) -> tuple[int, int]:
    """Numbers of questions and of all their options, from the lake or the files; 0 if both are missing."""
    rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
    options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
    if len(options):
        return len(options), int(options.sum())
    if not all(lake.raw_path(file).exists() for file in benchmark.files):
        return 0, 0
    questions = (q for q in read_benchmark_questions(lake, benchmark) if q.split == benchmark.split)
    counts = [len(question.options) for question in questions]
    return len(counts), sum(counts)


def list_steps(variant: Variant) -> list[str]:
    """The assets that compute a variant's answers."""
    method = systems.open_method(variant)
    evidence = variant.with_models(f"evidence/{variant.family}/{variant.selector}", method.model_kinds)
    has_chains = isinstance(method, SelectionMethod) and Answering(method).writes_chains
    chains = [f"chains/{variant.key}"] if has_chains else []
    return [evidence, *chains, f"predictions/{variant.key}"]


def _model_calls(variant: Variant, questions: int, options: int) -> int | None:
    """Requests to the profile's language model; None if their number depends on its replies."""
    if variant.profile.generator.backend == "extractive" or variant.method == RECORDED_ANSWERS:
        return 0
    method = systems.open_method(variant)
    if isinstance(method, SelectionMethod) and Answering(method).has_options:
        answering = Answering(method)
        is_explained = answering.explains_options
        explanations = options if is_explained else 0
        return None if is_explained and not options else questions * answering.requests_per_choice + explanations
    if variant.family == "graph":
        return None if variant.parameters.get("recall") else questions
    return None if variant.parameters.get("triplets") or variant.parameters.get("rerank") else 0


def measured_times(
    instance: dg.DagsterInstance, sources: Sequence[CellSource], lake: Lake
) -> dict[Key, list[MeasuredScore]]:
    """Our times for published ones: latest seconds per question of the steps × the lake's questions."""
    times: dict[Key, list[MeasuredScore]] = defaultdict(list)
    for source in sources:
        partitions = [f"{source.benchmark}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed in source.variant.printed.times:
            steps = [step for step in list_steps(source.variant) if step.partition("/")[0] in timed.steps]
            pace = measured_seconds(instance, steps, partitions)
            if pace is None:
                continue
            questions, _ = benchmark_size(all_benchmarks()[source.benchmark], lake)
            for figure in figures_of(source.benchmark, timed, source.model_id):
                time = _as_published(source, figure, timed, pace, questions)
                if time not in times[figure.key]:
                    times[figure.key].append(time)
    return times


def _as_published(
    source: CellSource, figure: Figure, timed: PublishedTiming, pace: float, questions: int
) -> MeasuredScore:
    """Our time in the unit of a published one; ``pace``: seconds per question."""
    seconds = pace * questions
    values = {"hours": seconds / 3600, "minutes": seconds / 60, "minutes_per_question": pace / 60}
    model = source.model_id if figure.model or "predictions" in timed.steps else ""
    label = source.variant.label if model else source.variant.name
    value = values[figure.metric]
    return MeasuredScore(
        label, source.benchmark, model, value, None, None, questions, difference_note=timed.difference_note
    )


def pace_metadata(rows: pa.Table, reused: int, seconds: float) -> dict[str, float]:
    """Metadata: seconds per computed question. Rows do not store it, so that they are reproducible."""
    if "question_id" not in rows.column_names or rows.num_rows == reused or not seconds:
        return {}
    return {SECONDS_PER_QUESTION: seconds / (len(rows.column("question_id").unique()) * (1 - reused / rows.num_rows))}


def measured_seconds(
    instance: dg.DagsterInstance, assets: Sequence[str], partitions: Sequence[str] | None = None
) -> float | None:
    """Latest seconds per question, summed over these steps; None if any step was never measured."""
    total = 0.0
    for asset in assets:
        records_filter = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")), asset_partitions=partitions)
        records = instance.fetch_materializations(records_filter, limit=MATERIALIZATIONS_READ).records
        events = [record.asset_materialization for record in records if record.asset_materialization]
        paces = [event.metadata[SECONDS_PER_QUESTION] for event in events if SECONDS_PER_QUESTION in event.metadata]
        if not paces:
            return None
        total += float(str(paces[0].value))
    return total


def measured_tokens(instance: dg.DagsterInstance, assets: Sequence[str]) -> tuple[float, float] | None:
    """Mean tokens of a request and of a reply in the latest materializations of these steps; None without any."""
    totals = Counter[str]()
    for asset in assets:
        records_filter = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset.split("/")))
        for record in instance.fetch_materializations(records_filter, limit=MATERIALIZATIONS_READ).records:
            metadata = record.asset_materialization.metadata if record.asset_materialization else {}
            totals.update({name: int(str(metadata[name].value)) for name in USAGE_COUNTS if name in metadata})
    replies = totals["replies"]
    return (totals["tokens_in"] / replies, totals["tokens_out"] / replies) if replies else None
