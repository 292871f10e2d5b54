"""Profiles: YAML files with the models and parameters for one kind of machine.

EVIDENCE_PROFILE selects a profile: the name of a packaged one, or the path of your own. A profile can extend another
one and override its settings. It can have several models of a kind, of which the first is the default:
``generators: {llama: …, qwen: …}``. ``generator: {…}`` is short for a single model, and ``generator: ADDRESS`` or
``generator: FILE.gguf`` for a local one. EVIDENCE_MODEL replaces the language models of the selected profile by one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import is_file, read_yaml_mapping
from evidence_assets.profiles.model_source import MODEL_VARIABLE, generator_of
from evidence_assets.text.spelling import did_you_mean

PROFILE_VARIABLE = "EVIDENCE_PROFILE"
ModelKind = Literal["generator", "encoder", "reranker", "masked_model"]
"""Kinds of models; a profile can have several models of each."""
MODEL_KINDS: dict[ModelKind, str] = {kind: f"{kind}s" for kind in get_args(ModelKind)}
"""The profile key with the models of each kind, such as ``generators`` for ``generator``."""
ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$")]
"""A profile's name for a model, used in asset keys, groups and tags."""
_PROFILES_FOLDER = Path(__file__).parent
SHORT_WORK = {"explain_options": False, "explanation_tokens": 160}
"""Settings for a small model: it explains options on request only, and briefly."""


class StrictModel(BaseModel):
    """A model that rejects unknown fields and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSettings(StrictModel):
    """A model's name and loading options."""

    name: str = Field(description="Name on the hub, folder of weights, or name of an embedded model.")
    revision: str | None = Field(None, description="Commit or tag; a change recomputes the model's rows.")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N.")
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")
    note: str = Field("", description="Licence or retirement, for `evidence reproduce --plan`.")


class RerankerSettings(ModelSettings):
    """A cross-encoder, or `maxsim`."""

    truncate: bool = Field(
        False, description="Cut the longer text of a pair that the model cannot read, as sentence-transformers does."
    )


class ServerSettings(StrictModel):
    """How to call a model on a server."""

    api_key_env: str = Field("OPENAI_API_KEY", description="For a server: environment variable of the API key.")
    concurrency: int = Field(32, ge=1, le=1024, description="For a server: maximum concurrent requests.")
    timeout_seconds: float = Field(300, gt=0, description="For a server: time limit of a complete reply.")


