"""Commands that materialize assets and show scores: ``evidence demo``, ``run``, ``scoreboard``…"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks, list_joined_harvests
from evidence_assets.cli.console import (
    LakeOption,
    leave_out_empty,
    out,
    print_table,
    print_word_table,
    report_errors,
    split_constant,
    strip_controls,
)
from evidence_assets.cli.processes import start_process_server
from evidence_assets.experiment.scores.scoreboard import SCORES_QUERY
from evidence_assets.experiment.variants import Variant
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.scores import CHANGED_QUERY, format_score, mark_stale
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.row_locations import query_rows
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import load

if TYPE_CHECKING:
    from evidence_assets.cli.run_selection import RunSelection
    from evidence_assets.cli.runner import Report, RunProblem

commands = typer.Typer(rich_markup_mode=None)
training = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Train a model on graded questions.")
commands.add_typer(training, name="train")


@commands.command()
def demo() -> None:
    """Materialize all assets and show example answers."""
    with report_errors():
        start_process_server()  # it imports libraries while this process does
        from evidence_assets import profiles
        from evidence_assets.cli.runner import run_all
        from evidence_assets.transport.search import count_processors

        report = run_all(processes=min(2, count_processors(), profiles.load().pools.gpu))
    scoreboard()
    _print_examples()
    print_report(report, "evidence demo")
    out.print("Next: `make ui` for the Dagster UI, `evidence explore` to browse answers, `evidence ask` to ask.")


@commands.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Benchmark, or graph that joins harvested relations.")],
    variant_names: Annotated[str, typer.Option("--variants", help="Such as bm25,bm25@model. Default: all.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only print the plan.")] = False,
    has_answers: Annotated[
        bool, typer.Option("--answers/--evidence-only", help="Answer questions, or only score their evidence.")
    ] = True,
) -> None:
    """Materialize everything that one benchmark's scores need, or one graph.

    Rows whose inputs are unchanged are reused. `evidence add benchmark` adds questions of your own. With a graph, its
    relations are harvested, too; it needs no benchmark.
    """
    with report_errors():
        from evidence_assets.cli.run_selection import find_benchmark, select_assets, select_variants

        if name in list_joined_harvests() and name not in all_benchmarks():
            values = {"--variants": variant_names, "--plan": plan, "--evidence-only": not has_answers}
            _run_graph(name, [option for option, value in values.items() if value])
            return
        declared = find_benchmark(name)
        variants = select_variants(declared, [name for name in variant_names.replace(" ", "").split(",") if name])
        from evidence_assets.assets.definitions import load_definitions
        from evidence_assets.cli.runner import count_processes, run_all

        asset_graph = load_definitions().resolve_asset_graph()
        selection = select_assets(asset_graph, declared, variants, has_answers=has_answers)
        if plan:
            _print_plan(selection, declared, variants if has_answers else ())
            return
        report = run_all(selection, count_processes())
    scoreboard(name)
    _print_harvests(selection)
    print_report(report, f"evidence run {name}")
    ask = f", `evidence ask QUESTION --corpus {declared.corpus}` to query its corpus" if declared.corpus else ""
    out.print(f"Next: `evidence explore` to browse the answers, `dagster dev` or `make ui` for the runs{ask}.")


def _run_graph(name: str, options: Sequence[str]) -> None:
    """Materialize a graph and the harvests that it joins."""
    if options:
        raise BadInput(f"{name} is a graph, without questions: remove {' and '.join(options)}")
    from evidence_assets.assets.definitions import load_definitions
    from evidence_assets.cli.run_selection import select_graph
    from evidence_assets.cli.runner import count_processes, run_all

    selection = select_graph(load_definitions().resolve_asset_graph(), name)
    report = run_all(selection, count_processes())
    _print_harvests(selection)
    print_report(report, f"evidence run {name}")
    out.print(f"Next: `evidence ask QUESTION --graph {name}`, `evidence explore` to browse its triples.")


HARVESTED_QUERY = """
    WITH joined AS (SELECT DISTINCT unnest(triple_ids) AS triple_id FROM kg_edges WHERE asset = $2)
    SELECT relation_id, count(*), count(joined.triple_id) FROM triples LEFT JOIN joined USING (triple_id)
    WHERE asset = $1 GROUP BY relation_id ORDER BY relation_id
