"""Profiles: named sets of models and parameters in YAML, packaged or a user's own, selected by EVIDENCE_PROFILE.

A profile lists any number of models of each kind (``generators: {llama: …, qwen: …}``). The first one is the default;
``generator: {…}`` is short for a single model."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import is_file, read_yaml_mapping
from evidence_assets.text.spelling import closest_name

PROFILE_VARIABLE = "EVIDENCE_PROFILE"
ModelKind = Literal["generator", "encoder", "reranker", "masked_model"]
"""A kind of model of which a profile may list several."""
MODEL_KINDS: dict[ModelKind, str] = {kind: f"{kind}s" for kind in get_args(ModelKind)}
"""Kinds of models, each with the profile field that lists its models."""
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
"""A profile's name for a model, used in asset keys, groups and tags."""
MEMORY_PATTERN = r"^\d+(\.\d+)? ?[MG]B$"
_PROFILES_FOLDER = Path(__file__).parent


def parse_bytes(memory: str) -> int:
    """Convert a size such as 500MB to bytes."""
    return int(float(memory[:-2]) * {"M": 10**6, "G": 10**9}[memory[-2]])


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(_StrictModel):
    """A model's name and loading options."""

    name: str = Field(description="Name on the hub, folder of weights, or name of an embedded model.")
    revision: str | None = Field(None, description="Commit or tag; part of every key.")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N.")
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")


