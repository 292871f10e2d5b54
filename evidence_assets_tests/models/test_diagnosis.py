"""What the doctor says of the masked model that a profile harvests from."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.models.diagnosis import MASKED, Finding, diagnose
from evidence_assets.profiles import ModelSettings, Profile, load
from evidence_assets.systems.kbloom.sample_model import train
from evidence_assets_tests.models.tiny import make_causal, make_encoder
from evidence_assets_tests.models.tiny_masked import word_piece


def asked(name: str) -> Finding:
    profile: Profile = load("embedded")
    masked = {"own": ModelSettings(name=name)}  # type: ignore[call-arg]
    [found] = [f for f in diagnose(profile.model_copy(update={"masked_models": masked})) if f.what == MASKED]
    return found


def test_a_model_of_the_lakes_own_is_trained_whole_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path))
    absent = asked("sample-masked-lm")
    assert absent.fine is None and "not trained in this lake yet" in absent.found and "make demo" in absent.remedy
    folder = tmp_path / "indexes" / "asset=models.masked_lm"
    train(folder, ["an owl eats mice.", "a cat eats fish."] * 2, {"owl", "mice"}, 2)
    there = asked("sample-masked-lm")
    assert there.fine and "words" in there.found and "guessed" in there.found
    (folder / "model.safetensors").write_bytes(b"cut")
    broken = asked("sample-masked-lm")
    assert broken.fine is False and "not those that were trained" in broken.found


def test_a_named_model_must_be_here_and_fill_masks(tmp_path: Path) -> None:
    absent = asked("someone/masked-model-that-nobody-has")
    assert absent.fine is False and "hf download" in absent.remedy
    masked = word_piece()
    masked._model.save_pretrained(tmp_path / "bert")
    masked._tokenizer.save_pretrained(tmp_path / "bert")
    assert asked(str(tmp_path / "bert")).fine
    causal = asked(str(make_causal(tmp_path / "gpt")))
    assert causal.fine is False and "no mask token" in causal.found
    headless = asked(str(make_encoder(tmp_path / "encoder")))
    assert headless.fine is False and "masked language model such as BERT" in headless.remedy
