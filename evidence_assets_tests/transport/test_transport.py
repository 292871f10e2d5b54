"""Exact distances against a linear program, and results for bad and extreme input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import jensenshannon

from evidence_assets.models.inference import native_thread_pools
from evidence_assets.models.vectors import softmax
from evidence_assets.transport import TokenMeasure, TokenPool, find_nearest_texts, get_ground_cost, search
from evidence_assets.transport.divergence import jensen_shannon, jensen_shannon_matrix
from evidence_assets.transport.exact import solve_transport
from evidence_assets.transport.ground_cost import list_ground_costs
from evidence_assets_tests.transport.random_texts import distance, random_pool


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(list_ground_costs())))
def test_distance_equals_a_linear_program(seed: int, cost: str) -> None:
    pool = random_pool(np.random.default_rng(seed), 2, 6, 6)
    x, y = (pool.measure(text, get_ground_cost(cost)) for text in range(2))
    costs, n, m = get_ground_cost(cost).matrix(x.points, y.points), len(x), len(y)
    equal = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    best = linprog(costs.ravel(), A_eq=equal, b_eq=np.concatenate([x.masses, y.masses]), method="highs")
    assert distance(x, y, cost) == pytest.approx(best.fun, abs=1e-8)
    plan = solve_transport(x.masses, y.masses, costs).plan
    assert plan.sum(axis=1) == pytest.approx(x.masses, abs=1e-9)
    assert plan.sum(axis=0) == pytest.approx(y.masses, abs=1e-9)
    assert (plan * costs).sum() == pytest.approx(best.fun, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 300), st.floats(0.01, 60))
def test_divergences_equal_those_of_scipy(seed: int, d: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    p, q = softmax(rng.normal(size=(3, d)) * spread), softmax(rng.normal(size=(5, d)) * spread)
    p[0], p[1] = q[0], np.eye(d)[0]
    with np.errstate(invalid="ignore"):  # the library takes the root of −1e-17 for equal rows
        library = np.nan_to_num(np.array([[jensenshannon(a, b) ** 2 for b in q] for a in p]))
    for divergences in (jensen_shannon(p[:, None], q[None]), jensen_shannon_matrix(p, q, block_elements=2 * d)):
        assert divergences == pytest.approx(library, abs=1e-10)
        assert (divergences >= 0).all() and (divergences <= np.log(2)).all()


def test_bad_and_extreme_input_has_a_defined_result() -> None:
    one = TokenMeasure([[0.2, 0.8]], [0.0])
    assert one.masses.tolist() == [1.0]
    uniform, zero = TokenMeasure([[1.0, 0], [0, 1]], [1, 1]), TokenMeasure([[1.0, 0], [0, 1]], [0, 0])
    assert distance(zero, one) == distance(uniform, one)
    single = TokenPool([[0.2, 0.8]], [0, 1], [0])
    assert find_nearest_texts([zero], single, 3, "cosine")[0].distances.tolist() == [distance(uniform, one, "cosine")]
    empty = find_nearest_texts([one], TokenPool(np.empty((0, 2)), [0], []), 3)[0]
    assert (len(empty.indices), len(empty.distances), empty.n_solved) == (0, 0, 0)
    assert find_nearest_texts([], single, 3) == []
    assert TokenMeasure([[1.0, 0], [0, 1]], [1e308, 1e308]).masses.tolist() == [0.5, 0.5]
    assert distance(TokenMeasure([[0.0, 0.0]], [1]), one, "cosine") == 1.0
    far = TokenPool([[1e30 * i, 1e300] for i in range(30)], range(31), np.ones(30))  # beyond float32: no bound
    assert find_nearest_texts([far.measure(7, "euclidean")], far, 2, "euclidean")[0].indices.tolist()[0] == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenMeasure([[1.0, np.nan]], [1]), "must be finite"),
        (lambda: TokenPool([[1.0]], [0, 0, 1], [1]), "at least one token each"),
        (lambda: get_ground_cost("euclidian"), r"unknown cost 'euclidian'.*did you mean 'euclidean'"),
        (lambda: distance(TokenMeasure([[-1.0, 2]], [1]), TokenMeasure([[1.0, 2]], [1])), "compares distributions"),
    ],
)
def test_bad_input_is_reported(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_distances_do_not_depend_on_threads_and_thread_counts_are_restored() -> None:
    """Regression test: workers of a pass changed the thread count of the process, which changed last digits."""
    chance = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(chance.integers(3, 120, 40))])
    vectors = chance.standard_normal((int(offsets[-1]), 384)).astype(np.float32)
    pool = TokenPool(vectors, offsets, chance.random(len(vectors)) + 0.1)
    query = TokenMeasure(chance.standard_normal((33, 384)), np.ones(33))
    results = set()
    for threads in (1, 2):
        with native_thread_pools().limit(limits=threads, user_api="blas"):
            for _ in range(6):
                results.add(find_nearest_texts([query], pool, 10, cost="cosine", threads=2)[0].distances.tobytes())
            counts = {pool["num_threads"] for pool in native_thread_pools().info() if pool["user_api"] == "blas"}
        assert counts == {threads}
    assert len(results) == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(list_ground_costs())), st.integers(1, 6), st.integers(1, 4))
def test_the_nearest_of_groups_within_limits_are_those_of_the_whole(seed: int, name: str, k: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    pool = random_pool(rng, 40, 6)
    query = pool.measure(0, name)
    (whole,) = find_nearest_texts([query], pool, k, name)
    best: list[tuple[float, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MIN_FILTERED_TEXTS", int(rng.choice([1, 1024])))  # with and without a first filter
        for group in map(np.sort, np.array_split(rng.permutation(40), groups)):
            limit = best[k - 1][0] if len(best) >= k else np.inf
            (nearest,) = find_nearest_texts([query], pool.select(group), k, name, limits=[limit])
            pairs = zip(nearest.distances.tolist(), group[nearest.indices].tolist(), strict=True)
            best = sorted([*best, *pairs])[:k]
    assert [text for _, text in best] == whole.indices.tolist()
    assert [each for each, _ in best] == whole.distances.tolist()


def test_a_limit_prunes_what_exceeds_it_and_nothing_at_it() -> None:
    pool = random_pool(np.random.default_rng(3), 200, 6)
    query = pool.measure(0, "euclidean")
    (unlimited,) = find_nearest_texts([query], pool, 50, "euclidean")
    limit = float(unlimited.distances[4])
    (limited,) = find_nearest_texts([query], pool, 50, "euclidean", limits=[limit])
    within = int((unlimited.distances <= limit).sum())
    assert limited.indices[:within].tolist() == unlimited.indices[:within].tolist()
    assert limited.n_solved < unlimited.n_solved
    solved = {find_nearest_texts([query], pool, k, "euclidean", limits=[0.0])[0].n_solved for k in (3, 10, 20)}
    assert len(solved) == 1, "the distances of k texts beyond the limit do not raise it"
