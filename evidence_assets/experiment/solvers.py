"""Who reasons: solvers by the name that a variant states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import polars as pl

from evidence_assets.experiment.step import Step
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.completion_cache import CompletionCache
from evidence_assets.models.generators import load_generator
from evidence_assets.models.in_use import encoder
from evidence_assets.models.protocols import AsksRevision, Generator
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.direct import VERSION as DIRECT_VERSION
from evidence_assets.reasoning.direct import BestFound
from evidence_assets.reasoning.extractive import VERSION as EXTRACTIVE_VERSION
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.reasoning.prompted import CHOOSING, EXPLAINING, PromptedSolver
from evidence_assets.reasoning.prompted import VERSION as PROMPTED_VERSION
from evidence_assets.reasoning.short_answers import (
    SHORT_ANSWER,
    ExtractiveShortAnswers,
    PromptedShortAnswers,
    ShortAnswerSolver,
)
from evidence_assets.reasoning.short_answers import VERSION as SHORT_VERSION
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.retrieval.corpus import open_corpus

SOLVERS = ("extractive", "generator")


@lru_cache
def generator(settings: GeneratorSettings) -> Generator:
    """The profile's language model, loaded once a process."""
    return load_generator(settings.backend, **settings.model_dump(exclude={"backend", "megabytes"}))


def language_model(step: Step, settings: GeneratorSettings) -> LanguageModel:
    """A language model as a step asks it: completions kept in the lake, progress told, tokens counted for the step."""
    asked, cache = generator(settings), CompletionCache(step.lake.cache)
    if isinstance(asked, AsksRevision):
        asked.settle_revision(cache)
    model = LanguageModel(asked, cache, step.progress("requests"))
    step.asked.append(model)
    return model


def asking_version(settings: GeneratorSettings, *tasks: PromptedTask[Any, Any]) -> str:
    """The model and the words of what it is asked, for a code version: known without loading the model.

    Empty where the profile has no language model.
    """
    if settings.backend == "extractive":
        return ""
    model = settings.backend, settings.name, settings.revision, settings.constrain, settings.four_bit, settings.folder
    return content_id(model, [task.version for task in tasks])[:12]


def pool_of(settings: GeneratorSettings) -> str:
    """The concurrency pool of a step that asks a language model: ``llm`` for a served one, ``gpu`` for one in the process."""
    return "gpu" if settings.backend in ("transformers", "vllm") else "llm"


def reasoning_version(name: str, family: str, profile: Profile) -> str:
    """Who reasons in a task family, for the code version of chains and predictions."""
    settings, encoding = profile.generator, profile.encoder
    if family == "graph":
        asked = asking_version(settings, SHORT_ANSWER)
        return f"{SHORT_VERSION}:{asked or f'{encoding.name}@{encoding.revision}'}"
    if name == "generator" and (asked := asking_version(settings, EXPLAINING, CHOOSING)):
        return f"{PROMPTED_VERSION}:{asked}"
    if family == "table":
        return TableSolver.version
    return f"{EXTRACTIVE_VERSION}:{DIRECT_VERSION}:{encoding.name}@{encoding.revision}" if family == "mcqa" else ""


def _documents(step: Step, chunks: Sequence[str]) -> dict[str, str]:
    """The document of each of some chunks of the benchmark's corpus."""
    name = step.benchmark.corpus
    if not name:
        return {}
    rows = open_corpus(step.lake, name).chunks.filter(pl.col("chunk_id").is_in(list(chunks)))
    return dict(rows.select("chunk_id", "doc_id").iter_rows())


def solver_named(name: str, family: str, step: Step) -> Solver:
    """The solver ``name`` for one task family: ``extractive``, or ``generator`` for the profile's language model.

    A profile without a language model reasons extractively there, too, and the table says so.
    """
    settings = step.profile.generator
    if name == "extractive" or (name == "generator" and settings.backend == "extractive"):
        if family == "table":
            return TableSolver()
        return ExtractiveSolver(
            encoder(step.profile.encoder),
            documents=lambda chunks: _documents(step, chunks),
            on_progress=step.progress("tasks"),
        )
    if name == "generator":
        return PromptedSolver(language_model(step, settings))
    raise BadInput(f"there is no solver {name!r}; known: {', '.join(SOLVERS)}")


def chooser(name: str, family: str, step: Step, *, explained: bool) -> Solver:
    """Who names the answer: the solver itself, or for options that it did not explain, whoever can do without.

    A language model and the reasoner on tables read the evidence then; of text, the best found option wins.
    """
    solver = solver_named(name, family, step)
    return solver if explained or not isinstance(solver, ExtractiveSolver) else BestFound()


def reader_of_profile(step: Step) -> LanguageModel | None:
    """The profile's language model; None where the profile has none."""
    settings = step.profile.generator
    return None if settings.backend == "extractive" else language_model(step, settings)


def short_answers(step: Step) -> ShortAnswerSolver:
    """Who answers in a few words: the profile's language model, else the extractive solver."""
    settings = step.profile.generator
    if settings.backend == "extractive":
        return ExtractiveShortAnswers(encoder(step.profile.encoder))
    return PromptedShortAnswers(language_model(step, settings))
