"""Published column selection in plain loops, as a reference for the vectorized one.

Draws the same random numbers in the same order as `cluster`: one for each centroid, then one per step.
"""

from collections.abc import Sequence

import numpy as np

from evidence_assets.systems.ucret.columns import N_FALLBACK, UcretSettings


def _jsd(p: np.ndarray, q: np.ndarray) -> float:
    """Equation 4.4 as printed."""
    m = (p + q) / 2
    return float(0.5 * np.sum(p * np.log(p / m)) + 0.5 * np.sum(q * np.log(q / m)))


def _unit(x: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(x)
    return x / norm if norm else x


def _draw(weights: Sequence[float], uniform: float) -> int:
    running = 0.0
    for i, weight in enumerate(weights):
        running += weight
        if running > uniform * sum(weights) > 0:
            return i
    return len(weights) - 1 if sum(weights) else 0


def naive_select(
    tokens: frozenset[str],
    vector: Sequence[float],
    column_tokens: Sequence[frozenset[str]],
    column_vectors: Sequence[Sequence[float]],
    settings: UcretSettings,
) -> list[tuple[int, str]]:
    """Kept columns with the rule that kept them, in table order."""
    is_jsd = settings.measure == "jsd"

    def point(values: Sequence[float]) -> np.ndarray:
        x = np.array(values) if is_jsd and not settings.normalize else _unit(np.array(values))
        e = np.exp((x - x.max()) / settings.temperature)
        return e / e.sum() if is_jsd else x

    def distance(x: np.ndarray, y: np.ndarray) -> float:
        return round(max(0.0, _jsd(x, y) if is_jsd else 1.0 - float(x @ y)), 12)

    def nearness(x: np.ndarray) -> float:
        return round(-_jsd(text, x) if is_jsd else float(text @ x), 12)

    text, columns = point(vector), [point(values) for values in column_vectors]
    overlap = [len(tokens & c) / len(tokens | c) if tokens | c else 0.0 for c in column_tokens]
    kept_columns = [(j, "lexical") for j, score in enumerate(overlap) if score >= settings.tau]
    rest = [j for j, score in enumerate(overlap) if score < settings.tau]
    if not rest:
        return kept_columns
    generator, points = np.random.default_rng(0), [columns[j] for j in rest]
    centres = [points[int(generator.random() * len(points))]]
    while len(centres) < min(settings.clusters, len(rest)):
        centres.append(points[_draw([min(distance(p, c) for c in centres) for p in points], generator.random())])
    assignment: list[int] = []
    for _ in range(100):
        distances = [[distance(p, c) for c in centres] for p in points]
        previous, assignment = assignment, [row.index(min(row)) for row in distances]
        uniform = generator.random()
        for t in range(len(centres)):
            members = [p for p, a in zip(points, assignment, strict=True) if a == t]
            if not members:
                centres[t] = points[_draw([min(row) for row in distances], uniform)]
            else:
                centres[t] = np.mean(members, axis=0) if is_jsd else _unit(np.sum(members, axis=0))
        if assignment == previous:
            break
    best = max(sorted(set(assignment)), key=lambda t: (nearness(centres[t]), -t))
    is_near = nearness(centres[best]) >= settings.theta
    if is_jsd:
        is_near = -nearness(centres[best]) <= (settings.eta**2 if settings.eta_bounds == "distance" else settings.eta)
    if is_near:
        kept_columns += [(j, "cluster") for j, a in zip(rest, assignment, strict=True) if a == best]
    if not kept_columns:
        order = sorted(range(len(columns)), key=lambda j: (-nearness(columns[j]), j))[:N_FALLBACK]
        kept_columns = [(j, "fallback") for j in order]
    return sorted(kept_columns)
