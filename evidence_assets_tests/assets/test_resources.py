"""What Dagster and Ray are told of where steps work, and that Ray changes no byte of what they make."""

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
def test_what_a_step_takes_is_the_profiles_by_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "executor", lambda: None)  # needs packages that this test does not
    stated = {}
    for one in [*(defs().assets or []), *(defs().asset_checks or [])]:
        assert isinstance(one, dg.AssetsDefinition)
        stated[one.op.name] = json.loads(one.op.tags.get(TAG, "null"))
        assert stated[one.op.name] is None or one.op.retry_policy == dg.RetryPolicy(
            max_retries=resources.MAX_STEP_RESTARTS
        )
    assert stated["evidence__mcqa__uscrake"] == {"num_cpus": 2, "num_gpus": 0.5, "memory": 3_000_000_000}
    assert stated["evidence__mcqa__bm25"] == {"num_cpus": 1, "memory": 2_000_000_000}
    assert stated["corpus__sample__embeddings"] == {"memory": 3_000_000_000}, "its actors have the card"
    beside_the_head = {"raw__seeds", "raw__seeds_seed_files"}  # they only look at small files
    assert stated["corpus__sample__token_store"] == stated["corpus__sample__embeddings"]
    assert {name for name, needs in stated.items() if needs is None} == beside_the_head


@pytest.mark.usefixtures("on_ray")
def test_only_who_watches_a_step_begins_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "retry_policy" in step_options("gpu") and block_mapper() is map
    monkeypatch.setenv(STEP_VARIABLE, "a_step")
    assert "retry_policy" not in step_options("gpu") and block_mapper() is not map


@pytest.mark.usefixtures("on_ray")
def test_without_its_packages_the_profile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """One worker has room for all that is asked, so that blocks wait for one another."""
    monkeypatch.setattr(embedding, "CHUNKS_PER_CALL", 8)
    monkeypatch.setenv(STEP_VARIABLE, "a_step")
    monkeypatch.setattr(resources, "_stated", lambda needs: {"num_cpus": 1})
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
    alone, together = (
        embed(chunks, nothing, model, model_key(model), encode=encode, map_blocks=over)[0]
        for over in (map, block_mapper())
    )
    assert len(alone) == 60 and alone.equals(together)
