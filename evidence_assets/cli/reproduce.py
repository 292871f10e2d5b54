"""``evidence reproduce``: lists the papers' tables, or compares one of them with our scores."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence_assets.cli.console import JsonOption, LakeOption, out, print_if_json, print_table, report_errors
from evidence_assets.experiment.scores.charts import Score as ChartScore
from evidence_assets.experiment.scores.charts import draw_scores
from evidence_assets.explorer import scores
from evidence_assets.lake.catalogue import LAKE_VARIABLE, connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import PROFILE_VARIABLE, load
from evidence_assets.reproduction import cells as paper_cells
from evidence_assets.reproduction.cells import Cell
from evidence_assets.reproduction.data_files import RequiredData
from evidence_assets.reproduction.presets import presets
from evidence_assets.reproduction.published_figures import Figure, figures
from evidence_assets.text.spelling import did_you_mean

commands = typer.Typer(rich_markup_mode=None)
NOTE = "differences, or why there is no score"
FIGURE_NOTE = "note on the figure"
CELL_COLUMNS = ("benchmark", "system", "variant", "model", "metric", "printed", "ours", "low", "high")
NEEDS_RECORDS = "needs recorded answers of this system (raw/recorded)"


@commands.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="Such as thesis-7.3. Lists all tables without it.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only print what the table needs.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Fill the table; run it again to continue.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw our scores and the printed ones as SVG.")] = None,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """List the papers' tables, or compare, plan or fill one table.

    The list says how many cells can be filled, which data and models that needs, and why other cells stay empty.
    Models and benchmarks are those of EVIDENCE_PROFILE; by default those of the packaged profile that has most models
    of the table, and paper for the list.
    """
    with report_errors():
        actions = [bool(option) for option in (plan, run, plot)]
        if any(actions) and not table:
            raise BadInput("--plan, --run and --plot need a table; `evidence reproduce` lists all")
        if sum(actions) > 1 or (run and as_json):
            raise BadInput("use one of --plan, --run and --plot, and --json without --run")
        if lake:
            os.environ[LAKE_VARIABLE] = str(lake)
        table = _choose_table(table)
        tables = load_tables(lake)
        if not table:
            _show_all(tables, as_json)
        elif plan:
            _print_plan(plan_table(table, tables[table], RequiredData()), as_json)
        elif run:
            _run_table(table, tables[table])
        elif plot:
            _draw_table(table, tables[table], plot)
        else:
            _show_table(table, tables[table], as_json)


def _choose_table(name: str) -> str:
    """The name of a table as in the list; chooses the profile for it unless EVIDENCE_PROFILE does."""
    figures_by_table: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures():
        figures_by_table[_name_table(figure)].append(figure)
    name = name.lower()
    if name and name not in figures_by_table:
        raise BadInput(f"unknown table {name!r}{did_you_mean(name, figures_by_table)} `evidence reproduce` lists all")
    profile = paper_cells.find_best_profile(figures_by_table[name]) if name else "paper"
    os.environ[PROFILE_VARIABLE] = os.environ.get(PROFILE_VARIABLE) or profile
    return name


def _draw_table(name: str, cells: Sequence[Cell], file: Path) -> None:
    """Write a picture of a table's shares: ours with 95 % intervals, beside the printed figures."""
    if file.suffix != ".svg" or not file.parent.is_dir():
        raise BadInput("must end in .svg and be in a folder that exists", file=file, field="--plot")
    chart_scores = [score for cell in cells for score in list_chart_scores(cell)]
    if not chart_scores:
        raise BadInput(f"{name} has no share between 0 and 1 in this lake: `evidence reproduce {name} --run` fills it")
    file.write_text(draw_scores(name, chart_scores, len(chart_scores)), encoding="utf-8")
    out.print(f"{file}: {len(chart_scores)} scores beside the printed figures")


def list_chart_scores(cell: Cell) -> list[ChartScore]:
    """Our scores of a cell that are shares, as rows of a picture; counts, times and differences are none."""
    figure = cell.figure
    if figure.scale not in ("percent", "fraction") or figure.follows in ("difference", "gain"):
        return []
    return [
        ChartScore(f"{figure.benchmark} {figure.metric_and_label} {s.variant}", s.value, s.low, s.high, figure.fraction)
        for s in cell.scores
        if 0 <= s.value <= 1
    ]


def _name_table(figure: Figure) -> str:
    return f"{figure.document}-{figure.table}".lower().replace(" ", "-")


def _cite_table(cells: Sequence[Cell]) -> str:
    """The table of these cells as presets name it: ``thesis 7.3``."""
    return f"{cells[0].figure.document} {cells[0].figure.table}"


def _show_all(tables: Mapping[str, Sequence[Cell]], as_json: bool) -> None:
    """Print a line for each table, and the totals."""
    finder = RequiredData()
    summaries = [_summarize(*item, finder) for item in tables.items()]
    if not print_if_json(as_json, summaries):
        _print_list(summaries, _summarize("", [cell for cells in tables.values() for cell in cells], finder))


def _show_table(name: str, cells: Sequence[Cell], as_json: bool) -> None:
    """Print a table's cells with our scores."""
    rows = [row for cell in cells for row in _build_rows(cell)]
    summary = _summarize(name, cells, RequiredData())
    if not print_if_json(as_json, summary | {"cells": rows}):
        _print_cells(summary, rows)


