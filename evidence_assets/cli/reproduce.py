"""``evidence reproduce``: every printed table with what would fill its cells, and one with ours beside the print."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.benchmarks.declared import declared
from evidence_assets.cli.console import JsonOption, LakeOption, as_json_only, out, sentences
from evidence_assets.cli.console import table as show_table
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction.cells import Cell, candidates, declared_cells
from evidence_assets.reproduction.ours import differences, scores_beside, with_ours
from evidence_assets.reproduction.tables import harvests, printed_tables, reasons, runs, summary, title
from evidence_assets.text.nearest import nearest

commands = typer.Typer(rich_markup_mode=None)
WHY = "where ours differs, or why there is none"


@commands.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="Such as thesis-7.3; all are listed where none is named.")] = "",
    profile: Annotated[
        str, typer.Option(help="Profile whose models and benchmarks count; EVIDENCE_PROFILE's otherwise, else paper.")
    ] = "",
    run: Annotated[
        bool, typer.Option("--run", help="First make all that fills the table, as `evidence run` does.")
    ] = False,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Also write the table's cells into this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw ours with intervals against the print, as PNG.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Show every printed table: cells that can be filled and are, what that takes, and why not others."""
    succeeded = True
    with sentences():
        if run and (lake or as_json or not table):
            raise BadInput(
                "--run takes a table, makes it in EVIDENCE_LAKE and prints what is made: not with --lake or --json"
            )
        name = profile or os.environ.get(PROFILE_VARIABLE) or "paper"
        load(name)
        os.environ[PROFILE_VARIABLE] = name
        tables = printed_tables(_cells(lake))
        if not table:
            summaries = [summary(*item) for item in tables.items()]
            if not as_json_only(as_json, summaries):
                _list(summaries, tables)
            return
        table = table.lower()
        if table not in tables:
            near = nearest(table, tables)
            raise BadInput(f"no table {table!r} is printed; did you mean {near!r}? `evidence reproduce` lists them")
        if run:
            succeeded = _run(tables[table])
            tables = printed_tables(_cells(lake))
        cells = tables[table]
        rows = [row for cell in cells for row in _rows(cell)]
        if csv_file:
            with csv_file.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        if plot:
            _plot(table, cells, plot)
        if not as_json_only(as_json, summary(table, cells) | {"cells": rows}):
            _show(table, cells, rows)
    if not succeeded:
        raise typer.Exit(1)


def _run(cells: Sequence[Cell]) -> bool:
    """Make what fills a table, benchmark by benchmark; whether all of it succeeded."""
    from evidence_assets.cli.making import run as make
    from evidence_assets.cli.run import benchmark_named, chosen_variants, harvested, opt_in

    answering, harvesting = runs(cells), harvests(cells)
    for benchmark, names in answering.items():  # opts in, before the graph is loaded, what the whole table takes
        chosen_variants(benchmark_named(benchmark), names)
    opt_in({preset for variant in harvesting for preset in variant.presets})
    succeeded = True
    if harvesting:
        from evidence_assets.cli.demo import run_all
        from evidence_assets.definitions import defs

        report = run_all(wanted=harvested(defs().resolve_asset_graph(), harvesting))
        for failure in report.failures:
            out.print(f"{failure.name}: {failure.said}", style="red", markup=False, soft_wrap=True)
        succeeded = not report.failures
    for benchmark, names in answering.items():
        try:
            make(benchmark, ",".join(names))
        except typer.Exit:
            succeeded = False
    return succeeded


def _cells(lake: Path | None) -> list[Cell]:
    able = candidates()
    cells = declared_cells(able)
    if not (lake or (find_lake() / "format.json").exists()):
        return cells
    with connect(lake) as connection:
        ours = scores_beside(connection, cells)
    if ours and not lake:
        from dagster import DagsterInstance

        from evidence_assets.assets.planning import times
        from evidence_assets.cli.demo import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            ours |= times(instance, able, Lake(find_lake()))
    return with_ours(cells, ours)


