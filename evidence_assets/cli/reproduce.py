"""``evidence reproduce``: every printed table with what would fill its cells, and one of them with ours beside the print."""

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
from rich.table import Table

from evidence_assets import systems
from evidence_assets.benchmarks.declared import declared
from evidence_assets.cli.console import JsonOption, LakeOption, cell, out, sentences
from evidence_assets.experiment.derived_figures import differences, obtained, vectors_of
from evidence_assets.experiment.reproduction import Cell, PrintedTable, candidates, printed_tables, scored
from evidence_assets.experiment.scores.plots import Point, intervals
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.text.nearest import nearest

commands = typer.Typer(rich_markup_mode=None)
COLUMNS = (
    "benchmark",
    "system",
    "variant",
    "model",
    "metric",
    "printed",
    "ours",
    "low",
    "high",
    "difference",
    "n",
    "made by",
    "where ours differs, or why there is none",
    "note on the print",
)


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
    """Every table of the papers: how many cells are printed, can be filled and are, what that takes, and why not others."""
    failed = False
    with sentences(), _using(profile):
        if run and (lake or as_json or not table):
            raise BadInput(
                "--run takes a table, makes it in EVIDENCE_LAKE and prints what is made: not with --lake or --json"
            )
        found = _tables(lake)
        if run:
            failed = not _made(_named(table, found))
            found = _tables(lake)
        if table:
            one = _named(table, found)
            rows = [row for each in one.cells for row in _rows(each)]
            if csv_file:
                with csv_file.open("w", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
            if plot:
                _plot(one, plot)
        if as_json and table:
            whole = _summary(one) | {"cells": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}
            print(json.dumps(whole, indent=1, ensure_ascii=False))
        elif as_json:
            print(json.dumps([_summary(each) for each in found], indent=1, ensure_ascii=False))
        elif table:
            _show(one, rows)
        else:
            _list(found)
    if failed:
        raise typer.Exit(1)


def _made(table: PrintedTable) -> bool:
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
    benchmarks = declared()
    own = [b for b in benchmarks.values() if b.runs_in()]
    able = [c for v in variants() if v.published for c in candidates(v, systems.load(v.system), own)]
    ours = {}
    if lake or (find_lake() / "format.json").exists():
        with connect(lake) as connection:
            ours = scored(connection, variants())
    if ours and not lake:
        from dagster import DagsterInstance

        from evidence_assets.assets.planning import times
        from evidence_assets.cli.demo import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            ours |= times(instance, able, Lake(find_lake()))
    return printed_tables(able, variants(), benchmarks, ours)


def _named(name: str, tables: Sequence[PrintedTable]) -> PrintedTable:
    for table in tables:
        if table.name == name.lower():
            return table
    near = nearest(name.lower(), [t.name for t in tables])
    raise BadInput(f"no table {name!r} is printed; did you mean {near!r}? `evidence reproduce` lists them")


def _summary(table: PrintedTable) -> dict[str, Any]:
    needed = {name: where for b in table.benchmarks.values() for name, where in obtained(b).items()}
    needed |= {
        files.name: files.holds for cell in table.fillable for c in cell.candidates for files in vectors_of(c.variant)
    }
    return {
        "table": table.name,
        "title": table.title,
        "printed": len(table.cells),
        "fillable": len(table.fillable),
        "filled": len(table.filled),
        "from_records": sum(each.from_records for each in table.cells),
        "reasons": [
            {"reason": reason, "cells": lacking.total(), "of": dict(lacking)}
            for reason, lacking in table.reasons.items()
        ],
        "presets": table.presets,
        "data": needed,
        "models": {name: _megabytes(name) for name in table.models},
        "run": [f"evidence run {name} --variants {','.join(names)}" for name, names in table.runs.items()]
        + ([f"evidence reproduce {table.name} --run"] if table.harvests else [])
        + [f"evidence run {name} --variants {RECORDED}" for name in table.recorded],
    }


def _megabytes(model: str) -> int | None:
    """Size of a language model, where the profile states it."""
    profile = load()
    sizes = {g.name: g.megabytes for g in profile.generators.values()}
    return {m.name: m.megabytes for m in profile.masked_models.values()}.get(model, sizes.get(model))


def _rows(each: Cell) -> list[tuple[Any, ...]]:
    """A row for every score of ours beside a printed cell, or one that says why there is none."""
    f = each.figure
    metric = ":".join(filter(None, (f.metric, f.label)))
    head = (f.benchmark, f.system, f.variant, f.model, metric, round(f.fraction, 10))
    if not each.ours:
        names = sorted({c.variant.label for c in each.candidates})
        why = f"{each.reason} ({each.lacks})" if each.reason else "not made yet"
        if each.from_records:
            why = "not run here: from recorded answers of its own, if you have them"
        return [(*head, None, None, None, None, None, ", ".join(names), why, f.note)]
    return [
        (
            *head,
            o.value,
            o.low,
            o.high,
            round(o.value - f.fraction, 10),
            o.n,
            o.variant,
            "; ".join(differences(f, o, declared().get(o.benchmark))),
            f.note,
        )
        for o in each.ours
    ]


def _list(tables: Sequence[PrintedTable]) -> None:
    headers = ("table", "what is printed", "printed", "fillable", "filled", "preset", "data", "models")
    shown = Table(*headers, title=f"Printed tables with the models and benchmarks of profile {load().name}")
    where: dict[str, str] = {}
    models: dict[str, int | None] = {}
    reasons: dict[str, Counter[str]] = {}
    for table in tables:
        summary = _summary(table)
        where |= summary["data"]
        models |= summary["models"]
        for reason, lacking in table.reasons.items():
            reasons.setdefault(reason, Counter()).update(lacking)
        shown.add_row(
            table.name,
            cell(table.title),
            *(str(summary[name]) for name in ("printed", "fillable", "filled")),
            ", ".join(table.presets),
            ", ".join(summary["data"]),
            ", ".join(m.rpartition("/")[2] for m in table.models),
        )
    out.print(shown)
    counts = (
        sum(len(cells) for cells in each)
        for each in zip(*((t.cells, t.fillable, t.filled) for t in tables), strict=True)
    )
    out.print("{:,} cells are printed, {:,} can be filled, {:,} are filled.".format(*counts))
    records = sum(each.from_records for table in tables for each in table.cells)
    out.print(
        f"{records:,} are of systems of others: files of what they answered fill them (`raw/recorded`), nothing is run."
    )
    out.print("\nWhy the others cannot be:")
    for reason, lacking in sorted(reasons.items(), key=lambda item: -item[1].total()):
        of = ", ".join(f"{what} ({n})" for what, n in lacking.most_common())
        out.print(f"  {lacking.total():>5,}  {reason} {of}", markup=False)
    out.print("\nWhere the data are obtained:")
    for name, said in sorted(where.items()):
        out.print(f"  {name}: {said or 'not stated'}", markup=False)
    out.print("\nLanguage models:")
    for name, size in sorted(models.items()):
        out.print(f"  {name}: {f'{size:,} MB' if size else 'size not stated in the profile'}", markup=False)
    out.print("\n`evidence reproduce TABLE` shows ours beside each printed cell; `evidence plan PRESET` what it costs.")


def _show(table: PrintedTable, rows: Sequence[tuple[Any, ...]]) -> None:
    shown = Table(
        *(
            "benchmark",
            "printed as",
            "model",
            "metric",
            "printed",
            "ours",
            "95 %",
            "difference",
            "made by",
            "where ours differs, or why there is none",
        ),
        title=f"{table.name}: {table.title}",
    )
    for benchmark, system, variant, model, metric, printed, ours, low, high, difference, _, by, said, _ in rows:
        outside = low is not None and high is not None and not low <= printed <= high
        shown.add_row(
            *map(cell, (benchmark, f"{system} {variant}".strip(), model, metric, f"{printed:,.4g}")),
            "" if ours is None else f"{ours:.3f}",
            "" if low is None or high is None else f"{low:.3f} – {high:.3f}",
            "" if difference is None else f"{difference:+.3f}" + ("*" if outside else ""),
            cell(by),
            cell(said),
        )
    out.print(shown)
    out.print(f"{len(table.cells)} printed, {len(table.fillable)} can be filled, {len(table.filled)} are filled")
    if any(row[6] is not None for row in rows):
        out.print("difference: ours − printed; * where the interval leaves the printed figure out", style="dim")
    if table.fillable:
        out.print(f"To fill it, with profile {load().name}:")
        for command in _summary(table)["run"]:
            out.print(f"  {command}", markup=False, soft_wrap=True)


def _plot(table: PrintedTable, file: Path) -> None:
    """Ours with intervals against the print, a panel a benchmark and metric."""
    points = [
        Point(f"{o.benchmark}, {o.metric}", o.variant, o.metric, o.value, o.low, o.high, each.figure.fraction)
        for each in table.filled
        for o in each.ours
    ]
    if not points:
        raise BadInput(f"no score in the lake stands beside {table.name}, so there is nothing to draw")
    file.write_bytes(intervals(points, f"{table.name}, 95 % interval"))
