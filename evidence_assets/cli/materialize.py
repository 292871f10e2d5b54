"""Commands that make assets and show what came of it: ``evidence demo``, ``run``, ``scoreboard``; and the ``limits``
of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from evidence_assets.cli.console import LakeOption, out, print_table, report_errors, strip_controls
from evidence_assets.experiment.variants import Variant
from evidence_assets.explorer.scores import SCORES_QUERY, format_score
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.row_locations import query_rows

if TYPE_CHECKING:
    from evidence_assets.cli.run_selection import RunSelection
    from evidence_assets.cli.runner import Report

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def demo() -> None:
    """Materialize all assets of the profile in use, then show scores and three answers with their evidence."""
    with report_errors():
        from evidence_assets import profiles
        from evidence_assets.cli.runner import run_all
        from evidence_assets.transport.search import count_processors

        report = run_all(processes=min(2, count_processors(), profiles.load().pools.gpu))
    scoreboard()
    _examples()
    print_report(report, "evidence demo")
    out.print("Open the Dagster UI with `make ui`; ask with `evidence ask`, look with `evidence explore`.")


@commands.command()
def run(
    benchmark: Annotated[str, typer.Argument(help="A declared benchmark; `evidence add benchmark` declares one.")],
    chosen: Annotated[
        str,
        typer.Option("--variants", help="Such as bm25,bm25@model; all that are loaded by default."),
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be made.")] = False,
) -> None:
    """Make all that the answers to one benchmark need, from its files to its scores; unchanged work is reused."""
    with report_errors():
        from evidence_assets.cli.run_selection import find_benchmark, select_assets, select_variants

        declared = find_benchmark(benchmark)
        variants = select_variants(declared, [name for name in chosen.replace(" ", "").split(",") if name])
        from evidence_assets.cli.runner import run_all
        from evidence_assets.definitions import defs

        wanted = select_assets(defs().resolve_asset_graph(), declared, variants)
        if plan:
            _plan(wanted, benchmark, variants)
            return
        report = run_all(wanted)
    scoreboard(benchmark)
    print_report(report, f"evidence run {benchmark}")
    out.print(
        f"Look at the answers with `evidence explore`, at the runs with `make ui`; ask {benchmark}'s corpus "
        f"with `evidence ask`."
    )


def _plan(wanted: RunSelection, benchmark: str, variants: Sequence[Variant]) -> None:
    """How many assets are looked at, and what is known of the time that it takes."""
    import dagster as dg

    from evidence_assets.assets.planning import plan_variants
    from evidence_assets.assets.resources import LakeResource
    from evidence_assets.cli.experiments import show_plan
    from evidence_assets.cli.runner import dagster_home

    dagster_home()
    with dg.DagsterInstance.get() as instance:
        planned = plan_variants(variants, [benchmark], LakeResource().open(), instance)
    show_plan(planned, benchmark)
    out.print(f"{len(wanted.keys or ())} assets are made or reused on the way.")


def print_report(report: Report, command: str) -> None:
    """What a materialization did, and what failed; ends with exit status 1 where anything did."""
    memory = sum(report.peaks.values())
    out.print(
        f"\n{report.assets} assets, {report.materializations} materializations in {report.seconds:.0f} s; "
        f"rows reused {report.rows_reused:,}, computed {report.rows_computed:,}; peak memory {memory:.2f} GiB"
    )
    if not report.failures:
        return
    out.print("\nThese failed, and everything else was made:", style="red")
    for failure in report.failures:
        where = f"{failure.name} [{failure.partition}]" if failure.partition else failure.name
        out.print(strip_controls(f"  {where}: {failure.said}"), markup=False, soft_wrap=True)
    if report.left_out:
        left_out = ", ".join(report.left_out)
        out.print(f"Left out or as before, because they read these: {left_out}", markup=False, soft_wrap=True)
    out.print(f"Fix the errors above and run `{command}` again; finished work is reused.")
    raise typer.Exit(1)


@commands.command()
def scoreboard(
    benchmark: Annotated[str | None, typer.Argument(help="Only this benchmark.")] = None, lake: LakeOption = None
) -> None:
    """Accuracy of every variant on every benchmark, with 95 % intervals, beside the published figure."""
    with report_errors(), connect(lake) as connection:
        rows = [row for row in query_rows(connection, SCORES_QUERY) if benchmark in (None, row["scope_id"])]
    headers = "benchmark/variant/reasoner/metric/value/95 %/n/supported/right of these/published/difference/printed in"
    print_table(headers.split("/"), map(format_score, rows), title="Scoreboard")
    out.print(
        "value: the best option of every question counts; supported: share whose best option the evidence supports",
        style="dim",
    )
    if any(row["published"] is not None for row in rows):
        out.print("difference: value − published; * where the interval leaves the published figure out", style="dim")


EXAMPLE_ANSWERS = """
    WITH best AS (
        SELECT p.prediction_id, q.task,
               row_number() OVER (PARTITION BY q.task ORDER BY p.confidence DESC, p.prediction_id) AS place
        FROM predictions p JOIN questions q USING (question_id)
        WHERE p.status = 'answered' AND list_contains(q.gold, p.answer) AND len(q.options) > 0
    )
    SELECT prediction_id FROM best WHERE place <= 2 ORDER BY place, task LIMIT 3
"""


def _examples() -> None:
    """Three answers with the evidence that they rest on."""
    from evidence_assets.explorer.answer_view import view_answer
    from evidence_assets.explorer.pages import shorten

    with connect() as connection:
        for (prediction_id,) in connection.execute(EXAMPLE_ANSWERS).fetchall():
            view = view_answer(connection, prediction_id)
            assert view.question is not None
            text, answer = escape(strip_controls(view.question["text"])), escape(strip_controls(view.answer_text))
            out.print(f"\n[bold]{text}[/bold]\n  answer: {answer}")
            for one in [one for one in view.evidence if one.is_used][:3]:
                said = f"“{shorten(one.text)}” in “{one.title}”: {one.location}"
                out.print(f"  verified evidence: {escape(strip_controls(said))}", style="dim")
            out.print(f"  evidence trace {prediction_id[:12]}", style="dim")


@commands.command()
def limits() -> None:
    """Set Dagster's pools to the limits of the profile, as `make ui` does at its start."""
    with report_errors():
        from dagster import DagsterInstance

        from evidence_assets.assets.resources import set_pool_limits
        from evidence_assets.cli.runner import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            found = set_pool_limits(instance)
    out.print(", ".join(f"{pool}: {limit}" for pool, limit in found.items()))
