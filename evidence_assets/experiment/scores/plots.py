"""Scores as pictures: what each variant reaches with its interval, the evidence that it finds, and what it reads for it.

Drawn from the lake's ``scores`` and ``evidence`` with matplotlib's Agg canvas, so no display is needed, and equal scores
give equal bytes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from evidence_assets.experiment.scores.gold_evidence import DEPTHS
from evidence_assets.experiment.scores.metrics import SUREST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERSION = "3"
DOTS_PER_INCH = 80
COLUMNS = 2
INK, OURS, PRINTED = "#1c2330", "#2f5fd0", "#b3401e"
BY_DEPTH, SUREST_PART = "evidence_recall@", "accuracy_surest_"
"""Metrics of a curve; what follows is the place on its axis."""
MAIN = ("accuracy", "hit@1", "mrr")
"""What a variant is judged by, and by what a search is told from an answer."""
HARVEST = "precision@50"


@dataclass(frozen=True)
class Point:
    """One variant on one benchmark; ``cost`` are the characters of evidence that it reads for a question."""

    benchmark: str
    variant: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    published: float | None = None
    cost: float | None = None


def points(connection: duckdb.DuckDBPyConnection, metrics: Sequence[str], scope: str = "benchmark") -> list[Point]:
    """The scores of these metrics on benchmarks, or on what else is scored, by its name and by variant.

    A variant is called as its asset is, with its model after an ``@`` where that is not the profile's first; one asset
    scores several harvests, or recorded systems of others, which are called by what they were made by.
    """
    rows = connection.execute(
        """
        WITH reads AS (
            SELECT benchmark, selector, sum(length(text)) / count(DISTINCT question_id) AS cost FROM evidence GROUP BY ALL
        )
        SELECT scope_id,
            CASE WHEN scope_kind = 'benchmark' AND reasoner <> 'recorded' THEN replace(regexp_replace(asset, '^scores/[^/]+/', ''), '/', '@')
            ELSE scores.selector END AS variant,
            metric, value, low, high, published, cost
        FROM scores LEFT JOIN reads ON benchmark = scope_id AND reads.selector = scores.selector
        WHERE scope_kind = $scope AND value IS NOT NULL AND metric IN (SELECT unnest($metrics)) ORDER BY ALL
        """,
        {"metrics": list(metrics), "scope": scope},
    ).fetchall()
    return [Point(*row) for row in rows]


def judged(found: Sequence[Point]) -> list[Point]:
    """One point a benchmark and variant: its accuracy. A search (it has a reciprocal rank) is judged by its first hit."""
    searched = {p.benchmark for p in found if p.metric == "mrr"}
    return [p for p in found if p.metric == ("hit@1" if p.benchmark in searched else "accuracy")]


def draw(connection: duckdb.DuckDBPyConnection) -> dict[str, bytes]:
    """PNG files by name; a picture that nothing is known for is left out."""
    main = judged(points(connection, MAIN))
    recall = points(connection, ["evidence_recall"])
    harvests = points(connection, [HARVEST], "collection")
    by_depth = points(connection, [f"{BY_DEPTH}{k}" for k in DEPTHS])
    by_share = points(connection, [f"{SUREST_PART}{share}" for share in SUREST])
    made = {}
    if main:
        made["accuracy.png"] = intervals(main, "accuracy (hit@1 of a search), 95 % interval")
    if recall:
        made["evidence_recall.png"] = intervals(recall, "share of the gold evidence that was picked, 95 % interval")
    if by_depth:
        made["evidence_recall_curves.png"] = curves(
            by_depth, BY_DEPTH, "rows of evidence for each option", "share of the gold evidence by depth, 95 % interval"
        )
    if by_share:
        made["surest_answers.png"] = curves(
            by_share, SUREST_PART, "per cent of the questions", "accuracy of the surest answers, 95 % interval"
        )
    if harvests:
        made["harvest.png"] = intervals(harvests, f"{HARVEST} of harvested triples, 95 % interval")
    if any(p.cost for p in main):
        made["cost.png"] = costs([p for p in main if p.cost])
    return made


def intervals(found: Sequence[Point], title: str) -> bytes:
    """A panel a benchmark: each variant's value with its interval, and the printed figure where there is one."""
    groups = _by_benchmark(found)
    tallest = max(map(len, groups.values()))
    figure, panels = _panels(len(groups), 0.26 * tallest + 0.9)
    for axes, (benchmark, group) in zip(panels, groups.items(), strict=True):
        ordered = sorted(group, key=lambda p: (p.value, p.variant))
        places = range(len(ordered))
        for place, p in zip(places, ordered, strict=True):
            if p.low is not None and p.high is not None:
                axes.plot([p.low, p.high], [place, place], color=OURS, linewidth=2, alpha=0.45)
        axes.plot([p.value for p in ordered], list(places), "o", color=OURS, markersize=5, label="measured")
        printed = [(p.published, place) for place, p in zip(places, ordered, strict=True) if p.published is not None]
        if printed:
            axes.plot([x for x, _ in printed], [y for _, y in printed], "D", color=PRINTED, mfc="none", label="printed")
            axes.legend(fontsize=7, loc="lower right")
        axes.set_yticks(list(places), [p.variant for p in ordered], fontsize=8)
        axes.set_ylim(-0.7, tallest - 0.3)
        if all(max(p.value, p.published or 0.0) <= 1 for p in ordered):  # a share, not a count or a time
            axes.set_xlim(-0.02, 1.02)
        axes.grid(axis="x", alpha=0.25)
        _titled(axes, benchmark)
    return _png(figure, title)


