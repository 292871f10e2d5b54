"""Systems and their methods, which select evidence or define their own stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl
from pydantic import TypeAdapter, ValidationError

from evidence_assets import profiles
from evidence_assets.experiment.answers.predictions import Answerer
from evidence_assets.experiment.answers.short_answers import PreparationProblems
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import SourceKind
from evidence_assets.experiment.stage import Stage, StageContext, StageInput
from evidence_assets.experiment.variants import (
    SYSTEMS_FOLDER,
    VARIANTS_FILE,
    Variant,
    enabled_presets,
    models_to_combine,
)
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.profiles import MODEL_KINDS, ModelKind
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reasoning.tasks import Solver
from evidence_assets.text.spelling import did_you_mean

S = TypeVar("S")


_adapter = cache(TypeAdapter)
"""Validator of a settings class; building one takes a millisecond."""


def read_settings(
    settings: type[S], values: Mapping[str, Any], *, owner: str, file: Path | None = None, defaults: Mapping[str, Any]
) -> S:
    """Validate settings: ``values`` override the ``defaults`` of a profile. Errors name the ``owner``."""
    names = [f.name for f in fields(settings) if f.init] if is_dataclass(settings) else []
    for name in values:
        if name not in names:
            raise BadInput(f"{owner} has no parameter {name!r}{did_you_mean(name, names)}", file=file, field=name)
    try:
        key: Any = settings  # mypy does not see that a class is hashable
        validated: S = _adapter(key).validate_python({**defaults, **values})
        return validated
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(map(str, first["loc"]))
        raise BadInput(f"{owner}: {first['msg']}", file=file, field=field_path or None) from error


@dataclass(frozen=True)
class NoSettings:
    """Settings of a method without parameters."""


@dataclass(frozen=True, kw_only=True)
class _MethodBase(Generic[S]):
    """Common fields of methods.

    ``settings``: Dataclass of the method's parameters.
    ``defaults``: Parameters from the profile, for those that the variant does not set.
    ``sources``: Sources of a benchmark that it reads.
    ``model_kinds``: Kinds of models that the method uses before questions are answered; may depend on the settings.
    """

    settings: type[S]
    defaults: Callable[[profiles.Profile], Mapping[str, Any]] = lambda profile: {}
    sources: tuple[SourceKind, ...] = ()
    model_kinds: Sequence[ModelKind] | Callable[[S], Sequence[ModelKind]] = ()

    def resolve_model_kinds(self, settings: S) -> Sequence[ModelKind]:
        """Kinds of models that the method uses with these settings."""
        return self.model_kinds(settings) if callable(self.model_kinds) else self.model_kinds

    def settings_of(self, variant: Variant) -> S:
        """Settings of a variant, with defaults from the active profile."""
        return read_settings(
            self.settings,
            variant.parameters,
            owner=f"variant {variant.key}",
            file=SYSTEMS_FOLDER / variant.system / VARIANTS_FILE,
            defaults=self.defaults(variant.profile),
        )


@dataclass(frozen=True, kw_only=True)
class Method(_MethodBase[S]):
    """Selects evidence; the other stages, up to scores, belong to the task family.

    ``open_selector``: Opens the selector for one partition.
    ``has_own_encoder``: Whether stored vectors come from the profile's first encoder although the method uses another.
    ``extra_inputs``: Additional input assets.
    ``preparation_problems``: Errors and omissions by question id; errors become failed rows without a model call.
    ``open_solver``: Opens the solver of questions with options, if the system has its own.
    ``solver_inputs``: Input assets of that solver.
    ``open_answerer``: Opens the answerer, if the system answers itself instead of a solver.
    ``prompted_tasks``: Prompts for a language model that selects or answers.
    ``published_style``: Prompt style of the paper (``reasoning.published_prompts.STYLES``); empty if it has none.
    """

    open_selector: Callable[[StageContext, S], Selector]
    has_own_encoder: bool = False
    extra_inputs: Callable[[Variant, S], Sequence[StageInput]] = lambda variant, settings: ()
    preparation_problems: Callable[[StageContext, S], PreparationProblems] | None = None
    open_solver: Callable[[StageContext, S], Solver] | None = None
    solver_inputs: Callable[[Variant, S], Sequence[StageInput]] = lambda variant, settings: ()
    open_answerer: Callable[[StageContext, S, pl.DataFrame], Answerer] | None = None
    prompted_tasks: tuple[PromptedTask[Any, Any], ...] = ()
    published_style: str = ""


@dataclass(frozen=True)
class ScoreTarget:
    """A data set that a method without questions is scored on: its name, metrics and requirement."""

    name: str
    metrics: frozenset[str]
    requirement: str


@dataclass(frozen=True, kw_only=True)
class CustomStages(_MethodBase[S]):
    """A method that defines its own stages.

    ``score_targets``: Data sets that its scores, and published figures, are for.
    """

    stages: Callable[[Variant, S], list[Stage]]
    score_targets: Callable[[S], Sequence[ScoreTarget]] = lambda settings: ()


@dataclass(frozen=True)
class System:
    """One published system, or a group of baselines.

    ``version``: Bump when equal inputs give another output; the golden test fails if this is forgotten.
    """

    name: str
    version: str
    methods: Mapping[str, Method[Any] | CustomStages[Any]] = field(default_factory=dict)

    def method_of(self, variant: Variant) -> Method[Any] | CustomStages[Any]:
        name = variant.method or self.name
        if name not in self.methods:
            raise BadInput(
                f"variant {variant.key}: there is no method {name!r}; known: {', '.join(self.methods)}",
                file=SYSTEMS_FOLDER / self.name / VARIANTS_FILE,
                field="method",
            )
        return self.methods[name]

    def version_with(self, settings: Any) -> str:
        """Code version of the system with these settings."""
        return f"{self.version}:{content_id(asdict(settings))[:12]}"


def is_answered_by_model(variant: Variant) -> bool:
    """Whether a language model, if the profile has one, answers from the selected evidence."""
    return variant.family in ("graph", "mcqa", "table") and not variant.reader


def model_combinations(system: System, variant: Variant, presets: frozenset[str] | None = None) -> list[Variant]:
    """The variant with every combination of the models that it, or one of its enabled presets, lists.

    Kinds that it does not use are ignored. Models that are first in the profile are left out of ``using``.
    """
    method = system.method_of(variant)
    kinds = set(method.resolve_model_kinds(method.settings_of(variant)))
    if isinstance(method, Method) and is_answered_by_model(variant):
        kinds.add("generator")
    models = models_to_combine(variant.models, variant.presets, enabled_presets() if presets is None else presets)
    axes = {kind: models[kind] for kind in MODEL_KINDS if kind in kinds & models.keys()}
    profile = profiles.load()
    return [
        variant.model_copy(
            update={
                "using": {k: name for k, name in zip(axes, names, strict=True) if name != profile.model_names(k)[0]}
            }
        )
        for names in product(*axes.values())
    ]
