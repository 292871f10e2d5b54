"""Column filtering of UCRET and UCRET-JS for many table–text pairs.

Let ``T`` be the tokens of the claim or question, ``T_j`` those of a column's header and cells, ``x_j`` and ``u`` the
vectors of column and text:

1. Keep ``j`` if ``|T ∩ T_j| / |T ∪ T_j| >= tau``. Stop if this keeps every column.
2. Cluster the other columns into ``min(k, n)`` groups. Keep the group with the centroid nearest to ``u`` if
   ``<mu, u> >= theta`` (cosine) or ``JSD(mu, u) <= eta`` (UCRET-JS).
3. If no column is kept, keep the two nearest to ``u``.

UCRET-JS replaces every vector by ``softmax(v / temperature)``. Chapter 4 calls ``eta`` a bound on the JSD distance.
Chapter 7 uses these words for the divergence itself, so that is the published reading; ``eta_bounds: distance`` bounds
its square root (the metric). At temperature 1 the nearest cluster passes either bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from evidence_assets.models.vectors import Array, softmax, unit_rows
from evidence_assets.transport.divergence import jensen_shannon

N_FALLBACK = 2
"""Columns that are kept if no rule keeps one."""
Measure = Literal["cosine", "jsd", "all"]
Rule = Literal[
    "lexical", "cluster", "fallback", "all", "option", "entity", "number", "header", "row_header", "compared"
]


@dataclass(frozen=True)
class UcretSettings:
    """Settings of the evidence from a table; the defaults are the published ones of UCRET.

    ``measure``: ``cosine`` and ``jsd`` are published; ``all`` keeps every column.
    """

    measure: Measure = "cosine"
    tau: Annotated[float, Field(ge=0, le=1)] = 0.25  # minimum Jaccard index of the tokens of a column and the text
    clusters: PositiveInt = 2  # k
    theta: Annotated[float, Field(ge=-1, le=1)] = 0.60  # minimum cosine of the text and its nearest cluster
    eta: Annotated[float, Field(ge=0, le=1)] = 0.30  # maximum divergence of both in nats
    eta_bounds: Literal["divergence", "distance"] = "divergence"  # the distance is the divergence's square root
    temperature: PositiveFloat = 1.0  # of the softmax before the divergence
    normalize: bool = True  # whether the softmax reads vectors of unit length; always so for the cosine
    column_text: Literal["header_and_cells", "header"] = "header_and_cells"  # encoded; cells without a header
    with_options: bool = False  # whether columns are compared with the options too
    repair: bool = False  # whether columns with numbers, names and options of the text are restored
    whole_claims: bool = False  # whether a claim keeps every column, as any may contradict it


class KeptLine(NamedTuple):
    """A kept column or row, the rule that kept it, and the score of the rule."""

    line: int
    rule: Rule
    score: float


@dataclass(frozen=True)
class Selection:
    """Kept columns or rows in table order, out of ``width``."""

    kept_lines: tuple[KeptLine, ...]
    width: int

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(item.line for item in self.kept_lines)


@dataclass(frozen=True)
class Lines:
    """Token sets and vectors ``(n, d)`` of the columns or rows of a table, in the same order."""

    tokens: tuple[frozenset[str], ...]
    vectors: Array


def split_column_text(header: str, cells: Sequence[str], limit: int) -> list[str]:
    """Text of a column for an encoder: the header and the distinct cells, in pieces of at most ``limit`` characters.

    Each piece begins with the header. A long cell continues in the next piece, so no text is truncated.
    """
    prefix = f"{header[: limit // 2]}: " if header else ""
    max_length = limit - len(prefix)
    pieces: list[str] = []
    current = ""
    for cell in dict.fromkeys(cell for cell in cells if cell):
        for start in range(0, len(cell), max_length):
            cell_text = cell[start : start + max_length]
            extended = f"{current}; {cell_text}" if current else cell_text
            if len(extended) > max_length:
                pieces.append(prefix + current)
                extended = cell_text
            current = extended
    if current or not pieces:
        pieces.append((prefix + current) or " ")
    return pieces


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """Jaccard index ``|A ∩ B| / |A ∪ B|``, 0 for two empty sets."""
    return len(a & b) / len(a | b) if a or b else 0.0


def keep_all_lines(width: int) -> Selection:
    """All columns or rows of a table."""
    return Selection(tuple(KeptLine(j, "all", 1.0) for j in range(width)), width)


def select_lines(
    text_tokens: Sequence[frozenset[str]],
    text_vectors: Array,
    table_of: Sequence[int],
    tables: Sequence[Lines],
    settings: UcretSettings,
) -> list[Selection]:
    """Select columns or rows for many texts; ``table_of`` has the index of each text's table in ``tables``.

    Texts about the same table with the same columns to cluster share the clusters.
    """
    texts = _transform(text_vectors, settings)
    points = [_transform(table.vectors, settings) for table in tables]

    @cache
    def find_clusters(table: int, lines: tuple[int, ...]) -> tuple[NDArray[np.int64], Array]:
        return cluster(points[table][list(lines)], settings)

    selections = []
    for tokens, text, table in zip(text_tokens, texts, table_of, strict=True):
        scores = [jaccard(tokens, column_tokens) for column_tokens in tables[table].tokens]
        kept_lines = _keep_lexical(scores, settings.tau)
        others = tuple(j for j, score in enumerate(scores) if score < settings.tau)
        if others:
            kept_lines += _keep_nearest_cluster(text, others, *find_clusters(table, others), settings)
        if not kept_lines and scores:
            kept_lines = _keep_nearest_lines(text, points[table], settings)
        selections.append(Selection(tuple(sorted(kept_lines)), len(scores)))
    return selections


def _keep_lexical(scores: Sequence[float], tau: float) -> list[KeptLine]:
    return [KeptLine(j, "lexical", score) for j, score in enumerate(scores) if score >= tau]


def _keep_nearest_lines(text: Array, points: Array, settings: UcretSettings) -> list[KeptLine]:
    nearness = _nearness(text, points, settings)
    order = np.argsort(-nearness, kind="stable")[:N_FALLBACK]
    return [KeptLine(int(j), "fallback", abs(float(nearness[j]))) for j in order]


def _keep_nearest_cluster(
    text: Array, lines: Sequence[int], labels: NDArray[np.int64], centroids: Array, settings: UcretSettings
) -> list[KeptLine]:
    """The lines of the cluster nearest to the text, if it is near enough."""
    nearness = _nearness(text, centroids, settings)
    best = int(nearness.argmax())
    score = float(nearness[best])
    if not _passes_gate(score, settings):
        return []
    return [KeptLine(j, "cluster", abs(score)) for j, label in zip(lines, labels, strict=True) if label == best]


def _passes_gate(nearness: float, settings: UcretSettings) -> bool:
    if settings.measure != "jsd":
        return nearness >= settings.theta
    return (math.sqrt(-nearness) if settings.eta_bounds == "distance" else -nearness) <= settings.eta


def _transform(vectors: Array, settings: UcretSettings) -> Array:
    exact = np.asarray(vectors, dtype=np.float64)
    if settings.measure != "jsd":
        return unit_rows(exact)
    return softmax(unit_rows(exact) if settings.normalize else exact, settings.temperature)


def _nearness(text: Array, points: Array, settings: UcretSettings) -> Array:
    """Cosine, or the negative divergence, rounded so that ties do not depend on the last bits."""
    raw: Array = -jensen_shannon(text[None], points) if settings.measure == "jsd" else points @ text
    return raw.round(12)


# Seeded k-means on unit vectors and on distributions, for the columns of a table


# Distances of equal columns may differ in the last bits of a matrix product; ties must not depend on them.
_TIE_DECIMALS = 12
_MAX_STEPS = 100


def _distances(points: Array, centroids: Array, measure: Measure) -> Array:
    """``(n, k)`` distances of points ``(n, d)`` to centroids ``(k, d)``."""
    if measure == "cosine":
        distances: Array = 1.0 - points @ centroids.T
    else:
        distances = jensen_shannon(points[:, None], centroids[None])
    return np.maximum(distances, 0.0).round(_TIE_DECIMALS)


def _draw(weights: Array, uniform: float) -> int:
    """Index drawn with probability proportional to the weights; the first if all are zero."""
    cumulative = np.cumsum(weights)
    if cumulative[-1] <= 0:
        return 0
    return min(int((cumulative <= uniform * cumulative[-1]).sum()), len(weights) - 1)


def cluster(points: Array, settings: UcretSettings) -> tuple[NDArray[np.int64], Array]:
    """Cluster points into ``min(k, n)`` clusters; returns the cluster of each point and the centroids ``(k, d)``.

    A cluster without points, possible only if points are equal, is seeded again; one that stays empty is left out.

    ``points``: ``(n, d)``, n at least 1: unit vectors for ``cosine``, distributions for ``jsd``.
    """
    generator = np.random.default_rng(0)
    measure = settings.measure
    centroids = _seed_centroids(points, settings, generator)
    assignment = np.full(len(points), -1)
    for _ in range(_MAX_STEPS):
        distances = _distances(points, centroids, measure)
        updated = distances.argmin(axis=1)
        uniform = generator.random()
        for t in range(len(centroids)):
            members = points[updated == t]
            if not len(members):
                centroids[t] = points[_draw(distances.min(axis=1), uniform)]
            elif measure == "cosine":
                centroids[t] = unit_rows(members.sum(axis=0)[None])[0]
            else:
                centroids[t] = members.mean(axis=0)
        if (updated == assignment).all():
            break
        assignment = updated
    indices, labels = np.unique(assignment, return_inverse=True)
    return labels, centroids[indices]


def _seed_centroids(points: Array, settings: UcretSettings, generator: np.random.Generator) -> Array:
    """k-means++: draw the first centroid uniformly, the others in proportion to the distance from the nearest one."""
    centroids = points[[int(generator.random() * len(points))]]
    for _ in range(1, min(settings.clusters, len(points))):
        nearest = _distances(points, centroids, settings.measure).min(axis=1)
        centroids = np.vstack([centroids, points[_draw(nearest, generator.random())]])
    return centroids
