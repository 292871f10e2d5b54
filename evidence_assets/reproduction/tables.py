"""Printed tables: their cells, how many can be filled and are, and what that takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from evidence_assets import profiles
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.reproduction.cells import Cell
from evidence_assets.reproduction.ours import data_needed


def printed_tables(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells of each table, figure or passage in the order of print, by name: ``thesis-7.3``, ``thesis-fig-3.4``."""
    grouped: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[f"{cell.figure.document}-{cell.figure.table}".lower().replace(" ", "-")].append(cell)
    return dict(grouped)


def title(cells: Sequence[Cell]) -> str:
    """Metrics, systems and benchmarks of a table."""
    printed = [cell.figure for cell in cells]
    metrics = dict.fromkeys(f.metric for f in printed)
    systems = dict.fromkeys(f.system for f in printed if f.ours)
    benchmarks = dict.fromkeys(f.benchmark for f in printed if f.benchmark)
    on = f" on {', '.join(benchmarks)}" if benchmarks else ""
    return f"{', '.join(metrics)} of {', '.join(systems) or 'others'}{on}"


def reasons(cells: Iterable[Cell]) -> dict[str, Counter[str]]:
    """Why the other cells cannot be filled, and how many lack what."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for cell in cells:
        if not cell.fillable:
            counts[cell.reason][cell.lacks] += 1
    return dict(counts)


def harvests(cells: Iterable[Cell]) -> list[Variant]:
    """The harvests that fill a table, each once."""
    variants = [candidate.variant for cell in cells for candidate in cell.candidates]
    return list({v.place: v for v in sorted(variants, key=lambda v: v.place) if v.family == "knowledge"}.values())


def runs(cells: Iterable[Cell]) -> dict[str, list[str]]:
    """The variants that answer for a table, with their models, by benchmark."""
    labels: dict[str, set[str]] = defaultdict(set)
    for candidate in (c for cell in cells for c in cell.candidates):
        if candidate.variant.family != "knowledge" and candidate.variant.method != RECORDED:
            labels[candidate.benchmark].add(candidate.variant.label)
    return {benchmark: sorted(names) for benchmark, names in sorted(labels.items())}


def summary(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Counts of a table, reasons, and what filling it takes, for programs."""
    profile, first = profiles.load(), cells[0].figure
    sizes = {g.name: g.megabytes for g in profile.generators.values()}
    sizes |= {m.name: m.megabytes for m in profile.masked_models.values()}
    fillable = [candidate for cell in cells for candidate in cell.candidates]
    models = sorted({c.model_id for c in fillable if c.variant.method != RECORDED} - {""})
    recorded = sorted({c.benchmark for cell in cells if cell.from_records for c in cell.candidates})
    commands = [f"evidence run {benchmark} --variants {','.join(labels)}" for benchmark, labels in runs(cells).items()]
    commands += [f"evidence reproduce {name} --run"] if harvests(cells) else []
    named = f"{first.document} {first.table}"
    return {
        "table": name,
        "title": title(cells),
        "printed": len(cells),
        "fillable": sum(cell.fillable for cell in cells),
        "filled": sum(cell.filled for cell in cells),
        "from_records": sum(cell.from_records for cell in cells),
        "reasons": [{"reason": why, "cells": of.total(), "of": dict(of)} for why, of in reasons(cells).items()],
        "presets": [p.name for p in presets().values() if named in (*p.tables, *p.beside)],
        "data": data_needed(fillable),
        "models": {model: sizes.get(model) for model in models},
        "run": commands + [f"evidence run {benchmark} --variants {RECORDED}" for benchmark in recorded],
    }
