"""Indexes: exact or nearly so, by size; what they were built from is remembered and enforced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evidence_assets.lake.errors import StaleInput
from evidence_assets.retrieval.vector_index import FLAT_UP_TO, HNSW_UP_TO, VectorIndex, build, kind_for


def unit(n: int, d: int = 32, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_kind_follows_the_size() -> None:
    assert kind_for(FLAT_UP_TO) == "flat"
    assert kind_for(FLAT_UP_TO + 1) == "hnsw"
    assert kind_for(HNSW_UP_TO + 1) == "ivfpq"


@pytest.mark.parametrize(("kind", "recall"), [("flat", 1.0), ("hnsw", 0.95)])
def test_the_stated_recall_is_what_flat_search_says(tmp_path: Path, kind: str, recall: float) -> None:
    vectors = unit(3000)
    meta = build(tmp_path / "index", vectors, built_from="v1", model_id="m", kind=kind)
    assert meta.kind == kind and meta.vectors == 3000 and meta.recall >= recall
    queries = unit(20, seed=1)
    scores, positions = VectorIndex(tmp_path / "index", expected="v1").search(queries, 10)
    exact = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :10]
    shared = np.mean([len(set(a) & set(b)) for a, b in zip(positions.tolist(), exact.tolist(), strict=True)]) / 10
    assert shared >= recall - 0.1
    assert (np.diff(scores, axis=1) <= 1e-6).all()
    if kind == "flat":
        assert np.array_equal(positions, exact)


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "index", unit(10), built_from="v1", model_id="m")
    with pytest.raises(StaleInput, match="materialize it again"):
        VectorIndex(tmp_path / "index", expected="v2")
    with pytest.raises(StaleInput, match="there is no index"):
        VectorIndex(tmp_path / "elsewhere", expected="v1")


def test_an_empty_index_and_more_asked_than_there_is(tmp_path: Path) -> None:
    build(tmp_path / "empty", np.zeros((0, 0), np.float32), built_from="v", model_id="")
    assert VectorIndex(tmp_path / "empty", expected="v").search(unit(2), 5)[1].shape == (2, 0)
    build(tmp_path / "three", unit(3), built_from="v", model_id="m")
    _, positions = VectorIndex(tmp_path / "three", expected="v").search(unit(1, seed=2), 5)
    assert sorted(positions[0].tolist()) == [0, 1, 2]


def test_equal_scores_are_ordered_by_position(tmp_path: Path) -> None:
    vectors = np.repeat(unit(1), 4, axis=0)
    build(tmp_path / "same", vectors, built_from="v", model_id="m")
    assert VectorIndex(tmp_path / "same", expected="v").search(vectors[:1], 4)[1].tolist() == [[0, 1, 2, 3]]
