"""The profile ``laptop`` with tiny models instead of those on the hub, and the doctor's checks of models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from evidence_assets import profiles
from evidence_assets.models.diagnosis import MASKED_MODEL, CheckResult, diagnose
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import get_encoder, get_reranker, load_generator
from evidence_assets.profiles import ModelSettings
from evidence_assets.systems.kbloom.sample_model import train_model
from evidence_assets_tests.conftest import run_python
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
        "generator": {"name": str(make_causal(tmp_path / "generator", qwen=True)), "revision": None},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return profiles.load(str(tmp_path / "mine.yaml"))


def test_every_model_of_the_laptop_loads_and_answers(profile: profiles.Profile) -> None:
    vectors = get_encoder(profile.encoder).encode_sentences(["aspirin may treat pain", "insulin lowers glucose"])
    assert vectors.shape[0] == 2 and np.isfinite(vectors).all()
    pairs = [("pain", "aspirin may treat pain"), ("pain", "insulin lowers glucose")]
    assert np.isfinite(get_reranker(profile.reranker, profile.token_encoder).score(pairs)).all()
    (completion,) = load_generator(profile.generator).generate([Request("You answer.", "Choose one.", 8, ("A", "B"))])
    assert completion.text in ("A", "B")


def test_doctor_lists_missing_downloads_with_sizes() -> None:
    failed_checks = [check for check in diagnose(profiles.load("laptop")) if check.is_ok is False]
    assert {check.requirement for check in failed_checks} == {"encoder and token encoder", "reranker", "language model"}
    for check in failed_checks:
        assert "MB to download" in check.status and "hf download" in check.remedy and "--revision" in check.remedy


def test_doctor_reports_an_incomplete_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    encoder = profiles.load("laptop").encoder
    snapshot = tmp_path / f"models--{encoder.name.replace('/', '--')}" / "snapshots" / str(encoder.revision)
    shutil.copytree(make_encoder(tmp_path / "whole"), snapshot)

    def status() -> str:
        return next(f.status for f in diagnose(profiles.load("laptop")) if f.requirement.startswith("encoder"))

    assert status().endswith("in the local cache")
    (snapshot / "model.safetensors").unlink()
    assert "incomplete" in status() and "lacks its weights" in status()


def check_masked_model(name: str) -> CheckResult:
    models = {"own": ModelSettings(name=name)}  # type: ignore[call-arg]
    profile = profiles.load("embedded").model_copy(update={"masked_models": models})
    return next(check for check in diagnose(profile) if check.requirement == MASKED_MODEL)


def test_doctor_checks_the_masked_model_trained_in_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path))
    assert check_masked_model("sample-masked-lm").is_ok is None
    folder = tmp_path / "indexes" / "asset=models.masked_lm"
    train_model(folder, ["an owl eats mice.", "a cat eats fish."] * 2, {"owl", "mice"}, 2)
    assert check_masked_model("sample-masked-lm").is_ok


# Vectors do not depend on the thread count with which a process is started


SCRIPT = """
import hashlib, json, random, sys
import numpy as np, torch
from evidence_assets.models import encoders

torch.set_num_threads(int(sys.argv[1]))
chance, hashes = random.Random(1), {}
words = "the fever aspirin insulin pain of may treat glucose lowers river copper near a in cell".split()
texts = [" ".join(chance.choices(words, k=chance.choice((1, 2, 3, 5, 7, 24, 60)))) for _ in range(160)]
for dtype in ("float32", "bfloat16"):
    encoder = encoders.load_encoder(encoders.EMBEDDED_ENCODER, device="cpu", dtype=dtype)
    whole, some = encoder.encode_sentences(texts), encoder.encode_sentences(texts[::2])
    tokens = encoder.encode_tokens(texts[:20])
    alone = np.concatenate([encoder.encode_sentences([text]) for text in texts[:20]])
    hashes[dtype] = {
        "whole": [hashlib.sha256(row.tobytes()).hexdigest()[:8] for row in whole],
        "moved": int((some != whole[::2]).any(1).sum() + (alone != whole[:20]).any(1).sum()),
        "tokens": hashlib.sha256(b"".join(text.vectors.tobytes() for text in tokens)).hexdigest(),
    }
print(json.dumps({"threads": torch.get_num_threads(), **hashes}))
"""


def encode_in_process(threads: int) -> dict[str, Any]:
    """Encode the same texts in a process with this number of threads."""
    return dict(json.loads(run_python("-c", SCRIPT, str(threads), env={"OMP_NUM_THREADS": str(threads)})))


@pytest.mark.long
def test_vectors_do_not_depend_on_threads_or_batch() -> None:
    one, several = encode_in_process(1), encode_in_process(4)
    assert (one["threads"], several["threads"]) == (1, 4)
    for dtype in ("float32", "bfloat16"):
        assert several[dtype] == one[dtype] and several[dtype]["moved"] == 0
