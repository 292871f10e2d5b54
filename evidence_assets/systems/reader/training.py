"""The stage ``models/reader``: trains one reader per benchmark on the benchmark's own training questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import cast

import polars as pl

from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks, benchmarks_of_family
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence.selection import NoEvidence, Selector
from evidence_assets.experiment.evidence.sources import (
    CosineChunks,
    missing_source_reason,
    open_benchmark_corpus,
    source_inputs,
)
from evidence_assets.experiment.evidence_rows import unstored_items
from evidence_assets.experiment.question_rows import hide_gold
from evidence_assets.experiment.rows import batches
from evidence_assets.experiment.solvers import EXTRACTIVE_VERSION, build_extractive_solver
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.lake.store import Lake
from evidence_assets.models.inference import train_if_changed
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.reader.network import EncoderName, OptionInput
from evidence_assets.models.reader.training import VERSION as NETWORK_VERSION
from evidence_assets.models.reader.training import (
    WEIGHTS_FILE,
    TrainingQuestion,
    TrainingSettings,
    is_held_out,
    train_reader,
)
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.profiles import EncoderSettings
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Solver
from evidence_assets.retrieval.bm25 import lowercase_words
from evidence_assets.systems.reader import READER_ASSET, VERSION

TRAINING_SPLIT = "train"
BATCH = 256
"""Questions per call of the selector."""

QuestionKey = tuple[object, ...]


def reader_stages(variant: Variant, settings: TrainingSettings) -> list[Stage]:
    """The stage ``models/reader``, partitioned by benchmark."""
    files = sorted({benchmark.raw_asset for benchmark in benchmarks_of_family("mcqa")})
    encoder = variant.profile.encoder
    code = f"{VERSION}:{NETWORK_VERSION}:{EXTRACTIVE_VERSION}"
    stage = Stage(
        variant.key,
        "models",
        partial(_train, settings=settings),
        "A small reader of options and facts, trained on the benchmark's own training questions. Training stops when "
        "held-out questions are no longer answered better.",
        [*map(StageInput, files), *source_inputs("mcqa", ("corpus",))],
        f"{code}:{content_id(asdict(settings))[:12]}:{encoder.name}@{encoder.revision}",
        "mcqa",
        "benchmarks",
        "gpu",
        ("pytorch",),
    )
    return [stage]


def _name_base_encoder(settings: EncoderSettings) -> EncoderName:
    if settings.base_url:
        raise BadInput(
            f"the encoder {settings.name} is on a server: a reader is trained from one that is loaded locally"
        )
    return EncoderName(settings.name, settings.revision)


def _train(context: StageContext, settings: TrainingSettings) -> StageOutput:
    benchmark = context.benchmark
    base = _name_base_encoder(context.profile.encoder)
    records, n_dropped = read_training_questions(context.lake, benchmark)
    selector = open_chunk_selector(context, settings.facts)
    encoder = get_encoder(context.profile.encoder)
    questions = build_training_questions(records, selector, encoder, context.progress("questions"))
    inputs = [asdict(question) for question in questions]
    input_hash = content_id("reader", VERSION, NETWORK_VERSION, model_key(encoder), asdict(settings), inputs)
    settings_of_encoder = context.profile.encoder
    if settings_of_encoder.base_url:
        raise BadInput(
            f"a reader is trained from weights, and {settings_of_encoder.name} is served: choose a local one"
        )
    base = EncoderName(settings_of_encoder.name, settings_of_encoder.revision)
    folder = reader_folder(context.lake, benchmark.name)
    report = train_if_changed(
        folder, input_hash, lambda into: train_reader(base, questions, into, settings, context.inform)
    )
    rows = training_rows(records, benchmark, settings.held_out)
    row = _build_model_row(f"reader-{benchmark.name}", folder, report, len(questions))
    model_id = str(row["model_id"])
    ids = sorted({record.question_id for record in records})
    lineage = [edge("model", model_id, DERIVED, "training_question", question_id, question_id) for question_id in ids]
    datasets = load_datasets()
    licence = datasets[benchmark.reader].licence if benchmark.reader in datasets else "the user's own"
    metadata = {**report, "epochs": str(report["epochs"]), "licence": licence, "left_out_because_tested": n_dropped}
    return StageOutput([row], lineage, metadata, other_tables={"training_questions": rows})


def _build_model_row(name: str, folder: Path, report: Mapping[str, object], n_questions: int) -> dict[str, object]:
    revision = file_id(folder / WEIGHTS_FILE)[:12]
    return {
        "model_id": f"{name}@{revision}",
        "name": name,
        "revision": revision,
        "task": "reader",
        "sentences": n_questions,
        "held_out_accuracy": report["held_out_accuracy"],
        "input_hash": report["input_hash"],
    }


def reader_folder(lake: Lake, benchmark: str) -> Path:
    """Folder of the reader of a benchmark."""
    return lake.index_folder(READER_ASSET) / benchmark


def open_chunk_selector(context: StageContext, facts: int) -> Selector:
    """The selector of facts, in training and for answers: the chunks nearest to question and option."""
    if reason := missing_source_reason(("corpus",), context.benchmark):
        return NoEvidence(reason)
    return CosineChunks(open_benchmark_corpus(context), get_encoder(context.profile.encoder), facts, VERSION)


def extractive_weights(solver: Solver, tasks: Sequence[ChooseAnswer]) -> list[Mapping[str, float]]:
    """Weight of each label without the reader: the extractive solver's, from the evidence of the tasks."""
    explained = [
        ExplainOption(task.question, label, task.evidence.get(label, ()))
        for task in tasks
        for label in task.question.labels
    ]
    chains = iter(solver.explain(explained))
    answered = [replace(task, chains=tuple(cast(Chain, next(chains)) for _ in task.question.labels)) for task in tasks]
    return [cast(Choice, choice).weights for choice in solver.choose(answered)]


