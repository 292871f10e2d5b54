"""Optimal transport beside POT, OTT-JAX and GeomLoss: seconds, memory, and how far Sinkhorn's ranking is from ours.

    EVIDENCE_DEV_DATA=… python -m bench.peers.transport [--texts 500]

The pool and the questions are those of `bench.retrieval.transport` under the published cost. The libraries get cost
matrices in float64, whose time is printed apart; ours builds its own. Regularisations are shares of the mean cost.
POT's loop is exact: ours must give its 15 nearest, in its order. Each runs in a process of its own, the second of two
runs counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from bench.dev_data import hotpotqa_rows, hotpotqa_sentences
from bench.measuring import Used, in_new_process, make_parser, measured
from bench.peers.installed import missing, versions
from bench.retrieval.token_encoding import encode
from bench.retrieval.transport import K, bm25, real_pool
from evidence_assets.transport import TokenMeasure, TokenPool, find_nearest_texts, get_ground_cost

Array = NDArray[np.float64]
Solve = Callable[[Array, Array, Array], Array]
"""Distances from costs (texts × n × m), the query's masses (n) and the texts' (texts × m, padded with zeros)."""
COST = "jsd"


def pot_loop(costs: Array, a: Array, b: Array) -> Array:
    import ot

    return np.array([ot.emd2(a, masses[masses > 0], c[:, masses > 0]) for c, masses in zip(costs, b, strict=True)])


def pot_batch(reg: float, costs: Array, a: Array, b: Array) -> Array:
    import ot
    import torch

    c, masses, query = torch.from_numpy(costs), torch.from_numpy(b), torch.from_numpy(np.tile(a, (len(b), 1)))
    return ot.solve_batch(c, reg=reg * costs[costs > 0].mean(), a=query, b=masses).value_linear.numpy()


@cache
def _ott_solver() -> Any:
    """Compiled once in a process."""
    import jax
    from ott.geometry.geometry import Geometry
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn import Sinkhorn

    jax.config.update("jax_enable_x64", True)

    def solve(epsilon: float, a: Array, c: Array, masses: Array) -> Any:
        return Sinkhorn()(LinearProblem(Geometry(c, epsilon=epsilon), a, masses)).primal_cost

    return jax.jit(jax.vmap(solve, in_axes=(None, None, 0, 0)))


def ott_jax(reg: float, costs: Array, a: Array, b: Array) -> Array:
    return np.asarray(_ott_solver()(reg * costs[costs > 0].mean(), a, costs, b))


def geomloss(reg: float, costs: Array, a: Array, b: Array) -> Array:
    import torch
    from geomloss import ot

    c, masses, query = torch.from_numpy(costs), torch.from_numpy(b), torch.from_numpy(np.tile(a, (len(b), 1)))
    result = ot.solve_batch(c, reg=reg * costs[costs > 0].mean(), a=query, b=masses, max_iter=100)
    return (result.plan * c).sum((1, 2)).numpy()


PEERS: dict[str, tuple[tuple[str, ...], Solve]] = {"POT, loop (exact)": (("ot",), pot_loop)}
for name, modules, function in (
    ("POT, batch", ("ot", "torch"), pot_batch),
    ("OTT-JAX", ("ott",), ott_jax),
    ("GeomLoss", ("geomloss", "torch"), geomloss),
):
    PEERS |= {f"{name}, ε = {reg}": (modules, partial(function, reg)) for reg in (0.1, 0.01)}


def run_peer(name: str, costs: list[Array], a: Array, b: Array) -> tuple[Array, Used]:
    modules, solve = PEERS[name]
    for module in modules:
        import_module(module)
    solve(costs[0], a[0], b)
    distances, used = measured(lambda: [solve(c, query, b) for c, query in zip(costs, a, strict=True)])
    return np.stack(distances), used


def run_ours(queries: list[TokenMeasure], pool: TokenPool) -> tuple[list[list[int]], Used]:
    find_nearest_texts(queries, pool, K, COST)
    nearest, used = measured(find_nearest_texts, queries, pool, K, COST)
    return [each.indices.tolist() for each in nearest], used


def read_problem(texts: int, count: int, folder: Path) -> tuple[list[TokenMeasure], TokenPool]:
    """Questions of 25 tokens, and a pool of texts."""
    questions = encode([row["question"] for row in hotpotqa_rows()])
    pool, counts = real_pool(encode(hotpotqa_sentences()), texts, folder)
    cost = get_ground_cost(COST)
    queries = []
    for text in np.flatnonzero(np.diff(questions.offsets) == 25)[:count]:
        weights = bm25(questions.pieces_of(text), counts, texts, 25.0)
        queries.append(cost.measure(questions.vectors[questions.rows(text)].astype(np.float64), weights))
    return queries, TokenPool(np.array(pool.vectors), pool.offsets, pool.weights)


def cost_matrices(queries: list[TokenMeasure], pool: TokenPool) -> tuple[list[Array], Array, Array]:
    """Costs and masses of all pairs, padded with zeros."""
    cost, longest = get_ground_cost(COST), int(np.diff(pool.offsets).max())
    costs, b = [np.zeros((len(pool), len(query), longest)) for query in queries], np.zeros((len(pool), longest))
    for text in range(len(pool)):
        measure = pool.measure(text, cost)
        b[text, : len(measure)] = measure.masses
        for query, matrix in zip(queries, costs, strict=True):
            matrix[text, :, : len(measure)] = cost.matrix(query.points, measure.points)
    return costs, np.stack([query.masses for query in queries]), b


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--questions", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        queries, pool = read_problem(options.texts, options.questions, Path(folder))
    (costs, a, b), building = measured(cost_matrices, queries, pool)
    print(versions("POT", "ott-jax", "jax", "geomloss", "torch"))
    print(f"{len(pool)} texts, {len(queries)} questions; seconds of all: wall / CPU; cost matrices: {building}\n")
    print("| | s | MB | largest error, % | of the 15 nearest | Kendall's tau |\n|" + "---|" * 6)
    nearest, used = in_new_process(run_ours, queries, pool)
    print(f"| exact search, with its costs | {used} | {used.megabytes:.0f} | 0 | 15 | |")
    exact = np.zeros(0)
    for name, (modules, _) in PEERS.items():
        if reason := missing(*modules):
            print(f"{name}: not run: {reason}")
            continue
        distances, used = in_new_process(run_peer, name, costs, a, b)
        if not exact.size:
            exact = distances
            assert np.argsort(exact, axis=1, kind="stable")[:, :K].tolist() == nearest, "ours differs from POT's loop"
        error = 100 * np.abs(distances / exact - 1).max()
        order = np.argsort(distances, axis=1, kind="stable")[:, :K]
        overlap = np.mean([len(set(mine) & set(true)) for mine, true in zip(order.tolist(), nearest, strict=True)])
        tau = np.mean([kendalltau(mine, true).statistic for mine, true in zip(distances, exact, strict=True)])
        print(f"| {name} | {used} | {used.megabytes:.0f} | {error:.2g} | {overlap:.1f} | {tau:.4f} |", flush=True)


if __name__ == "__main__":
    main()
