"""Printed tables: their cells, how many can be filled and are, and what that takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evidence_assets import profiles
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.reproduction.cells import Candidate, Cell
from evidence_assets.reproduction.ours import data_needed


@dataclass(frozen=True)
class PrintedTable:
    """A table, a figure or a passage with its cells, as printed."""

    document: str
    number: str
    cells: Sequence[Cell]

    @property
    def name(self) -> str:
        """The name on the command line: ``thesis-7.3``, ``thesis-fig-3.4``."""
        return f"{self.document}-{self.number}".lower().replace(" ", "-")

    @property
    def title(self) -> str:
        """Metrics, systems and benchmarks of its cells."""
        printed = [cell.figure for cell in self.cells]
        metrics, systems, benchmarks = (
            ", ".join(dict.fromkeys(filter(None, names)))
            for names in (
                (f.metric for f in printed),
                (f.system for f in printed if f.ours),
                (f.benchmark for f in printed),
            )
        )
        return f"{metrics} of {systems or 'others'}" + (f" on {benchmarks}" if benchmarks else "")

    @property
    def reasons(self) -> dict[str, Counter[str]]:
        """Why the others cannot be filled, and how many cells lack what."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for cell in self.cells:
            if not cell.fillable:
                counts[cell.reason][cell.lacks] += 1
        return dict(counts)

    @cached_property
    def fillable(self) -> list[Cell]:
        """The cells that a declared variant would fill, or that the lake fills already."""
        return [cell for cell in self.cells if cell.fillable]

    @property
    def filled(self) -> list[Cell]:
        """The cells that a score in the lake of the same part of the benchmark stands beside."""
        return [cell for cell in self.cells if cell.filled]

    @property
    def _candidates(self) -> list[Candidate]:
        return [candidate for cell in self.fillable for candidate in cell.candidates]

    @property
    def harvests(self) -> list[Variant]:
        """The harvests that fill cells of it, each once."""
        by_place = {c.variant.place: c.variant for c in self._candidates if c.variant.family == "knowledge"}
        return [variant for _, variant in sorted(by_place.items())]

    @property
    def runs(self) -> dict[str, list[str]]:
        """The variants that answer for it, with their models, by benchmark."""
        labels: dict[str, set[str]] = defaultdict(set)
        for c in self._candidates:
            if c.variant.family != "knowledge" and c.variant.method != RECORDED:
                labels[c.benchmark].add(c.variant.label)
        return {benchmark: sorted(names) for benchmark, names in sorted(labels.items())}

    def summary(self) -> dict[str, Any]:
        """Counts, reasons, and what filling it takes, for programs."""
        profile = profiles.load()
        models = {g.name: g.megabytes for g in profile.generators.values()}
        models |= {m.name: m.megabytes for m in profile.masked_models.values()}
        names = sorted({c.model_id for c in self._candidates if c.variant.method != RECORDED} - {""})
        recorded = sorted({c.benchmark for cell in self.cells if cell.from_records for c in cell.candidates})
        commands = [f"evidence run {name} --variants {','.join(labels)}" for name, labels in self.runs.items()]
        commands += [f"evidence reproduce {self.name} --run"] if self.harvests else []
        printed = f"{self.document} {self.number}"
        return {
            "table": self.name,
            "title": self.title,
            "printed": len(self.cells),
            "fillable": len(self.fillable),
            "filled": len(self.filled),
            "from_records": sum(cell.from_records for cell in self.cells),
            "reasons": [
                {"reason": reason, "cells": counts.total(), "of": dict(counts)}
                for reason, counts in self.reasons.items()
            ],
            "presets": [p.name for p in presets().values() if printed in (*p.tables, *p.beside)],
            "data": data_needed(self.fillable),
            "models": {name: models.get(name) for name in names},
            "run": commands + [f"evidence run {name} --variants {RECORDED}" for name in recorded],
        }


def printed_tables(cells: Iterable[Cell]) -> list[PrintedTable]:
    """The cells by table, in the order of print."""
    grouped: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[cell.figure.document, cell.figure.table].append(cell)
    return [PrintedTable(*printed, own) for printed, own in grouped.items()]
