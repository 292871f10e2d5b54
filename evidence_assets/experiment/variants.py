"""Variants of systems, from ``systems/<system>/variants.yaml`` by ``family/name``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, cast

from pydantic import Field, ValidationError

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import FAMILIES, benchmarks_of_family
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.profiles import MODEL_KINDS, ModelKind, StrictModel
from evidence_assets.reasoning.templates import Prompts
from evidence_assets.reproduction.presets import ModelSelection, presets
from evidence_assets.reproduction.printed_variants import NOT_PRINTED, PrintedVariant, printed_variants
from evidence_assets.text.spelling import did_you_mean


def models_to_combine(variant: Variant, enabled: frozenset[str]) -> dict[ModelKind, list[str]]:
    """Models by kind to combine with a variant: its own selection, else those of its enabled presets.

    Models that only another packaged profile has are left out, such as the paper's encoder on a laptop.
    """
    names_by_kind: ModelSelection = {}
    for name in reversed(variant.printed.presets):
        if name in enabled:
            names_by_kind |= presets()[name].models
    names_by_kind |= variant.models
    profile = profiles.load()
    return {
        kind: profile.model_names(kind)
        if names == "all"
        else available_models(profile, kind, names) or profile.model_names(kind)[:1]
        for kind, names in names_by_kind.items()
    }


def available_models(profile: profiles.Profile, kind: ModelKind, names: Sequence[str]) -> list[str]:
    """The named models that the profile has; names that only another packaged profile has are left out."""
    other_names = {name for other in profiles.available() for name in profiles.load(other).model_names(kind)}
    return [profile.check_name(kind, n) for n in names if n in profile.model_names(kind) or n not in other_names]


SYSTEMS_FOLDER = Path(__file__).resolve().parent.parent / "systems"
VARIANTS_FILE = "variants.yaml"


class Variant(StrictModel):
    """One variant of a system, as declared in YAML."""

    system: str
    family: str
    name: str
    like: str = ""
    """Variant of the same file to inherit method and parameters from."""
    method: str = ""
    """Method of the system; by default the one with the system's name."""
    parameters: dict[str, object] = Field(default_factory=dict)
    """Parameters that differ from the defaults of the method."""
    evidence: str = ""
    """Variant of the same family whose evidence it reads; by default its own."""
    explain: bool = True
    """Whether each option gets a chain before one is chosen; otherwise the evidence alone is compared."""
    prompt_style: Literal["ours", "published"] = "ours"
    """Prompts: ours, or the paper's if the method has them."""
    temperature: float = 0.0
    """Sampling temperature of a language model: 0 for greedy decoding, above 0 sampling with a fixed seed."""
    reader: bool = False
    """Answer with the profile's reader instead of a language model; for questions on a graph."""
    counterfactual: bool = False
    """Whether to answer again without the cited evidence, and with only it; costs several answers per question."""
    scores_triples: bool = False
    """Whether to score the evidence triples: hits and F1. For methods that rank triples of a graph."""
    bertscore: bool = False
    """Whether to score the similarity of question and evidence tokens; encodes all evidence."""
    models: ModelSelection = Field(default_factory=dict)
    """Models to combine it with, by kind; overrides its presets. See ``methods.combine_models``."""
    active_models: dict[ModelKind, str] = Field(default_factory=dict)
    """Models of a combination, by kind, where they differ from the profile's first; not a YAML field."""
    asks_why: bool = False
    """Whether a user asked for explanations of all options, whatever the profile says; not a YAML field."""
    group: str = ""
    """Group of its assets in the UI; by default the system's name."""
    only_ad_hoc: bool = False
    """Only for single questions (``evidence ask``); never part of the asset graph."""

    def with_models(self, key: str, kinds: Collection[ModelKind] = tuple(MODEL_KINDS), separator: str = "/") -> str:
        """Append the variant's models of these kinds, unless first in the profile, to a key or name."""
        return separator.join([key, *(name for kind, name in self.active_models.items() if kind in kinds)])

    @property
    def key(self) -> str:
        """Family, name and models, as in asset keys."""
        return self.with_models(f"{self.family}/{self.name}")

    @property
    def label(self) -> str:
        """Name and models, for display."""
        return self.with_models(self.name, separator="@")

    @property
    def prompt_settings(self) -> Prompts:
        """Prompt texts of the profile, else packaged; with the temperature and, for our own, the profile's limit."""
        profile = profiles.load()
        limit = 0 if self.prompt_style == "published" else profile.explanation_tokens
        return Prompts((Path(profile.prompts),) if profile.prompts else (), self.temperature, limit)

    @property
    def profile(self) -> profiles.Profile:
        """The active profile, with the variant's models first."""
        return profiles.load().with_models(self.active_models)

    @property
    def has_triple_metrics(self) -> bool:
        """Whether the triples of its evidence are scored."""
        return self.family == "graph" or self.scores_triples

    @property
    def selector(self) -> str:
        """Name of its evidence."""
        return self.evidence or self.name

    @property
    def printed(self) -> PrintedVariant:
        """What the papers print about it."""
        return printed_variants().get(f"{self.family}/{self.name}", NOT_PRINTED)

    @property
    def is_published(self) -> bool:
        """Whether its scores are compared with printed ones, or its prompts are the paper's."""
        return bool(self.printed.figures) or self.prompt_style == "published"

    @property
    def is_loaded(self) -> bool:
        """Whether the asset graph includes it: if it answers questions, its family needs benchmarks."""
        is_selected = not self.only_ad_hoc and self.printed.is_enabled
        return is_selected and (self.family not in FAMILIES or bool(benchmarks_of_family(self.family)))


