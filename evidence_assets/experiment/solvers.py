"""Who reasons: solvers by the name that a variant states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from evidence_assets.experiment.stage import StageContext
from evidence_assets.lake.ids import content_id
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.protocols import Generator, HasServedRevision
from evidence_assets.models.registry import get_encoder, load_generator
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.reasoning.extractive import TOP_SCORE_VERSION, ExtractiveSolver, TopScoreSolver
from evidence_assets.reasoning.extractive import VERSION as EXTRACTIVE_VERSION
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask, PromptPreviewModel
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, PromptedSolver, PromptStyle
from evidence_assets.reasoning.prompted_solver import VERSION as PROMPTED_VERSION
from evidence_assets.reasoning.short_answers import (
    SHORT_ANSWER,
    ExtractiveShortAnswers,
    PromptedShortAnswers,
    ShortAnswerSolver,
)
from evidence_assets.reasoning.short_answers import VERSION as SHORT_VERSION
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS, PromptSettings
from evidence_assets.retrieval.corpus import open_corpus


@lru_cache
def load_cached_generator(settings: GeneratorSettings) -> Generator:
    """The profile's language model, loaded once a process."""
    return load_generator(settings)


def open_language_model(step: StageContext, settings: GeneratorSettings) -> LanguageModel:
    """A language model as a step asks it: completions kept in the lake, progress told, tokens counted for the step."""
    if step.captured_requests is not None:
        return PromptPreviewModel(step.captured_requests, step.words)
    asked, cache = load_cached_generator(settings), CompletionCache(step.lake.cache)
    if isinstance(asked, HasServedRevision):
        asked.resolve_revision(cache)
    model = LanguageModel(asked, cache, step.progress("requests"), step.words)
    step.language_models.append(model)
    return model


def has_model(step: StageContext) -> bool:
    """Whether there is a language model to ask; what is only shown needs none."""
    return step.captured_requests is not None or step.profile.generator.backend != "extractive"


def prompts_version(
    settings: GeneratorSettings, *tasks: PromptedTask[Any, Any], prompts: PromptSettings = PACKAGED_PROMPTS
) -> str:
    """The model and the words of what it is asked, for a code version: known without loading the model.

    Empty where the profile has no language model.
    """
    if settings.backend == "extractive":
        return ""
    model = settings.backend, settings.name, settings.revision, settings.constrain, settings.four_bit, settings.folder
    return content_id(model, [task.version_with(prompts) for task in tasks])[:12]


def find_pool(settings: GeneratorSettings, kinds: Collection[str] = ("generator",)) -> str | None:
    """The concurrency pool of a step with models of these kinds: ``llm`` if served, ``gpu`` if in the process."""
    if "generator" in kinds and settings.backend != "extractive":
        return "gpu" if settings.backend in ("transformers", "vllm") else "llm"
    return "gpu" if set(kinds) - {"generator"} else None


def reasoning_version(
    family: str, profile: Profile, style: PromptStyle = DEFAULT_STYLE, prompts: PromptSettings = PACKAGED_PROMPTS
) -> str:
    """Who reasons in a task family, for the code version of chains and predictions."""
    settings, encoding = profile.generator, profile.encoder
    if family == "graph":
        asked = prompts_version(settings, SHORT_ANSWER, prompts=prompts)
        return f"{SHORT_VERSION}:{asked or f'{encoding.name}@{encoding.revision}'}"
    if family in ("mcqa", "table") and (asked := prompts_version(settings, *style.tasks, prompts=prompts)):
        return f"{PROMPTED_VERSION}:{asked}"
    if family == "table":
        return TableSolver.version
    return f"{EXTRACTIVE_VERSION}:{TOP_SCORE_VERSION}:{encoding.name}@{encoding.revision}" if family == "mcqa" else ""


def _documents(step: StageContext, chunks: Sequence[str]) -> dict[str, str]:
    """The document of each of some chunks of the benchmark's corpus."""
    name = step.benchmark.corpus
    if not (name and chunks):
        return {}
    corpus = open_corpus(step.lake, name, step.encoder)
    known = [(chunk, place) for chunk, place in zip(chunks, corpus.find(chunks).tolist(), strict=True) if place >= 0]
    documents = corpus.column("doc_id", [place for _, place in known])
    return {chunk: document for (chunk, _), document in zip(known, documents, strict=True)}


def build_solver(family: str, context: StageContext, style: PromptStyle = DEFAULT_STYLE) -> Solver:
    """The solver of one task family: the profile's language model; the extractive one where the profile has none."""
    if model := open_profile_model(context):
        return PromptedSolver(model, style)
    if family == "table":
        return TableSolver()
    return ExtractiveSolver(get_encoder(context.profile.encoder), documents=lambda chunks: _documents(context, chunks))


def build_choosing_solver(
    family: str, context: StageContext, style: PromptStyle = DEFAULT_STYLE, *, explained: bool
) -> Solver:
    """Who names the answer: the solver itself, or for options that it did not explain, whoever can do without.

    A language model and the reasoner on tables read the evidence then; of text, the best found option wins.
    """
    solver = build_solver(family, context, style)
    return solver if explained or not isinstance(solver, ExtractiveSolver) else TopScoreSolver()


def open_profile_model(step: StageContext) -> LanguageModel | None:
    """The profile's language model; None where the profile has none."""
    return open_language_model(step, step.profile.generator) if has_model(step) else None


def build_short_answer_solver(step: StageContext) -> ShortAnswerSolver:
    """Who answers in a few words: the profile's language model, else the extractive solver."""
    model = open_profile_model(step)
    return ExtractiveShortAnswers(get_encoder(step.profile.encoder)) if model is None else PromptedShortAnswers(model)
