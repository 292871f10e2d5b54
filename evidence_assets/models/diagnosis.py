"""Checks whether this machine has what a profile requires."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.mirror import fetch_path
from evidence_assets.lake.store import asset_folder
from evidence_assets.models.inference import TRAINING_REPORT, find_hub_revision, find_minilm_folder, resolve_device
from evidence_assets.models.registry import MASKED_LM_ASSET, SAMPLE_MASKED_LM
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings, Profile

MASKED_MODEL = "masked model"
"""Requirement name of the model that triples are harvested from."""

_OTHER_FORMATS = " ".join(f"--exclude '{files}'" for files in ("*.h5", "*.msgpack", "*.ot", "onnx/*", "openvino/*"))
"""Unused copies of the weights, several times as large as the files in use."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check; ``is_ok`` is None for notes."""

    requirement: str
    status: str
    is_ok: bool | None = True
    remedy: str = ""


def _check_weights(requirement: str, settings: ModelSettings | GeneratorSettings) -> CheckResult:
    name = settings.name
    if name == "embedded-minilm":
        try:
            find_minilm_folder()
        except ModelUnavailable as error:
            return CheckResult(requirement, name, False, str(error))
        return CheckResult(requirement, f"{name}, checksum correct")
    if name == "maxsim":
        return CheckResult(requirement, "late interaction over the token encoder")
    if Path(name).is_dir():
        return CheckResult(requirement, f"folder {name}")
    if _is_cached(name, settings.revision):
        return CheckResult(requirement, f"{name}, in the local cache")
    size = f", {settings.megabytes:,} MB to download" if settings.megabytes else ""
    revision = f" --revision {settings.revision}" if settings.revision else ""
    # Sizes are given for safetensors. Other models may have pickled weights only.
    exclusions = _OTHER_FORMATS + (" --exclude '*.bin'" if settings.megabytes else "")
    remedy = f"download it once with network access: hf download {name}{revision} {exclusions}"
    return CheckResult(requirement, f"{name}, not in the local cache{size}", False, remedy)


def _is_cached(name: str, revision: str | None) -> bool:
    """Whether a model is in the local Hugging Face cache."""
    from huggingface_hub.errors import HFValidationError

    with suppress(HFValidationError):  # such as a folder that does not exist
        return bool(find_hub_revision(name, revision))
    return False


def _check_trained_model() -> CheckResult:
    """Check the masked model that a lake trains on the sample."""
    folder = fetch_path(find_lake() / "indexes" / asset_folder(MASKED_LM_ASSET))
    if (folder / TRAINING_REPORT).is_file():
        return CheckResult(MASKED_MODEL, SAMPLE_MASKED_LM)
    remedy = f"before a harvest, materialize {MASKED_LM_ASSET}: in the UI, or by make demo"
    return CheckResult(MASKED_MODEL, f"{SAMPLE_MASKED_LM}, not trained in this lake yet", None, remedy)


def _check_server(requirement: str, model: GeneratorSettings | EncoderSettings) -> CheckResult:
    from evidence_assets.models.served_models import OpenAIServer

    options = model.model_dump(include={"base_url", "api_key_env"})
    try:
        server = OpenAIServer(model.name, **options, timeout_seconds=3, attempts=1)
        return CheckResult(requirement, f"{server.base_url}/models serves {server.model_entry['id']}")
    except ModelUnavailable as error:
        return CheckResult(
            requirement, str(error), False, f"start one, for example: vllm serve {model.name} --host 127.0.0.1"
        )


def diagnose(profile: Profile) -> list[CheckResult]:
    """Check all requirements of ``profile``."""
    encoders = {settings: ["encoder"] for settings in profile.encoders.values()}
    encoders.setdefault(profile.token_encoder, []).append("token encoder")
    results = [
        CheckResult("profile", f"{profile.name}: {profile.description}", None),
        *(CheckResult(name, version(name)) for name in ("dagster", "duckdb", "polars", "pyarrow", "torch", "POT")),
        CheckResult("device", resolve_device("auto"), None, "CUDA is used when torch sees a GPU"),
        *(
            _check_server("encoder server", settings)
            if settings.base_url
            else _check_weights(" and ".join(uses), settings)
            for settings, uses in encoders.items()
        ),
        *(_check_weights("reranker", settings) for settings in profile.rerankers.values()),
        *(
            _check_trained_model() if settings.name == SAMPLE_MASKED_LM else _check_weights(MASKED_MODEL, settings)
            for settings in profile.masked_models.values()
        ),
    ]
    harvesting = profile.harvesting
    models = {name: getattr(harvesting, name) for name in ("writer", "substitution", "causal", "likelihood")}
    results += [_check_weights(f"harvesting: {use}", settings) for use, settings in models.items() if settings]
    results += [_check_weights("reader", profile.reader)] if profile.reader else []
    return results + list(map(_check_generator, profile.generators.values()))


def _check_generator(generator: GeneratorSettings) -> CheckResult:
    """Check the requirements of a language model."""
    match generator.backend:
        case "extractive":
            return CheckResult("reasoner", "extractive: no language model needed")
        case "openai":
            return _check_server("language model server", generator)
        case "transformers":
            return _check_weights("language model", generator)
