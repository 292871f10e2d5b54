"""Methods: classes that select evidence, or define stages of their own. A variant names one and sets its parameters.

A new method is a subclass with a settings dataclass; :func:`evidence_assets.systems.open_method` finds it by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar, cast

import polars as pl
from pydantic import TypeAdapter, ValidationError

from evidence_assets import profiles
from evidence_assets.experiment.answers.predictions import Answerer
from evidence_assets.experiment.answers.short_answers import PreparationProblems
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import SourceKind
from evidence_assets.experiment.stage import Stage, StageContext, StageInput
from evidence_assets.experiment.variants import SYSTEMS_FOLDER, VARIANTS_FILE, Variant, models_to_combine
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.profiles import MODEL_KINDS, ModelKind
from evidence_assets.reasoning.model_calls import PromptVersion
from evidence_assets.reproduction.presets import enabled_presets
from evidence_assets.text.spelling import did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S")
Settings = TypeVar("Settings", bound="DataclassInstance", covariant=True)


_adapter = cache(TypeAdapter)
"""Validator of a settings class; building one takes a millisecond."""


def read_settings(
    settings: type[S],
    values: Mapping[str, object],
    *,
    owner: str,
    file: Path | None = None,
    defaults: Mapping[str, object],
) -> S:
    """Validate settings: ``values`` override the ``defaults`` of a profile. Errors name the ``owner``."""
    names = [f.name for f in fields(settings) if f.init] if is_dataclass(settings) else []
    for name in values:
        if name not in names:
            raise BadInput(f"{owner} has no parameter {name!r}{did_you_mean(name, names)}", file=file, field=name)
    try:
        key = cast(Hashable, settings)  # mypy does not see that a class is hashable
        return cast(S, _adapter(key).validate_python({**defaults, **values}))
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(map(str, first["loc"]))
        raise BadInput(f"{owner}: {first['msg']}", file=file, field=field_path or None) from error


@dataclass(frozen=True)
class NoSettings:
    """Settings of a method without parameters."""


class Method(ABC, Generic[Settings]):
    """A method with the settings of a variant.

    ``name``: The name that variants give as ``method``.
    ``version``: Version of the system; bump it when equal inputs give another output.
    ``settings_class``: Dataclass of the parameters.
    ``prompted_tasks``: Prompts for a language model, besides those of the answers.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    settings_class: type[Settings]
    prompted_tasks: ClassVar[tuple[PromptVersion, ...]] = ()

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.settings = read_settings(
            self.settings_class,
            variant.parameters,
            owner=f"variant {variant.key}",
            file=SYSTEMS_FOLDER / variant.system / VARIANTS_FILE,
            defaults=self.read_defaults(variant.profile),
        )

    @classmethod
    def read_defaults(cls, profile: profiles.Profile) -> Mapping[str, object]:
        """Parameters from the profile, for those that the variant does not set."""
        return {}

    @property
    def sources(self) -> Sequence[SourceKind]:
        """Sources of a benchmark that it reads with these settings."""
        return ()

    @property
    def model_kinds(self) -> Sequence[ModelKind]:
        """Kinds of models that the method uses before questions are answered."""
        return ()

    @property
    def code_version(self) -> str:
        """Version of the method with these settings."""
        return f"{self.version}:{content_id(asdict(self.settings))[:12]}"


class Fallbacks(NamedTuple):
    """Requests to a language model that a simpler method stood in for, and all requests of the kind."""

    fell_back: int
    requests: int


class SelectionMethod(Method[Settings]):
    """Selects evidence; the other stages, up to scores, belong to the task family.

    ``reads_default_vectors``: Stored vectors come from the profile's first encoder although it uses another.
    ``published_style``: Prompt style of the paper (``reasoning.published_prompts.STYLES``); empty if it has none.
    """

    reads_default_vectors: ClassVar[bool] = False
    published_style: ClassVar[str] = ""

    @property
    def tasks_per_question(self) -> Mapping[str, int]:
        """Inputs of each prompted task for a question, besides those of its answer; at most."""
        return {}

    @property
    def chunks_per_option(self) -> int:
        """Chunks of text that are selected for each option; at most."""
        return 0

    @abstractmethod
    def open_selector(self, context: StageContext) -> Selector:
        """Open the selector for one partition."""

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        """Input assets beside the sources."""
        return ()

    @property
    def shared_stages(self) -> Sequence[Stage]:
        """Stages that its evidence reads, which variants may share: equal keys are one asset."""
        return ()

    def count_fallbacks(self, predictions: pl.DataFrame) -> Mapping[str, Fallbacks]:
        """By kind of request: those that a simpler method stood in for; none if no method does."""
        return {}


class PreparedMethod(SelectionMethod[Settings]):
    """A method whose preparation may fail for single questions."""

    @abstractmethod
    def find_problems(self, context: StageContext) -> PreparationProblems:
        """Errors and omissions by question id; errors become failed rows without a model call."""


class AnsweringMethod(SelectionMethod[Settings]):
    """A method that answers itself instead of a solver."""

    @abstractmethod
    def open_answerer(self, context: StageContext, evidence: pl.DataFrame) -> Answerer: ...


@dataclass(frozen=True)
class ScoreTarget:
    """A data set that a method without questions is scored on.

    ``asset``: The asset with these scores.
    ``collection``: The collection of relations that is scored.
    """

    name: str
    metrics: frozenset[str]
    requirement: str
    asset: str
    collection: str


class StagesMethod(Method[Settings]):
    """A method that defines its own stages."""

    @abstractmethod
    def build_stages(self) -> list[Stage]: ...

    @property
    def score_targets(self) -> Sequence[ScoreTarget]:
        """Data sets that its scores, and published figures, are for."""
        return ()


AnyMethod = Method["DataclassInstance"]
AnySelectionMethod = SelectionMethod["DataclassInstance"]


def is_answered_by_model(variant: Variant) -> bool:
    """Whether a language model, if the profile has one, answers from the selected evidence."""
    return variant.family in ("graph", "mcqa", "table") and not variant.reader


def used_model_kinds(method: AnyMethod) -> set[ModelKind]:
    """Kinds of models that the method uses, with the language model that answers from its evidence."""
    kinds = set(method.model_kinds)
    if isinstance(method, SelectionMethod) and is_answered_by_model(method.variant):
        kinds.add("generator")
    return kinds


def combine_models(method: AnyMethod, presets: frozenset[str] | None = None) -> list[AnyMethod]:
    """The method with every combination of the models that its variant, or one of its enabled presets, lists.

    Kinds that it does not use are ignored. Models that are first in the profile are left out of ``active_models``.
    """
    variant = method.variant
    kinds = used_model_kinds(method)
    models = models_to_combine(variant, enabled_presets() if presets is None else presets)
    axes = {kind: models[kind] for kind in MODEL_KINDS if kind in kinds & models.keys()}
    profile = profiles.load()
    combinations = []
    for names in product(*axes.values()):
        pairs = zip(axes, names, strict=True)
        active_models = {kind: name for kind, name in pairs if name != profile.model_names(kind)[0]}
        combinations.append(type(method)(variant.model_copy(update={"active_models": active_models})))
    return combinations
