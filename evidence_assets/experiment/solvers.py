"""Who reasons: solvers by the name that a variant states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from evidence_assets.experiment.step import Step
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.completion_cache import CompletionCache
from evidence_assets.models.generators import load_generator
from evidence_assets.models.in_use import encoder
from evidence_assets.models.protocols import Generator
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reasoning.asking import Remembered
from evidence_assets.reasoning.direct import BestFound
from evidence_assets.reasoning.extractive import ExtractiveSolver
from evidence_assets.reasoning.prompted import PromptedSolver
from evidence_assets.reasoning.short_answers import ExtractiveShortAnswers, PromptedShortAnswers, ShortAnswerSolver
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.retrieval.corpus import open_corpus

SOLVERS = ("extractive", "generator")


@lru_cache
def generator(settings: GeneratorSettings) -> Generator:
    """The profile's language model, loaded once a process."""
    return load_generator(settings.backend, **settings.model_dump(exclude={"backend", "megabytes"}))


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
        return PromptedSolver(generator(settings), CompletionCache(step.lake.cache), step.progress("tasks"))
    raise BadInput(f"there is no solver {name!r}; known: {', '.join(SOLVERS)}")


def chooser(name: str, family: str, step: Step, *, explained: bool) -> Solver:
    """Who names the answer: the solver itself, or for options that it did not explain, whoever can do without.

    A language model and the reasoner on tables read the evidence then; of text, the best found option wins.
    """
    solver = solver_named(name, family, step)
    return solver if explained or not isinstance(solver, ExtractiveSolver) else BestFound()


def reader_of_profile(step: Step) -> Generator | None:
    """The profile's language model, its completions kept; None where the profile has none."""
    settings = step.profile.generator
    if settings.backend == "extractive":
        return None
    return Remembered(generator(settings), CompletionCache(step.lake.cache), step.progress("requests"))


def short_answers(step: Step) -> ShortAnswerSolver:
    """Who answers in a few words: the profile's language model, else the extractive solver."""
    settings = step.profile.generator
    if settings.backend == "extractive":
        return ExtractiveShortAnswers(encoder(step.profile.encoder))
    return PromptedShortAnswers(generator(settings), CompletionCache(step.lake.cache), step.progress("questions"))
