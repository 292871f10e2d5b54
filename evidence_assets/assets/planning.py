"""The cost of a run before it starts: questions, model calls, and time as in earlier runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import dagster as dg
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.methods import AnsweringMethod, SelectionMethod
from evidence_assets.experiment.solvers import has_model
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS, USAGE_COUNTS
from evidence_assets.reasoning.short_answers import SHORT_ANSWER
from evidence_assets.reproduction.cells import CellSource, MeasuredScore
from evidence_assets.reproduction.estimates import SAMPLE_INPUTS, TOKENS_PAGE, TaskInputs, facts
from evidence_assets.reproduction.published_figures import Figure, Key, PublishedTiming, figures_of
from evidence_assets.systems.kbloom.seeds import collection_folder, read_seed_folder
from evidence_assets.systems.kbloom.system import KBloom

SECONDS_PER_QUESTION = "seconds_per_question"
"""Metadata of materializations that computed rows of questions."""
LATEST_RUNS = "latest runs here"
"""What measured tokens are from."""
MATERIALIZATIONS_READ = 10
"""Latest materializations to search for one that computed rows."""


@dataclass(frozen=True)
class PlannedWork:
    """The cost of one variant on a benchmark or of a harvest; None if it was not measured or is not known.

    ``items``: Questions, or relations of a harvest.
    ``requests``: Requests to language models, at most and without repairs.
    ``tokens_in``, ``tokens_out``: Tokens of all requests and replies, at the mean of the latest runs, or estimated.
    ``tokens_from``: What the tokens are from; empty if they are not known.
    ``context``: Tokens of the longest prompt with its reply, estimated.
    """

    benchmark: str
    variant: str
    items: int | None
    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float | None = None
    tokens_from: str = ""
    context: int = 0


class BenchmarkSizes:
    """Numbers of questions and of all their options, from the lake or the files; each benchmark is read once."""

    def __init__(self, lake: Lake | None) -> None:
        self._lake = lake
        self._sizes: dict[str, tuple[int, int]] = {}

    def size_of(self, benchmark: Benchmark) -> tuple[int, int]:
        """Questions and options of a benchmark; 0 if it is neither in the lake nor in files."""
        if benchmark.name not in self._sizes:
            self._sizes[benchmark.name] = _read_size(benchmark, self._lake) if self._lake else (0, 0)
        return self._sizes[benchmark.name]


def _read_size(benchmark: Benchmark, lake: Lake) -> tuple[int, int]:
    rows = lake.read("questions", f"questions/{benchmark.family}", columns=["benchmark", "options"])
    options = rows.filter(rows["benchmark"] == benchmark.name)["options"].list.len()
    if len(options):
        return len(options), int(options.sum())
    if not all(lake.raw_path(file).exists() for file in benchmark.files):
        return 0, 0
    questions = (q for q in read_benchmark_questions(lake, benchmark) if q.split == benchmark.split)
    counts = [len(question.options) for question in questions]
    return len(counts), sum(counts)


def plan_work(
    variant: Variant,
    benchmark: Benchmark,
    sizes: BenchmarkSizes,
    instance: dg.DagsterInstance,
    *,
    has_answers: bool = True,
    timed: set[str] | None = None,
) -> PlannedWork:
    """The cost of a variant on a benchmark; without its files, from the official number of questions.

    ``has_answers``: Otherwise only evidence is scored, and no question is answered.
    ``timed``: Steps that variants share and whose time another one has; those of this variant are added.
    """
    questions, options = sizes.size_of(benchmark)
    if not questions:
        questions = benchmark.official_size or 0
        options = questions * count_options(benchmark)
    steps = list_steps(variant, has_answers=has_answers)
    pace = None
    if measured_seconds(instance, steps) is not None:
        timed = set() if timed is None else timed
        pace = measured_seconds(instance, [step for step in steps if step not in timed])
        timed |= set(steps)
    seconds = pace * questions if pace is not None and questions else None
    work = PlannedWork(benchmark.name, variant.label, questions or None, seconds=seconds)
    tasks = list_tasks(variant, questions, options, has_answers=has_answers) if questions else None
    return work if tasks is None else _add_tasks(work, tasks, measured_tokens(instance, steps))


def plan_harvest(method: KBloom, collection: str, *, is_judged: bool) -> PlannedWork:
    """The cost of a harvest; its relations are None if they are the user's own."""
    if collection not in profiles.load().harvesting.relations:
        return PlannedWork(collection, method.variant.label, None)
    relations = read_seed_folder(collection_folder(collection)).relations
    counts = method.count_tasks(relations, is_judged=is_judged)
    work = PlannedWork(collection, method.variant.label, len(relations))
    return _add_tasks(work, [TaskInputs(name, count) for name, count in counts.items() if count])


