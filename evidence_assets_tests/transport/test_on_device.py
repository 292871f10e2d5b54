"""The contract of a search of texts on a device: the result of the host's path to the bit, from true lower bounds.

The CPU is a device of its own here; on a card the same tests run with it.
"""

from itertools import accumulate, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile

from evidence_assets.transport import (
    DevicePool,
    GroundCost,
    TokenMeasure,
    TokenPool,
    find_nearest_texts,
    get_ground_cost,
    on_device,
)
from evidence_assets.transport.bounds import CHUNK_TOKENS, BoundPass
from evidence_assets.transport.ground_cost import list_ground_costs
from evidence_assets.transport.on_device import DeviceBounds
from evidence_assets_tests.transport.random_texts import distance, half_store

needs_card = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_card)]


def put(pool: TokenPool, device: str) -> DevicePool:
    """The pool on a device, each text in two pieces, as a title and its chunk are."""
    vectors = torch.from_numpy(pool.vectors).to(device)
    pieces = [[vectors[low : low + 1], vectors[low + 1 : high]] for low, high in pairwise(pool.offsets.tolist())]
    return DevicePool(pieces, pool.weights)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cost", list_ground_costs().values(), ids=list_ground_costs())
class TestSearchOnADevice:
    def test_the_result_is_that_of_the_host_to_the_bit(self, cost: GroundCost, device: str) -> None:
        pool = half_store(np.random.default_rng(5), 300, 48)
        queries = [pool.measure(text, cost, 0.7) for text in (3, 77)]
        on_host = find_nearest_texts(queries, pool, 6, cost, 0.7)
        nearest = find_nearest_texts(queries, put(pool, device), 6, cost, 0.7, likely=[[5, 9], []])
        limits = [float(expected.distances[2]) for expected in on_host]
        limited = find_nearest_texts(queries, put(pool, device), 6, cost, 0.7, threads=2, limits=limits)
        for expected, result, within in zip(on_host, nearest, limited, strict=True):
            assert result.indices.tolist() == expected.indices.tolist()
            assert result.distances.tolist() == expected.distances.tolist()
            assert within.indices[:3].tolist() == expected.indices[:3].tolist()
            assert within.distances[:3].tolist() == expected.distances[:3].tolist()
            assert result.n_solved < 150, "the bounds should spare most of the 300 texts"

    def test_masses_and_costs_are_those_of_the_host(self, cost: GroundCost, device: str) -> None:
        pool = half_store(np.random.default_rng(6), 40, 17)
        pool.weights[pool.offsets[7] : pool.offsets[8]] = 0  # uniform masses
        query = pool.measure(0, cost, 0.7)
        texts = put(pool, device)
        for text in range(len(pool)):
            points, masses = pool.measure(text, cost, 0.7).with_mass()
            device_masses, costs = texts.costs(text, cost, query.points, 0.7)
            assert device_masses == pytest.approx(masses, abs=1e-15)
            expected = cost.matrix(query.points, points)
            assert costs.dtype == np.float64
            assert costs == pytest.approx(expected, abs=1e-12 * max(1.0, float(expected.max())))

    @settings(max_examples=6, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        d=st.sampled_from([2, 64, 384]),
        spread=st.sampled_from([1e-3, 1.0, 8.0, 5000.0]),
        chunk_tokens=st.sampled_from([1, 20, 1 << 14]),
    )
    def test_bounds_are_never_above_the_exact_distance(
        self, cost: GroundCost, device: str, seed: int, d: int, spread: float, chunk_tokens: int
    ) -> None:
        rng = np.random.default_rng(seed)
        pool = half_store(rng, 12, d)
        pool.vectors *= np.float16(spread)
        query = TokenMeasure(*cost.measure(pool.vectors[3:9].astype(float) * 1.01, rng.random(6) + 0.01).with_mass())
        exact = np.array([distance(query, pool.measure(text, cost), cost) for text in range(len(pool))])
        (on_host,) = BoundPass(cost, cost.lower, [cost.features(query.points)], [query.masses]).text_bounds(
            pool, np.arange(len(pool))
        )
        on_host.values.fill(-np.inf)  # without the bound that moves each query token to its nearest
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(on_device, "CHUNK_TOKENS", chunk_tokens)
            bounds = DeviceBounds(put(pool, device), cost, query.points, query.masses, 1.0)
        nearest = np.argsort(exact, kind="stable")[:3]
        for potential in (np.zeros(6), rng.normal(size=6) * exact.std(), np.full(6, exact.min())):
            bounds.tighten(potential)
            on_host.tighten(potential)
            assert (bounds.values <= exact + 1e-12).all()
            assert bounds.values == pytest.approx(on_host.values, rel=1e-4, abs=1e-4 * max(1.0, float(exact.max())))
            assert (bounds.values[nearest] <= exact[nearest].max() + 1e-12).all(), "none of the nearest is pruned"