def build_training_questions(
    records: Sequence[QuestionRecord], selector: Selector, encoder: Encoder, progress: Callable[[int, int], None]
) -> list[TrainingQuestion]:
    """Graded questions with the facts and the extractive weight of each option, in the order of their ids."""
    solver = build_extractive_solver(encoder)
    ordered = sorted(records, key=lambda record: record.question_id)
    questions = list[TrainingQuestion]()
    for batch in batches(ordered, BATCH):
        unlabelled = list(map(hide_gold, batch))
        evidence = map(unstored_items, selector.select(unlabelled))
        tasks = [ChooseAnswer(question, (), items) for question, items in zip(unlabelled, evidence, strict=True)]
        weights = extractive_weights(solver, tasks)
        questions += map(_build_training_question, batch, tasks, weights)
        progress(len(questions), len(ordered))
    return questions


def _build_training_question(
    record: QuestionRecord, task: ChooseAnswer, weights: Mapping[str, float]
) -> TrainingQuestion:
    options = tuple(
        OptionInput(record.text, option, tuple(item.text for item in task.evidence.get(label, ())), weights[label])
        for label, option in task.question.hypotheses
    )
    return TrainingQuestion(record.question_id, options, record.labels.index(record.gold[0]))


# Training questions, and questions that a reader has seen -----------------------------------------------------------


def read_training_questions(lake: Lake, benchmark: Benchmark) -> tuple[list[QuestionRecord], int]:
    """The graded questions of the training split, and how many were left out because the benchmark tests them."""
    base = all_benchmarks()[benchmark.base_name].model_copy(update={"split": TRAINING_SPLIT})
    records = [q for q in read_benchmark_questions(lake, base) if q.split == TRAINING_SPLIT]
    graded = [q for q in records if len(q.gold) == 1 and len(q.options) > 1]
    tested: set[QuestionKey] = set()
    for question in read_benchmark_questions(lake, benchmark):
        if question.split == benchmark.split:
            tested |= question_keys(dataset_of(benchmark), question.source_id, question.text, question.options)
    unseen = [q for q in graded if not tested & question_keys(dataset_of(benchmark), q.source_id, q.text, q.options)]
    if not unseen:
        raise BadInput(
            f"the benchmark {benchmark.name} has no graded questions of the split {TRAINING_SPLIT!r} that it does not "
            f'also test. Add some: in your own file, questions with "split": "{TRAINING_SPLIT}"',
            file=lake.raw_path(base.files[0]),
        )
    return unseen, len(graded) - len(unseen)


def dataset_of(benchmark: Benchmark) -> str:
    """The dataset that the ids of a benchmark's questions belong to."""
    return benchmark.base_name if benchmark.reader == "own" else benchmark.reader


def question_keys(dataset: str, source_id: str, text: str, options: Sequence[str]) -> set[QuestionKey]:
    """Two keys of a question: its id in its dataset, and its words with those of its options in any order."""
    words = tuple(sorted(tuple(lowercase_words(option)) for option in options))
    return {("id", dataset, source_id), ("text", tuple(lowercase_words(text)), words)}


def training_rows(records: Iterable[QuestionRecord], benchmark: Benchmark, held_out: float) -> list[dict[str, object]]:
    """Rows of ``training_questions``."""
    dataset = dataset_of(benchmark)
    return [
        {
            "question_id": record.question_id,
            "benchmark": record.benchmark,
            "source_id": record.source_id,
            "text": record.text,
            "dataset": dataset,
            "options": list(record.options),
            "gold": list(record.gold),
            "held_out": is_held_out(record.question_id, held_out),
        }
        for record in records
    ]


def refuse_seen_questions(reader: str, training: pl.DataFrame, questions: pl.DataFrame, benchmark: Benchmark) -> None:
    """Raise BadInput if a reader was trained on one of these questions, by id or by text."""
    columns = ("source_id", "text", "options")
    seen_keys = set[QuestionKey]()
    for dataset, *row in training.select("dataset", *columns).iter_rows():
        seen_keys |= question_keys(dataset, *row)
    dataset = dataset_of(benchmark)
    repeated = [row[0] for row in questions.select(columns).iter_rows() if seen_keys & question_keys(dataset, *row)]
    if repeated:
        raise BadInput(
            f"{reader} has seen {len(repeated)} of the questions of {benchmark.name} in its training, such as "
            f"{repeated[0]!r}. Train it again without them: evidence train reader --on {benchmark.base_name}"
        )
