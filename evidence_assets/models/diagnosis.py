"""Checks whether this machine has what a profile requires."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from huggingface_hub.errors import HFValidationError

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import EMBEDDED_ENCODER
from evidence_assets.models.inference import (
    check_gguf,
    find_hub_revision,
    find_minilm_folder,
    is_gguf,
    llama_cpp_command,
    resolve_device,
)
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import MASKED_LM_ASSET, SAMPLE_MASKED_LM
from evidence_assets.models.rerankers import MAXSIM
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings, Profile
from evidence_assets.profiles.model_source import SERVED_MODEL

if TYPE_CHECKING:  # the client takes a second to import
    from evidence_assets.models.served_models import OpenAIGenerator

_OTHER_FORMATS = " ".join(f"--exclude '{files}'" for files in ("*.h5", "*.msgpack", "*.ot", "onnx/*", "openvino/*"))
"""Unused copies of the weights, several times as large as the files in use."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check; ``is_ok`` is None for notes."""

    requirement: str
    status: str
    is_ok: bool | None = True
    remedy: str = ""


def diagnose(profile: Profile) -> list[CheckResult]:
    """Check all requirements of ``profile``."""
    harvesting = profile.harvesting
    models: list[tuple[str, ModelSettings | GeneratorSettings | None]] = [
        *(("encoder", settings) for settings in profile.encoders.values()),
        ("token encoder", profile.token_encoder),
        *(("reranker", settings) for settings in profile.rerankers.values()),
        *(("masked model", settings) for settings in profile.masked_models.values()),
        *(
            (f"harvesting: {use}", getattr(harvesting, use))
            for use in ("writer", "substitution", "causal", "likelihood")
        ),
        ("reader", profile.reader),
        *(("language model", settings) for settings in profile.generators.values()),
    ]
    uses: dict[ModelSettings | GeneratorSettings, list[str]] = {}
    for use, settings in models:
        if settings is not None:
            uses.setdefault(settings, []).append(use)
    return [
        CheckResult("profile", f"{profile.name}: {profile.description}", None),
        *(CheckResult(name, version(name)) for name in ("dagster", "duckdb", "polars", "pyarrow", "torch", "POT")),
        CheckResult("device", resolve_device("auto"), None, "CUDA is used when torch sees a GPU"),
        *(_check_model(" and ".join(names), settings) for settings, names in uses.items()),
    ]


def _check_model(requirement: str, settings: ModelSettings | GeneratorSettings) -> CheckResult:
    name = settings.name
    if isinstance(settings, GeneratorSettings) and settings.backend == "extractive":
        return CheckResult("reasoner", "extractive: no language model needed")
    if isinstance(settings, GeneratorSettings) and settings.backend == "openai":
        return _check_server(settings)
    if isinstance(settings, EncoderSettings) and settings.base_url:
        return _check_encoder_server(settings)
    if name == SAMPLE_MASKED_LM:
        return CheckResult(requirement, f"{name}: trained in the lake by {MASKED_LM_ASSET}")
    if name == EMBEDDED_ENCODER:
        try:
            find_minilm_folder()
        except ModelUnavailable as error:
            return CheckResult(requirement, name, False, str(error))
        return CheckResult(requirement, f"{name}, checksum correct")
    if name == MAXSIM:
        return CheckResult(requirement, "late interaction over the token encoder")
    if is_gguf(name):
        return _check_gguf_file(requirement, Path(name))
    if Path(name).is_dir():
        return CheckResult(requirement, f"folder {name}")
    with suppress(HFValidationError):  # such as a folder that does not exist
        if find_hub_revision(name, settings.revision):
            return CheckResult(requirement, f"{name}, in the local cache")
    return _propose_download(requirement, settings)


def _propose_download(requirement: str, settings: ModelSettings | GeneratorSettings) -> CheckResult:
    """A model that is missing, with the command that downloads it."""
    name = settings.name
    size = f", {settings.megabytes:,} MB to download" if settings.megabytes else ""
    revision = f" --revision {settings.revision}" if settings.revision else ""
    # Sizes are given for safetensors. Other models may have pickled weights only.
    exclusions = _OTHER_FORMATS + (" --exclude '*.bin'" if settings.megabytes else "")
    remedy = f"download it once with network access: hf download {name}{revision} {exclusions}"
    return CheckResult(requirement, f"{name}, not in the local cache{size}", False, remedy)


def _check_gguf_file(requirement: str, file: Path) -> CheckResult:
    try:
        check_gguf(file)
    except ModelUnavailable as error:
        return CheckResult(requirement, f"file {file}", False, str(error))
    return CheckResult(requirement, f"file {file}")


def _check_server(settings: GeneratorSettings) -> CheckResult:
    from evidence_assets.models.served_models import OpenAIGenerator

    requirement = "language model server"
    options = settings.model_dump(include={"base_url", "api_key_env"})
    try:
        server = OpenAIGenerator(settings.name, **options, timeout_seconds=3, attempts=1)
        status = f"{server.base_url}/models serves {server.model_id}" if server.is_listed else _try_request(server)
    except ModelUnavailable as error:
        return CheckResult(requirement, str(error), False, _server_remedy(settings))
    return CheckResult(requirement, status)


def _server_remedy(settings: GeneratorSettings) -> str:
    """How to start the server of a profile on this machine, or what another one needs."""
    from evidence_assets.models.openai_client import LOCAL_HOSTS

    url = urlsplit(settings.base_url)
    if url.hostname not in LOCAL_HOSTS:
        return f"correct name, base_url or the key in {settings.api_key_env}"
    port = url.port or 80
    if settings.name == SERVED_MODEL:
        return f"start one, for example: {llama_cpp_command(port=port)}"
    return f"start one, for example: vllm serve {settings.name} --host 127.0.0.1 --port {port}"


def _try_request(server: OpenAIGenerator) -> str:
    """Send a short request to a server without a list of models; returns the status."""
    server.timeout_seconds = 30.0
    ((_, completion),) = server.generate_each([Request("", "Reply with the word yes.", max_tokens=16)])
    status = f"{server.base_url} has no list of models; {server.model_id} replied to a request"
    return f"{status}: {completion.finish_reason}" if completion.is_refused else status


def _check_encoder_server(settings: EncoderSettings) -> CheckResult:
    from evidence_assets.models.served_encoder import ServedEncoder

    requirement = "encoder server"
    name = settings.name
    options = settings.model_dump(include={"base_url", "api_key_env", "max_tokens"})
    try:
        server = ServedEncoder(name, **options, timeout_seconds=3, attempts=1)
        status = f"{server.base_url} serves {name}: {server.dimensions} dimensions, up to {server.max_tokens} tokens"
    except (ModelUnavailable, BadInput) as error:
        remedy = f"start one, for example: text-embeddings-router --model-id {name} --hostname 127.0.0.1 --port 8080"
        return CheckResult(requirement, str(error), False, remedy)
    return CheckResult(requirement, status)