def _add_tasks(work: PlannedWork, tasks: Sequence[TaskInputs], means: tuple[float, float] | None = None) -> PlannedWork:
    """The work with its requests; ``means``: measured tokens of a request and of a reply, instead of estimates."""
    requests = count_requests(tasks)
    tokens = [sum(task.tokens_in for task in tasks), sum(task.tokens_out for task in tasks)]
    if means:
        tokens = [round(requests * mean) for mean in means]
    source = LATEST_RUNS if means else TOKENS_PAGE if tasks else ""
    context = max((task.context for task in tasks), default=0)
    return replace(
        work, requests=requests, tokens_in=tokens[0], tokens_out=tokens[1], tokens_from=source, context=context
    )


def count_options(benchmark: Benchmark) -> int:
    """Options of each question, at most; 0 if they are not known."""
    if benchmark.task == "verification":
        return len(CLAIM_LABELS)
    dataset = load_datasets().get(benchmark.reader)
    if dataset is None:
        return 0
    fields = dataset.fields
    if fields is None or (fields.options and isinstance(fields.options, str)):
        return dataset.max_options
    return len(fields.options or fields.labels)


def list_steps(variant: Variant, *, has_answers: bool = True) -> list[str]:
    """The assets that compute a variant's answers, or only its evidence."""
    method = systems.open_method(variant)
    shared = [stage.key for stage in method.shared_stages] if isinstance(method, SelectionMethod) else []
    evidence = [*shared, variant.with_models(f"evidence/{variant.family}/{variant.selector}", method.model_kinds)]
    if not has_answers:
        return evidence
    has_chains = isinstance(method, SelectionMethod) and Answering(method).writes_chains
    chains = [f"chains/{variant.key}"] if has_chains else []
    return [*evidence, *chains, f"predictions/{variant.key}"]


def count_requests(tasks: Iterable[TaskInputs]) -> int:
    """Requests to language models, at most and without repairs."""
    return sum(task.inputs * PROMPTED_TASKS[task.task].requests_per_task for task in tasks)


def list_tasks(variant: Variant, questions: int, options: int, *, has_answers: bool = True) -> list[TaskInputs] | None:
    """What the profile's language model is asked, at most; None if options that it explains are not known."""
    method = systems.open_method(variant)
    if not isinstance(method, SelectionMethod) or not has_model(variant.profile):
        return []
    tasks = [TaskInputs(name, number * questions) for name, number in method.tasks_per_question.items() if number]
    answering = Answering(method)
    if not has_answers or isinstance(method, AnsweringMethod) or not answering.is_prompted:
        return tasks
    if not answering.has_options:
        return [*tasks, TaskInputs(SHORT_ANSWER.name, questions)]
    return _list_choice_tasks(answering, tasks, questions, options)


def _list_choice_tasks(
    answering: Answering, tasks: list[TaskInputs], questions: int, options: int
) -> list[TaskInputs] | None:
    """The tasks of a method, and those that choose an option; None if options that it explains are not known."""
    explain = answering.style.explain
    *_, choose = answering.style.tasks
    per_question = ceil(options / questions)
    chunk_tokens = answering.method.chunks_per_option * answering.variant.profile.chunking.max_tokens
    if explain is None or not answering.explains_options:
        extra = chunk_tokens * per_question
        return [*tasks, TaskInputs(choose.name, questions, extra, extra)]
    if not options:
        return None
    tokens = facts().tasks[explain.name]
    mean = tokens.written / SAMPLE_INPUTS * options / questions
    choices = TaskInputs(choose.name, questions, mean, tokens.limit * per_question)
    return [*tasks, TaskInputs(explain.name, options, chunk_tokens, chunk_tokens), choices]


def measured_times(
    instance: dg.DagsterInstance, sources: Sequence[CellSource], lake: Lake
) -> dict[Key, list[MeasuredScore]]:
    """Our times for published ones: latest seconds per question of the steps × the lake's questions."""
    times: dict[Key, list[MeasuredScore]] = defaultdict(list)
    sizes = BenchmarkSizes(lake)
    for source in sources:
        partitions = [f"{source.benchmark}|{shard}" for shard in range(profiles.load().shards.questions)]
        for timed in source.variant.printed.times:
            steps = [step for step in list_steps(source.variant) if step.partition("/")[0] in timed.steps]
            pace = measured_seconds(instance, steps, partitions)
            if pace is None:
                continue
            questions, _ = sizes.size_of(all_benchmarks()[source.benchmark])
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