class EncoderSettings(ServerSettings, ModelSettings):
    """An encoder in this process, or on a server if ``base_url`` is set."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field("auto", description="Precision of the weights.")
    base_url: str = Field("", description="URL of an OpenAI-compatible server of embeddings; empty: loaded locally.")
    max_tokens: int = Field(512, ge=8, description="For a server: longest text that the model reads, in tokens.")


class GeneratorSettings(ServerSettings):
    """A language model for reasoning, and its backend."""

    backend: Literal["extractive", "openai", "transformers", "vllm"]
    name: str = Field("extractive", description="The backend's name of the model; for openai: empty for the only one.")
    revision: str | None = None
    base_url: str = Field("http://127.0.0.1:8000/v1", description="For openai: URL of the server.")
    constrain: Literal["json_schema", "structured_outputs", "none"] = Field(
        "json_schema", description="How to constrain replies; for openai by response_format or by vLLM's field."
    )
    quantization: Literal["none", "nf4"] = Field(
        "none", description="For transformers and vllm: nf4 loads unquantized weights in 4 bits, by bitsandbytes."
    )
    thinking_tokens: int = Field(
        0, ge=0, description="For openai: tokens added to the limit of each reply, for a model that thinks first."
    )
    megabytes: int | None = Field(None, description="Size of the download, for `evidence doctor`.")
    note: str = Field("", description="Licence or retirement, for `evidence reproduce --plan`.")


class Shards(StrictModel):
    """Numbers of partitions. They cannot change after a lake is created."""

    questions: int = Field(ge=1, le=16)
    corpus: int = Field(ge=1, le=64, description="At most 64: Dagster tracks staleness below 100 upstream partitions.")


class Chunking(StrictModel):
    """Lengths of chunks and passages."""

    max_tokens: int = Field(ge=8, le=8192, description="Tokens of a chunk; at most 512 and the encoder's limit.")
    passage_tokens: int | None = Field(None, ge=8, description="Tokens of a passage; default: the encoder's limit.")


class IndexSettings(StrictModel):
    """Kind and size of vector indexes."""

    kind: Literal["auto", "flat", "ivf"] = Field("auto", description="auto: flat for few vectors, else ivf.")
    memory: str = Field("8GB", pattern=r"^\d+(\.\d+)? ?[MG]B$", description="Memory limit of an index, such as 500MB.")

    @property
    def bytes(self) -> int:
        return int(float(self.memory[:-2]) * {"M": 10**6, "G": 10**9}[self.memory[-2]])


class Retrieval(StrictModel):
    """Numbers of retrieved and selected rows, with the symbols of the papers."""

    R: int = Field(ge=1, description="Candidate pool: chunks that are reranked per question and option.")
    k: int = Field(ge=1, description="Chunks selected per question and option.")
    s: int = Field(ge=0, description="Triples selected per question and option.")
    token_cache_gb: float = Field(
        20.0,
        ge=0,
        description="Size limit of a corpus's token vector cache, in GB. "
        "The chunks that are ranked at a time, up to 4.3 GB, come on top.",
    )

    @property
    def token_cache_bytes(self) -> int:
        return int(self.token_cache_gb * 1e9)


class Harvesting(StrictModel):
    """Settings for harvesting triples from a masked language model; ``printed`` formulas are the paper's."""

    corpus: str = Field("sample", description="Corpus on whose sentences sample-masked-lm is trained.")
    training_steps: int = Field(2000, ge=1, description="Training steps of sample-masked-lm.")
    n: int = Field(1000, ge=1, description="Maximum pairs of a search heap, and triples of a relation.")
    prompts: int = Field(20, ge=1, description="Prompts selected per relation.")
    fluency: Literal["printed", "corrected", "probability", ""] = Field(
        "", description="Fluency formula; default: probability with sample-masked-lm, corrected with other models."
    )
    final: Literal["printed", "rank_normalised", "fluency", ""] = Field(
        "", description="Ranking formula; default: fluency with sample-masked-lm, printed with other models."
    )
    sample_relations: tuple[str, ...] = Field((), description="Sample seed files for raw/seeds, if corpus is sample.")
    relations: tuple[str, ...] = Field((), description="Additional packaged seed files: conceptnet, lama, umls.")
    collections: tuple[str, ...] = Field(
        ("biomedical", "commonsense"),
        description="Collections of merged harvests, beside those that your graphs' declarations name.",
    )
    truth: Literal["sample", ""] = Field(
        "sample", description="Gold facts of harvests: the sample's, for a model that was trained on it, or none."
    )
    judges: tuple[str, ...] = Field((), description="Language models that judge harvested triples; default: the first.")
    writer: ModelSettings | None = Field(None, description="Writes sentences from keywords; default: the masked model.")
    substitution: ModelSettings | None = Field(None, description="XLNet to reword prompts; default: the masked model.")
    paraphraser: Literal["infilling", "generator"] = Field(
        "infilling", description="Rewords prompts for the baseline; generator selects the first language model."
    )
    causal: ModelSettings | None = Field(None, description="Rates fluency, as GPT-2 does; default: the masked model.")
    likelihood: ModelSettings | None = Field(None, description="Model that rates harvested triples, as BARTScore does.")

    @property
    def is_of_sample(self) -> bool:
        """Whether harvests are about the sample corpus, so that its seeds and facts are of use."""
        return self.corpus == "sample"


class GraphPaths(StrictModel):
    """Limits of UGAT's graph search, and training steps of its node scorer."""

    D: int = Field(ge=1, le=6, description="Depth: maximum hops from the question's concepts.")
    cap: int = Field(ge=1, description="Hub cap: maximum neighbours added per node.")
    max_nodes: int = Field(ge=1, description="Maximum nodes of a subgraph with the hub cap.")
    most_nodes: int = Field(ge=1, description="Maximum nodes of a subgraph without it; a node needs 50 kB.")
    steps: int = Field(ge=0, description="T: training steps of the node scorer.")
    path_length: int = Field(ge=1, le=6, description="Maximum edges of a path.")
    passages: int = Field(ge=1, description="Paths selected per option.")