class EncoderSettings(ModelSettings):
    """An encoder: local, or on a server if ``base_url`` is set."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="Data type of a local encoder."
    )
    base_url: str = Field("", description="OpenAI-compatible embeddings server; empty for a local model.")
    api_key_env: str = Field("OPENAI_API_KEY", description="For a server: environment variable of the API key.")
    max_tokens: int = Field(512, ge=8, description="For a server: longest input of the model, in tokens.")


class GeneratorSettings(_StrictModel):
    """A language model for reasoning, and its backend."""

    backend: Literal["extractive", "openai", "transformers", "vllm", "replay"]
    name: str = Field("extractive", description="The backend's name of the model.")
    revision: str | None = None
    base_url: str = Field("http://127.0.0.1:8000/v1", description="For openai: URL of the server.")
    api_key_env: str = Field("OPENAI_API_KEY", description="For openai: environment variable of the API key.")
    concurrency: int = Field(32, ge=1, le=1024, description="For openai: maximum concurrent requests.")
    timeout_seconds: float = Field(300, gt=0, description="For openai: time limit of a complete reply.")
    constrain: Literal["json_schema", "structured_outputs", "none"] = Field(
        "json_schema", description="How to constrain replies; for openai by response_format or by vLLM's field."
    )
    four_bit: bool = Field(False, description="For transformers: load weights in 4 bit (bitsandbytes).")
    folder: str = Field("", description="For replay: folder of recorded answers.")
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")


class Shards(_StrictModel):
    """Numbers of partitions; fixed when a lake is created."""

    questions: int = Field(ge=1, le=16)
    corpus: int = Field(ge=1, le=64, description="At most 64: Dagster stops tracking staleness at 100 upstream ones.")


class Chunking(_StrictModel):
    max_tokens: int = Field(ge=8, le=8192, description="Limited to 512 and to the encoder's maximum input.")
    passage_tokens: int | None = Field(
        None, ge=8, description="Tokens of a knowledge base passage; default: the encoder's."
    )


class IndexSettings(_StrictModel):
    kind: Literal["auto", "flat", "ivf"] = Field("auto", description="auto selects by size and memory.")
    memory: str = Field("8GB", pattern=MEMORY_PATTERN, description="Memory limit of an index, such as 500MB.")

    @property
    def bytes(self) -> int:
        return parse_bytes(self.memory)


class Retrieval(_StrictModel):
    R: int = Field(ge=1, description="Pool: chunks from the index for the fine ranking, per question and option.")
    k: int = Field(ge=1, description="Chunks kept per question and option.")
    s: int = Field(ge=0, description="Triples kept per question and option.")
    token_cache_gb: float = Field(20.0, ge=0, description="Size limit of a corpus's token vector cache, in GB.")


class Harvesting(_StrictModel):
    """Settings for harvesting triples from a masked language model."""

    training_steps: int = Field(4500, ge=1, description="Training steps of sample-masked-lm.")
    n: int = Field(1000, ge=1, description="Pairs of each heap, and triples kept of a relation.")
    prompts: int = Field(20, ge=1, description="Prompts kept of a relation.")
    fluency: Literal["printed", "corrected", "probability", ""] = Field(
        "", description="Fluency of triples; default: probability with sample-masked-lm, corrected with other models."
    )
    final: Literal["printed", "rank_normalised", "fluency", ""] = Field(
        "", description="Ranking of triples; default: fluency with sample-masked-lm, printed with other models."
    )
    sample_relations: tuple[str, ...] = Field((), description="Sample seed files to copy into raw/seeds.")
    relations: tuple[str, ...] = Field((), description="Additional packaged seed files: conceptnet, lama, umls.")
    collections: tuple[str, ...] = Field(("biomedical", "commonsense"), description="Collections to merge harvests by.")
    truth: Literal["sample", ""] = Field(
        "sample", description="sample scores harvests against the facts of the sample."
    )
    judges: tuple[str, ...] = Field((), description="Generators that judge harvested triples; default: the first.")
    writer: ModelSettings | None = Field(None, description="Writes sentences from keywords; default: the masked model.")
    substitution: ModelSettings | None = Field(
        None, description="XLNet that rewords prompts; default: the masked model."
    )
    paraphraser: Literal["infilling", "generator"] = Field(
        "infilling", description="Rewords prompts for the baseline; generator selects the first language model."
    )
    likelihood: ModelSettings | None = Field(None, description="Model that rates harvested triples, as BARTScore does.")


class GraphPaths(_StrictModel):
    """Search limits of a graph selector, and training steps of its node scorer."""

    D: int = Field(ge=1, le=6, description="Depth: maximum steps from the question's concepts.")
    cap: int = Field(ge=1, description="Maximum neighbours added per node.")
    max_nodes: int = Field(ge=1, description="Maximum nodes of a subgraph.")
    most_nodes: int = Field(ge=1, description="Maximum nodes of an uncapped subgraph, about 50 kB each.")
    steps: int = Field(ge=0, description="T: training steps of the node scorer.")
    path_length: int = Field(ge=1, le=6, description="Maximum edges of a path.")
    passages: int = Field(ge=1, description="Paths kept per option.")


class Pools(_StrictModel):
    """Maximum concurrent steps over all runs; `evidence limits` sets them in Dagster."""

    gpu: int = Field(1, ge=1, description="Steps that load a model in their process.")
    llm: int = Field(4, ge=1, description="Steps that call a served language model.")


class StepResources(_StrictModel):
    """Resources of a step that Ray schedules."""

    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)
    memory: str = Field("2GB", pattern=MEMORY_PATTERN)


class PoolResources(_StrictModel):
    """Resources of steps by concurrency pool."""

    gpu: StepResources = StepResources(memory="4GB")
    llm: StepResources = StepResources()
    other: StepResources = StepResources()


class Calibration(_StrictModel):
    """Softmax temperatures of option weights by task family, fitted on development data."""

    mcqa: float = Field(1.0, gt=0)
    table: float = Field(1.0, gt=0)


class Profile(_StrictModel):
    """The models and parameters for one kind of machine."""

    name: str
    extended: tuple[str, ...] = Field((), description="Extended profiles, nearest first; set when the profile is read.")
    description: str
    shards: Shards
    generators: dict[ModelName, GeneratorSettings] = Field(min_length=1)
    encoders: dict[ModelName, EncoderSettings] = Field(min_length=1)
    token_encoder: EncoderSettings
    rerankers: dict[ModelName, ModelSettings] = Field(min_length=1)
    masked_models: dict[ModelName, ModelSettings] = Field(min_length=1)
    chunking: Chunking
    index: IndexSettings = Field(default_factory=lambda: IndexSettings(kind="auto"))
    retrieval: Retrieval
    harvesting: Harvesting
    ugat: GraphPaths
    calibration: Calibration = Field(default_factory=Calibration)
    pools: Pools = Field(default_factory=lambda: Pools(gpu=1, llm=4))
    automation: bool = Field(
        False, description="Whether changed inputs also re-materialize assets that call a language model."
    )
    executor: Literal["processes", "ray"] = Field(
        "processes", description="ray runs steps as jobs of the Ray cluster at RAY_ADDRESS."
    )
    needs: PoolResources = Field(default_factory=PoolResources, description="Resources that Ray reserves for a step.")
    prompts: str = Field("", description="Folder with custom prompts, absolute or relative to this file.")
    presets: tuple[str, ...] = Field((), description="Presets with additional variants to load.")
    sample: Literal["full", "small"] = Field("full", description="Size of the sample world; small is for quick tests.")

    def is_any_of(self, names: Collection[str]) -> bool:
        """Whether the profile is, or extends, one of ``names``; True if ``names`` is empty."""
        return not names or not {self.name, *self.extended}.isdisjoint(names)

    @property
    def generator(self) -> GeneratorSettings:
        """The language model in use; the extractive reasoner by default."""
        return next(iter(self.generators.values()))

    @property
    def encoder(self) -> EncoderSettings:
        return next(iter(self.encoders.values()))

    @property
    def reranker(self) -> ModelSettings:
        return next(iter(self.rerankers.values()))

    @property
    def masked_model(self) -> ModelSettings:
        return next(iter(self.masked_models.values()))

    def model_names(self, kind: ModelKind) -> list[str]:
        """Names of the models of a kind, the one in use first."""
        return list(getattr(self, MODEL_KINDS[kind]))

    def check_name(self, kind: ModelKind, name: str) -> str:
        """Return ``name`` if it is a model of the kind; raise BadInput with the nearest name otherwise."""
        if name not in self.model_names(kind):
            near = closest_name(name, self.model_names(kind))
            raise BadInput(
                f"profile {self.name} has no {kind} {name!r}; did you mean {near!r}?", field=MODEL_KINDS[kind]
            )
        return name

    def with_models(self, models: Mapping[ModelKind, str]) -> Profile:
        """Copy of the profile that uses these models, given by kind."""
        update = {}
        for kind, name in models.items():
            models_of_kind = getattr(self, MODEL_KINDS[kind])
            update[MODEL_KINDS[kind]] = {self.check_name(kind, name): models_of_kind[name], **models_of_kind}
        return self.model_copy(update=update) if update else self


def _merge(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overrides.items():
        is_nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if is_nested else value
    return merged


REMOVED_KEYS = {
    ("calls_a_day",): "`automation: true` alone lets changed inputs call language models; set budgets at the server",
    ("harvesting", "seed_folders"): "copy the seed files to raw/seeds of the lake",
}
"""Keys of earlier releases, each with what replaces it."""


def _drop_removed_keys(fields: dict[str, Any], path: Path) -> None:
    for (*parents, key), replacement in REMOVED_KEYS.items():
        section: Any = fields
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if isinstance(section, dict) and key in section:
            del section[key]
            name = ".".join([*parents, key])
            warnings.warn(f"{path}: {name} is ignored: {replacement}. Remove the key.", FutureWarning, stacklevel=2)


def _read_settings(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Settings of a profile merged with those it extends; models are under the plural of their kind."""
    settings = read_yaml_mapping(path)
    _drop_removed_keys(settings, path)
    if isinstance(settings.get("prompts"), str):
        settings["prompts"] = str((path.parent / settings["prompts"]).resolve())
    base = _read_extended(str(settings.pop("extends")), path, extended_by) if "extends" in settings else {}
    for singular, plural in MODEL_KINDS.items():
        if singular in settings and plural in settings:
            raise BadInput(f"both {singular} and {plural} are set. Remove one", file=path, field=singular)
        if singular in settings:
            model, models = settings.pop(singular), base.get(plural, {})
            if isinstance(model, dict) and (len(models) == 1 or not {"name", "backend"} & model.keys()):
                model = next(iter(models.values()), {}) | model
            settings[plural] = {_short_name(model): model}
        if plural in settings:
            base.pop(plural, None)  # merging would mix the order of models, and the first is the default
    return _merge(base, settings)


