"""Named sets of models and parameters: YAML of this package or a user's own, chosen by EVIDENCE_PROFILE.

Of each kind a profile names any number of models (``generators: {llama: …, qwen: …}``), of which the first is the
default; ``generator: {…}`` is short for a single one."""

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
"""A kind of model that a profile may name several of."""
MODEL_KINDS: dict[ModelKind, str] = {kind: f"{kind}s" for kind in get_args(ModelKind)}
"""Kinds of models, each with the field of a profile that names those of its kind."""
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
"""How a profile calls a model; it stands in asset keys, groups and tags."""
MEMORY_PATTERN = r"^\d+(\.\d+)? ?[MG]B$"
_HERE = Path(__file__).parent


def parse_bytes(memory: str) -> int:
    """A size such as 500MB in bytes."""
    return int(float(memory[:-2]) * {"M": 10**6, "G": 10**9}[memory[-2]])


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(_Strict):
    """A model by name, with how it is loaded."""

    name: str = Field(description="Name on the hub, folder of weights, or the name of an embedded model.")
    revision: str | None = Field(None, description="Commit or tag; part of every key.")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N.")
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")


class EncoderSettings(ModelSettings):
    """An encoder, loaded here or, with ``base_url``, asked of a server."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="Of an encoder loaded here.")
    base_url: str = Field("", description="OpenAI-compatible server of embeddings; empty to load the model here.")
    api_key_env: str = Field("OPENAI_API_KEY", description="For a server: environment variable that holds the key.")
    max_tokens: int = Field(512, ge=8, description="For a server: longest text that the model reads, in tokens.")


class GeneratorSettings(_Strict):
    """The language model that reasons, and how it is reached."""

    backend: Literal["extractive", "openai", "transformers", "vllm", "replay"]
    name: str = Field("extractive", description="Model name as the backend knows it.")
    revision: str | None = None
    base_url: str = Field("http://127.0.0.1:8000/v1", description="For openai: where the server listens.")
    api_key_env: str = Field("OPENAI_API_KEY", description="For openai: environment variable that holds the key.")
    concurrency: int = Field(32, ge=1, le=1024, description="For openai: requests under way at once.")
    timeout_seconds: float = Field(300, gt=0, description="For openai: longest that one reply may take as a whole.")
    constrain: Literal["json_schema", "structured_outputs", "none"] = Field(
        "json_schema",
        description="How replies are constrained; for openai by response_format or by vLLM's own field.",
    )
    four_bit: bool = Field(False, description="For transformers: load weights in 4 bit (bitsandbytes).")
    folder: str = Field("", description="For replay: folder of recorded answers.")
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")


class Shards(_Strict):
    """Numbers of partitions; frozen into a lake when it is made."""

    questions: int = Field(ge=1, le=16)
    corpus: int = Field(ge=1, le=64, description="At most 64: Dagster stops tracking staleness at 100 upstream ones.")


class Chunking(_Strict):
    max_tokens: int = Field(ge=8, le=8192, description="Never more than 512 or what the encoder reads.")
    passage_tokens: int | None = Field(None, ge=8, description="Of a knowledge base's passage; default: the encoder's.")


class IndexSettings(_Strict):
    kind: Literal["auto", "flat", "ivf"] = Field("auto", description="auto chooses by size and memory.")
    memory: str = Field("8GB", pattern=MEMORY_PATTERN, description="What an index may take, such as 500MB.")

    @property
    def bytes(self) -> int:
        return parse_bytes(self.memory)


class Retrieval(_Strict):
    R: int = Field(ge=1, description="Pool: chunks that the index hands to the fine ranking, per question and option.")
    k: int = Field(ge=1, description="Chunks kept per question and option.")
    s: int = Field(ge=0, description="Triples kept per question and option.")
    token_cache_gb: float = Field(20.0, ge=0, description="Most gigabytes of token vectors kept of a corpus on demand.")


class Harvesting(_Strict):
    """How triples are harvested from a masked language model."""

    training_steps: int = Field(4500, ge=1, description="For sample-masked-lm, which is trained on the sample corpus.")
    n: int = Field(1000, ge=1, description="Pairs of each heap, and triples kept of a relation.")
    prompts: int = Field(20, ge=1, description="Prompts kept of a relation.")
    fluency: Literal["printed", "corrected", "probability", ""] = Field(
        "",
        description="Fluency of triples; default: probability with the sample's own model, corrected with others.",
    )
    final: Literal["printed", "rank_normalised", "fluency", ""] = Field(
        "",
        description="What triples are ranked by; default: fluency with the sample's own model, printed with others.",
    )
    sample_relations: tuple[str, ...] = Field((), description="Seed files of the sample that are put into raw/seeds.")
    relations: tuple[str, ...] = Field((), description="Packaged seed files to use too: conceptnet, lama, umls.")
    collections: tuple[str, ...] = Field(("biomedical", "commonsense"), description="What harvests are merged by.")
    truth: Literal["sample", ""] = Field("sample", description="sample scores harvests against what the sample states.")
    judges: tuple[str, ...] = Field((), description="Generators that judge harvested triples; default: the first.")
    writer: ModelSettings | None = Field(None, description="Writes sentences of keywords; default: the masked model.")
    substitution: ModelSettings | None = Field(
        None, description="XLNet that rewords prompts; default: the masked model."
    )
    paraphraser: Literal["infilling", "generator"] = Field(
        "infilling", description="What rewords prompts for the baseline; generator is the first language model."
    )
    likelihood: ModelSettings | None = Field(None, description="Model that rates harvested triples, as BARTScore does.")


class GraphPaths(_Strict):
    """How far a graph selector looks around a question, and how long it trains its node scorer."""

    D: int = Field(ge=1, le=6, description="Depth: most steps from the question's concepts.")
    cap: int = Field(ge=1, description="Nodes that one node brings in at most.")
    max_nodes: int = Field(ge=1, description="Nodes of a subgraph at most.")
    most_nodes: int = Field(ge=1, description="Nodes of an uncapped subgraph at most, about 50 kB each.")
    steps: int = Field(ge=0, description="T: training steps of the node scorer.")
    path_length: int = Field(ge=1, le=6, description="Edges of a path at most.")
    passages: int = Field(ge=1, description="Paths kept per option.")


class Pools(_Strict):
    """How many steps may run at once, over all runs; `evidence limits` gives them to Dagster."""

    gpu: int = Field(1, ge=1, description="Steps that load a model in their process.")
    llm: int = Field(4, ge=1, description="Steps that ask a served language model.")


class StepResources(_Strict):
    """What a step takes of a machine, where Ray chooses one for it."""

    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)
    memory: str = Field("2GB", pattern=MEMORY_PATTERN)


class PoolResources(_Strict):
    """What steps take of a machine by the pool that they wait for."""

    gpu: StepResources = StepResources(memory="4GB")
    llm: StepResources = StepResources()
    other: StepResources = StepResources()


class Calibration(_Strict):
    """Temperatures that turn weights of options into probabilities, by task family; fitted on development data."""

    mcqa: float = Field(1.0, gt=0)
    table: float = Field(1.0, gt=0)


class Profile(_Strict):
    """Everything that differs between a laptop and a GPU machine."""

    name: str
    extended: tuple[str, ...] = Field((), description="Profiles that it extends, nearest first; found out on reading.")
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
        False,
        description="Whether changed inputs also re-materialize assets that call a language model.",
    )
    executor: Literal["processes", "ray"] = Field(
        "processes", description="ray has steps work as jobs of the Ray cluster at RAY_ADDRESS."
    )
    needs: PoolResources = Field(default_factory=PoolResources, description="What Ray sets aside for a step.")
    prompts: str = Field("", description="Folder with prompts in words of one's own, beside this file or absolute.")
    presets: tuple[str, ...] = Field((), description="Presets whose variants are loaded besides the default ones.")
    sample: Literal["full", "small"] = Field("full", description="Size of the sample world; small is for quick tests.")

    def is_any_of(self, names: Collection[str]) -> bool:
        """Whether it is, or extends, one of these profiles; every profile is where none is named."""
        return not names or not {self.name, *self.extended}.isdisjoint(names)

    @property
    def generator(self) -> GeneratorSettings:
        """The language model in use; the extractive reasoner where the profile has none."""
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
        """What the models of a kind are called, the one in use first."""
        return list(getattr(self, MODEL_KINDS[kind]))

    def check_name(self, kind: ModelKind, name: str) -> str:
        """The name, if a model of the kind is called so; raises BadInput with the nearest name otherwise."""
        if name not in self.model_names(kind):
            near = closest_name(name, self.model_names(kind))
            raise BadInput(
                f"profile {self.name} has no {kind} {name!r}; did you mean {near!r}?", field=MODEL_KINDS[kind]
            )
        return name

    def with_models(self, models: Mapping[ModelKind, str]) -> Profile:
        """The same profile with these models, named by their kind, in use."""
        update = {}
        for kind, name in models.items():
            several = getattr(self, MODEL_KINDS[kind])
            update[MODEL_KINDS[kind]] = {self.check_name(kind, name): several[name], **several}
        return self.model_copy(update=update) if update else self


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for key, value in over.items():
        made[key] = _merged(made[key], value) if isinstance(value, dict) and isinstance(made.get(key), dict) else value
    return made


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


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A profile's settings over those that it extends, with all models below the plural of their kind."""
    stated = read_yaml_mapping(path)
    _drop_removed_keys(stated, path)
    if isinstance(stated.get("prompts"), str):
        stated["prompts"] = str((path.parent / stated["prompts"]).resolve())
    below = _extended(str(stated.pop("extends")), path, extended_by) if "extends" in stated else {}
    for one, several in MODEL_KINDS.items():
        if one in stated and several in stated:
            raise BadInput(f"state {one} or {several}, not both", file=path, field=one)
        if one in stated:
            settings, models = stated.pop(one), below.get(several, {})
            if isinstance(settings, dict) and (len(models) == 1 or not {"name", "backend"} & settings.keys()):
                settings = next(iter(models.values()), {}) | settings
            stated[several] = {_named(settings): settings}
        if several in stated:
            below.pop(several, None)  # the order of models, of which the first is in use, is stated in one place
    return _merged(below, stated)


