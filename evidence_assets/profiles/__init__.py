"""Named sets of models and parameters, validated on load: a typo names the key and its nearest neighbour.

A profile is a YAML file: one of this package (``embedded``, ``paper``) or a path of the user's own, chosen by the
environment variable EVIDENCE_PROFILE. One of the user's own may begin with ``extends: embedded`` and state only what
differs.

Models are an axis: of each kind a profile names any number (``generators: {llama: …, qwen: …}``), of which the first is
used where nothing else is said; ``generator: {…}`` is short for a single one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import is_file, yaml_mapping
from evidence_assets.text.nearest import nearest

PROFILE_VARIABLE = "EVIDENCE_PROFILE"
Kind = Literal["generator", "encoder", "reranker", "masked_model"]
"""A kind of model that a profile may name several of."""
KINDS: dict[Kind, str] = {
    "generator": "generators",
    "encoder": "encoders",
    "reranker": "rerankers",
    "masked_model": "masked_models",
}
"""Kinds of models, each with the field of a profile that names those of its kind."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
"""How a profile calls a model; it stands in asset keys, groups and tags."""
MEMORY = r"^\d+(\.\d+)? ?[MG]B$"
_HERE = Path(__file__).parent


def in_bytes(memory: str) -> int:
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
    base_url: str = Field(
        "", description="OpenAI-compatible server of embeddings: where it listens; empty to load it here."
    )
    api_key_env: str = Field("OPENAI_API_KEY", description="For a server: environment variable that holds the key.")
    max_tokens: int = Field(512, ge=8, description="For a server: longest text that the model reads, in tokens.")


class GeneratorSettings(_Strict):
    """The language model that reasons, and how it is reached."""

    backend: Literal["extractive", "openai", "transformers", "replay"]
    name: str = Field("extractive", description="Model name as the backend knows it.")
    revision: str | None = None
    base_url: str = Field("http://127.0.0.1:8000/v1", description="For openai: where the server listens.")
    api_key_env: str = Field("OPENAI_API_KEY", description="For openai: environment variable that holds the key.")
    concurrency: int = Field(32, ge=1, le=1024, description="For openai: requests under way at once.")
    timeout_seconds: float = Field(300, gt=0, description="For openai: longest that one reply may take as a whole.")
    constrain: Literal["json_schema", "structured_outputs", "none"] = Field(
        "json_schema",
        description="How replies are held to their shape. For openai: by response_format, by vLLM's own field, or not "
        "at all; none holds no other backend's replies either.",
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
    passage_tokens: int | None = Field(
        None, ge=8, description="Of a passage of a knowledge base's node; as many as the encoder reads if not stated."
    )


class IndexSettings(_Strict):
    kind: Literal["auto", "flat", "ivf"] = Field("auto", description="auto chooses by size and memory.")
    memory: str = Field("8GB", pattern=MEMORY, description="What an index may take, such as 500MB.")

    @property
    def bytes(self) -> int:
        return in_bytes(self.memory)


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
        description="How fluent a triple's sentence is, where a variant does not say; else probability with the "
        "sample's own model, corrected with others.",
    )
    final: Literal["printed", "fluency", ""] = Field(
        "",
        description="What triples are ranked by, where a variant does not say; else fluency with the sample's own "
        "model, printed with others.",
    )
    sample_relations: tuple[str, ...] = Field((), description="Seed files of the sample that are put into raw/seeds.")
    relations: tuple[str, ...] = Field(
        (), description="Packaged collections of seed files that are put into raw/seeds: conceptnet, lama, umls."
    )
    collections: tuple[str, ...] = Field(
        ("biomedical", "commonsense"),
        description="Collections of relations that harvests are merged by and scored for.",
    )
    truth: Literal["sample", ""] = Field("sample", description="sample scores harvests against what the sample states.")
    seed_folders: tuple[str, ...] = Field((), description="Further folders of seed files, below raw or absolute.")
    judges: tuple[str, ...] = Field(
        (), description="Generators of the profile that judge harvested triples; its first where none is named."
    )
    writer: ModelSettings | None = Field(
        None,
        description="Encoder-decoder that writes sentences out of keywords; infilling by the masked model if none.",
    )
    substitution: ModelSettings | None = Field(
        None, description="XLNet that proposes other words for a prompt's; the masked model if none."
    )
    paraphraser: Literal["infilling", "generator"] = Field(
        "infilling",
        description="Who rewords prompts for the baseline: generator asks the profile's first language model, "
        "infilling leaves it what was written for K-Bloom.",
    )
    likelihood: ModelSettings | None = Field(
        None,
        description="Encoder-decoder or causal model that rates harvested triples, as BARTScore does; none by default.",
    )


class GraphPaths(_Strict):
    """How far a graph selector looks around a question, and how long it trains its node scorer."""

    D: int = Field(ge=1, le=6, description="Depth: most steps from the question's concepts.")
    cap: int = Field(ge=1, description="Nodes that one node brings in at most.")
    max_nodes: int = Field(ge=1, description="Nodes of a subgraph at most.")
    most_nodes: int = Field(
        ge=1, description="Nodes at most of a subgraph that no cap cuts: about 50 kB each at 384 dimensions."
    )
    steps: int = Field(ge=0, description="T: training steps of the node scorer.")
    path_length: int = Field(ge=1, le=6, description="Edges of a path at most.")
    passages: int = Field(ge=1, description="Paths kept per option.")


class Pools(_Strict):
    """How many steps may run at once, over all runs; `evidence limits` gives them to Dagster."""

    gpu: int = Field(1, ge=1, description="Steps that load a model in their process.")
    llm: int = Field(4, ge=1, description="Steps that ask a served language model.")