@pytest.mark.parametrize("device", DEVICES)
def test_texts_beyond_float32_have_no_bound_and_are_solved(device: str) -> None:
    pool = half_store(np.random.default_rng(7), 40, 8)
    pool.weights *= 1e30
    query = pool.measure(3, "euclidean")
    (every_text,) = find_nearest_texts([query], pool, len(pool), "euclidean")
    (nearest,) = find_nearest_texts([query], put(pool, device), 5, "euclidean")
    assert nearest.n_solved > 30
    assert nearest.indices.tolist() == every_text.indices[:5].tolist()
    assert nearest.distances.tolist() == every_text.distances[:5].tolist()


def test_products_of_bounds_are_in_float32() -> None:
    torch.set_float32_matmul_precision("high")
    pool = half_store(np.random.default_rng(7), 3, 8)
    DeviceBounds(put(pool, "cpu"), get_ground_cost("cosine"), np.ones((1, 8)), np.ones(1), 1.0)
    assert torch.get_float32_matmul_precision() == "highest"


def most_bytes(n_query: int, pool: TokenPool, chunk_tokens: int) -> int:
    """The bound of the module's docstring."""
    of_tokens = 2 * pool.dimensions + 4 * n_query + 48
    return of_tokens * len(pool.vectors) + (24 * pool.dimensions + 48 * n_query) * chunk_tokens


@pytest.mark.parametrize("cost", ["jsd", "cosine", "euclidean"])
def test_memory_is_within_its_bound(monkeypatch: pytest.MonkeyPatch, cost: str) -> None:
    chunk_tokens = 32 * 30
    monkeypatch.setattr(on_device, "CHUNK_TOKENS", chunk_tokens)
    rng = np.random.default_rng(8)
    pool = half_store(rng, 2000, 16)
    query = get_ground_cost(cost).measure(pool.vectors[:60], np.ones(60))
    ground = get_ground_cost(cost)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        texts = put(pool, "cpu")
        bounds = DeviceBounds(texts, ground, query.points, query.masses, 1.0)
        bounds.tighten(rng.normal(size=60))
        texts.costs(7, ground, query.points, 1.0)
    events = sorted(profiler.events() or [], key=lambda event: event.time_range.start)
    peak = max(accumulate(event.self_cpu_memory_usage for event in events)) + pool.vectors.nbytes
    bound = most_bytes(len(query), pool, chunk_tokens)
    print(f"{cost}: {len(pool.vectors):,} tokens, at most {peak:,} of {bound:,} B")
    assert 0.5 * bound < peak <= bound


@needs_card
def test_memory_on_a_card_is_within_its_bound() -> None:
    rng = np.random.default_rng(9)
    offsets = np.arange(0, 512 * 401, 512)
    vectors = rng.standard_normal((offsets[-1], 1024), dtype=np.float32).astype(np.float16)
    pool = TokenPool(vectors, offsets, rng.gamma(1.0, size=offsets[-1]))
    query = get_ground_cost("jsd").measure(vectors[:24], np.ones(24))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    (nearest,) = find_nearest_texts([query], put(pool, "cuda"), 15, "jsd")
    libraries = 64 << 20
    assert len(nearest.indices) == 15
    assert torch.cuda.max_memory_allocated() - before <= most_bytes(len(query), pool, CHUNK_TOKENS) + libraries
