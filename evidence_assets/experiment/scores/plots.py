"""Plots of the scoreboard: accuracy with published figures, and accuracy by confidence.

Drawn with matplotlib's Agg canvas, without a display; equal scores give equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import duckdb
import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC_PREFIX = "accuracy_surest_"
"""Prefix of metrics of the most confident answers; the rest is their percentage."""
MEASURED_COLOUR, PUBLISHED_COLOUR = "#2f5fd0", "#b3401e"
_POINTS = """
    SELECT scope_id AS benchmark, replace(regexp_replace(asset, '^scores/[^/]+/', ''), '/', '@') AS variant,
        metric, value, coalesce(low, value) AS low, coalesce(high, value) AS high, published
    FROM scores
    WHERE scope_kind = 'benchmark' AND reasoner <> 'recorded' AND value IS NOT NULL
        AND (metric IN ('accuracy', 'hit@1', 'mrr') OR starts_with(metric, 'accuracy_surest_'))
    ORDER BY ALL
"""


def draw(connection: duckdb.DuckDBPyConnection) -> dict[str, bytes]:
    """Draw ``accuracy.png`` and ``confidence.png``, if there are scores; return PNG bytes by name."""
    points = connection.execute(_POINTS).pl()
    searches = points.filter(pl.col("metric") == "mrr")["benchmark"].unique()
    headline = (
        pl.when(pl.col("benchmark").is_in(searches.implode())).then(pl.lit("hit@1")).otherwise(pl.lit("accuracy"))
    )
    accuracy = points.filter(pl.col("metric") == headline)
    confidence = points.filter(pl.col("metric").str.starts_with(METRIC_PREFIX)).with_columns(
        share=pl.col("metric").str.strip_prefix(METRIC_PREFIX).cast(pl.Int32)
    )
    plots = {}
    if accuracy.height:
        tallest = int(accuracy.group_by("benchmark").len()["len"].max())  # type: ignore[arg-type]
        title = "Accuracy (hit@1 of searches) with 95 % intervals"
        plots["accuracy.png"] = _panels(accuracy, _accuracy, title, height=0.26 * tallest + 0.9)
    if confidence.height:
        title = "Accuracy of the most confident answers with 95 % intervals"
        plots["confidence.png"] = _panels(confidence, _confidence, title, height=2.8)
    return plots


def _accuracy(axes: Axes, points: pl.DataFrame) -> None:
    """One line per variant: interval, value and published figure."""
    points = points.sort("value", "variant").with_row_index("y")
    axes.hlines(points["y"], points["low"], points["high"], color=MEASURED_COLOUR, linewidth=2, alpha=0.45)
    axes.plot(points["value"], points["y"], "o", color=MEASURED_COLOUR, markersize=5, label="measured")
    published = points.drop_nulls("published")
    if published.height:
        axes.plot(published["published"], published["y"], "D", color=PUBLISHED_COLOUR, mfc="none", label="published")
        axes.legend(fontsize=7, loc="lower right")
    axes.set_yticks(range(points.height), [_escape(name) for name in points["variant"]], fontsize=8)
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", alpha=0.25)


def _confidence(axes: Axes, points: pl.DataFrame) -> None:
    """One curve per variant: accuracy over the percentage of most confident answers."""
    for (variant,), curve in points.sort("variant", "share").group_by("variant", maintain_order=True):
        axes.plot(curve["share"], curve["value"], "o-", markersize=3, label=_escape(str(variant)))
        axes.fill_between(curve["share"], curve["low"], curve["high"], alpha=0.12, linewidth=0)
    axes.set_xlabel("per cent of the questions", fontsize=8)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=6)


def _panels(points: pl.DataFrame, panel: Callable[[Axes, pl.DataFrame], None], title: str, height: float) -> bytes:
    """PNG with one panel per benchmark, two in a row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure

    groups = points.partition_by("benchmark", as_dict=True)
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(4.6 * columns, height * rows + 0.4), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, ((benchmark,), group) in zip(grid, groups.items(), strict=False):
        axes.set_title(_escape(str(benchmark)), fontsize=9)
        axes.tick_params(labelsize=8)
        panel(axes, group)
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})  # independent of the release
    return buffer.getvalue()


def _escape(text: str) -> str:
    """Escape dollar signs, which matplotlib reads as mathematics."""
    return text.replace("$", r"\$")
