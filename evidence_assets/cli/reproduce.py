"""``evidence reproduce``: every printed table with what would fill its cells, and one with ours beside the print."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.benchmarks.declared import declared
from evidence_assets.cli.console import JsonOption, LakeOption, out, sentences
from evidence_assets.cli.console import table as show_table
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction.cells import Cell, candidates, declared_cells
from evidence_assets.reproduction.ours import differences, scores_beside, with_ours
from evidence_assets.reproduction.tables import PrintedTable, printed_tables
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
    with sentences(), _using(profile):
        if run and (lake or as_json or not table):
            raise BadInput(
                "--run takes a table, makes it in EVIDENCE_LAKE and prints what is made: not with --lake or --json"
            )
        if run:
            succeeded = _run(_named(table, _tables(lake)))
        tables = _tables(lake)
        if not table:
            if as_json:
                print(json.dumps([each.summary() for each in tables], indent=1, ensure_ascii=False))
            else:
                _list(tables)
            return
        one = _named(table, tables)
        rows = [row for cell in one.cells for row in _rows(cell)]
        if csv_file:
            with csv_file.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        if plot:
            _plot(one, plot)
        if as_json:
            print(json.dumps(one.summary() | {"cells": rows}, indent=1, ensure_ascii=False))
        else:
            _show(one, rows)
    if not succeeded:
        raise typer.Exit(1)


def _run(table: PrintedTable) -> bool:
    """Make what fills a table, benchmark by benchmark; whether all of it succeeded."""
    from evidence_assets.cli.making import run as make
    from evidence_assets.cli.run import benchmark_named, chosen_variants, harvested, opt_in

    for benchmark, names in table.runs.items():  # opts in, before the graph is loaded, what the whole table takes
        chosen_variants(benchmark_named(benchmark), names)
    opt_in({preset for variant in table.harvests for preset in variant.presets})
    succeeded = True
    if table.harvests:
        from evidence_assets.cli.demo import run_all
        from evidence_assets.definitions import defs

        report = run_all(wanted=harvested(defs().resolve_asset_graph(), table.harvests))
        for failure in report.failures:
            out.print(f"{failure.name}: {failure.said}", style="red", markup=False, soft_wrap=True)
        succeeded = not report.failures
    for benchmark, names in table.runs.items():
        try:
            make(benchmark, ",".join(names))
        except typer.Exit:
            succeeded = False
    return succeeded


@contextmanager
def _using(profile: str) -> Iterator[None]:
    """The profile of this name in use, by default the published one."""
    before = os.environ.get(PROFILE_VARIABLE)
    name = profile or before or "paper"
    load(name)
    os.environ[PROFILE_VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[PROFILE_VARIABLE]
        else:
            os.environ[PROFILE_VARIABLE] = before


def _tables(lake: Path | None) -> list[PrintedTable]:
    able = candidates()
    cells = declared_cells(able)
    if not (lake or (find_lake() / "format.json").exists()):
        return printed_tables(cells)
    with connect(lake) as connection:
        ours = scores_beside(connection, cells)
    if ours and not lake:
        from dagster import DagsterInstance

        from evidence_assets.assets.planning import times
        from evidence_assets.cli.demo import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            ours |= times(instance, able, Lake(find_lake()))
    return printed_tables(with_ours(cells, ours))


def _named(name: str, tables: Sequence[PrintedTable]) -> PrintedTable:
    by_name = {table.name: table for table in tables}
    if name.lower() not in by_name:
        near = nearest(name.lower(), by_name)
        raise BadInput(f"no table {name!r} is printed; did you mean {near!r}? `evidence reproduce` lists them")
    return by_name[name.lower()]


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


def _list(tables: Sequence[PrintedTable]) -> None:
    summaries = [table.summary() for table in tables]
    show_table(
        ("table", "what is printed", "printed", "fillable", "filled", "preset", "data", "models"),
        (
            (
                *(s[name] for name in ("table", "title", "printed", "fillable", "filled")),
                *(", ".join(s[name]) for name in ("presets", "data")),
                ", ".join(model.rpartition("/")[2] for model in s["models"]),
            )
            for s in summaries
        ),
        title=f"Printed tables with the models and benchmarks of profile {load().name}",
    )
    names = ("printed", "fillable", "filled", "from_records")
    printed, fillable, filled, records = (sum(s[name] for s in summaries) for name in names)
    out.print(f"{printed:,} cells are printed, {fillable:,} can be filled, {filled:,} are filled.")
    out.print(
        f"{records:,} are of systems of others: files of what they answered fill them (`raw/recorded`), nothing is run."
    )
    out.print("\nWhy the others cannot be:")
    reasons: dict[str, Counter[str]] = {}
    for table in tables:
        for reason, counts in table.reasons.items():
            reasons.setdefault(reason, Counter()).update(counts)
    for reason, counts in sorted(reasons.items(), key=lambda item: -item[1].total()):
        of = ", ".join(f"{what} ({n})" for what, n in counts.most_common())
        out.print(f"  {counts.total():>5,}  {reason} {of}", markup=False)
    out.print("\nWhere the data are obtained:")
    for name, holds in sorted({name: holds for s in summaries for name, holds in s["data"].items()}.items()):
        out.print(f"  {name}: {holds or 'not stated'}", markup=False)
    out.print("\nLanguage models:")
    for name, size in sorted({name: size for s in summaries for name, size in s["models"].items()}.items()):
        out.print(f"  {name}: {f'{size:,} MB' if size else 'size not stated in the profile'}", markup=False)
    out.print("\n`evidence reproduce TABLE` shows ours beside each printed cell; `evidence plan PRESET` what it costs.")


def _show(table: PrintedTable, rows: Sequence[dict[str, Any]]) -> None:
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
    show_table(headers, shown, title=f"{table.name}: {table.title}")
    out.print(f"{len(table.cells)} printed, {len(table.fillable)} can be filled, {len(table.filled)} are filled")
    if any(row["ours"] is not None for row in rows):
        out.print("difference: ours − printed; * where the interval leaves the printed figure out", style="dim")
    if table.fillable:
        out.print(f"To fill it, with profile {load().name}:")
        for command in table.summary()["run"]:
            out.print(f"  {command}", markup=False, soft_wrap=True)


def _plot(table: PrintedTable, file: Path) -> None:
    """Ours with intervals against the print, a panel a benchmark and metric."""
    from evidence_assets.experiment.scores.plots import Point, intervals

    points = [
        Point(f"{o.benchmark}, {o.metric}", o.variant, o.metric, o.value, o.low, o.high, cell.figure.fraction)
        for cell in table.filled
        for o in cell.ours
    ]
    if not points:
        raise BadInput(f"no score in the lake stands beside {table.name}, so there is nothing to draw")
    file.write_bytes(intervals(points, f"{table.name}, 95 % interval"))
