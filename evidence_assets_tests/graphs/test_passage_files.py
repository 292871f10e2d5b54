"""Similarities of questions to the passages of nodes: equal for any blocks, in bounded memory."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence_assets.graphs import passage_files
from evidence_assets.graphs.passage_files import PassageFiles, SimilarityMethod

METHODS: tuple[SimilarityMethod, ...] = ("vector", "multi_vector")


def open_files(folder: Path, n_nodes: int, dimensions: int) -> PassageFiles:
    """Random passages, one to three of each node, as they are in files."""
    generator = np.random.default_rng(0)
    counts = generator.integers(1, 4, n_nodes)
    owners = generator.permutation(np.repeat(np.arange(n_nodes), counts))
    vectors, means = (
        generator.standard_normal((rows, dimensions), dtype=np.float32).astype(np.float16)
        for rows in (len(owners), n_nodes)
    )
    arrays = {"owners": owners, "order": np.argsort(owners, kind="stable"), "vectors": vectors, "means": means}
    for name, array in (arrays | {"bounds": np.cumsum([0, *counts])}).items():
        np.save(folder / f"{name}.npy", array)
    index: Any = None  # only `nearest` searches it
    files = PassageFiles(folder, index)
    files.__dict__["_means"] = index, np.load(folder / "means.npy", mmap_mode="r")
    return files


@pytest.mark.parametrize("method", METHODS)
def test_similarities_do_not_depend_on_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: SimilarityMethod
) -> None:
    files = open_files(tmp_path, 50, 24)
    query = np.random.default_rng(1).standard_normal(24, dtype=np.float32)
    nodes = np.array([3, 4, 9, 20, 21, 49])
    results = []
    for size in (1, 2, 1 << 20):
        monkeypatch.setattr(passage_files, "ROWS_PER_BLOCK", size)
        results.append(files.similarities(query, nodes, method).tolist())
    assert results[0] == results[1] == results[2]
    rows, first = files.rows_of(nodes)
    vectors = np.load(tmp_path / "vectors.npy")[rows] if method == "multi_vector" else files._means[1][nodes]
    products = (vectors.astype(np.float32) * query).sum(axis=1)
    expected = products if method == "vector" else np.maximum.reduceat(products, first)
    assert results[0] == np.round(expected.astype(np.float64), 6).tolist()
    assert len(files.similarities(query, np.array([], np.int64), method)) == 0


@pytest.mark.parametrize("method", METHODS)
def test_similarities_to_all_nodes_read_vectors_in_blocks(tmp_path: Path, method: SimilarityMethod) -> None:
    """All vectors of 30,000 nodes have 77 (means) or 150 MB while they are multiplied at once."""
    files = open_files(tmp_path, 30_000, 256)
    query = np.ones(256, np.float32)
    tracemalloc.start()
    assert len(files.similarities(query, np.arange(30_000), method)) == 30_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20
