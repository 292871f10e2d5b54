"""Column filtering of UCRET and UCRET-JS, on many table–text pairs at once.

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
from evidence_assets.reasoning.tables.cell_text import collect_tokens
from evidence_assets.systems.ucret.spherical_kmeans import Floats, cluster
from evidence_assets.transport.divergence import jensen_shannon

Measure = Literal["cosine", "jsd", "words", "all"]
Rule = Literal["lexical", "cluster", "fallback", "all", "option", "entity", "number", "header", "row_header"]


@dataclass(frozen=True)
class ColumnSettings:
    """A way to select columns."""

    measure: Measure
    jaccard: float = 0.0  # tau, the least overlap of tokens
    gate: float = 0.0  # theta, the least cosine, or eta, the largest divergence in nats, between text and cluster
    clusters: int = 2
    temperature: float = 1.0
    fallback: int = 2
    seed: int = 0


_MEASURES = {"clusters": ("cosine", "jsd"), "theta": ("cosine",), "eta": ("jsd",), "temperature": ("jsd",)}
"""Measures that a parameter means something for."""
_RANGES = {"clusters": (1, 1000), "tau": (0, 1), "theta": (-1, 1), "eta": (0, 1), "temperature": (1e-6, 1e6)}


@dataclass(frozen=True)
class UcretSettings:
    """A way from a table to its evidence; the defaults are the printed setting of UCRET.

    ``measure``: ``cosine`` and ``jsd`` are the published ones; ``words`` leaves out the clusters and falls back to the
        largest overlaps of words; ``all`` keeps every column.
    """

    measure: Measure = "cosine"
    tau: float = 0.25  # least overlap of words between a column and the text
    clusters: int | None = None  # k, by default 2
    theta: float | None = None  # least cosine between the text and its cluster of columns, by default 0.60
    eta: float | None = None  # largest divergence between them in nats, by default 0.30
    temperature: float | None = None  # of the distributions that the divergence compares, by default 1
    column_text: Literal["header_and_cells", "header"] = "header_and_cells"  # what is encoded; cells without a header
    with_options: bool = False  # whether options belong to the text that columns are compared with
    repair: bool = False  # whether columns with the numbers, names and options of the text are put back
    whole_claims: bool = False  # whether a claim keeps every column: any may speak against it
    rows: bool = False  # whether rows are selected in the same way; rows that hold a name of the text always stay

    def __post_init__(self) -> None:
        for name, measures in _MEASURES.items():
            if getattr(self, name) is not None and self.measure not in measures:
                raise ValueError(f"{name} means nothing where columns are selected by {self.measure}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name} is {value}; it should be a number from {low:g} to {high:g}")

    @property
    def columns(self) -> ColumnSettings:
        """How columns are selected."""
        gate = (0.60 if self.theta is None else self.theta) if self.measure == "cosine" else 0.0
        if self.measure == "jsd":
            gate = 0.30 if self.eta is None else self.eta
        return ColumnSettings(
            self.measure, self.tau, gate, clusters=self.clusters or 2, temperature=self.temperature or 1.0
        )

    @property
    def lines(self) -> ColumnSettings | None:
        """How rows are selected; None keeps all."""
        return ColumnSettings("cosine", self.tau, 0.70, fallback=5) if self.rows else None


@dataclass(frozen=True)
class BridgeSettings(UcretSettings):
    """The same with ``passages`` from outside the table."""

    passages: int = 3


class KeptLine(NamedTuple):
    """A kept column (or row), the rule that kept it and the score that the rule looked at."""

    line: int
    rule: Rule
    score: float


@dataclass(frozen=True)
class Selection:
    """Kept columns in table order, out of ``width``."""

    kept: tuple[KeptLine, ...]
    width: int

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(item.line for item in self.kept)


@dataclass(frozen=True)
class Lines:
    """The columns (or rows) of one table as selection sees them: token sets and vectors ``(n, d)``, in one order."""

    tokens: tuple[frozenset[str], ...]
    vectors: Floats


def tokenize_columns(header: Sequence[str], columns: Sequence[Sequence[str]]) -> tuple[frozenset[str], ...]:
    """Token set of each column: its header and its cells that are not empty."""
    return tuple(collect_tokens([name, *cells]) for name, cells in zip(header, columns, strict=True))


def split_column_text(header: str, cells: Sequence[str], limit: int) -> list[str]:
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


def keep_all_lines(width: int) -> Selection:
    """All columns (or rows) of a table."""
    return Selection(tuple(KeptLine(j, "all", 1.0) for j in range(width)), width)


def select_lines(
    text_tokens: Sequence[frozenset[str]],
    text_vectors: Floats,
    table_of: Sequence[int],
    tables: Sequence[Lines],
    settings: ColumnSettings,
) -> list[Selection]:
    """Select columns for many texts, each with its tokens and vector, in the table at its place in ``tables``.

    Clusters are found once for equal tables with equal columns left over.
    """
    if settings.measure == "all":
        return [keep_all_lines(len(tables[t].tokens)) for t in table_of]
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
        kept = [KeptLine(j, "lexical", score) for j, score in enumerate(scores) if score >= settings.jaccard]
        if remaining:
            labels, centres = groups[key]
            nearness = _nearness(texts[i], centres, settings)
            best = int(nearness.argmax())
            near = float(nearness[best])
            if -near <= settings.gate if settings.measure == "jsd" else near >= settings.gate:
                kept += [
                    KeptLine(j, "cluster", abs(float(nearness[best])))
                    for j, label in zip(remaining, labels, strict=True)
                    if label == best
                ]
        if not kept and scores:
            nearness = _nearness(texts[i], spaces[table], settings)
            order = np.argsort(-nearness, kind="stable")[: settings.fallback]
            kept = [KeptLine(int(j), "fallback", abs(float(nearness[j]))) for j in order]
        result.append(Selection(tuple(sorted(kept)), len(scores)))
    return result


def _by_words(scores: list[float], settings: ColumnSettings) -> Selection:
    kept = [KeptLine(j, "lexical", score) for j, score in enumerate(scores) if score >= settings.jaccard]
    if not kept:
        order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[: settings.fallback]
        kept = [KeptLine(j, "fallback", scores[j]) for j in order]
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
