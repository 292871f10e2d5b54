"""Indexes: the most exact that fits into a memory, built in blocks, with a recall that is measured."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.index_building import MAX_FLAT_VECTORS, choose_kind, code_sizes, index_bytes
from evidence_assets.retrieval.vector_index import MAX_CARD_SEARCH, VectorIndex
from evidence_assets_tests.conftest import run_python
from evidence_assets_tests.retrieval.written import build_index


def unit(n: int, d: int = 32, seed: int = 0) -> np.ndarray:
    """Vectors around forty middles, as texts lie around their subjects."""
    chance = np.random.default_rng(seed)
    middles = np.random.default_rng(99).normal(size=(40, d))
    vectors = middles[chance.integers(0, 40, n)] + 0.8 * chance.normal(size=(n, d))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def nearest(vectors: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    half = vectors.astype(np.float16).astype(np.float32)
    return np.argsort(-(queries @ half.T), axis=1, kind="stable")[:, :k]


def shared(positions: np.ndarray, expected: np.ndarray) -> float:
    return float(
        np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(positions.tolist(), expected.tolist(), strict=True)])
    )


@given(st.integers(1, 50_000_000), st.sampled_from([64, 384, 1024]), st.integers(10**7, 10**11))
def test_the_most_exact_kind_that_fits_is_used(n: int, d: int, memory: int) -> None:
    fitting = [code for code in code_sizes(d) if index_bytes(n, d, code) <= memory]
    if n <= MAX_FLAT_VECTORS and 2 * n * d <= memory:
        assert choose_kind(n, d, memory) == "flat"
    elif fitting:
        assert choose_kind(n, d, memory).endswith("," + fitting[0])
    else:
        with pytest.raises(BadInput, match=r"raise index\.memory"):
            choose_kind(n, d, memory)


@pytest.mark.parametrize(
    ("code", "min_recall"), [("sqfp16", 0.95), ("sq8", 0.9), pytest.param("pq16", 0.5, marks=pytest.mark.long)]
)
def test_the_stated_recall_and_size_are_the_real_ones(tmp_path: Path, code: str, min_recall: float) -> None:
    vectors = unit(12_000)
    memory = index_bytes(12_000, 32, code)
    meta = build_index(
        tmp_path / "index", vectors, built_from="v1", model_id="m", kind="ivf", memory=memory, neighbours=400
    )
    assert meta.kind.endswith("," + code) and list(meta.recall) == ["10", "100", "400"]
    assert meta.bytes == (tmp_path / "index" / "index.faiss").stat().st_size
    assert meta.bytes == pytest.approx(memory, rel=0.05)
    index = VectorIndex(tmp_path / "index", expected="v1")
    some = unit(12_000)[:200]
    queries = some + np.roll(some, 7, axis=0)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    scores, positions = index.search(queries, 400)
    assert (np.diff(scores, axis=1) <= 0).all()
    recall = shared(positions, nearest(vectors, queries, 400))
    assert meta.recall["400"] >= min_recall and recall == pytest.approx(meta.recall["400"], abs=0.06)


def test_a_flat_index_is_exact_and_needs_no_recall(tmp_path: Path) -> None:
    vectors, queries = unit(3000), unit(20, seed=1)
    meta = build_index(tmp_path / "index", vectors, built_from="v1", model_id="m")
    assert (meta.kind, meta.recall, meta.memory) == ("flat", {}, 8 * 10**9)
    _, positions = VectorIndex(tmp_path / "index", expected="v1").search(queries, 10)
    assert np.array_equal(positions, nearest(vectors, queries, 10))


def test_queries_of_another_length_are_refused(tmp_path: Path) -> None:
    build_index(tmp_path / "index", unit(300), built_from="v1", model_id="served")
    index = VectorIndex(tmp_path / "index", expected="v1")
    with pytest.raises(StaleInput, match="has vectors of 32 numbers, and served now returns 64: another model"):
        index.search(unit(2, d=64), 10)


def test_all_are_found_where_all_are_asked_for(tmp_path: Path) -> None:
    vectors = unit(9_000)
    meta = build_index(tmp_path / "index", vectors, built_from="v", model_id="m", kind="ivf", neighbours=5)
    assert 0 < meta.nprobe < 64
    _, positions = VectorIndex(tmp_path / "index", expected="v").search(unit(3, seed=1), 9_000)
    assert (np.sort(positions, axis=1) == np.arange(9_000)).all()


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_a_truncated_missing_or_older_index_is_refused(tmp_path: Path, kind: str) -> None:
    build_index(tmp_path / "index", unit(9_000), built_from="v", model_id="m", kind=kind)
    path = tmp_path / "index" / "index.faiss"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StaleInput, match=r"index\.faiss is truncated or damaged .*materialize the index again"):
        VectorIndex(tmp_path / "index", expected="v")
    path.unlink()
    with pytest.raises(StaleInput, match=r"index\.faiss is missing"):
        VectorIndex(tmp_path / "index", expected="v")
    with pytest.raises(StaleInput, match="materialize it again"):
        VectorIndex(tmp_path / "index", expected="v2")


def test_equal_scores_are_ordered_by_position(tmp_path: Path) -> None:
    vectors = np.repeat(unit(1), 4, axis=0)
    build_index(tmp_path / "same", vectors, built_from="v", model_id="m")
    assert VectorIndex(tmp_path / "same", expected="v").search(vectors[:1], 4)[1].tolist() == [[0, 1, 2, 3]]


PEAK = """
import resource, sys
from pathlib import Path
from typing import Any
import numpy as np
from evidence_assets.retrieval import index_building
from evidence_assets_tests.retrieval.written import build_index
chance, folder = np.random.default_rng(0), Path(sys.argv[1])
build_index(folder / "tiny", chance.normal(size=(3000, 256)), built_from="", model_id="", kind="ivf")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
meta = index_building.write_index(folder, built_from="", model_id="", kind="ivf")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / meta.bytes)
"""


@pytest.mark.long
def test_the_peak_is_less_than_one_and_a_half_finished_indexes(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    file = np.lib.format.open_memmap(tmp_path / "vectors.npy", "w+", np.float16, (400_000, 256))
    for start in range(0, 400_000, 20_000):
        file[start : start + 20_000] = chance.normal(size=(20_000, 256))
    file.flush()
    assert float(run_python("-c", PEAK, str(tmp_path))) < 1.5


class FaissWithCards:
    """FAISS with functions for cards, as faiss-gpu has: "on the card" is the processor's index, which is counted."""

    def __init__(self, n_cards: int) -> None:
        self._n_cards = n_cards
        self.copies: list[int] = []
        self.searches: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(faiss, name)

    def get_num_gpus(self) -> int:
        return self._n_cards

    def StandardGpuResources(self) -> str:  # noqa: N802
        return "resources"

    def index_cpu_to_gpu(self, resources: str, card: int, index: Any) -> Any:
        assert resources == "resources"
        self.copies.append(card)
        return SimpleNamespace(search=lambda queries, k, params: self._search(index, queries, k, params))

    def _search(self, index: Any, queries: np.ndarray, k: int, params: Any) -> Any:
        self.searches.append(k)
        return index.search(queries, k, params=params)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_a_card_searches_up_to_the_limit_and_the_processor_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    vectors, queries = unit(3000), unit(4, seed=1)
    build_index(tmp_path / "index", vectors, built_from="v", model_id="m", kind=kind)
    depths = (10, MAX_CARD_SEARCH, MAX_CARD_SEARCH + 1)
    expected = [VectorIndex(tmp_path / "index", expected="v").search(queries, k) for k in depths]
    library = FaissWithCards(4)
    monkeypatch.setattr(vector_index, "faiss", lambda: library)
    monkeypatch.setattr(vector_index, "hold_card", lambda: 2)
    index = VectorIndex(tmp_path / "index", expected="v")
    assert library.copies == [], "an index that is not searched needs no memory of a card"
    for k, (scores, positions) in zip(depths, expected, strict=True):
        results = index.search(queries, k)
        assert np.array_equal(results[0], scores) and np.array_equal(results[1], positions)
    assert library.copies == [2], "one copy, on the card of this process"
    assert set(library.searches) == set(depths[:2])


@pytest.mark.parametrize(("n_cards", "card"), [(0, 0), (1, None)])
def test_without_a_card_the_processor_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_cards: int, card: int | None
) -> None:
    build_index(tmp_path / "index", unit(300), built_from="v", model_id="m")
    library = FaissWithCards(n_cards)
    monkeypatch.setattr(vector_index, "faiss", lambda: library)
    monkeypatch.setattr(vector_index, "hold_card", lambda: card)
    index = VectorIndex(tmp_path / "index", expected="v")
    assert index.search(unit(2, seed=1), 5)[1].shape == (2, 5) and library.copies == []
