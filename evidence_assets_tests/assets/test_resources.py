"""Placement options of steps for Dagster and Ray; Ray changes no byte of the vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from evidence_assets import profiles
from evidence_assets.assets import resources
from evidence_assets.assets.resources import STEP_VARIABLE, block_mapper, executor, step_options
from evidence_assets.definitions import defs
from evidence_assets.experiment import corpus_building
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.retrieval import embedding
from evidence_assets.retrieval.embedding import embed

ON_RAY = "extends: embedded\nname: on_ray\nexecutor: ray\nneeds: {gpu: {cpus: 2, gpus: 0.5, memory: 3GB}}\n"
TAG = "dagster-ray/config"


@pytest.fixture
def on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "on_ray.yaml").write_text(ON_RAY)
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(tmp_path / "on_ray.yaml"))


@pytest.mark.usefixtures("on_ray")
def test_the_profile_sets_a_steps_resources_by_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "executor", lambda: None)  # needs packages that this test does not
    config_by_op = {}
    for asset in [*(defs().assets or []), *(defs().asset_checks or [])]:
        assert isinstance(asset, dg.AssetsDefinition)
        config_by_op[asset.op.name] = json.loads(asset.op.tags.get(TAG, "null"))
        assert config_by_op[asset.op.name] is None or asset.op.retry_policy == dg.RetryPolicy(
            max_retries=resources.MAX_STEP_RESTARTS
        )
    assert config_by_op["evidence__mcqa__uscrake"] == {"num_cpus": 2, "num_gpus": 0.5, "memory": 3_000_000_000}
    assert config_by_op["evidence__mcqa__bm25"] == {"num_cpus": 1, "memory": 2_000_000_000}
    assert config_by_op["corpus__sample__embeddings"] == {"memory": 3_000_000_000}, "its actors have the card"
    unplaced = {"raw__seeds", "raw__seeds_seed_files", "raw__seeds_seed_pairs"}  # they only read small files
    assert config_by_op["corpus__sample__token_store"] == config_by_op["evidence__mcqa__uscrake"]
    assert {name for name, needs in config_by_op.items() if needs is None} == unplaced


@pytest.mark.usefixtures("on_ray")
def test_only_the_run_process_retries_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "retry_policy" in step_options("gpu") and block_mapper() is map
    monkeypatch.setenv(STEP_VARIABLE, "a_step")
    assert "retry_policy" not in step_options("gpu") and block_mapper() is not map


@pytest.mark.usefixtures("on_ray")
def test_the_profile_needs_the_ray_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_ray", None)
    with pytest.raises(BadInput, match=r"evidence-assets\[ray\]"):
        executor()


@pytest.fixture
def two_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else a token is left in the home folder
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("on_ray", "two_workers")
def test_vectors_are_the_same_bytes_over_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker fits the resources, so that blocks are queued."""
    monkeypatch.setattr(embedding, "CHUNKS_PER_CALL", 8)
    monkeypatch.setenv(STEP_VARIABLE, "a_step")
    monkeypatch.setattr(resources, "_ray_options", lambda needs: {"num_cpus": 1})
    settings = profiles.load().encoder
    model, texts = get_encoder(settings), [f"Sentence {i} says " + "that " * (i % 9) + "much." for i in range(60)]
    chunks = pl.DataFrame(
        {
            "chunk_id": [f"{i:04d}" for i in range(60)],
            "doc_id": ["d"] * 60,
            "text": texts,
            "n_tokens": model.count_tokens(texts),
            "source": ["notes.jsonl"] * 60,
        }
    )
    nothing = pl.DataFrame(schema={"chunk_id": pl.String, "vector": pl.List(pl.Float32), "input_hash": pl.String})
    encode = partial(corpus_building._vectors, settings, False)
    in_process, by_actors = (
        embed(chunks, nothing, model, model_key(model), encode=encode, map_blocks=over)[0]
        for over in (map, block_mapper())
    )
    assert len(in_process) == 60 and in_process.equals(by_actors)
