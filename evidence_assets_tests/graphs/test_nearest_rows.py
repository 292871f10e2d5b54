"""The nearest rows, against all inner products, and rows in mapped files."""

import errno
import os
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.graphs import nearest_rows
from evidence_assets.graphs.graph_store import build_name_vectors
from evidence_assets.graphs.knowledge_graph import map_rows_by_id
from evidence_assets.graphs.nearest_rows import MARGIN, find_nearest, inner_products
from evidence_assets.lake.array_files import create_array
from evidence_assets.lake.errors import DiskFull
from evidence_assets.models.vectors import unit_rows


@given(st.integers(1, 90), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_the_nearest_rows_are_those_of_all_products(n: int, k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit_rows(generator.standard_normal((n, 8)).astype(np.float32))
    queries = unit_rows(generator.standard_normal((3, 8)).astype(np.float32))
    for query, scores, rows in zip(queries, *find_nearest(vectors, queries, k), strict=True):
        products = inner_products(vectors, np.arange(n), query)
        np.testing.assert_allclose(products[rows], np.sort(products)[::-1][:k], atol=MARGIN)
        np.testing.assert_allclose(scores, products[rows], atol=MARGIN)


def test_products_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit_rows(np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32))
    rows = np.array([8, 0, 3, 3, 5])
    monkeypatch.setattr(nearest_rows, "ROWS_PER_BLOCK", 2)
    np.testing.assert_allclose(inner_products(vectors, rows, vectors[3]), vectors[rows] @ vectors[3], atol=1e-6)


def test_rows_are_mapped_in_the_order_of_their_ids_and_no_file_stays(tmp_path: Path) -> None:
    rows = pl.DataFrame({"owner_id": ["c", "a", "b"], "vector": [[3.0], [1.0], [2.0]]})
    rows = rows.with_columns(pl.col("vector").cast(pl.List(pl.Float32)))
    ids = pl.Series(["a", "b", "c"]).set_sorted()
    vectors = map_rows_by_id([rows[:2], rows[2:]], ids, tmp_path)
    assert vectors is not None and vectors.tolist() == [[1.0], [2.0], [3.0]]
    assert not [*tmp_path.iterdir()]
    assert map_rows_by_id([rows[:2]], ids, tmp_path) is None, "b has no row"
    assert map_rows_by_id([rows], ids[:2], tmp_path) is None, "c is unknown"


def test_rows_are_mapped_into_reserved_space_or_the_disk_is_reported_as_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    created = create_array(tmp_path / "rows.npy", np.float32, (3, 1000))
    assert (tmp_path / "rows.npy").stat().st_blocks * 512 >= 12_000, "a sparse file has fewer blocks"
    assert not created.any() and np.load(tmp_path / "rows.npy").shape == (3, 1000)
    assert create_array(tmp_path / "empty.npy", np.float16, (0, 4)).shape == (0, 4)
    monkeypatch.setattr(os, "posix_fallocate", fail)
    rows = pl.DataFrame({"owner_id": ["a"], "vector": [[1.0]]}, schema_overrides={"vector": pl.List(pl.Float32)})
    with pytest.raises(DiskFull, match="free some space"):
        map_rows_by_id([rows], pl.Series(["a"]).set_sorted(), tmp_path)
    encoder = MagicMock(dimensions=4)
    nodes = pl.DataFrame({"name": ["bee"], "aliases": [["wasp"]]})
    with pytest.raises(DiskFull, match="names"):
        build_name_vectors(tmp_path / "names", nodes, encoder, "m", "", memory=10**6)
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == ["empty.npy", "rows.npy"]
