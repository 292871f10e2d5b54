"""Scores as pictures: what each variant reaches beside the printed figure, and how right its surest answers are.

Drawn with matplotlib's Agg canvas, so no display is needed, and equal scores give equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from evidence_assets.experiment.scores.metrics import SUREST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERSION = "4"
DOTS_PER_INCH = 80
COLUMNS = 2
INK, OURS, PRINTED = "#1c2330", "#2f5fd0", "#b3401e"
SUREST_PART = "accuracy_surest_"
"""Metrics of a curve; the rest of the name is the place on its axis."""


@dataclass(frozen=True)
class Point:
    """One variant on one benchmark."""

    benchmark: str
    variant: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    published: float | None = None


def points(connection: duckdb.DuckDBPyConnection, metrics: Sequence[str]) -> list[Point]:
    """The scores of these metrics on benchmarks and collections of relations, by name and variant.

    A variant is named as its asset is, with its model after an ``@`` where that is not the profile's first. One asset
    scores several harvests, or recorded systems of others, which are named by what they were made by.
    """
    rows = connection.execute(
        """
        SELECT scope_id,
            if(scope_kind = 'benchmark' AND reasoner <> 'recorded',
               replace(regexp_replace(asset, '^scores/[^/]+/', ''), '/', '@'), selector) AS variant,
            metric, value, low, high, published
        FROM scores
        WHERE scope_kind IN ('benchmark', 'collection') AND value IS NOT NULL AND metric IN (SELECT unnest($metrics))
        ORDER BY ALL
        """,
        {"metrics": list(metrics)},
    ).fetchall()
    return [Point(*row) for row in rows]


def main_points(connection: duckdb.DuckDBPyConnection) -> list[Point]:
    """One point a benchmark and variant: its accuracy; of a search (it has a reciprocal rank) its first hit."""
    found = points(connection, ("accuracy", "hit@1", "mrr"))
    searched = {p.benchmark for p in found if p.metric == "mrr"}
    return [p for p in found if p.metric == ("hit@1" if p.benchmark in searched else "accuracy")]


def draw(connection: duckdb.DuckDBPyConnection) -> dict[str, bytes]:
    """PNG files by name; a picture without points is left out."""
    made = {}
    if main := main_points(connection):
        made["accuracy.png"] = intervals(main, "accuracy (hit@1 of a search), 95 % interval")
    if surest := points(connection, [f"{SUREST_PART}{share}" for share in SUREST]):
        made["surest_answers.png"] = surest_answers(surest)
    if harvests := points(connection, ["precision@50"]):
        made["harvest.png"] = intervals(harvests, "precision@50 of harvested triples, 95 % interval")
    return made


def intervals(found: Sequence[Point], title: str) -> bytes:
    """A panel a benchmark: each variant's value with its interval, and the printed figure where there is one."""
    tallest = max(map(len, _by_benchmark(found).values()))
    figure, panels = _panels(found, 0.26 * tallest + 0.9)
    for axes, group in panels:
        ordered = sorted(group, key=lambda p: (p.value, p.variant))
        for place, p in enumerate(ordered):
            if p.low is not None and p.high is not None:
                axes.plot([p.low, p.high], [place, place], color=OURS, linewidth=2, alpha=0.45)
        axes.plot([p.value for p in ordered], range(len(ordered)), "o", color=OURS, markersize=5, label="measured")
        printed = [(p.published, place) for place, p in enumerate(ordered) if p.published is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), "D", color=PRINTED, mfc="none", label="printed")
            axes.legend(fontsize=7, loc="lower right")
        axes.set_yticks(range(len(ordered)), [_plain(p.variant) for p in ordered], fontsize=8)
        axes.set_ylim(-0.7, tallest - 0.3)
        if all(max(p.value, p.published or 0.0) <= 1 for p in ordered):  # a share, not a count or a time
            axes.set_xlim(-0.02, 1.02)
        axes.grid(axis="x", alpha=0.25)
    return _png(figure, title)


def surest_answers(found: Sequence[Point]) -> bytes:
    """A panel a benchmark: accuracy over the share of the questions that were answered with most confidence."""
    figure, panels = _panels(found, 2.8)
    for axes, group in panels:
        for variant in sorted({p.variant for p in group}):
            line = sorted((int(p.metric.removeprefix(SUREST_PART)), p) for p in group if p.variant == variant)
            shares = [share for share, _ in line]
            axes.plot(shares, [p.value for _, p in line], "o-", markersize=3, label=_plain(variant))
            low = [p.value if p.low is None else p.low for _, p in line]
            high = [p.value if p.high is None else p.high for _, p in line]
            axes.fill_between(shares, low, high, alpha=0.12, linewidth=0)
        axes.set_xlabel("per cent of the questions", fontsize=8)
        axes.set_ylim(-0.02, 1.02)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=6)
    return _png(figure, "accuracy of the surest answers, 95 % interval")


def _by_benchmark(found: Sequence[Point]) -> dict[str, list[Point]]:
    groups: dict[str, list[Point]] = {}
    for p in found:
        groups.setdefault(p.benchmark, []).append(p)
    return groups


def _panels(found: Sequence[Point], height: float) -> tuple[Figure, list[tuple[Axes, list[Point]]]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure

    groups = _by_benchmark(found)
    columns = min(COLUMNS, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(4.6 * columns, height * rows + 0.4), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes, benchmark in zip(grid, groups, strict=False):
        axes.set_title(_plain(benchmark), fontsize=9, color=INK)
        axes.tick_params(labelsize=8)
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    return figure, list(zip(grid, groups.values(), strict=False))


def _plain(text: str) -> str:
    """Text without the mathematics that matplotlib reads between dollar signs."""
    return text.replace("$", r"\$")


def _png(figure: Figure, title: str) -> bytes:
    figure.suptitle(title, fontsize=10, color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})  # the program's version is no part of the scores
    return buffer.getvalue()
