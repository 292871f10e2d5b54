"""Variants of systems, each stated in ``systems/<system>/variants.yaml`` under ``family/name``, and presets of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.experiment.scores.published_figures import PublishedName, PublishedTiming
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import MODEL_KINDS, ModelKind
from evidence_assets.reasoning.templates import PromptSettings
from evidence_assets.text.spelling import closest_name

PRESETS_VARIABLE = "EVIDENCE_PRESETS"
ALL_PRESETS = "all"
ModelSelection = dict[ModelKind, Literal["all"] | tuple[str, ...]]
"""Which models of each kind: all that the profile names, or some of them."""
PRESETS_FILE = Path(__file__).with_name("presets.yaml")


class Preset(BaseModel):
    """A published table, or several read together, as variants and benchmarks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    tables: tuple[str, ...] = ()
    """Tables of which its variants fill cells, by document and number, as ``thesis 7.5``."""
    beside: tuple[str, ...] = ()
    """Tables that its results are read beside, without a printed cell of their own."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks of the table; none where it is not about questions."""
    relations: int = 0
    """Relations of the table, where it is about harvests."""
    models: ModelSelection = {}
    """Models that its variants are crossed with, by kind; the profile's first where none is named."""


@lru_cache
def presets(file: Path = PRESETS_FILE) -> dict[str, Preset]:
    stated = read_yaml_mapping(file)
    try:
        return {name: Preset(name=name, **fields) for name, fields in stated.items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a preset is not as it should be: {error}", file=file) from error


def check_preset_names(names: Iterable[str], stated_in: str) -> frozenset[str]:
    """The names as a set; one that is no preset is refused with its nearest neighbour."""
    found = frozenset(names)
    for name in sorted(found - presets().keys()):
        near = closest_name(name, presets())
        raise BadInput(
            f"there is no preset {name!r}; did you mean {near!r}? `evidence presets` lists them", field=stated_in
        )
    return found


def enabled_presets() -> frozenset[str]:
    """The presets that the environment and the profile in use ask for."""
    stated = {name.strip() for name in os.environ.get(PRESETS_VARIABLE, "").split(",")} - {""}
    asked = {PRESETS_VARIABLE: stated, "presets": set(profiles.load().presets)}
    found: frozenset[str] = frozenset()
    for place, names in asked.items():
        found |= frozenset(presets()) if ALL_PRESETS in names else check_preset_names(names, place)
    return found


def models_to_combine(own: ModelSelection, named: Sequence[str], opted: frozenset[str]) -> dict[ModelKind, list[str]]:
    """The models by kind that a variant of these presets is crossed with: its own, else those of its opted-in presets.

    One that another packaged profile names and this one does not is left out: the paper's encoder on a laptop.
    """
    stated = {k: v for name in reversed(named) if name in opted for k, v in presets()[name].models.items()} | own
    profile = profiles.load()
    return {
        kind: profile.model_names(kind)
        if names == "all"
        else _available_models(profile, kind, names) or profile.model_names(kind)[:1]
        for kind, names in stated.items()
    }


def _available_models(profile: profiles.Profile, kind: ModelKind, names: Sequence[str]) -> list[str]:
    elsewhere = {name for other in profiles.available() for name in profiles.load(other).model_names(kind)}
    return [profile.check_name(kind, n) for n in names if n in profile.model_names(kind) or n not in elsewhere]


def is_enabled(named: Iterable[str], always: bool = False) -> bool:
    """Whether a variant that names these presets is part of the graph."""
    own = check_preset_names(named, "presets")
    return always or not own or bool(own & enabled_presets())


SYSTEMS_FOLDER = Path(__file__).resolve().parent.parent / "systems"
VARIANTS_FILE = "variants.yaml"


class Variant(BaseModel):
    """One variant of a system, as its YAML states it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    family: str
    name: str
    like: str = ""
    """Another variant of the file whose method and parameters it takes over, but for those that it states itself."""
    method: str = ""
    """The system's method; the one named like the system where none is named."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """What differs from the defaults of the method's settings."""
    evidence: str = ""
    """Variant of the same family whose evidence it reads; its own where none is named."""
    explain: bool = True
    """Whether a chain is written for every option before one is chosen; without, the evidence alone is weighed."""
    asks: Literal["", "ours", "published"] = ""
    """How a language model is asked and its answer is taken: in our own way, or as the paper does, where the method
    has one. Left out, as the paper does where figures are ``published`` for it."""
    prompts: str = ""
    """Folder with prompts of one's own, beside the file that states it or absolute; the profile's come after it."""
    tokens: dict[str, int] = Field(default_factory=dict)
    """Most tokens of a model's reply, by the name of the prompt, where it is another number than the prompt's own."""
    temperature: float = 0.0
    """Of a language model's replies: at 0 the likeliest word each time, above it words are drawn from a fixed seed."""
    counterfactual: bool = False
    """Also ask whether each answer stands without the evidence it cites, and with that alone; costs some answers more
    a question."""
    retrieval: bool = False
    """Also score the triples themselves: hits and F1. For methods that rank triples of a graph."""
    bertscore: bool = False
    """Also match the tokens of each question with those of its evidence; all of it is encoded for that."""
    published: Annotated[
        tuple[PublishedName, ...], BeforeValidator(lambda one: [one] if isinstance(one, dict) else one)
    ] = ()
    """The names under which figures are printed that it is compared with, one or a list."""
    timed: tuple[PublishedTiming, ...] = ()
    """Under which names what its steps take is printed."""
    differs: str = ""
    """Where it is other than the run that its figures are printed for, beyond models and data."""
    presets: tuple[str, ...] = ()
    """Presets that it belongs to; without any it is always loaded."""
    models: ModelSelection = Field(default_factory=dict)
    """Models that it is crossed with, by kind, whichever presets say; see ``experiment.system.crossings``."""
    using: dict[ModelKind, str] = Field(default_factory=dict)
    """Of a crossing, the models that are not the profile's first, by kind; stated in no file."""
    always: bool = False
    """Loaded whichever presets are opted in; for what belongs to a published table and to the default graph, too."""
    group: str = ""
    """Group of its assets in the UI; the system's name where none is named."""
    asked: bool = False
    """Answers single questions (``evidence ask``) alone and is never part of the graph."""

    def with_models(self, key: str, kinds: Collection[ModelKind] = tuple(MODEL_KINDS), by: str = "/") -> str:
        """A key or a name with the models after it that it uses of these kinds, but for the profile's first."""
        return by.join([key, *(name for kind, name in self.using.items() if kind in kinds)])

    @property
    def key(self) -> str:
        """Family, name and models, as they stand in asset keys."""
        return self.with_models(f"{self.family}/{self.name}")

    @property
    def label(self) -> str:
        """Name and models, as people name it."""
        return self.with_models(self.name, by="@")

    @property
    def asks_as_published(self) -> bool:
        """Whether a language model is asked as the paper does."""
        return self.asks == "published" or (not self.asks and bool(self.published))

    @property
    def words(self) -> PromptSettings:
        """What prompts say, as the variant has them, else the profile, else as packaged; and what a reply may be."""
        own = SYSTEMS_FOLDER / self.system / self.prompts if self.prompts else None
        shared = Path(profiles.load().prompts) if profiles.load().prompts else None
        return PromptSettings(tuple(folder for folder in (own, shared) if folder), self.tokens, self.temperature)

    @property
    def profile(self) -> profiles.Profile:
        """The profile in use, with its models first."""
        return profiles.load().with_models(self.using)

    @property
    def selector(self) -> str:
        """Name under which its evidence is stored."""
        return self.evidence or self.name

    @property
    def is_enabled(self) -> bool:
        """Whether it is part of the graph with the presets that are opted in."""
        return not self.asked and is_enabled(self.presets, self.always)

    @property
    def is_loaded(self) -> bool:
        """Whether it is chosen and has something to answer: benchmarks of its family, where it answers questions."""
        return self.is_enabled and (self.family not in FAMILIES or bool(benchmarks_of_family(self.family)))


def _read_variants(system: str, file: Path) -> Iterator[Variant]:
    stated = read_yaml_mapping(file)
    for place in stated:
        family, _, name = place.partition("/")
        if not name:
            raise BadInput(f"{place!r} is no family/name", file=file)
        whole = _with_base(place, stated, file, ())
        for field in whole:
            stated_ones = Variant.model_fields.keys() - {"using"}
            if field not in stated_ones:
                near = closest_name(str(field), stated_ones)
                raise BadInput(f"{place}: there is no {field!r}; did you mean {near!r}?", file=file, field=str(field))
        try:
            yield Variant(system=system, family=family, name=name, **whole)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadInput(f"{place}: {first['msg']}", file=file, field=where) from error


def _with_base(place: str, stated: dict[str, Any], file: Path, asked_by: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a variant with method and parameters of the one that it is like."""
    fields = stated[place] or {}
    if not isinstance(fields, dict) or not isinstance(fields.get("parameters") or {}, dict):
        raise BadInput("is no mapping of fields, or its parameters are none", file=file, field=place)
    if place in asked_by:
        raise BadInput(f"{place} is like itself", file=file, field="like")
    base = fields.get("like")
    if not base:
        return fields
    if not isinstance(base, str) or base not in stated:
        near = closest_name(str(base), stated)
        raise BadInput(f"{place} is like {base!r}; did you mean {near!r}?", file=file, field="like")
    inherited = _with_base(base, stated, file, (*asked_by, place))
    taken: dict[str, Any] = {name: inherited[name] for name in ("method", "asks") if name in inherited}
    if "published" in inherited:
        taken.setdefault("asks", "published")
    return {
        **taken,
        **fields,
        "parameters": {**(inherited.get("parameters") or {}), **(fields.get("parameters") or {})},
    }


@lru_cache
def variants_of(system: str, folder: Path = SYSTEMS_FOLDER) -> tuple[Variant, ...]:
    """The variants of one system, in the order of its file."""
    return tuple(_read_variants(system, folder / system / VARIANTS_FILE))


@lru_cache
def variants(folder: Path = SYSTEMS_FOLDER) -> tuple[Variant, ...]:
    """The variants of all systems; two of the same family and name are refused."""
    every = [v for file in sorted(folder.glob(f"*/{VARIANTS_FILE}")) for v in variants_of(file.parent.name, folder)]
    known: dict[str, Variant] = {}
    for variant in every:
        before = known.setdefault(variant.key, variant)
        if before is not variant:
            raise BadInput(f"variant {variant.key} is stated by {before.system} and by {variant.system}")
    for variant in every:
        _refuse_missing_evidence(variant, known)
    return tuple(every)


def _refuse_missing_evidence(variant: Variant, known: dict[str, Variant]) -> None:
    """Refuse a variant that reads evidence which nobody makes when it is loaded."""
    if not variant.evidence:
        return
    source = known.get(f"{variant.family}/{variant.evidence}")
    if source is None:
        raise BadInput(f"variant {variant.key} reads the evidence of {variant.evidence!r}, which is no variant")
    if variant.is_enabled and not source.is_enabled:
        raise BadInput(
            f"variant {variant.key} is loaded, {source.key}, whose evidence it reads, is not: give both the same "
            f"presets, {', '.join(variant.presets)}"
        )