def _read_variants(system: str, file: Path) -> Iterator[Variant]:
    declarations = read_yaml_mapping(file)
    for key in declarations:
        family, _, name = key.partition("/")
        if not name:
            raise BadInput(f"{key!r} must have the form family/name", file=file)
        fields = _with_base(key, declarations, file)
        try:
            yield Variant(system=system, family=family, name=name, **fields)
        except ValidationError as error:
            first = error.errors()[0]
            field_path = ".".join(map(str, first["loc"]))
            raise BadInput(f"{key}: {first['msg']}", file=file, field=field_path) from error


def _with_base(key: str, declarations: Mapping[str, object], file: Path) -> dict[str, object]:
    """The fields of a variant, with inherited method and parameters."""
    fields = declarations[key] or {}
    parameters = (fields.get("parameters") or {}) if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(parameters, dict):
        raise BadInput("must be a mapping of fields; its parameters must be one, too", file=file, field=key)
    base = str(fields.get("like") or "")
    if not base:
        return fields
    if base not in declarations:
        suggestion = did_you_mean(base, declarations)
        raise BadInput(f"{key}: there is no variant {base!r}{suggestion}", file=file, field="like")
    parent = _with_base(base, declarations, file)
    inherited = {name: value for name, value in parent.items() if name in ("method", "prompt_style")}
    return {**inherited, **fields, "parameters": cast(dict[str, object], parent.get("parameters") or {}) | parameters}


@lru_cache
def variants_of(system: str, folder: Path = SYSTEMS_FOLDER) -> tuple[Variant, ...]:
    """The variants of one system, in the order of its file."""
    return tuple(_read_variants(system, folder / system / VARIANTS_FILE))


@lru_cache
def variants(folder: Path = SYSTEMS_FOLDER) -> tuple[Variant, ...]:
    """The variants of all systems; raises BadInput for duplicate keys."""
    variants = [v for file in sorted(folder.glob(f"*/{VARIANTS_FILE}")) for v in variants_of(file.parent.name, folder)]
    by_key: dict[str, Variant] = {}
    for variant in variants:
        first = by_key.setdefault(variant.key, variant)
        if first is not variant:
            raise BadInput(f"variant {variant.key} is declared by {first.system} and by {variant.system}: rename one")
    return tuple(variants)