def curves(found: Sequence[Point], prefix: str, across: str, title: str) -> bytes:
    """A panel a benchmark: a line a variant, over what stands behind ``prefix`` in the names of the metrics."""

    def place(point: Point) -> int:
        return int(point.metric.removeprefix(prefix))

    groups = _by_benchmark(found)
    figure, panels = _panels(len(groups), 2.8)
    for axes, (benchmark, group) in zip(panels, groups.items(), strict=True):
        for variant in sorted({p.variant for p in group}):
            line = sorted((p for p in group if p.variant == variant), key=place)
            depths = [place(p) for p in line]
            axes.plot(depths, [p.value for p in line], "o-", markersize=3, label=_plain(variant))
            low = [p.value if p.low is None else p.low for p in line]
            high = [p.value if p.high is None else p.high for p in line]
            axes.fill_between(depths, low, high, alpha=0.12, linewidth=0)
        axes.set_xlabel(across, fontsize=8)
        axes.set_ylim(-0.02, 1.02)
        axes.grid(alpha=0.25)
        axes.legend(fontsize=6)
        _titled(axes, benchmark)
    return _png(figure, title)


def costs(found: Sequence[Point]) -> bytes:
    """A panel a benchmark: accuracy over the evidence read for a question; up and to the left is better."""
    groups = _by_benchmark(found)
    figure, panels = _panels(len(groups), 2.8)
    for axes, (benchmark, group) in zip(panels, groups.items(), strict=True):
        axes.plot([p.cost or 0.0 for p in group], [p.value for p in group], "o", color=OURS, markersize=5)
        for p in group:
            axes.annotate(p.variant, (p.cost or 0.0, p.value), fontsize=7, xytext=(4, 3), textcoords="offset points")
        axes.set_xlabel("characters of evidence a question", fontsize=8)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlim(0, 1.35 * max(p.cost or 0.0 for p in group))
        axes.grid(alpha=0.25)
        _titled(axes, benchmark)
    return _png(figure, "accuracy against the evidence that is read for it")


def _by_benchmark(found: Sequence[Point]) -> dict[str, list[Point]]:
    groups: dict[str, list[Point]] = {}
    for p in found:
        groups.setdefault(p.benchmark, []).append(p)
    return groups


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # only who draws waits for it
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns, height * rows + 0.4), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, list(grid[:count])


def _titled(axes: Axes, benchmark: str) -> None:
    axes.set_title(_plain(benchmark), fontsize=9, color=INK)
    axes.tick_params(labelsize=8)


def _plain(text: str) -> str:
    """Text without the mathematics that matplotlib reads between dollar signs."""
    return text.replace("$", r"\$")


def _png(figure: Figure, title: str) -> bytes:
    figure.suptitle(title, fontsize=10, color=INK)
    buffer = io.BytesIO()
    # Without the version of the program, which is no part of the scores.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
