"""``evidence reproduce``: lists the papers' tables, or compares one of them with our scores."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.cli.console import JsonOption, LakeOption, out, print_if_json, print_table, report_errors
from evidence_assets.explorer import scores
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction import cells as paper_cells
from evidence_assets.reproduction.cells import Cell
from evidence_assets.reproduction.presets import presets
from evidence_assets.reproduction.published_figures import Figure
from evidence_assets.text.spelling import did_you_mean

commands = typer.Typer(rich_markup_mode=None)
NOTE = "differences, or why there is no score"


@commands.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="Such as thesis-7.3. Lists all tables without it.")] = "",
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """List the papers' tables, or compare one table with our scores.

    The list says how many cells can be filled, which data and models that needs, and why other cells stay empty.
    Models and benchmarks are those of EVIDENCE_PROFILE; the default is the profile paper.
    """
    with report_errors():
        os.environ[PROFILE_VARIABLE] = os.environ.get(PROFILE_VARIABLE) or "paper"
        tables = _load_tables(lake)
        if not table:
            summaries = [_summarize(*item) for item in tables.items()]
            if not print_if_json(as_json, summaries):
                _print_list(summaries, _summarize("", [cell for cells in tables.values() for cell in cells]))
            return
        table = table.lower()
        if table not in tables:
            raise BadInput(f"unknown table {table!r}{did_you_mean(table, tables)} `evidence reproduce` lists all")
        rows = [row for cell in tables[table] for row in _build_rows(cell)]
        summary = _summarize(table, tables[table])
        if not print_if_json(as_json, summary | {"cells": rows}):
            _print_cells(summary, rows)


def _load_tables(lake: Path | None) -> dict[str, list[Cell]]:
    """Cells of each table, figure or passage of the papers, by name: ``thesis-7.3``, ``thesis-fig-3.4``."""
    sources = paper_cells.find_cell_sources()
    cells = paper_cells.build_cells(sources)
    if lake or (find_lake() / "format.json").exists():
        with connect(lake) as connection:
            measured_scores = paper_cells.load_scores(connection)
        if measured_scores and not lake:
            from dagster import DagsterInstance

            from evidence_assets.assets.planning import measured_times
            from evidence_assets.cli.runner import dagster_home

            dagster_home()
            with DagsterInstance.get() as instance:
                measured_scores |= measured_times(instance, sources, Lake(find_lake()))
        cells = paper_cells.add_scores(cells, measured_scores)
    tables: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        tables[f"{cell.figure.document}-{cell.figure.table}".lower().replace(" ", "-")].append(cell)
    return dict(tables)


def _list_runs(cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """Arguments of ``evidence run`` that fill these cells: benchmarks with their variants."""
    labels: dict[str, set[str]] = defaultdict(set)
    for source in (source for cell in cells for source in cell.sources):
        if source.scope is None and not source.is_recorded:
            labels[source.benchmark].add(source.variant.label)
    return [(benchmark, ",".join(sorted(names))) for benchmark, names in sorted(labels.items())]


def _summarize(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Counts, reasons and requirements of a table."""
    sources = [source for cell in cells for source in cell.sources]
    published_in = f"{cells[0].figure.document} {cells[0].figure.table}"
    return {
        "table": name,
        "title": _format_title([cell.figure for cell in cells]),
        "printed": len(cells),
        "fillable": sum(not cell.reason for cell in cells),
        "filled": sum(cell.filled for cell in cells),
        "from_records": sum(cell.from_records for cell in cells),
        "reasons": _count_reasons(cells),
        "presets": [preset.name for preset in presets().values() if published_in in preset.all_tables],
        "data": paper_cells.required_data(sources),
        "models": sorted({s.model_id for s in sources if not s.is_recorded} - {""}),
        "run": [f"evidence run {benchmark} --variants {labels}" for benchmark, labels in _list_runs(cells)],
    }


def _format_title(figures: Sequence[Figure]) -> str:
    """The metrics and benchmarks of a table."""
    metrics = ", ".join(dict.fromkeys(figure.metric for figure in figures))
    benchmarks = ", ".join(dict.fromkeys(figure.benchmark for figure in figures))
    return f"{metrics} on {benchmarks}" if benchmarks else metrics


def _count_reasons(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Why cells cannot be filled, with the numbers of cells by what they lack."""
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for cell in cells:
        if cell.reason:
            reasons[cell.reason][cell.lacks] += 1
    return [{"reason": reason, "cells": lacks.total(), "of": dict(lacks)} for reason, lacks in reasons.items()]


def _build_rows(cell: Cell) -> list[dict[str, Any]]:
    """A row for each of our scores, or one row with the reason why there is none."""
    figure = cell.figure
    head: dict[str, Any] = {name: getattr(figure, name) for name in ("benchmark", "system", "variant", "model")}
    head |= {"metric": figure.metric_and_label, "printed": round(figure.fraction, 10)}
    rows = [
        {"ours": s.value, "low": s.low, "high": s.high, "difference": round(s.value - figure.fraction, 10), "n": s.n}
        | {"our variant": s.variant, NOTE: "; ".join(paper_cells.describe_differences(figure, s))}
        for s in cell.scores
    ]
    if not rows:
        note = f"{cell.reason} ({cell.lacks})" if cell.reason else "not computed yet"
        note = "needs recorded answers of this system (raw/recorded)" if cell.from_records else note
        names = ", ".join(sorted({source.variant.label for source in cell.sources}))
        rows = [dict.fromkeys(("ours", "low", "high", "difference", "n")) | {"our variant": names, NOTE: note}]
    return [head | row | {"note on the figure": figure.note} for row in rows]


def _print_list(summaries: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> None:
    headers = ("table", "title", "printed", "fillable", "filled", "presets", "data", "models")
    rows = [[s[name] if isinstance(s[name], str | int) else ", ".join(s[name]) for name in headers] for s in summaries]
    print_table(headers, rows, title=f"Tables of the papers with the models and benchmarks of profile {load().name}")
    rows = []
    for reason in sorted(total["reasons"], key=lambda reason: -reason["cells"]):
        missing = ", ".join(f"{name} ({n})" for name, n in Counter(reason["of"]).most_common())
        rows.append([reason["cells"], reason["reason"], missing])
    print_table(("cells", "why they cannot be filled", "what is missing"), rows)
    print_table(("data", "where to get them"), sorted(total["data"].items()))
    out.print(
        "{printed:,} cells are printed, {fillable:,} can be filled, {filled:,} are filled.\n{from_records:,} cells of "
        "other systems need files of their recorded answers in raw/recorded.\n`evidence reproduce TABLE` compares its "
        "cells with our scores; `evidence run NAME --plan` shows the cost.".format(**total)
    )


def _print_cells(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    columns = ("benchmark", "system", "variant", "model", "metric", "printed", "ours", "low", "high")
    lines = []
    for row in rows:
        difference = scores.format_difference({**row, "value": row["ours"], "published": row["printed"]})
        lines.append([*(row[name] for name in columns), difference, row["our variant"], row[NOTE]])
    print_table((*columns, "difference", "our variant", NOTE), lines, title=f"{summary['table']}: {summary['title']}")
    out.print("{printed} printed, {fillable} can be filled, {filled} are filled".format(**summary))
    out.print("difference: ours − printed; *: our 95 % interval excludes the printed figure", style="dim")
    if summary["fillable"]:
        out.print(f"to fill it with profile {load().name}:")
        commands = summary["run"] or [f"materialize tag:preset/{name} in the Dagster UI" for name in summary["presets"]]
        out.print("".join(f"  {command}\n" for command in commands), end="")