def _read_extended(name: str, path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    try:
        extended_path = _find_profile(name, path.parent)
    except BadInput as error:
        raise BadInput(error.message, file=path, field="extends") from error
    extended_by = (*extended_by, path.resolve())
    if extended_path.resolve() in extended_by:
        raise BadInput("the profiles extend each other in a cycle. Remove one extends", file=path, field="extends")
    base = _read_settings(extended_path, extended_by)
    return base | {"extended": [base.get("name", ""), *base.get("extended", [])]}


def _short_name(model: Any) -> str:
    """Profile name of the only model of its kind: the last part of the model's name."""
    name = str(model.get("name") or model.get("backend") or "") if isinstance(model, dict) else ""
    return re.sub(r"[^a-z0-9]+", "_", name.rstrip("/").rpartition("/")[2].lower()).strip("_") or "model"


def available() -> list[str]:
    """Names of the packaged profiles."""
    return sorted(path.stem for path in _PROFILES_FOLDER.glob("*.yaml"))


def _find_profile(name: str, folder: Path = Path()) -> Path:
    packaged = _PROFILES_FOLDER / f"{name}.yaml"
    path = packaged if is_file(packaged) else folder / name
    if not is_file(path):
        near = closest_name(name, available())
        raise BadInput(
            f"unknown profile {name!r}; did you mean {near!r}? Use one of {', '.join(available())}, or the path of a "
            "YAML file",
            file=path if path.suffix else None,
        )
    return path


def load(name: str | None = None) -> Profile:
    """Load the profile of this name or path; default: EVIDENCE_PROFILE, else ``embedded``."""
    return _load(name or os.environ.get(PROFILE_VARIABLE) or "embedded")


@lru_cache
def _load(name: str) -> Profile:
    path = _find_profile(name)
    try:
        return Profile.model_validate(_read_settings(path))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            schema = Profile.model_json_schema()
            parts = [schema, *schema["$defs"].values()]
            names = {*MODEL_KINDS, *(name for part in parts for name in part["properties"])}
            near = closest_name(str(first["loc"][-1]), sorted(names))
            raise BadInput(f"unknown setting; did you mean {near!r}?", file=path, field=field) from error
        raise BadInput(str(first["msg"]), file=path, field=field) from error
