"""``evidence reproduce``: every printed table with what would fill its cells, and one with ours beside the print."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.cli.console import JsonOption, LakeOption, out, print_if_json, report_errors
from evidence_assets.cli.console import print_table as show_table
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import presets
from evidence_assets.explorer import scores
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction import cells as printed
from evidence_assets.reproduction.cells import Cell
from evidence_assets.text.spelling import nearest

commands = typer.Typer(rich_markup_mode=None)
WHY = "where ours differs, or why there is none"


@commands.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="Such as thesis-7.3; all are listed where none is named.")] = "",
    run: Annotated[bool, typer.Option("--run", help="First make all that fills it, as `evidence run` does.")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Show every printed table: cells that can be filled and are, what that takes, and why not others.

    The models and benchmarks are those of EVIDENCE_PROFILE, or of the profile paper where it is not set.
    """
    succeeded = True
    with report_errors():
        if run and (lake or as_json or not table):
            raise BadInput("--run makes one table in EVIDENCE_LAKE and prints what is made: not with --lake or --json")
        os.environ[PROFILE_VARIABLE] = os.environ.get(PROFILE_VARIABLE) or "paper"
        tables = _tables(lake)
        if not table:
            summaries = [_summary(*item) for item in tables.items()]
            if not print_if_json(as_json, summaries):
                _list(summaries, _summary("", [cell for cells in tables.values() for cell in cells]))
            return
        table = table.lower()
        if table not in tables:
            near = nearest(table, tables)
            raise BadInput(f"no table {table!r} is printed; did you mean {near!r}? `evidence reproduce` lists them")
        if run:
            succeeded = _run(table, tables[table])
            tables = _tables(lake)
        rows = [row for cell in tables[table] for row in _rows(cell)]
        summary = _summary(table, tables[table])
        if not print_if_json(as_json, summary | {"cells": rows}):
            _show(summary, rows)
    if not succeeded:
        raise typer.Exit(1)


def _tables(lake: Path | None) -> dict[str, list[Cell]]:
    """The cells of each table, figure or passage in the order of print, by name: ``thesis-7.3``, ``thesis-fig-3.4``."""
    able = printed.find_cell_sources()
    cells = printed.build_cells(able)
    if lake or (find_lake() / "format.json").exists():
        with connect(lake) as connection:
            ours = printed.load_scores(connection, cells)
        if ours and not lake:
            from dagster import DagsterInstance

            from evidence_assets.assets.planning import measured_times
            from evidence_assets.cli.runner import dagster_home

            dagster_home()
            with DagsterInstance.get() as instance:
                ours |= measured_times(instance, able, Lake(find_lake()))
        cells = printed.add_scores(cells, ours)
    tables: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        tables[f"{cell.figure.document}-{cell.figure.table}".lower().replace(" ", "-")].append(cell)
    return dict(tables)


def _labels(cells: Iterable[Cell], recorded: bool = False) -> dict[str, str]:
    """By benchmark the variants that answer for these cells, as ``evidence run`` takes them."""
    labels: dict[str, set[str]] = defaultdict(set)
    for candidate in (candidate for cell in cells for candidate in cell.sources):
        if candidate.scope is None and (candidate.variant.method == RECORDED) == recorded:
            labels[candidate.benchmark].add(candidate.variant.label)
    return {benchmark: ",".join(sorted(names)) for benchmark, names in sorted(labels.items())}


