"""Published column selection in plain loops, as a reference for the vectorized one.

Draws the same random numbers in the same order as `cluster`: one for each centroid, then one per step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evidence_assets.systems.ucret.columns import N_FALLBACK, UcretSettings


def _cosine_distance(x: list[float], y: list[float]) -> float:
    return round(max(0.0, 1.0 - sum(a * b for a, b in zip(x, y, strict=True))), 12)


def _kl(p: Sequence[float], q: Sequence[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jsd(p: Sequence[float], q: Sequence[float]) -> float:
    """Equation 4.4 as printed."""
    m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return 0.5 * _kl(p, m) + 0.5 * _kl(q, m)


def _jsd_distance(x: list[float], y: list[float]) -> float:
    return round(max(0.0, jsd(x, y)), 12)


def _unit(x: Sequence[float]) -> list[float]:
    norm = math.sqrt(sum(a * a for a in x))
    return [a / norm if norm else 0.0 for a in x]


def _softmax(x: Sequence[float], temperature: float) -> list[float]:
    top = max(x)
    e = [math.exp((a - top) / temperature) for a in x]
    return [a / sum(e) for a in e]


def _draw(weights: Sequence[float], uniform: float) -> int:
    total = sum(weights)
    if total <= 0:
        return 0
    running = 0.0
    for i, weight in enumerate(weights):
        running += weight
        if running > uniform * total:
            return i
    return len(weights) - 1


def naive_select(
    tokens: frozenset[str],
    vector: Sequence[float],
    column_tokens: Sequence[frozenset[str]],
    column_vectors: Sequence[Sequence[float]],
    settings: UcretSettings,
) -> list[tuple[int, str]]:
    """Kept columns with the rule that kept them, in table order."""
    distance = _jsd_distance if settings.measure == "jsd" else _cosine_distance
    text, columns = list(vector), [list(v) for v in column_vectors]
    if settings.measure != "jsd" or settings.normalize:
        text, columns = _unit(text), [_unit(v) for v in columns]
    if settings.measure == "jsd":
        text = _softmax(text, settings.temperature)
        columns = [_softmax(v, settings.temperature) for v in columns]
    overlap = [len(tokens & c) / len(tokens | c) if tokens | c else 0.0 for c in column_tokens]
    lexical = [j for j, score in enumerate(overlap) if score >= settings.tau]
    rest = [j for j in range(len(columns)) if j not in lexical]
    if not rest:
        return [(j, "lexical") for j in lexical]
    k = min(settings.clusters, len(rest))
    generator = np.random.default_rng(0)
    points = [columns[j] for j in rest]
    centres: list[list[float]] = []
    for t in range(k):
        uniform = float(generator.random())
        if t == 0:
            centres.append(points[int(uniform * len(points))])
        else:
            centres.append(points[_draw([min(distance(p, c) for c in centres) for p in points], uniform)])
    assignment: list[int] = []
    for _ in range(100):
        distances = [[distance(p, c) for c in centres] for p in points]
        fresh = [row.index(min(row)) for row in distances]
        is_stable = fresh == assignment
        assignment = fresh
        uniform = float(generator.random())
        for t in range(k):
            members = [p for p, a in zip(points, assignment, strict=True) if a == t]
            if not members:
                centres[t] = points[_draw([min(row) for row in distances], uniform)]
            else:
                total = [sum(values) for values in zip(*members, strict=True)]
                centres[t] = [v / len(members) for v in total] if settings.measure == "jsd" else _unit(total)
        if is_stable:
            break
    labels = sorted(set(assignment))
    if settings.measure == "jsd":
        nearness = {t: -round(jsd(text, centres[t]), 12) for t in labels}
    else:
        nearness = {t: round(sum(a * b for a, b in zip(text, centres[t], strict=True)), 12) for t in labels}
    best = max(labels, key=lambda t: (nearness[t], -t))
    near_enough = nearness[best] >= settings.theta
    if settings.measure == "jsd":
        near_enough = -nearness[best] <= (settings.eta**2 if settings.eta_bounds == "distance" else settings.eta)
    semantic = [j for j, a in zip(rest, assignment, strict=True) if a == best] if near_enough else []
    kept_columns = [(j, "lexical") for j in lexical] + [(j, "cluster") for j in semantic]
    if not kept_columns:
        if settings.measure == "jsd":
            near = [-round(jsd(text, c), 12) for c in columns]
        else:
            near = [round(sum(a * b for a, b in zip(text, c, strict=True)), 12) for c in columns]
        order = sorted(range(len(columns)), key=lambda j: (-near[j], j))[:N_FALLBACK]
        kept_columns = [(j, "fallback") for j in order]
    return sorted(kept_columns)
