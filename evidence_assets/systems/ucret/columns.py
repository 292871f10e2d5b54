"""Column filtering of UCRET and UCRET-JS, on many table–text pairs at once.

What belongs here: the published three steps (words, clusters, fallback) for both measures, the selections they are
compared with, and the record of the rule that kept each column. What is repaired after filtering stands in
`column_repair`; vectors come from outside.

With ``T`` the tokens of the claim or question, ``T_j`` those of a column's header and cells, ``x_j`` and ``u`` the
vectors of column and text:

1. keep ``j`` if ``|T ∩ T_j| / |T ∪ T_j| >= tau``; if that keeps every column, stop;
2. cluster the other columns into ``min(k, their number)`` groups and keep the group whose centre is nearest to ``u``,
   provided that it is near enough: ``<mu, u> >= theta`` (cosine), or ``JSD(mu, u) <= eta`` (UCRET-JS);
3. if nothing was kept, keep the two columns nearest to ``u``.

UCRET-JS turns every vector into ``softmax(v / temperature)`` first. ``eta`` bounds the divergence itself, in nats, as
the printed score is the divergence; its root would be the metric. At temperature 1 either passes every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.reasoning.tables.text import token_set
from evidence_assets.systems.ucret.spherical_kmeans import Floats, cluster
from evidence_assets.transport.divergence import jensen_shannon

Measure = Literal["cosine", "jsd", "words", "all"]
Rule = Literal["lexical", "cluster", "fallback", "all", "option", "entity", "number", "header", "row_header"]


@dataclass(frozen=True)
class ColumnSettings:
    """A way to select columns.

    ``measure``: ``cosine`` and ``jsd`` are the published ones; ``words`` leaves out the clusters and falls back to the
        largest Jaccard overlaps; ``all`` keeps every column.
    ``jaccard``: Threshold tau on the overlap of tokens.
    ``gate``: theta, the least cosine, or eta, the largest divergence in nats, between text and chosen cluster.
    """

    measure: Measure
    jaccard: float = 0.0
    gate: float = 0.0
    clusters: int = 2
    temperature: float = 1.0
    fallback: int = 2
    seed: int = 0


class Kept(NamedTuple):
    """A kept column (or row), the rule that kept it and the score that the rule looked at."""

    line: int
    rule: Rule
    score: float


@dataclass(frozen=True)
class Selection:
    """Kept columns in table order, out of ``width``."""

    kept: tuple[Kept, ...]
    width: int

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(item.line for item in self.kept)


@dataclass(frozen=True)
class Lines:
    """The columns (or rows) of one table as selection sees them: token sets and vectors ``(n, d)``, in one order."""

    tokens: tuple[frozenset[str], ...]
    vectors: Floats


def column_tokens(header: Sequence[str], columns: Sequence[Sequence[str]]) -> tuple[frozenset[str], ...]:
    """Token set of each column: its header and its cells that are not empty."""
    return tuple(token_set([name, *cells]) for name, cells in zip(header, columns, strict=True))


def column_pieces(header: str, cells: Sequence[str], limit: int) -> list[str]:
    """Text of a column for an encoder: header, then its distinct cells, in as few pieces of ``limit`` signs as can be.

    A column that an encoder could not read whole gives several pieces, each led by the header; the vector of the
    column is the mean of theirs. Nothing is cut away: a cell longer than a piece goes on in the next.
    """
    lead = f"{header[: limit // 2]}: " if header else ""
    room = limit - len(lead)
    pieces: list[str] = []
    current = ""
    for cell in dict.fromkeys(cell for cell in cells if cell):
        for start in range(0, len(cell), room):
            part = cell[start : start + room]
            joined = f"{current}; {part}" if current else part
            if len(joined) > room:
                pieces.append(lead + current)
                joined = part
            current = joined
    if current or not pieces:
        pieces.append((lead + current) or " ")
    return pieces


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """``|A ∩ B| / |A ∪ B|``, 0 for two empty sets."""
    shared = len(left & right)
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


def every_line(width: int) -> Selection:
    """All columns (or rows) of a table."""
    return Selection(tuple(Kept(j, "all", 1.0) for j in range(width)), width)


def select_lines(
    text_tokens: Sequence[frozenset[str]],
    text_vectors: Floats,
    table_of: Sequence[int],
    tables: Sequence[Lines],
    settings: ColumnSettings,
) -> list[Selection]:
    """Select columns for many texts, each against its own table.

    ``text_tokens``, ``text_vectors``: Token set and vector ``(P, d)`` of each claim or question.
    ``table_of``: For each text the place of its table in ``tables``.
    ``tables``: Columns of each table. Clusters are found once for equal tables with equal columns left over.

    Returns list of Selection: In the order of the texts; a table without columns gives an empty one.
    """
    if settings.measure == "all":
        return [every_line(len(tables[t].tokens)) for t in table_of]
    overlaps = [
        [jaccard(words, column) for column in tables[t].tokens] for words, t in zip(text_tokens, table_of, strict=True)
    ]
    if settings.measure == "words":
        return [_by_words(scores, settings) for scores in overlaps]
    texts = _space(text_vectors, settings)
    spaces = [_space(table.vectors, settings) for table in tables]
    left_over = [tuple(j for j, score in enumerate(scores) if score < settings.jaccard) for scores in overlaps]
    keys = list(zip(table_of, left_over, strict=True))
    groups = {key: _clusters(spaces[key[0]][list(key[1])], settings) for key in dict.fromkeys(keys) if key[1]}
    result = []
    for i, key in enumerate(keys):
        scores, (table, remaining) = overlaps[i], key
        kept = [Kept(j, "lexical", score) for j, score in enumerate(scores) if score >= settings.jaccard]
        if remaining:
            labels, centres = groups[key]
            nearness = _nearness(texts[i], centres, settings)
            best = int(nearness.argmax())
            near = float(nearness[best])
            if -near <= settings.gate if settings.measure == "jsd" else near >= settings.gate:
                kept += [
                    Kept(j, "cluster", abs(float(nearness[best])))
                    for j, label in zip(remaining, labels, strict=True)
                    if label == best
                ]
        if not kept and scores:
            nearness = _nearness(texts[i], spaces[table], settings)
            order = np.argsort(-nearness, kind="stable")[: settings.fallback]
            kept = [Kept(int(j), "fallback", abs(float(nearness[j]))) for j in order]
        result.append(Selection(tuple(sorted(kept)), len(scores)))
    return result


def _by_words(scores: list[float], settings: ColumnSettings) -> Selection:
    kept = [Kept(j, "lexical", score) for j, score in enumerate(scores) if score >= settings.jaccard]
    if not kept:
        order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[: settings.fallback]
        kept = [Kept(j, "fallback", scores[j]) for j in order]
    return Selection(tuple(sorted(kept)), len(scores))


def _space(vectors: Floats, settings: ColumnSettings) -> Floats:
    unit = unit_rows(np.asarray(vectors, dtype=np.float64))
    return softmax(unit, settings.temperature) if settings.measure == "jsd" else unit


def _nearness(text: Floats, points: Floats, settings: ColumnSettings) -> Floats:
    """Cosine, or the divergence with its sign turned, so that larger is nearer for both; ties do not hang on bits."""
    raw: Floats = -jensen_shannon(text[None], points) if settings.measure == "jsd" else points @ text
    return raw.round(12)


def _clusters(points: Floats, settings: ColumnSettings) -> tuple[NDArray[np.int64], Floats]:
    """Labels and centroids of the clusters of some columns; an empty cluster (of equal columns only) cannot be
    chosen."""
    geometry: Literal["cosine", "jsd"] = "jsd" if settings.measure == "jsd" else "cosine"
    assignment, centroids = cluster(points, settings.clusters, geometry=geometry, seed=settings.seed)
    used, labels = np.unique(assignment, return_inverse=True)
    return labels, centroids[used]