def _summary(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Counts of a table, reasons, and what filling it takes."""
    able = [candidate for cell in cells for candidate in cell.sources]
    run, recorded = (
        [f"evidence run {benchmark} --variants {labels}" for benchmark, labels in _labels(cells, of_others).items()]
        for of_others in (False, True)
    )
    harvest = [f"evidence reproduce {name} --run"] if any(candidate.scope for candidate in able) else []
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for cell in cells:
        if not cell.fillable:
            reasons[cell.reason][cell.lacks] += 1
    printed_in = f"{cells[0].figure.document} {cells[0].figure.table}"
    metrics, benchmarks = (", ".join({getattr(c.figure, n): 0 for c in cells}) for n in ("metric", "benchmark"))
    return {
        "table": name,
        "title": metrics + (f" on {benchmarks}" if benchmarks else ""),
        "printed": len(cells),
        "fillable": sum(cell.fillable for cell in cells),
        "filled": sum(cell.filled for cell in cells),
        "from_records": sum(cell.from_records for cell in cells),
        "reasons": [{"reason": why, "cells": of.total(), "of": dict(of)} for why, of in reasons.items()],
        "presets": [preset.name for preset in presets().values() if printed_in in (*preset.tables, *preset.beside)],
        "data": printed.required_data(able),
        "models": sorted({c.model_id for c in able if c.variant.method != RECORDED} - {""}),
        "run": [*run, *harvest, *recorded],
    }


def _run(table: str, cells: Sequence[Cell]) -> bool:
    """Make what fills a table; whether all of it succeeded."""
    from evidence_assets.cli import materialize
    from evidence_assets.cli.run_selection import opt_in, select_harvests
    from evidence_assets.cli.runner import run_all
    from evidence_assets.definitions import defs

    able = [c for cell in cells for c in cell.sources if c.variant.method != RECORDED]
    opt_in({preset for c in able for preset in c.variant.presets})  # before the graph is loaded
    jobs = [partial(materialize.run, benchmark, labels) for benchmark, labels in _labels(cells).items()]
    if harvests := [c.variant for c in able if c.scope]:
        report = run_all(select_harvests(defs().resolve_asset_graph(), harvests))
        jobs.append(partial(materialize.print_report, report, f"evidence reproduce {table} --run"))
    succeeded = True
    for job in jobs:  # what fails leaves the others to be made
        try:
            job()
        except typer.Exit:
            succeeded = False
    return succeeded


def _rows(cell: Cell) -> list[dict[str, Any]]:
    """A row for each score of ours beside a printed cell, or one that says why there is none."""
    f = cell.figure
    head: dict[str, Any] = {name: getattr(f, name) for name in ("benchmark", "system", "variant", "model")}
    head |= {"metric": f.metric_and_label, "printed": round(f.fraction, 10)}
    ours = [
        {"ours": o.value, "low": o.low, "high": o.high, "difference": round(o.value - f.fraction, 10), "n": o.n}
        | {"made by": o.variant, WHY: "; ".join(printed.describe_differences(f, o))}
        for o in cell.ours
    ]
    if not ours:
        why = f"{cell.reason} ({cell.lacks})" if cell.reason else "not made yet"
        if cell.from_records:
            why = "not run here: from recorded answers of its own, if you have them"
        names = ", ".join(sorted({c.variant.label for c in cell.sources}))
        ours = [dict.fromkeys(("ours", "low", "high", "difference", "n")) | {"made by": names, WHY: why}]
    return [head | row | {"note on the print": f.note} for row in ours]


def _list(summaries: Sequence[Mapping[str, Any]], whole: Mapping[str, Any]) -> None:
    headers = ("table", "title", "printed", "fillable", "filled", "presets", "data", "models")
    rows = [[s[name] if isinstance(s[name], str | int) else ", ".join(s[name]) for name in headers] for s in summaries]
    show_table(headers, rows, title=f"Printed tables with the models and benchmarks of profile {load().name}")
    reasons = sorted(whole["reasons"], key=lambda reason: -reason["cells"])
    lacking = [", ".join(f"{what} ({n})" for what, n in Counter(one["of"]).most_common()) for one in reasons]
    why = [(one["cells"], one["reason"], lacks) for one, lacks in zip(reasons, lacking, strict=True)]
    show_table(("cells", "why they cannot be filled", "what they lack"), why)
    show_table(("data", "where they are obtained"), sorted(whole["data"].items()))
    out.print(
        "{printed:,} cells are printed, {fillable:,} can be filled, {filled:,} are filled.\n{from_records:,} are of "
        "systems of others: files of what they answered fill them (`raw/recorded`), nothing is run.".format(**whole)
    )
    out.print("`evidence reproduce TABLE` shows ours beside each printed cell; `evidence plan PRESET` what it costs.")


def _show(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    columns = ("benchmark", "system", "variant", "model", "metric", "printed", "ours", "low", "high")
    shown = []
    for row in rows:
        difference = scores.difference({**row, "value": row["ours"], "published": row["printed"]})
        shown.append([*(row[name] for name in columns), difference, row["made by"], row[WHY]])
    show_table((*columns, "difference", "made by", WHY), shown, title=f"{summary['table']}: {summary['title']}")
    out.print("{printed} printed, {fillable} can be filled, {filled} are filled".format(**summary))
    out.print("difference: ours − printed; * where the interval leaves the printed figure out", style="dim")
    if summary["fillable"]:
        lines = [f"To fill it, with profile {load().name}:", *summary["run"]]
        out.print("\n  ".join(lines), markup=False, soft_wrap=True)
