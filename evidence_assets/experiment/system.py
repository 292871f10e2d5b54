"""A system: its methods, which pick evidence or state stages of their own, with their settings, and one version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import polars as pl
from pydantic import TypeAdapter, ValidationError

from evidence_assets import profiles
from evidence_assets.experiment.answers.predictions import Answerer
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
from evidence_assets.text.spelling import closest_name

S = TypeVar("S")


def read_settings(
    settings: type[S], stated: Mapping[str, Any], *, where: str, file: Path | None = None, defaults: Mapping[str, Any]
) -> S:
    """Settings of this type with ``stated`` values over the ``defaults`` of a profile; BadInput where one is wrong."""
    known = [f.name for f in fields(settings) if f.init] if is_dataclass(settings) else []
    for name in stated:
        if name not in known:
            meant = f"did you mean {closest_name(name, known)!r}? It has {', '.join(known)}" if known else "it has none"
            raise BadInput(f"{where} has no parameter {name!r}; {meant}", file=file, field=name)
    try:
        return TypeAdapter(settings).validate_python({**defaults, **stated})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: {first['msg']}", file=file, field=place or None) from error


@dataclass(frozen=True)
class NoSettings:
    """Settings of a method without parameters."""


@dataclass(frozen=True, kw_only=True)
class _MethodBase(Generic[S]):
    """What both kinds of method have.

    ``settings``: Dataclass of its parameters, the only list of them.
    ``defaults``: Parameters that a profile sets where the variant does not.
    ``uses``: Kinds of models that it works with before anything is answered; may depend on the settings.
    """

    settings: type[S]
    defaults: Callable[[profiles.Profile], Mapping[str, Any]] = lambda profile: {}
    model_kinds: Sequence[ModelKind] | Callable[[S], Sequence[ModelKind]] = ()

    def resolve_model_kinds(self, settings: S) -> Sequence[ModelKind]:
        """Kinds of models that it works with under these settings."""
        return self.model_kinds(settings) if callable(self.model_kinds) else self.model_kinds

    def settings_of(self, variant: Variant) -> S:
        """The settings of a variant in the profile in use, with the models that it uses."""
        return read_settings(
            self.settings,
            variant.parameters,
            where=f"variant {variant.key}",
            file=SYSTEMS_FOLDER / variant.system / VARIANTS_FILE,
            defaults=self.defaults(variant.profile),
        )


@dataclass(frozen=True, kw_only=True)
class Method(_MethodBase[S]):
    """A way to pick evidence; the stages from there to scores are those of the task family.

    ``open``: Makes the selector for one partition.
    ``reads``: What of a benchmark it reads.
    ``more_reads``: Assets that it reads besides.
    ``failed``: Why questions of a partition could not be prepared, by question id: they end as failed rows, and nothing
        is asked.
    ``answerer``: Makes who answers from evidence, where that is the system itself and not a solver.
    ``own_encoder``: Whether its encoder meets no stored vectors although it reads some: those of the profile's first
        then do.
    ``asks``: What it asks a language model, to pick or to answer.
    ``published``: How its paper asks for answers, by name (``reasoning.published_prompts.STYLES``); empty where
        it does not say.
    """

    open_selector: Callable[[StageContext, S], Selector]
    sources: tuple[SourceKind, ...] = ()
    has_own_encoder: bool = False
    extra_inputs: Callable[[Variant, S], Sequence[StageInput]] = lambda variant, settings: ()
    preparation_errors: Callable[[StageContext, S], Mapping[str, str]] | None = None
    open_answerer: Callable[[StageContext, S, pl.DataFrame], Answerer] | None = None
    prompted_tasks: tuple[PromptedTask[Any, Any], ...] = ()
    published_style: str = ""


@dataclass(frozen=True)
class ScoreTarget:
    """What a method that answers no questions is scored on: its name in scores, the metrics, and what it needs."""

    name: str
    metrics: frozenset[str]
    requirement: str


@dataclass(frozen=True, kw_only=True)
class CustomStages(_MethodBase[S]):
    """A method that states its stages itself; ``scored_on`` is what figures may be printed for.

    ``asks_first`` asks what its stages ask a language model, of the first row that they would ask about: to be shown.
    """

    stages: Callable[[Variant, S], list[Stage]]
    preview_prompt: Callable[[Variant, S, StageContext], None] | None = None
    score_targets: Callable[[S], Sequence[ScoreTarget]] = lambda settings: ()


@dataclass(frozen=True)
class System:
    """One published system, or a group of baselines.

    ``version``: Changes when equal input gives another output; the system's golden test goes red when it should have.
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
        """Code version of what is made with these settings."""
        return f"{self.version}:{content_id(asdict(settings))[:12]}"


def is_answered_by_model(variant: Variant) -> bool:
    """Whether a language model answers what was picked, where the profile has one."""
    return variant.family in ("graph", "mcqa", "table")


def model_combinations(system: System, variant: Variant, opted: frozenset[str] | None = None) -> list[Variant]:
    """The variant once for every combination of the models that it, or an opted-in preset of it, is crossed with.

    A kind that it does not work with is left out. Models that come first in the profile are not named.
    """
    method = system.method_of(variant)
    kinds = set(method.resolve_model_kinds(method.settings_of(variant)))
    if isinstance(method, Method) and is_answered_by_model(variant):
        kinds.add("generator")
    crossed = models_to_combine(variant.models, variant.presets, enabled_presets() if opted is None else opted)
    axes = {kind: crossed[kind] for kind in MODEL_KINDS if kind in kinds & crossed.keys()}
    profile = profiles.load()
    return [
        variant.model_copy(
            update={
                "using": {k: name for k, name in zip(axes, names, strict=True) if name != profile.model_names(k)[0]}
            }
        )
        for names in product(*axes.values())
    ]
