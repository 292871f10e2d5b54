"""The profile ``laptop`` with tiny models instead of those on the hub, and the doctor's checks of models."""

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from evidence_assets import profiles
from evidence_assets.models.diagnosis import CheckResult, diagnose
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import get_encoder, get_reranker, load_generator
from evidence_assets.profiles import GeneratorSettings
from evidence_assets_tests.models.servers import complete
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny import make_causal, make_encoder


@pytest.fixture
def profile(tmp_path: Path) -> profiles.Profile:
    encodes = {"name": str(make_encoder(tmp_path / "encoder")), "revision": None}
    settings = {
        "extends": "laptop",
        "encoder": encodes,
        "token_encoder": encodes,
        "reranker": {"name": str(make_cross_encoder(tmp_path / "reranker")), "revision": None},
        "generator": {"name": str(make_causal(tmp_path / "generator")), "revision": None},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return profiles.load(str(tmp_path / "mine.yaml"))


def test_every_model_of_the_laptop_loads_and_answers(profile: profiles.Profile) -> None:
    vectors = get_encoder(profile.encoder).encode_sentences(["aspirin may treat pain", "insulin lowers glucose"])
    assert vectors.shape[0] == 2 and np.isfinite(vectors).all()
    pairs = [("pain", "aspirin may treat pain"), ("pain", "insulin lowers glucose")]
    assert np.isfinite(get_reranker(profile.reranker, profile.token_encoder).score(pairs)).all()
    (completion,) = complete(load_generator(profile.generator), [Request("You answer.", "Choose one.", 8, ("A", "B"))])
    assert completion.text in ("A", "B")


def test_doctor_lists_missing_downloads_with_sizes() -> None:
    failed_checks = [check for check in diagnose(profiles.load("laptop")) if check.is_ok is False]
    assert {check.requirement for check in failed_checks} == {"encoder and token encoder", "reranker", "language model"}
    for check in failed_checks:
        assert "MB to download" in check.status and "hf download" in check.remedy and "--revision" in check.remedy


def test_doctor_finds_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    encoder = profiles.load("laptop").encoder
    snapshot = tmp_path / f"models--{encoder.name.replace('/', '--')}" / "snapshots" / str(encoder.revision)
    make_encoder(snapshot)
    [check] = [check for check in diagnose(profiles.load("laptop")) if check.requirement.startswith("encoder")]
    assert check.is_ok and check.status.endswith("in the local cache")


def test_doctor_checks_a_gguf_file_and_the_package_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    (tmp_path / "gguf.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    generator = GeneratorSettings(backend="transformers", name=str(file))
    profile = profiles.load("embedded").model_copy(update={"generators": {"small": generator}})

    def check() -> CheckResult:
        (result,) = [each for each in diagnose(profile) if each.requirement == "language model"]
        return result

    assert check() == CheckResult("language model", f"file {file}")
    monkeypatch.setitem(sys.modules, "gguf", None)  # as if it was not installed
    assert check().is_ok is False and "small.gguf needs the package gguf: pip install gguf" in check().remedy
    file.unlink()
    assert check().is_ok is False and check().remedy == f"there is no model file {file}: check its path"