"""
"""Of each relation, the triples of a harvest, and those of them that are in a graph."""


def _print_harvests(selection: RunSelection) -> None:
    """Print how many triples of each relation were harvested, and how many are in the graphs of a selection."""
    keys = {"/".join(key.path) for key in selection.keys or ()}
    graphs = [(name, assets) for name, assets in list_joined_harvests().items() if f"knowledge/{name}/edges" in keys]
    joined = [(asset, name) for name, assets in graphs for asset in assets]
    with connect() as connection:
        for asset, name in joined:
            rows = connection.execute(HARVESTED_QUERY, [asset, f"knowledge/{name}/edges"]).fetchall()
            for relation, harvested, arrived in rows:
                out.print(f"{relation}: {harvested:,} triples in {asset}, {arrived:,} of them in the graph {name}")
            if not rows:
                out.print(f"{asset} has no triples for the graph {name}; its relations are in data_lake/raw/seeds")


@training.command("confidence")
def train_confidence() -> None:
    """Fit the confidence of answers on the graded questions of the lake.

    Each family of questions and each model has its own fit, on the first half of each benchmark by question id. The
    next run of a benchmark uses it; without it, answers of the embedded models use the packaged fit.
    """
    with report_errors():
        import dagster as dg

        from evidence_assets.cli.run_selection import RunSelection, enable_presets

        enable_presets({"confidence"})
        from evidence_assets.cli.runner import run_all
        from evidence_assets.experiment.scores.calibration import CONFIDENCE_ASSET
        from evidence_assets.reasoning.confidence import FAMILIES, read_fits

        keys = frozenset(dg.AssetKey([*CONFIDENCE_ASSET.split("/"), family]) for family in FAMILIES)
        report = run_all(RunSelection(keys))
    print_report(report, "evidence train confidence")
    fits = read_fits(Lake(find_lake()))
    rows = [(*key, sum(fit.sets.values()), ", ".join(fit.sets)) for key, fit in fits.items()]
    print_table(("questions", "model", "n", "fitted on"), rows, title="Fits in use, also packaged ones")
    out.print("Next: `evidence run BENCHMARK`.")


def _print_plan(selection: RunSelection, benchmark: Benchmark, variants: Sequence[Variant]) -> None:
    """Print the cost of a run: assets, and questions, model calls and time of the variants that answer."""
    import dagster as dg

    from evidence_assets.assets.planning import BenchmarkSizes, plan_work
    from evidence_assets.assets.resources import LakeResource
    from evidence_assets.cli.runner import dagster_home

    dagster_home()
    with dg.DagsterInstance.get() as instance:
        sizes = BenchmarkSizes(LakeResource().open())
        timed: set[str] = set()
        work = [plan_work(variant, benchmark, sizes, instance, timed=timed) for variant in variants]
    lines = []
    for each in work:
        numbers = ("?" if n is None else f"{n:,}" for n in (each.items, each.requests))
        time = "not measured here" if each.seconds is None else f"{timedelta(seconds=round(each.seconds))}"
        lines.append((each.variant, *numbers, time))
    title = f"{benchmark.name} with profile {load().name}"
    if lines:
        print_table(("variant", "questions", "model calls", "time"), lines, title=title)
        out.print(
            "model calls: at most, without repairs; time: from the latest runs of the variant's steps here, with "
            "evidence, and steps that variants share once; ?: unknown without the files of the benchmark",
            style="dim",
        )
    out.print(f"{len(selection.keys or ())} assets will be materialized or reused.")


def print_report(report: Report, command: str) -> None:
    """Print a report; exits with status 1 if anything failed."""
    out.print(
        f"\n{report.assets} assets, {report.materializations} materializations in {report.seconds:.0f} s; "
        f"rows unchanged {report.rows_unchanged:,}, computed {report.rows_computed:,}; "
        f"run {report.run_id[:8]}"
    )
    if report.warnings:
        out.print("\nThese assets were materialized with warnings:", style="yellow")
        _print_problems(report.warnings)
    if not report.failures:
        return
    out.print("\nThese assets failed; all others were materialized:", style="red")
    _print_problems(report.failures)
    if report.skipped:
        skipped = ", ".join(report.skipped)
        out.print(f"Skipped, because they depend on failed assets: {skipped}")
    out.print(f"Fix the errors above and run `{command}` again; finished work is reused.")
    raise typer.Exit(1)


def _print_problems(problems: Sequence[RunProblem]) -> None:
    for problem in problems:
        label = f"{problem.name} [{problem.partition}]" if problem.partition else problem.name
        out.print(strip_controls(f"  {label}: {problem.message}"))


@commands.command()
def scoreboard(
    benchmark: Annotated[str | None, typer.Argument(help="Show only this benchmark.")] = None, lake: LakeOption = None
) -> None:
    """Show the accuracy of every variant on every benchmark.

    Each value has a 95 % interval, and the published figure if there is one.
    """
    with report_errors(), connect(lake) as connection:
        all_rows = query_rows(connection, SCORES_QUERY)
        rows = [row for row in all_rows if benchmark in (None, row["scope_id"])]
        if benchmark and not rows and benchmark not in all_benchmarks():
            scored = sorted({row["scope_id"] for row in all_rows})
            raise BadInput(f"there is no benchmark {benchmark!r}; these have scores: {', '.join(scored) or 'none'}")
        rows = mark_stale(rows, query_rows(connection, CHANGED_QUERY))
    if not rows:
        out.print(f"{benchmark or 'The lake'} has no scores; `evidence run BENCHMARK` computes them.")
        return
    for (name, metric), group in groupby(rows, key=lambda row: (row["scope_id"], row["metric"])):
        _print_scores(f"Scoreboard of {name}, {metric}", list(map(format_score, group)))
    _print_notes(rows)


def _print_notes(rows: Sequence[Row]) -> None:
    """Explain the columns of the scoreboard."""
    if any(row["metric"] == "accuracy" for row in rows):
        out.print(
            "accuracy counts every question's best option; supported is the share of answers that the evidence "
            "supports; if supported: accuracy of these answers",
            style="dim",
        )
    if any(row["stale"] for row in rows):
        out.print(
            "stale: questions, evidence or answers of these scores have changed or are gone; `evidence run BENCHMARK "
            "--variants NAMES` answers again",
            style="dim",
        )
    if any(row["published"] is not None for row in rows):
        out.print("diff: value − published; *: the interval excludes the published figure", style="dim")


SCORE_COLUMNS = ("variant", "reasoner", "value", "95 %", "n", "supported", "if supported")
PUBLISHED_COLUMNS = ("published", "diff", "source")


def _print_scores(title: str, rows: Sequence[Sequence[Any]]) -> None:
    """Print scores of one benchmark and metric, and those with published figures beside these.

    What is equal in all rows is printed once, so that the table fits into 80 columns.
    """
    n_columns = len(SCORE_COLUMNS)
    headers, lines = leave_out_empty(SCORE_COLUMNS, [row[:n_columns] for row in rows])
    constants, headers, lines = split_constant(headers, lines, ("reasoner", "n"))
    title = ", ".join([title, *(f"{name} {value}" for name, value in constants.items())])
    out.print(f"\n{strip_controls(title)}", style="bold")
    print_word_table(headers, lines)
    published = [[row[0], row[2], *row[n_columns:]] for row in rows if row[n_columns]]
    if published:
        out.print()
        print_word_table(*leave_out_empty(("variant", "value", *PUBLISHED_COLUMNS), published))


EXAMPLE_ANSWERS = """
    SELECT prediction_id, row_number() OVER (PARTITION BY task ORDER BY confidence DESC, prediction_id) AS place
    FROM predictions p JOIN questions q USING (question_id)
    WHERE status = 'answered' AND list_contains(gold, answer) AND len(options) > 0
    QUALIFY place <= 2 ORDER BY place, task LIMIT 3
"""


def _print_examples() -> None:
    """Print three answers with their evidence, as `evidence ask` does."""
    with connect() as connection:
        for prediction_id, _ in connection.execute(EXAMPLE_ANSWERS).fetchall():
            text = format_answer(view_answer(connection, prediction_id), options=False)
            out.print(f"\n{strip_controls(text)}", end="")