def plan_table(name: str, cells: Sequence[Cell], finder: RequiredData) -> dict[str, Any]:
    """What filling a table takes, by part."""
    from evidence_assets.cli.table_plans import build_plan

    head = {"table": name, "title": _format_title([cell.figure for cell in cells])}
    return head | build_plan(cells, _cite_table(cells), _count_reasons(cells), finder)


def _print_plan(plan: Mapping[str, Any], as_json: bool) -> None:
    from evidence_assets.cli.table_plans import print_plan

    if not print_if_json(as_json, plan):
        print_plan(plan)


def _run_table(name: str, cells: Sequence[Cell]) -> None:
    """Materialize what fills a table, then print it."""
    from evidence_assets.cli.table_runs import load_selection, runnable_sources

    sources = runnable_sources(cells)
    if not sources:
        reasons = "; ".join(dict.fromkeys(cell.reason or NEEDS_RECORDS for cell in cells))
        raise BadInput(f"no cell of {name} can be filled with profile {load().name}: {reasons}")
    selection = load_selection(sources, _cite_table(cells))
    from evidence_assets.cli.materialize import print_report
    from evidence_assets.cli.runner import count_processes, run_all

    out.print(f"{name} with profile {load().name}: {len(selection.keys or ())} assets")
    report = run_all(selection, count_processes())
    _show_table(name, load_tables(None)[name], as_json=False)  # the default lake is that of the run, and has its times
    print_report(report, f"evidence reproduce {name} --run")


def load_tables(lake: Path | None) -> dict[str, list[Cell]]:
    """Cells of each table, figure or passage of the papers, by name: ``thesis-7.3``, ``thesis-fig-3.4``."""
    sources = paper_cells.find_cell_sources()
    cells = paper_cells.build_cells(sources)
    if lake or (find_lake() / "format.json").exists():
        with connect(lake) as connection:
            measured_scores = paper_cells.load_scores(connection)
        if not lake:
            from dagster import DagsterInstance

            from evidence_assets.assets.planning import measured_times
            from evidence_assets.cli.runner import dagster_home

            dagster_home()
            with DagsterInstance.get() as instance:
                measured_scores |= measured_times(instance, sources, Lake(find_lake()))
        cells = paper_cells.add_scores(cells, measured_scores)
    tables: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        tables[_name_table(cell.figure)].append(cell)
    return dict(tables)


def _summarize(name: str, cells: Sequence[Cell], finder: RequiredData) -> dict[str, Any]:
    """Counts, reasons and requirements of a table."""
    sources = [source for cell in cells for source in cell.sources]
    published_in = _cite_table(cells)
    return {
        "table": name,
        "title": _format_title([cell.figure for cell in cells]),
        "printed": len(cells),
        "fillable": sum(not cell.reason for cell in cells),
        "filled": sum(cell.filled for cell in cells),
        "from_records": sum(cell.from_records for cell in cells),
        "reasons": _count_reasons(cells),
        "presets": [preset.name for preset in presets().values() if published_in in preset.all_tables],
        "data": {files.name: files.contents for files in paper_cells.required_data(sources, finder)},
        "models": sorted({s.model_id for s in sources if not s.is_recorded} - {""}),
        "run": [f"evidence reproduce {name} --run"] if any(not source.is_recorded for source in sources) else [],
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
        note = NEEDS_RECORDS if cell.from_records else note
        names = ", ".join(sorted({source.variant.label for source in cell.sources}))
        rows = [dict.fromkeys(("ours", "low", "high", "difference", "n")) | {"our variant": names, NOTE: note}]
    return [head | row | {FIGURE_NOTE: figure.note} for row in rows]


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
        "cells with our scores; `--plan` says what it\nneeds, `--run` fills it.".format(**total)
    )


def _print_cells(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    texts = dict.fromkeys(row[FIGURE_NOTE] for row in rows if row[FIGURE_NOTE])
    notes = {text: f"[{number}]" for number, text in enumerate(texts, 1)}
    columns = (*CELL_COLUMNS, "difference", "our variant", NOTE)
    title = f"{summary['table']}: {summary['title']}"
    print_table(columns, [_format_cell(row, notes) for row in rows], title=title)
    for text, mark in notes.items():
        out.print(f"{mark} {text}")
    out.print("{printed} printed, {fillable} can be filled, {filled} are filled".format(**summary))
    out.print("difference: ours − printed; *: our 95 % interval excludes the printed figure", style="dim")
    for command in summary["run"]:
        out.print(f"to fill it with profile {load().name}: `{command}`; --plan says what it needs")


def _format_cell(row: Mapping[str, Any], notes: Mapping[str, str]) -> list[Any]:
    """A cell as a line of the terminal's table; ``notes`` maps notes on figures to their marks."""
    mark = notes.get(row[FIGURE_NOTE], "")
    texts = dict(row) | {"printed": f"{row['printed']} {mark}".rstrip()}
    difference = scores.format_difference({**row, "value": row["ours"], "published": row["printed"]})
    return [*(texts[name] for name in CELL_COLUMNS), difference, row["our variant"], row[NOTE]]
