"""``evidence reproduce``: every printed table with what would fill its cells, and one with ours beside the print."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.benchmarks.declared import declared
from evidence_assets.cli.console import JsonOption, LakeOption, as_json_only, out, sentences
from evidence_assets.cli.console import table as show_table
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction.cells import Cell, candidates, declared_cells
from evidence_assets.reproduction.ours import data_needed, differences, scores_beside, with_ours
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
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Show every printed table: cells that can be filled and are, what that takes, and why not others."""
    succeeded = True
    with sentences():
        if run and (lake or as_json or not table):
            raise BadInput("--run makes one table in EVIDENCE_LAKE and prints what is made: not with --lake or --json")
        name = profile or os.environ.get(PROFILE_VARIABLE) or "paper"
        load(name)
        os.environ[PROFILE_VARIABLE] = name
        tables = printed_tables(_cells(lake))
        if not table:
            summaries = [summary(*item) for item in tables.items()]
            if not as_json_only(as_json, summaries):
                _list(summaries)
            return
        table = table.lower()
        if table not in tables:
            near = nearest(table, tables)
            raise BadInput(f"no table {table!r} is printed; did you mean {near!r}? `evidence reproduce` lists them")
        if run:
            succeeded = _run(tables[table])
            tables = printed_tables(_cells(lake))
        rows = [row for cell in tables[table] for row in _rows(cell)]
        told = summary(table, tables[table])
        if not as_json_only(as_json, told | {"cells": rows}):
            _show(told, rows)
    if not succeeded:
        raise typer.Exit(1)


def printed_tables(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The cells of each table, figure or passage in the order of print, by name: ``thesis-7.3``, ``thesis-fig-3.4``."""
    grouped: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[f"{cell.figure.document}-{cell.figure.table}".lower().replace(" ", "-")].append(cell)
    return dict(grouped)


def _harvests(cells: Iterable[Cell]) -> list[Variant]:
    """The harvests that fill a table, each once."""
    filling = {candidate.variant.place: candidate.variant for cell in cells for candidate in cell.candidates}
    return [filling[place] for place in sorted(filling) if filling[place].family == "knowledge"]


def _answering(cells: Iterable[Cell]) -> dict[str, list[str]]:
    """The variants that answer for a table, with their models, by benchmark."""
    labels: dict[str, set[str]] = defaultdict(set)
    for candidate in (c for cell in cells for c in cell.candidates):
        if candidate.variant.family != "knowledge" and candidate.variant.method != RECORDED:
            labels[candidate.benchmark].add(candidate.variant.label)
    return {benchmark: sorted(names) for benchmark, names in sorted(labels.items())}


def summary(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Counts of a table, reasons, and what filling it takes."""
    first = cells[0].figure
    fillable = [candidate for cell in cells for candidate in cell.candidates]
    recorded = sorted({c.benchmark for cell in cells if cell.from_records for c in cell.candidates})
    commands = [f"evidence run {name} --variants {','.join(labels)}" for name, labels in _answering(cells).items()]
    commands += [f"evidence reproduce {name} --run"] if _harvests(cells) else []
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for cell in cells:
        if not cell.fillable:
            reasons[cell.reason][cell.lacks] += 1
    metrics, benchmarks = (", ".join({getattr(c.figure, n): 0 for c in cells}) for n in ("metric", "benchmark"))
    return {
        "table": name,
        "title": metrics + (f" on {benchmarks}" if benchmarks else ""),
        "printed": len(cells),
        "fillable": sum(cell.fillable for cell in cells),
        "filled": sum(cell.filled for cell in cells),
        "from_records": sum(cell.from_records for cell in cells),
        "reasons": [{"reason": why, "cells": of.total(), "of": dict(of)} for why, of in reasons.items()],
        "presets": [p.name for p in presets().values() if f"{first.document} {first.table}" in (*p.tables, *p.beside)],
        "data": data_needed(fillable),
        "models": sorted({c.model_id for c in fillable if c.variant.method != RECORDED} - {""}),
        "run": commands + [f"evidence run {benchmark} --variants {RECORDED}" for benchmark in recorded],
    }


def _run(cells: Sequence[Cell]) -> bool:
    """Make what fills a table, benchmark by benchmark; whether all of it succeeded."""
    from evidence_assets.cli.making import run as make
    from evidence_assets.cli.run import benchmark_named, chosen_variants, harvested, opt_in

    answering, harvesting = _answering(cells), _harvests(cells)
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


def _list(summaries: Sequence[Mapping[str, Any]]) -> None:
    headers = ("table", "title", "printed", "fillable", "filled", "presets", "data", "models")
    rows = [[s[name] if isinstance(s[name], str | int) else ", ".join(s[name]) for name in headers] for s in summaries]
    show_table(headers, rows, title=f"Printed tables with the models and benchmarks of profile {load().name}")
    counts = [sum(s[name] for s in summaries) for name in ("printed", "fillable", "filled", "from_records")]
    out.print(
        "{:,} cells are printed, {:,} can be filled, {:,} are filled.\n"
        "{:,} are of systems of others: files of what they answered fill them (`raw/recorded`), nothing is run.\n\n"
        "Why the others cannot be:".format(*counts)
    )
    lacking: dict[str, Counter[str]] = defaultdict(Counter)
    for reason in (reason for s in summaries for reason in s["reasons"]):
        lacking[reason["reason"]].update(reason["of"])
    for why, of in sorted(lacking.items(), key=lambda item: -item[1].total()):
        told = ", ".join(f"{what} ({n})" for what, n in of.most_common())
        out.print(f"  {of.total():>5,}  {why} {told}", markup=False)
    out.print("\nWhere the data are obtained:")
    for name, holds in sorted({item for s in summaries for item in s["data"].items()}):
        out.print(f"  {name}: {holds or 'not stated'}", markup=False)
    out.print("\n`evidence reproduce TABLE` shows ours beside each printed cell; `evidence plan PRESET` what it costs.")


def _show(told: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
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
    show_table(headers, shown, title=f"{told['table']}: {told['title']}")
    out.print("{printed} printed, {fillable} can be filled, {filled} are filled".format(**told))
    if any(row["ours"] is not None for row in rows):
        out.print("difference: ours − printed; * where the interval leaves the printed figure out", style="dim")
    if told["fillable"]:
        lines = [f"To fill it, with profile {load().name}:", *told["run"]]
        out.print("\n  ".join(lines), markup=False, soft_wrap=True)