class Pools(StrictModel):
    """Maximum concurrent steps over all runs in Dagster."""

    gpu: int = Field(1, ge=1, description="Steps that load a model in their process, each on a card of its own.")
    llm: int = Field(4, ge=1, description="Steps that call a served language model.")


class Profile(StrictModel):
    """A validated profile."""

    name: str
    bases: tuple[str, ...] = Field((), description="Profiles that it extends, nearest first; set by the reader.")
    description: str
    shards: Shards
    generators: dict[ModelName, GeneratorSettings] = Field(min_length=1)
    encoders: dict[ModelName, EncoderSettings] = Field(min_length=1)
    token_encoder: EncoderSettings
    rerankers: dict[ModelName, RerankerSettings] = Field(min_length=1)
    masked_models: dict[ModelName, ModelSettings] = Field(min_length=1)
    reader: ModelSettings | None = Field(None, description="Question-answering model of variants with `reader: true`.")
    chunking: Chunking
    index: IndexSettings = Field(default_factory=lambda: IndexSettings(kind="auto"))
    retrieval: Retrieval
    harvesting: Harvesting
    ugat: GraphPaths
    pools: Pools = Field(default_factory=lambda: Pools(gpu=1, llm=4))
    explain_options: bool = Field(
        True,
        description="Whether a language model explains each option before it chooses; false: short calls for each "
        "question, for small models. Published prompts stay as printed.",
    )
    explanation_tokens: int = Field(
        0, ge=0, description="Token limit of an option's explanation; 0 for the 1,024 of our prompts."
    )
    automation: bool = Field(False, description="Whether sensors re-materialize assets that call a language model.")
    reextraction: str = Field(
        "0 3 * * 1",
        pattern=r"^\S+( \S+){4}$",
        description="Cron of the schedule that harvests changed relations again; turn it on in the Dagster UI.",
    )
    executor: Literal["in_process", "multiprocess"] = Field(
        "in_process", description="Steps of a run: one after another in its process, or several, each in its own."
    )
    prompts: str = Field("", description="Folder with custom prompts, absolute or relative to this file.")
    presets: tuple[str, ...] = Field((), description="Presets with additional variants to load.")
    sample: Literal["full", "small"] = Field("full", description="Size of the sample world; small is for quick tests.")

    @field_validator("token_encoder")
    @classmethod
    def _require_local_encoder(cls, settings: EncoderSettings) -> EncoderSettings:
        if settings.base_url:
            raise ValueError("a server returns no token vectors. Remove base_url and name a local encoder")
        return settings

    def is_any_of(self, names: Collection[str]) -> bool:
        """Whether the profile is, or extends, one of ``names``; True if ``names`` is empty."""
        return not names or not {self.name, *self.bases}.isdisjoint(names)

    @property
    def generator(self) -> GeneratorSettings:
        """The default language model; `extractive` is a reasoner without one."""
        return next(iter(self.generators.values()))

    @property
    def encoder(self) -> EncoderSettings:
        return next(iter(self.encoders.values()))

    @property
    def reranker(self) -> RerankerSettings:
        return next(iter(self.rerankers.values()))

    @property
    def masked_model(self) -> ModelSettings:
        return next(iter(self.masked_models.values()))

    def model_names(self, kind: ModelKind) -> list[str]:
        """Names of the models of a kind, the default first."""
        return list(getattr(self, MODEL_KINDS[kind]))

    def check_name(self, kind: ModelKind, name: str) -> str:
        """Return ``name`` if it is a model of the kind; raise BadInput with the nearest name otherwise."""
        if name not in self.model_names(kind):
            suggestion = did_you_mean(name, self.model_names(kind))
            raise BadInput(f"profile {self.name} has no {kind} {name!r}{suggestion}", field=MODEL_KINDS[kind])
        return name

    def with_models(self, models: Mapping[ModelKind, str]) -> Profile:
        """Copy of the profile whose default models are these; ``models`` maps kinds to names."""
        update = {}
        for kind, name in models.items():
            key = MODEL_KINDS[kind]
            settings_by_name = getattr(self, key)
            update[key] = {self.check_name(kind, name): settings_by_name[name], **settings_by_name}
        return self.model_copy(update=update) if update else self


