"""Settings of UCRET and UCRET-JS: how columns are selected, and what is put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evidence_assets.systems.ucret.columns import ColumnSettings, Measure

_MEASURES = {"clusters": ("cosine", "jsd"), "theta": ("cosine",), "eta": ("jsd",), "temperature": ("jsd",)}
"""Measures that a parameter means something for."""
_RANGES = {"clusters": (1, 1000), "tau": (0, 1), "theta": (-1, 1), "eta": (0, 1), "temperature": (1e-6, 1e6)}


@dataclass(frozen=True)
class UcretSettings:
    """A way from a table to its evidence; the defaults are the printed setting of UCRET.

    ``measure``: ``cosine`` and ``jsd`` are the published ones; ``words`` leaves out the clusters and falls back to the
        largest overlaps of words; ``all`` keeps every column.
    ``tau``: Least overlap of words between a column and the text.
    ``clusters``, ``theta``, ``eta``, ``temperature``: k; the least cosine, or the largest divergence in nats, between
        the text and its cluster of columns; and the temperature of the distributions that the divergence compares. By
        default 2, 0.60, 0.30 and 1.
    ``column_text``: What of a column is encoded: its header and cells as published, or its header (its cells if it has
        none).
    ``with_options``: Whether options belong to the text that columns are compared with.
    ``repair``: Whether columns with the numbers, names and options of the text, and those that name rows, are put back.
    ``whole_claims``: Whether a claim keeps every column: most claims name none, and any may speak against them.
    ``rows``: Whether rows are selected in the same way; rows that hold a name of the text always stay.
    """

    measure: Measure = "cosine"
    tau: float = 0.25
    clusters: int | None = None
    theta: float | None = None
    eta: float | None = None
    temperature: float | None = None
    column_text: Literal["header_and_cells", "header"] = "header_and_cells"
    with_options: bool = False
    repair: bool = False
    whole_claims: bool = False
    rows: bool = False

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
