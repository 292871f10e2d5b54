"""The explanations and answers of a variant: one object chooses the model or solver, and every stage uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from evidence_assets.experiment import solvers
from evidence_assets.experiment.answers.chains import chain_rows
from evidence_assets.experiment.answers.one_call import OneCallAnswerer
from evidence_assets.experiment.answers.options import OptionAnswerer
from evidence_assets.experiment.answers.predictions import Answerer
from evidence_assets.experiment.answers.short_answers import ShortAnswerer
from evidence_assets.experiment.evidence_rows import keep_best_facts
from evidence_assets.experiment.methods import AnsweringMethod, AnySelectionMethod, PreparedMethod, is_answered_by_model
from evidence_assets.experiment.rules_first import VERSION as RULES_FIRST_VERSION
from evidence_assets.experiment.rules_first import RulesFirst
from evidence_assets.experiment.stage import PreviousOutput, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.models.encoders import EMBEDDED_ENCODER
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import EncoderSettings, ModelKind
from evidence_assets.reasoning.model_calls import PromptVersion
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, PromptStyle
from evidence_assets.reasoning.published_prompts import STYLES
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_choices import EXPLAINED_SHORT_STYLE, SHORT_STYLE
from evidence_assets.reasoning.tasks import Solver


@dataclass(frozen=True)
class Answering:
    """The model or solver that explains and answers the questions of a variant.

    Options are explained in chains, then one is chosen; a published prompt may do both in one call. Questions without
    options get short answers, unless the method answers itself.
    """

    method: AnySelectionMethod

    @property
    def variant(self) -> Variant:
        return self.method.variant

    @property
    def has_options(self) -> bool:
        """Whether the questions have options, so that there is an asset of chains."""
        return self.variant.family in ("mcqa", "table")

    @cached_property
    def style(self) -> PromptStyle:
        """Prompt style of the language model."""
        if self.variant.prompt_style == "published":
            return STYLES[self.method.published_style]
        if self.variant.profile.explain_options:
            return DEFAULT_STYLE
        # Rules explain answers about tables.
        is_explained = self.variant.asks_why and self.variant.family != "table"
        return EXPLAINED_SHORT_STYLE if is_explained else SHORT_STYLE

    @cached_property
    def is_prompted(self) -> bool:
        """Whether a language model answers."""
        return is_answered_by_model(self.variant) and solvers.has_model(self.variant.profile)

    @property
    def is_rules_first(self) -> bool:
        """Whether rules explain, and a language model is asked for what they do not settle."""
        return self.is_prompted and self.style is SHORT_STYLE and self.variant.family == "table"

    @property
    def reads_chains(self) -> bool:
        """Whether an answer depends on the chains; otherwise they are only shown."""
        return self.style is not EXPLAINED_SHORT_STYLE

    @property
    def is_one_call(self) -> bool:
        """Whether the model explains and answers in one call per question."""
        return self.has_options and self.is_prompted and self.style.answer is not None

    @property
    def explains_options(self) -> bool:
        """Whether each option is explained before one is chosen."""
        is_silent_style = self.is_prompted and self.style.explain is None and not self.is_rules_first
        return self.has_options and self.variant.explain and not is_silent_style

    @property
    def reads_best_facts(self) -> bool:
        """Whether the model chooses from the best facts only."""
        return self.is_prompted and self.style.facts > 0 and not self.is_rules_first

    @property
    def requests_per_choice(self) -> int:
        """Requests for one choice among options, at most and without repairs."""
        return self.style.choose.requests_per_task if self.style.choose else 1

    @property
    def writes_chains(self) -> bool:
        """Whether chains have rows."""
        return self.is_one_call or self.explains_options

    @property
    def prompted_tasks(self) -> Sequence[PromptVersion]:
        """Prompts of explanations and answers, for a profile with a language model."""
        if not is_answered_by_model(self.variant) or isinstance(self.method, AnsweringMethod):
            return ()
        if not self.has_options:
            return solvers.SHORT_ANSWER_TASKS
        explain = self.style.explain if self.variant.explain else None
        return [task for task in (explain, self.style.choose, self.style.answer) if task is not None]

    # Work -----------------------------------------------------------------------------------------------------------

    def explain(
        self,
        context: StageContext,
        questions: Sequence[Question],
        evidence: pl.DataFrame,
        previous: PreviousOutput | None = None,
    ) -> StageOutput:
        """Chains of questions with options from this evidence; none if nobody explains."""
        selector = self.selector
        if self.is_one_call:
            return self._open_one_call(context, evidence).chains(selector, questions, previous)
        if not self.explains_options:
            return StageOutput([])
        solver = solvers.TABLE_SOLVER if self.is_rules_first else self._open_solver(context, explained=True)
        return chain_rows(solver, selector, questions, evidence, previous)

    def open_answerer(self, context: StageContext, evidence: pl.DataFrame, chains: pl.DataFrame) -> Answerer:
        """Open the answerer from this evidence and, for questions with options, its chains."""
        if self.is_one_call:
            return self._open_one_call(context, evidence, chains)
        if self.has_options:
            readable = keep_best_facts(evidence, self.style.facts) if self.reads_best_facts else evidence
            # Counterfactuals need a solver that explains; without chains, the solver compares the evidence alone.
            chooser = self._open_solver(context, explained=self.variant.explain)
            # Which closeness counts was chosen for this encoder, so it is the same in every profile.
            is_measured = self.reads_best_facts and len(readable) > 0
            encoder = get_encoder(EncoderSettings(name=EMBEDDED_ENCODER)) if is_measured else None
            return OptionAnswerer(chooser, readable, chains, reads_chains=self.reads_chains, encoder=encoder)
        if isinstance(self.method, AnsweringMethod):
            return self.method.open_answerer(context, evidence)
        problems = self.method.find_problems(context) if isinstance(self.method, PreparedMethod) else None
        solver = solvers.build_short_answer_solver(context, reader=self.variant.reader)
        return ShortAnswerer(solver, evidence, problems)

    def _open_one_call(
        self, context: StageContext, evidence: pl.DataFrame, chains: pl.DataFrame | None = None
    ) -> OneCallAnswerer:
        assert self.style.answer is not None
        model = solvers.open_language_model(context, context.profile.generator)
        return OneCallAnswerer(model, self.style.answer, evidence, chains)

    def _open_solver(self, context: StageContext, *, explained: bool) -> Solver:
        solver = solvers.build_solver(self.variant.family, context, self.style, explained=explained)
        return RulesFirst(solvers.TABLE_SOLVER, solver) if self.is_rules_first else solver

    # Plan -----------------------------------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        """Name of the selector in rows, with the models that select."""
        return self.variant.with_models(self.variant.selector, self.evidence_models, "@")

    @cached_property
    def evidence_models(self) -> dict[ModelKind, str]:
        """Names of the models that select evidence, by kind, where they differ from the profile's first."""
        kinds = self.method.model_kinds
        return {kind: name for kind, name in self.variant.active_models.items() if kind in kinds}

    def extra_inputs(self, sources: Sequence[StageInput]) -> list[StageInput]:
        """Input assets of answers, beside questions, evidence and chains; ``sources`` are those of the evidence."""
        if self.has_options:
            return []
        if isinstance(self.method, AnsweringMethod):
            return list(sources)
        return list(self.method.extra_inputs) if isinstance(self.method, PreparedMethod) else []

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        """Kinds of models that answer."""
        if isinstance(self.method, AnsweringMethod):
            return self.method.model_kinds
        if not is_answered_by_model(self.variant):
            return ("encoder",)
        return ("generator",) if self.variant.family == "table" else ("generator", "encoder")

    @property
    def version(self) -> str:
        """Version of the solver, its prompts and models."""
        return self._version_with(self.style)

    @property
    def chain_version(self) -> str:
        """Version of what writes chains, which do not depend on the prompt of the choice."""
        return self._version_with(replace(self.style, choose=None))

    def _version_with(self, style: PromptStyle) -> str:
        profile = self.variant.profile
        prompts = self.variant.prompt_settings
        version = solvers.solver_version(self.variant.family, profile, style, prompts, reader=self.variant.reader)
        return f"{version}:{RULES_FIRST_VERSION}:{solvers.TABLE_SOLVER.version}" if self.is_rules_first else version