def _rows(cell: Cell) -> list[dict[str, Any]]:
    """A row for each score of ours beside a printed cell, or one that says why there is none."""
    f = cell.figure
    head: dict[str, Any] = {name: getattr(f, name) for name in ("benchmark", "system", "variant", "model")}
    head |= {"metric": ":".join(filter(None, (f.metric, f.label))), "printed": round(f.fraction, 10)}
    ours = [
        {"ours": o.value, "low": o.low, "high": o.high, "difference": round(o.value - f.fraction, 10), "n": o.n}
        | {"made by": o.variant, WHY: "; ".join(differences(f, o, declared().get(o.benchmark)))}
        for o in cell.ours
    ]
    if not ours:
        why = f"{cell.reason} ({cell.lacks})" if cell.reason else "not made yet"
        if cell.from_records:
            why = "not run here: from recorded answers of its own, if you have them"
        names = ", ".join(sorted({c.variant.label for c in cell.candidates}))
        ours = [dict.fromkeys(("ours", "low", "high", "difference", "n")) | {"made by": names, WHY: why}]
    return [head | row | {"note on the print": f.note} for row in ours]


def _list(summaries: Sequence[Mapping[str, Any]], tables: Mapping[str, Sequence[Cell]]) -> None:
    headers = ("table", "what is printed", "printed", "fillable", "filled", "preset", "data", "models")
    rows = [
        [s[name] for name in ("table", "title", "printed", "fillable", "filled")]
        + [", ".join(s[name]) for name in ("presets", "data")]
        + [", ".join(model.rpartition("/")[2] for model in s["models"])]
        for s in summaries
    ]
    show_table(headers, rows, title=f"Printed tables with the models and benchmarks of profile {load().name}")
    counts = [sum(s[name] for s in summaries) for name in ("printed", "fillable", "filled", "from_records")]
    out.print(
        "{:,} cells are printed, {:,} can be filled, {:,} are filled.\n"
        "{:,} are of systems of others: files of what they answered fill them (`raw/recorded`), nothing is run.\n\n"
        "Why the others cannot be:".format(*counts)
    )
    lacking = reasons(cell for cells in tables.values() for cell in cells)
    for reason, of in sorted(lacking.items(), key=lambda item: -item[1].total()):
        told = ", ".join(f"{what} ({n})" for what, n in of.most_common())
        out.print(f"  {of.total():>5,}  {reason} {told}", markup=False)
    data = {name: holds or "not stated" for s in summaries for name, holds in s["data"].items()}
    sizes = {name: size for s in summaries for name, size in s["models"].items()}
    models = {name: f"{size:,} MB" if size else "size not stated in the profile" for name, size in sizes.items()}
    for heading, told_of in (("Where the data are obtained", data), ("Language models", models)):
        out.print(f"\n{heading}:")
        for name, said in sorted(told_of.items()):
            out.print(f"  {name}: {said}", markup=False)
    out.print("\n`evidence reproduce TABLE` shows ours beside each printed cell; `evidence plan PRESET` what it costs.")


def _show(name: str, cells: Sequence[Cell], rows: Sequence[dict[str, Any]]) -> None:
    headers = ("benchmark", "printed as", "model", "metric", "printed", "ours", "95 %", "difference", "made by", WHY)
    shown = []
    for row in rows:
        low, high, interval, outside = row["low"], row["high"], "", ""
        if low is not None and high is not None:
            interval, outside = f"{low:.3f} – {high:.3f}", "" if low <= row["printed"] <= high else "*"
        ours = ("", interval, "")
        if row["ours"] is not None:
            ours = (f"{row['ours']:.3f}", interval, f"{row['difference']:+.3f}{outside}")
        printed_as = f"{row['system']} {row['variant']}".strip()
        head = (row["benchmark"], printed_as, row["model"], row["metric"], f"{row['printed']:,.4g}")
        shown.append((*head, *ours, row["made by"], row[WHY]))
    show_table(headers, shown, title=f"{name}: {title(cells)}")
    told = summary(name, cells)
    out.print("{printed} printed, {fillable} can be filled, {filled} are filled".format(**told))
    if any(row["ours"] is not None for row in rows):
        out.print("difference: ours − printed; * where the interval leaves the printed figure out", style="dim")
    if told["fillable"]:
        lines = [f"To fill it, with profile {load().name}:", *told["run"]]
        out.print("\n  ".join(lines), markup=False, soft_wrap=True)


def _plot(name: str, cells: Sequence[Cell], file: Path) -> None:
    """Ours with intervals against the print, a panel a benchmark and metric."""
    from evidence_assets.experiment.scores.plots import Point, intervals

    points = [
        Point(f"{o.benchmark}, {o.metric}", o.variant, o.metric, o.value, o.low, o.high, cell.figure.fraction)
        for cell in cells
        if cell.filled
        for o in cell.ours
    ]
    if not points:
        raise BadInput(f"no score in the lake stands beside {name}, so there is nothing to draw")
    file.write_bytes(intervals(points, f"{name}, 95 % interval"))
