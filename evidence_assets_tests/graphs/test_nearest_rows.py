"""Candidates for the nearest rows, against all inner products."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.graphs import nearest_rows
from evidence_assets.graphs.knowledge_graph import map_rows_by_id
from evidence_assets.graphs.nearest_rows import find_candidates, inner_products
from evidence_assets.models.vectors import unit_rows


@given(st.integers(0, 90), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_candidates_include_the_nearest_rows_and_their_ties(n: int, k: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    distinct = unit_rows(generator.standard_normal((max(1, n // 3), 8)).astype(np.float32))
    vectors = distinct[generator.integers(0, len(distinct), n)]
    queries = unit_rows(generator.standard_normal((3, 8)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_rows, "ROWS_PER_BLOCK", 16)
        candidates = find_candidates(vectors, queries, k)
        scores = [inner_products(vectors, np.arange(n), query) for query in queries]
    for rows, products in zip(candidates, scores, strict=True):
        least = np.sort(products)[-min(k, n) :][:1]
        assert {*np.flatnonzero(products >= least).tolist()} <= {*rows.tolist()} if n else not len(rows)
        assert rows.tolist() == sorted(set(rows.tolist()))


def test_far_rows_are_no_candidates() -> None:
    vectors = unit_rows(np.random.default_rng(0).standard_normal((100_000, 8)).astype(np.float32))
    (rows,) = find_candidates(vectors, vectors[:1], 10)
    assert 10 <= len(rows) < 100


def test_rows_are_mapped_in_the_order_of_their_ids_and_no_file_stays(tmp_path: Path) -> None:
    rows = pl.DataFrame({"owner_id": ["c", "a", "b"], "vector": [[3.0], [1.0], [2.0]]})
    rows = rows.with_columns(pl.col("vector").cast(pl.List(pl.Float32)))
    ids = pl.Series(["a", "b", "c"]).set_sorted()
    vectors = map_rows_by_id([rows[:2], rows[2:]], ids, tmp_path)
    assert vectors is not None and vectors.tolist() == [[1.0], [2.0], [3.0]]
    assert not [*tmp_path.iterdir()]
    assert map_rows_by_id([rows[:2]], ids, tmp_path) is None, "b has no row"
    assert map_rows_by_id([rows], ids[:2], tmp_path) is None, "c is unknown"
