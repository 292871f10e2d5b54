"""The profile ``laptop`` with tiny models in place of those on the hub, and what the doctor says of models."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from evidence_assets import profiles
from evidence_assets.models.diagnosis import MASKED_MODEL, CheckResult, diagnose
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import get_encoder, get_reranker, load_generator
from evidence_assets.profiles import ModelSettings
from evidence_assets.systems.kbloom.sample_model import train_model
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny import make_causal, make_encoder


@pytest.fixture
def profile(tmp_path: Path) -> profiles.Profile:
    encodes = {"name": str(make_encoder(tmp_path / "encoder")), "revision": None}
    stated = {
        "extends": "laptop",
        "encoder": encodes,
        "token_encoder": encodes,
        "reranker": {"name": str(make_cross_encoder(tmp_path / "reranker")), "revision": None},
        "generator": {"name": str(make_causal(tmp_path / "generator", qwen=True)), "revision": None},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(stated), encoding="utf-8")
    return profiles.load(str(tmp_path / "mine.yaml"))


def test_every_model_of_the_laptop_loads_and_answers(profile: profiles.Profile) -> None:
    vectors = get_encoder(profile.encoder).encode_sentences(["aspirin may treat pain", "insulin lowers glucose"])
    assert vectors.shape[0] == 2 and np.isfinite(vectors).all()
    pairs = [("pain", "aspirin may treat pain"), ("pain", "insulin lowers glucose")]
    assert np.isfinite(get_reranker(profile.reranker, profile.token_encoder).score(pairs)).all()
    (completion,) = load_generator(profile.generator).generate([Request("You answer.", "Choose one.", 8, ("A", "B"))])
    assert completion.text in ("A", "B")


def test_doctor_says_what_to_download_and_how_big_it_is() -> None:
    missing = [finding for finding in diagnose(profiles.load("laptop")) if finding.is_ok is False]
    assert {finding.requirement for finding in missing} == {"encoder and token encoder", "reranker", "language model"}
    for finding in missing:
        assert "MB to download" in finding.status and "hf download" in finding.remedy and "--revision" in finding.remedy


def test_half_a_download_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    wanted = profiles.load("laptop").encoder
    held = tmp_path / f"models--{wanted.name.replace('/', '--')}" / "snapshots" / str(wanted.revision)
    shutil.copytree(make_encoder(tmp_path / "whole"), held)

    def said() -> str:
        return next(f.status for f in diagnose(profiles.load("laptop")) if f.requirement.startswith("encoder"))

    assert said().endswith("in the local cache")
    index = held / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "model.safetensors", "b": "more.safetensors"}}')
    assert "incomplete" in said() and "lacks more.safetensors" in said()


def masked(name: str) -> CheckResult:
    named = {"own": ModelSettings(name=name)}  # type: ignore[call-arg]
    profile = profiles.load("embedded").model_copy(update={"masked_models": named})
    return next(finding for finding in diagnose(profile) if finding.requirement == MASKED_MODEL)


def test_a_masked_model_of_the_lakes_own_is_trained_whole_or_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path))
    assert masked("sample-masked-lm").is_ok is None
    folder = tmp_path / "indexes" / "asset=models.masked_lm"
    train_model(folder, ["an owl eats mice.", "a cat eats fish."] * 2, {"owl", "mice"}, 2)
    assert masked("sample-masked-lm").is_ok
    (folder / "model.safetensors").write_bytes(b"cut")
    assert masked("sample-masked-lm").is_ok is False


def test_a_named_masked_model_must_be_here() -> None:
    absent = masked("someone/masked-model-that-nobody-has")
    assert absent.is_ok is False and "hf download" in absent.remedy
