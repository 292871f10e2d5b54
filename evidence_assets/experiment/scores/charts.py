"""Small pictures of scores as SVG, which the Dagster UI shows in the metadata of assets.

They are Jinja templates, like the explorer's drawings: three plain charts do not need a chart library, whose images are
several times larger and change with its release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evidence_assets.experiment.scores.metrics import calibration_error, reliability_bins

WIDTH = 340
"""Pixels; fits a phone without scaling."""
MAX_ROWS = 30
"""Maximum scores in a picture."""
MAX_LABEL = 34
"""Maximum characters of a label beside its score."""
MAX_TITLE = 44
COLOURS = ("#1f4fbf", "#a3211a", "#14693a", "#8a5200")
"""Colours of curves."""
_LEFT = 36
_SIDE = 294  # of a plot, and the length of lines from 0 to 1
_TOP = 54
_ROW = 32  # of a score: its name and its line
_LINE = 18  # of text
_BOTTOM = _TOP + _SIDE
_SHARES = (0, 0.25, 0.5, 0.75, 1)


class Score(NamedTuple):
    """A score with its 95 % interval and printed figure, where it has them."""

    label: str
    value: float
    low: float | None
    high: float | None
    published: float | None


def draw_scores(title: str, scores: Sequence[Score], max_rows: int = MAX_ROWS) -> str:
    """The highest scores, each on a line from 0 to 1; scores with a printed figure come before others are left out."""
    by_importance = sorted(scores, key=lambda score: (score.published is None, -score.value, score.label))
    top_scores = sorted(by_importance[:max_rows], key=lambda score: (-score.value, score.label))
    rows = [(_TOP + number * _ROW, score) for number, score in enumerate(top_scores)]
    bottom = _TOP + len(rows) * _ROW
    n_hidden = len(scores) - len(top_scores)
    height = bottom + _LINE * (2 if n_hidden else 1)
    values = {"rows": rows, "n_hidden": n_hidden, "top": _TOP, "bottom": bottom}
    return _render("intervals.svg", title=title, height=height, **values)


def draw_reliability(title: str, confidence: Sequence[float], correct: Sequence[bool]) -> str:
    """Accuracy over mean confidence of each bin of answers, with 95 % intervals."""
    error = calibration_error(confidence, correct)
    bins = reliability_bins(confidence, correct)
    legend = [(COLOURS[0], f"{len(correct):,} answers, calibration error {error:.3f}")]
    labels = {"x_label": "confidence", "y_label": "accuracy with 95 % interval"}
    ticks = [(share, str(share)) for share in _SHARES]
    return _render_plot("reliability.svg", title, legend, ticks=ticks, bins=bins, **labels)


def draw_precision(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Precision at k of each harvest, for k from 1 to the length of the curves, which is the same for all."""
    depth = max(map(len, curves.values()))
    colours = [COLOURS[number % len(COLOURS)] for number in range(len(curves))]
    legend = [
        (colour, f"{_shorten(name)}: {curve[-1]:.3f} at {depth}")
        for colour, (name, curve) in zip(colours, curves.items(), strict=True)
    ]
    step = max(1, round(depth / 5))
    ticks = [(k / depth, str(k)) for k in sorted({1, *range(step, depth + 1, step)})]
    coloured_curves = list(zip(colours, curves.values(), strict=True))
    labels = {"x_label": "k, best triples first", "y_label": "precision at k"}
    return _render_plot("precision.svg", title, legend, ticks=ticks, curves=coloured_curves, **labels)


def _render_plot(template: str, title: str, legend: Sequence[tuple[str, str]], **values: object) -> str:
    first_line = _BOTTOM + 58
    lines = [(first_line + number * _LINE, *entry) for number, entry in enumerate(legend)]
    height = first_line + len(legend) * _LINE - 4
    return _render(template, title=title, height=height, legend=lines, **values)


def _render(template: str, **values: object) -> str:
    frame = {"width": WIDTH, "max_title": MAX_TITLE, "shares": _SHARES}
    return _environment().get_template(template).render(x=_x, y=_y, **frame, **values)


@cache
def _environment() -> Environment:
    """Templates that escape every text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shorten"] = _shorten
    return environment


def _x(share: float) -> str:
    return f"{_LEFT + _SIDE * share:.1f}"


def _y(share: float) -> str:
    return f"{_BOTTOM - _SIDE * share:.1f}"


def _shorten(label: str, length: int = MAX_LABEL) -> str:
    """Leave out the middle of a long label: its ends name the system and the model."""
    if len(label) <= length:
        return label
    half = length // 2
    return f"{label[:half]}…{label[1 - half :]}"