class Needs(_Strict):
    """What a step takes of a machine, where Ray chooses one for it."""

    cpus: float = Field(1, ge=0)
    gpus: float = Field(0, ge=0)
    memory: str = Field("2GB", pattern=MEMORY)


class NeedsByPool(_Strict):
    """What steps take of a machine by the pool that they wait for."""

    gpu: Needs = Needs(memory="4GB")
    llm: Needs = Needs()
    other: Needs = Needs()


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
    generators: dict[Name, GeneratorSettings] = Field(min_length=1)
    encoders: dict[Name, EncoderSettings] = Field(min_length=1)
    token_encoder: EncoderSettings
    rerankers: dict[Name, ModelSettings] = Field(min_length=1)
    masked_models: dict[Name, ModelSettings] = Field(min_length=1)
    chunking: Chunking
    index: IndexSettings = Field(default_factory=lambda: IndexSettings(kind="auto"))
    retrieval: Retrieval
    harvesting: Harvesting
    ugat: GraphPaths
    calibration: Calibration = Field(default_factory=Calibration)
    pools: Pools = Field(default_factory=lambda: Pools(gpu=1, llm=4))
    automation: bool = Field(
        False,
        description="Whether what asks a language model is made again by itself, too, where its inputs have changed.",
    )
    calls_a_day: int = Field(0, ge=0, description="How often automation may ask language models in a day (UTC).")
    executor: Literal["processes", "ray"] = Field(
        "processes", description="ray has steps work as jobs of the Ray cluster at RAY_ADDRESS."
    )
    needs: NeedsByPool = Field(default_factory=NeedsByPool, description="What Ray sets aside for a step.")
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

    def names(self, kind: Kind) -> list[str]:
        """What the models of a kind are called, the one in use first."""
        return list(getattr(self, KINDS[kind]))

    def known(self, kind: Kind, name: str) -> str:
        """The name, if a model of the kind is called so.

        Raises BadInput if none is; the nearest name is told.
        """
        if name not in self.names(kind):
            near = nearest(name, self.names(kind))
            raise BadInput(
                f"profile {self.name} has no {kind} {name!r}; did you mean {near!r}? "
                f"It has {', '.join(self.names(kind))}",
                field=KINDS[kind],
            )
        return name

    def using(self, models: Mapping[Kind, str]) -> Profile:
        """The same profile with these models, named by their kind, in use."""
        update = {}
        for kind, name in models.items():
            several = getattr(self, KINDS[kind])
            update[KINDS[kind]] = {self.known(kind, name): several[name], **several}
        return self.model_copy(update=update) if update else self


def _fields_at(location: tuple[Any, ...]) -> list[str]:
    model: Any = Profile
    for part in location:
        if isinstance(model, type) and issubclass(model, BaseModel):
            model = model.model_fields[str(part)].annotation if str(part) in model.model_fields else None
        else:
            model = get_args(model)[-1] if get_args(model) else None  # models by their names
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for key, value in over.items():
        made[key] = _merged(made[key], value) if isinstance(value, dict) and isinstance(made.get(key), dict) else value
    return made


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    stated = yaml_mapping(path)
    if isinstance(stated.get("prompts"), str):
        stated["prompts"] = str((path.parent / stated["prompts"]).resolve())
    base = stated.pop("extends", None)
    if base is None:
        return stated
    extended_by = (*extended_by, path.resolve())
    try:
        whole = _path_of(str(base), path.parent)
    except BadInput as error:
        raise BadInput(error.message, file=path, field="extends") from error
    if whole.resolve() in extended_by:
        raise BadInput("a profile that it extends extends it in turn", file=path, field="extends")
    below = _read(whole, extended_by)
    for one, several in KINDS.items():
        if one in stated and several in stated:
            raise BadInput(f"state {one} or {several}, not both", file=path, field=one)
        if several in stated or (one in stated and several in below):
            # Which model comes first is said in one place: those of the profile below are none of this one's.
            below.pop(one, None)
            there = below.pop(several, None)
            if there and isinstance(stated.get(one), dict) and not {"name", "backend"} & stated[one].keys():
                below[one] = next(iter(there.values()))  # but settings without a name are settings of the first of them
    below["extended"] = [below.get("name", ""), *below.get("extended", [])]
    return _merged(below, stated)


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
        near = nearest(name, available())
        raise BadInput(
            f"there is no profile {name!r}; did you mean {near!r}? Known: {', '.join(available())}, or the path of a "
            "YAML file",
            file=path if path.suffix else None,
        )
    return path


def load(name: str | None = None) -> Profile:
    """The profile of this name or path; where none is given, the one that EVIDENCE_PROFILE names, else ``embedded``."""
    return _load(name or os.environ.get(PROFILE_VARIABLE) or "embedded")


@lru_cache
def _load(name: str) -> Profile:
    path = _path_of(name)
    stated = _read(path)
    single = {one: several for one, several in KINDS.items() if one in stated}
    for one, several in single.items():
        settings = stated.pop(one)
        stated[several] = {_named(settings): settings}
    try:
        return Profile.model_validate(stated)
    except ValidationError as error:
        first = error.errors()[0]
        location = tuple(first["loc"])
        told = [part for place, part in enumerate(location) if not (place == 1 and location[0] in single.values())]
        field = ".".join(next((o for o, s in single.items() if s == part), str(part)) for part in map(str, told))
        if first["type"] == "extra_forbidden":
            near = nearest(str(location[-1]), [*_fields_at(location[:-1]), *([] if location[1:] else KINDS)])
            raise BadInput(f"there is no such setting; did you mean {near!r}?", file=path, field=field) from error
        raise BadInput(str(first["msg"]), file=path, field=field) from error
