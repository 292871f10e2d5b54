"""Language models and solvers of a stage, with their code versions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

from evidence_assets.experiment.stage import StageContext
from evidence_assets.extractive import options
from evidence_assets.extractive.options import TOP_SCORE_VERSION, ExtractiveSolver, TopScoreSolver
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.extractive.spans.choice import load_span_weights
from evidence_assets.extractive.spans.questions import analyze_question
from evidence_assets.extractive.spans.statements import load_statement_weights
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.registry import get_encoder, get_sequence_model, load_generator
from evidence_assets.models.span_reader import SpanReader
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.reasoning.model_calls import LanguageModel, PromptVersion
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, PromptedSolver, PromptStyle
from evidence_assets.reasoning.prompted_solver import VERSION as PROMPTED_VERSION
from evidence_assets.reasoning.short_answers import (
    SHORT_ANSWER,
    SPAN_VERSION,
    PromptedShortAnswers,
    ShortAnswerSolver,
    SpanAnswers,
)
from evidence_assets.reasoning.short_answers import VERSION as SHORT_VERSION
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.reasoning.templates import PACKAGED, Prompts
from evidence_assets.reasoning.written_answers import VERSION as WRITTEN_VERSION
from evidence_assets.reasoning.written_answers import WRITTEN_TASKS, WrittenAnswers, load_decision
from evidence_assets.reasoning.yes_no_answers import VERSION as YES_NO_VERSION
from evidence_assets.reasoning.yes_no_answers import load_yes_no_decision
from evidence_assets.retrieval.corpus import open_corpus

EXTRACTIVE_VERSION = options.VERSION
TABLE_SOLVER = TableSolver()
SHORT_ANSWER_TASKS = (SHORT_ANSWER, *WRITTEN_TASKS)
"""Prompts of questions without options: with facts, and with texts alone."""

load_cached_generator = lru_cache(load_generator)
"""Loads a language model once per process."""


def open_language_model(context: StageContext, settings: GeneratorSettings) -> LanguageModel:
    """Open a language model for a stage, with the lake's completion cache, progress and token counts."""
    generator = load_cached_generator(settings)
    cache = CompletionCache(context.lake.cache)
    model = LanguageModel(generator, cache, prompts=context.prompt_settings)
    model.on_progress = context.progress("requests", detail=model.describe_speed)
    context.language_models.append(model)
    return model


def has_model(profile: Profile) -> bool:
    """Whether the profile has a language model."""
    return profile.generator.backend != "extractive"


def prompts_version(settings: GeneratorSettings, *tasks: PromptVersion, prompts: Prompts = PACKAGED) -> str:
    """Hash of model settings and prompts for a code version, without loading the model.

    Empty if the profile has no language model.
    """
    if settings.backend == "extractive":
        return ""
    model = [settings.backend, settings.name, settings.revision, settings.constrain]
    if settings.thinking_tokens:
        model.append(f"thinking {settings.thinking_tokens}")
    if settings.quantization != "none":
        model.append(settings.quantization)
    return content_id(model, [task.version_with(prompts) for task in tasks])[:12]


def find_pool(settings: GeneratorSettings, kinds: Collection[str] = ("generator",)) -> str | None:
    """Concurrency pool for models of these kinds: ``llm`` if served, ``gpu`` if in the process."""
    if "generator" in kinds and settings.backend != "extractive":
        return "llm" if settings.backend == "openai" else "gpu"
    return "gpu" if set(kinds) - {"generator"} else None


def encoder_version(profile: Profile) -> str:
    """Name and revision of the profile's first encoder."""
    return f"{profile.encoder.name}@{profile.encoder.revision}"


def solver_version(
    family: str,
    profile: Profile,
    style: PromptStyle = DEFAULT_STYLE,
    prompts: Prompts = PACKAGED,
    *,
    reader: bool = False,
) -> str:
    """Version of the solver of a task family, for the code version of chains and predictions."""
    settings = profile.generator
    scoring = f"{load_span_weights().version[:8]}:{encoder_version(profile)}"
    statements = load_statement_weights().version[:8]
    if reader:
        return f"{SPAN_VERSION}:{profile.reader.name}@{profile.reader.revision}" if profile.reader else ""
    if family == "graph":
        rules = f"{SHORT_VERSION}:{statements}:{scoring}"
        version = prompts_version(settings, *SHORT_ANSWER_TASKS, prompts=prompts)
        written = f"{WRITTEN_VERSION}:{load_decision().version[:8]}"
        yes_no = f"{YES_NO_VERSION}:{load_yes_no_decision().version[:8]}"
        return f"{rules}:{version}:{written}:{yes_no}" if version else rules
    if family in ("mcqa", "table") and (version := prompts_version(settings, *style.tasks, prompts=prompts)):
        return f"{PROMPTED_VERSION}:{version}"
    if family == "table":
        return TableSolver.version
    return f"{EXTRACTIVE_VERSION}:{TOP_SCORE_VERSION}:{scoring}" if family == "mcqa" else ""


def _documents(context: StageContext, chunks: Sequence[str]) -> dict[str, str]:
    """Documents of chunks of the benchmark's corpus, by chunk id."""
    name = context.benchmark.corpus
    if not (name and chunks):
        return {}
    corpus = open_corpus(context.lake, name, context.encoder)
    rows = {chunk: row for chunk, row in zip(chunks, corpus.find(chunks).tolist(), strict=True) if row >= 0}
    return dict(zip(rows, corpus.column("doc_id", list(rows.values())), strict=True))


def build_solver(
    family: str, context: StageContext, style: PromptStyle = DEFAULT_STYLE, *, explained: bool = True
) -> Solver:
    """Build the solver of a task family: the profile's language model, else an extractive solver.

    Language models and the table solver choose from evidence alone. The extractive solver needs chains: without them
    (not ``explained``), the option with the best retrieval score wins.
    """
    if model := open_profile_model(context):
        return PromptedSolver(model, style)
    if family == "table":
        return TABLE_SOLVER
    if not explained:
        return TopScoreSolver()
    return ExtractiveSolver(get_encoder(context.profile.encoder), documents=lambda chunks: _documents(context, chunks))


def has_question_word(text: str) -> bool:
    """Whether a text has a question word, such as "who"."""
    return analyze_question(text).wh >= 0


def open_profile_model(context: StageContext) -> LanguageModel | None:
    """Open the profile's language model; None if it has none."""
    return open_language_model(context, context.profile.generator) if has_model(context.profile) else None


def build_short_answer_solver(context: StageContext, *, reader: bool = False) -> ShortAnswerSolver:
    """Build the short-answer solver: the profile's reader or language model, else an extractive solver."""
    if reader:
        settings = context.profile.reader
        if settings is None:
            raise BadInput(f"this variant needs `reader` in the profile {context.profile.name}")
        span_reader = get_sequence_model(SpanReader, settings)
        solver = SpanAnswers(span_reader)
        context.record_model(solver.model_id, span_reader.model_id, span_reader.revision, "reader")
        return solver
    rules = ExtractiveShortAnswers(get_encoder(context.profile.encoder))
    model = open_profile_model(context)
    if model is None:
        return rules
    # The published methods ask the model; for a single question the rules are better on a graph where they are sure.
    first = rules if context.ad_hoc_benchmark else None
    return PromptedShortAnswers(model, WrittenAnswers(model, rules), first)
