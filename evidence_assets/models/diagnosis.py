"""What a profile needs of this machine, and whether it is there."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.mirror import fetch_path
from evidence_assets.lake.store import asset_folder
from evidence_assets.models.inference import TRAINING_REPORT, check_model_folder, find_minilm_folder
from evidence_assets.models.registry import SAMPLE_MASKED_LM
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings, Profile

MASKED_MODEL = "masked model"
"""What the model that triples are harvested from is called here."""
_OTHER_FORMATS = " ".join(f"--exclude '{files}'" for files in ("*.h5", "*.msgpack", "*.ot", "onnx/*", "openvino/*"))
"""Copies of the same weights that nothing here reads, several times as large as what is read."""


@dataclass(frozen=True)
class CheckResult:
    """One thing looked at: ``fine`` is None where it is neither needed nor harmful."""

    requirement: str
    status: str
    is_ok: bool | None = True
    remedy: str = ""


def _package(name: str, remedy: str = "") -> CheckResult:
    try:
        return CheckResult(name, version(name))
    except PackageNotFoundError:
        return CheckResult(name, "not installed", False, remedy or f"pip install {name}")


def _device() -> CheckResult:
    import torch

    if torch.cuda.is_available():
        return CheckResult("device", f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(0)}")
    return CheckResult("device", f"CPU, {os.cpu_count()} cores", None, "CUDA is used when torch sees a GPU")


def _weights(what: str, settings: ModelSettings | GeneratorSettings) -> CheckResult:
    name = settings.name
    if name == "embedded-minilm":
        try:
            find_minilm_folder()
        except ModelUnavailable as error:
            return CheckResult(what, name, False, str(error))
        return CheckResult(what, f"{name}, checksum right")
    if name == "maxsim":
        return CheckResult(what, "late interaction over the token encoder")
    if Path(name).is_dir():
        return CheckResult(what, f"folder {name}")
    lacking = _lacking(name, settings.revision)
    if not lacking:
        return CheckResult(what, f"{name}, in the local cache")
    size = f", {settings.megabytes:,} MB to download" if settings.megabytes else ""
    revision = f" --revision {settings.revision}" if settings.revision else ""
    # A size is stated of safetensors; of other models pickled weights may be the only ones.
    excluded = _OTHER_FORMATS + (" --exclude '*.bin'" if settings.megabytes else "")
    remedy = f"download it once, where there is a network: hf download {name}{revision} {excluded}"
    return CheckResult(what, f"{name}, {lacking}{size}", False, remedy)


def _lacking(name: str, revision: str | None) -> str:
    """What the hub's local cache lacks of a model; nothing where it is whole."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        check_model_folder(Path(snapshot_download(name, revision=revision, local_files_only=True)))
    except (HFValidationError, LocalEntryNotFoundError):
        return "not in the local cache"
    except ModelUnavailable as error:
        return f"in the local cache in part ({error})"
    return ""


def _trained(folder: Path) -> CheckResult:
    """The masked model that a lake trained on the sample."""
    again = "materialize models/masked_lm: in the UI, or by make demo"
    if not (folder / TRAINING_REPORT).is_file():
        return CheckResult(
            MASKED_MODEL, f"{SAMPLE_MASKED_LM}, not trained in this lake yet", None, f"before a harvest {again}"
        )
    report = json.loads((folder / TRAINING_REPORT).read_text(encoding="utf-8"))
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_id(weights) != report["weights"]:
        return CheckResult(
            MASKED_MODEL, f"{SAMPLE_MASKED_LM}: its weights are not those that were trained", False, again
        )
    return CheckResult(MASKED_MODEL, SAMPLE_MASKED_LM)


def _server(what: str, model: GeneratorSettings | EncoderSettings) -> CheckResult:
    from evidence_assets.models.served_models import OpenAIServer

    stated = model.model_dump(include={"base_url", "api_key_env"})
    server = OpenAIServer(model.name, **stated, timeout_seconds=3, attempts=1)
    try:
        return CheckResult(what, f"{server.base_url}/models serves {server.listed['id']}")
    except ModelUnavailable as error:
        return CheckResult(what, str(error), False, f"start one, such as: vllm serve {model.name} --host 127.0.0.1")


def diagnose(profile: Profile) -> list[CheckResult]:
    """Everything that ``profile`` needs, with what to do about what is missing."""
    encoders = {settings: ["encoder"] for settings in profile.encoders.values()}
    encoders.setdefault(profile.token_encoder, []).append("token encoder")
    findings = [
        CheckResult("profile", f"{profile.name}: {profile.description}", None),
        *map(_package, ("dagster", "duckdb", "polars", "pyarrow", "torch", "POT", "transformers")),
        _device(),
        *(
            _server("encoder server", settings) if settings.base_url else _weights(" and ".join(uses), settings)
            for settings, uses in encoders.items()
        ),
        *(_weights("reranker", settings) for settings in profile.rerankers.values()),
        *(
            _trained(fetch_path(find_lake() / "indexes" / asset_folder("models/masked_lm")))
            if settings.name == SAMPLE_MASKED_LM
            else _weights(MASKED_MODEL, settings)
            for settings in profile.masked_models.values()
        ),
    ]
    harvesting = profile.harvesting
    named = {"writer": harvesting.writer, "substitution": harvesting.substitution, "likelihood": harvesting.likelihood}
    findings += [_weights(f"harvesting: {what}", settings) for what, settings in named.items() if settings is not None]
    return findings + [found for settings in profile.generators.values() for found in _generator(settings)]


def _generator(generator: GeneratorSettings) -> list[CheckResult]:
    """What a language model needs."""
    match generator.backend:
        case "extractive":
            return [CheckResult("reasoner", "extractive: no language model needed")]
        case "openai":
            return [_server("language model server", generator)]
        case "vllm":
            return [_package("vllm", "pip install 'evidence-assets[gpu]'")]
        case "transformers":
            four_bit = [_package("bitsandbytes", "pip install 'evidence-assets[gpu]'")] if generator.four_bit else []
            return [_weights("language model", generator), *four_bit]
        case "replay":
            there = Path(generator.folder).is_dir()
            return [CheckResult("recorded answers", generator.folder or "no folder named", there, "name a folder")]