def _merge(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Merge nested mappings; values of ``overrides`` win. Another model has no revision, size or note of it."""
    is_another_model = overrides.get("name", base.get("name")) != base.get("name")
    merged = {
        key: value for key, value in base.items() if not (is_another_model and key in ("revision", "megabytes", "note"))
    }
    for key, value in overrides.items():
        is_nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if is_nested else value
    return merged


def _read_settings(path: Path) -> dict[str, Any]:
    """Merged settings of a profile and its bases."""
    settings = read_yaml_mapping(path)
    if isinstance(settings.get("prompts"), str):
        settings["prompts"] = str((path.parent / settings["prompts"]).resolve())
    base = _read_base(str(settings.pop("extends")), path) if "extends" in settings else {}
    for singular, plural in MODEL_KINDS.items():
        if singular in settings and plural in settings:
            raise BadInput(f"both {singular} and {plural} are set. Remove one", file=path, field=singular)
        if singular in settings:
            model = settings.pop(singular)
            if isinstance(model, str) and singular == "generator":
                model = generator_of(model)
            base_models = base.get(plural, {})
            if isinstance(model, dict) and (len(base_models) == 1 or not {"name", "backend"} & model.keys()):
                model = _merge(next(iter(base_models.values()), {}), model)  # the base has the keys that are not set
            settings[plural] = {_short_name(model): model}
        if plural in settings:
            base.pop(plural, None)  # merging would mix the order of models, and the first is the default
    return _merge(base, settings)


def _read_base(name: str, path: Path) -> dict[str, Any]:
    """Settings of the profile ``name`` that the file ``path`` extends."""
    try:
        base_path = _find_profile(name, path.parent)
    except BadInput as error:
        raise BadInput(error.message, file=path, field="extends") from error
    base = _read_settings(base_path)
    return base | {"bases": [base.get("name", ""), *base.get("bases", [])]}


def _short_name(model: Any) -> str:
    """Profile name of a single model: the end of its hub name, such as ``qwen2_5_1_5b_instruct``."""
    name = str(model.get("name") or model.get("backend") or "") if isinstance(model, dict) else ""
    return re.sub(r"[^a-z0-9]+", "_", name.rstrip("/").rpartition("/")[2].lower()).strip("_") or "model"


def available() -> list[str]:
    """Names of the packaged profiles."""
    return sorted(path.stem for path in _PROFILES_FOLDER.glob("*.yaml"))


def _find_profile(name: str, folder: Path = Path()) -> Path:
    """File of a packaged profile, or of a path relative to ``folder``."""
    packaged = _PROFILES_FOLDER / f"{name}.yaml"
    path = packaged if is_file(packaged) else folder / name
    if not is_file(path):
        raise BadInput(
            f"unknown profile {name!r}{did_you_mean(name, available())} The path of a YAML file is a name, too",
            file=path if path.suffix else None,
        )
    return path


def load(name: str | None = None) -> Profile:
    """Load a profile by name or path; default: EVIDENCE_PROFILE, or ``embedded`` if it is not set.

    The default profile has the language model of EVIDENCE_MODEL, if that is set.
    """
    model = "" if name else os.environ.get(MODEL_VARIABLE, "")
    return _load(name or os.environ.get(PROFILE_VARIABLE) or "embedded", model)


@lru_cache
def _load(name: str, model: str = "") -> Profile:
    path = _find_profile(name)
    values = _read_settings(path)
    if model:
        generator = generator_of(model)
        values |= {"generators": {_short_name(generator): generator}, **SHORT_WORK}
    try:
        return Profile.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        message = str(first["msg"])
        if first["type"] == "extra_forbidden":
            schema = Profile.model_json_schema()
            sections = [schema, *schema["$defs"].values()]
            settings = sorted({*MODEL_KINDS, *(name for section in sections for name in section["properties"])})
            message = f"unknown setting{did_you_mean(str(first['loc'][-1]), settings)}"
        raise BadInput(message, file=path, field=field) from error
