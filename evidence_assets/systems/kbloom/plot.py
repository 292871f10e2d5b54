"""Precision of harvested relations as a picture that Dagster's UI shows. What is plotted is computed elsewhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

Bar = tuple[float | None, float | None, float | None]
"""Value, lower and upper end; None where there is none."""


def bars(title: str, names: Sequence[str], series: Mapping[str, Sequence[Bar]]) -> str:
    """Horizontal bars with their intervals, one group a name, as Markdown that holds a PNG image.

    The image is a pure function of its input: no date and no version is written into it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1 + 0.32 * max(1, len(names)) * max(1, len(series))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    height = 0.8 / max(1, len(series))
    for place, (label, values) in enumerate(series.items()):
        known = [(i + place * height, *bar) for i, bar in enumerate(values)]
        rows = [(y, value, low, high) for y, value, low, high in known if value is not None]
        below = [0.0 if low is None else max(0.0, value - low) for _, value, low, _ in rows]
        above = [0.0 if high is None else max(0.0, high - value) for _, value, _, high in rows]
        axes.barh([y for y, *_ in rows], [v for _, v, *_ in rows], height, xerr=[below, above], label=label, capsize=2)
    axes.set_yticks([i + 0.4 - height / 2 for i in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_title(title)
    if series:
        axes.legend(loc="lower right")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=80, metadata={"Software": None})
    return f"![{title}](data:image/png;base64,{base64.b64encode(image.getvalue()).decode()})"