def _extended(name: str, path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    try:
        whole = _path_of(name, path.parent)
    except BadInput as error:
        raise BadInput(error.message, file=path, field="extends") from error
    extended_by = (*extended_by, path.resolve())
    if whole.resolve() in extended_by:
        raise BadInput("a profile that it extends extends it in turn", file=path, field="extends")
    below = _read(whole, extended_by)
    return below | {"extended": [below.get("name", ""), *below.get("extended", [])]}


def _named(settings: Any) -> str:
    """What the only model of its kind is called: the last part of its own name."""
    own = str(settings.get("name") or settings.get("backend") or "") if isinstance(settings, dict) else ""
    return re.sub(r"[^a-z0-9]+", "_", own.rstrip("/").rpartition("/")[2].lower()).strip("_") or "model"


def available() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def _path_of(name: str, beside: Path = Path()) -> Path:
    packaged = _HERE / f"{name}.yaml"
    path = packaged if is_file(packaged) else beside / name
    if not is_file(path):
        near = closest_name(name, available())
        raise BadInput(
            f"there is no profile {name!r}; did you mean {near!r}? Known: {', '.join(available())}, or the path of a "
            "YAML file",
            file=path if path.suffix else None,
        )
    return path


def load(name: str | None = None) -> Profile:
    """The profile of this name or path; by default the one that EVIDENCE_PROFILE names, else ``embedded``."""
    return _load(name or os.environ.get(PROFILE_VARIABLE) or "embedded")


@lru_cache
def _load(name: str) -> Profile:
    path = _path_of(name)
    try:
        return Profile.model_validate(_read(path))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            schema = Profile.model_json_schema()
            parts = [schema, *schema["$defs"].values()]
            names = {*MODEL_KINDS, *(name for part in parts for name in part["properties"])}
            near = closest_name(str(first["loc"][-1]), sorted(names))
            raise BadInput(f"there is no such setting; did you mean {near!r}?", file=path, field=field) from error
        raise BadInput(str(first["msg"]), file=path, field=field) from error
