"""Commands that make assets and show what came of it: ``evidence demo``, ``run``, ``scoreboard``; and the ``limits`` of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from evidence_assets.cli.console import LakeOption, out, plain, sentences, table
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.catalogue import connect

if TYPE_CHECKING:
    from evidence_assets.cli.demo import Report, Wanted

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def demo(
    verbose: Annotated[bool, typer.Option(help="Show what Dagster logs.")] = False,
) -> None:
    """Materialize the whole asset graph of the profile in use, then show scores and three answers with their evidence."""
    with sentences():
        from evidence_assets import profiles
        from evidence_assets.cli.demo import run_all
        from evidence_assets.transport.search import processors

        report = run_all(verbose=verbose, processes=min(2, processors(), profiles.load().pools.gpu))
    scoreboard()
    _examples()
    _tell(report, "evidence demo")
    out.print("Open the Dagster UI with `make ui`; ask with `evidence ask`, look with `evidence explore`.")


@commands.command()
def run(
    benchmark: Annotated[str, typer.Argument(help="A declared benchmark; `evidence add benchmark` declares one.")],
    chosen: Annotated[
        str, typer.Option("--variants", help="Names with commas between; all that are loaded by default.")
    ] = "",
    model: Annotated[str, typer.Option(help="Which of the profile's language models reasons.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would be made.")] = False,
    verbose: Annotated[bool, typer.Option(help="Show what Dagster logs.")] = False,
) -> None:
    """Make all that the answers to one benchmark need, from its files to its scores; what is unchanged is taken over."""
    with sentences():
        from evidence_assets.cli.run import benchmark_named, chosen_variants, needed

        declared = benchmark_named(benchmark)
        variants = chosen_variants(declared, [name for name in chosen.replace(" ", "").split(",") if name], model)
        from evidence_assets.cli.demo import run_all
        from evidence_assets.definitions import defs

        wanted = needed(defs().resolve_asset_graph(), declared, variants)
        if plan:
            _plan(wanted, benchmark, variants)
            return
        report = run_all(verbose=verbose, wanted=wanted)
    scoreboard(benchmark)
    _tell(report, f"evidence run {benchmark}")
    out.print(
        f"Look at the answers with `evidence explore`, at the runs with `make ui`; ask {benchmark}'s corpus with `evidence ask`."
    )


def _plan(wanted: Wanted, benchmark: str, variants: Sequence[Variant]) -> None:
    """Which assets would be looked at, and what is known of the time that it takes."""
    import dagster as dg

    from evidence_assets.assets.planning import plan_variants
    from evidence_assets.assets.resources import LakeResource
    from evidence_assets.cli.demo import dagster_home
    from evidence_assets.cli.experiments import show_plan
    from evidence_assets.cli.run import parts
    from evidence_assets.definitions import defs

    lake = LakeResource().open()
    dagster_home()
    with dg.DagsterInstance.get() as instance:
        rows = parts(defs().resolve_asset_graph(), wanted, lake, instance)
        planned = plan_variants(variants, [benchmark], lake, instance)
    table(("asset", "partitions", "made before"), ((part.asset, part.partitions, part.there) for part in rows))
    show_plan(planned, benchmark)


def _tell(report: Report, command: str) -> None:
    """What a materialization did, and what failed; ends with exit status 1 where anything did."""
    out.print(
        f"\n{report.assets} assets, {report.materializations} materializations in {report.seconds:.0f} s; "
        f"rows reused {report.rows_reused:,}, computed {report.rows_computed:,}; peak memory {report.peak_gib:.2f} GiB"
    )
    if not report.failures:
        return
    out.print("\nThese failed, and everything else was made:", style="red")
    for failure in report.failures:
        where = f"{failure.name} [{failure.partition}]" if failure.partition else failure.name
        out.print(plain(f"  {where}: {failure.said}"), markup=False, soft_wrap=True)
    if report.left_out:
        left_out = ", ".join(report.left_out)
        out.print(f"Left out or as before, because they read these: {left_out}", markup=False, soft_wrap=True)
    out.print(f"Mend what is named and run `{command}` again: what is done is taken over.")
    raise typer.Exit(1)


@commands.command()
def scoreboard(
    benchmark: Annotated[str | None, typer.Argument(help="Only this benchmark.")] = None, lake: LakeOption = None
) -> None:
    """Accuracy of every variant on every benchmark, with 95 % intervals, beside the published figure."""
    with sentences(), connect(lake) as connection:
        rows = connection.execute(
            """
            SELECT scope_id,
                   if(scope_kind = 'collection' OR reasoner = 'recorded', selector,
                      array_to_string(string_split(asset, '/')[3:], '@')) AS variant,
                   reasoner, metric, value, low, high, n, supported, right_of_these, published, published_source
            FROM scores LEFT JOIN (
                PIVOT (
                    SELECT asset, scope_id, metric, value FROM scores
                    WHERE scope_kind = 'benchmark' AND reasoner <> 'recorded'
                ) ON metric IN ('answered_share' AS supported, 'supported_accuracy' AS right_of_these)
                USING max(value) GROUP BY asset, scope_id
            ) USING (asset, scope_id)
            WHERE metric IN ('accuracy', 'hit@1', 'precision@50') AND scope_kind <> 'relation'
              AND ($benchmark IS NULL OR scope_id = $benchmark)
            ORDER BY scope_id, metric, value DESC
            """,
            {"benchmark": benchmark},
        ).fetchall()
    headers = (
        "benchmark",
        "variant",
        "reasoner",
        "metric",
        "value",
        "95 %",
        "n",
        "supported",
        "right of these",
        "published",
        "difference",
        "printed in",
    )
    told = []
    for scope, variant, reasoner, metric, value, low, high, n, supported, right, published, source in rows:
        interval = "" if low is None else f"{low:.3f} – {high:.3f}"
        told.append(
            (
                scope,
                variant,
                reasoner,
                metric,
                "" if value is None else f"{value:.3f}",
                interval,
                n,
                *("" if share is None else f"{share:.0%}" for share in (supported, right)),
                "" if published is None else f"{published:.3f}",
                _difference(value, low, high, published),
                source,
            )
        )
    table(headers, told, title="Scoreboard")
    out.print(
        "value: the best option of every question counts; supported: share whose best option the evidence supports",
        style="dim",
    )
    if any(row[10] is not None for row in rows):
        out.print("difference: value − published; * where the interval leaves the published figure out", style="dim")


def _difference(value: float | None, low: float | None, high: float | None, published: float | None) -> str:
    if value is None or published is None:
        return ""
    outside = low is not None and high is not None and not low <= published <= high
    return f"{value - published:+.3f}" + ("*" if outside else "")


def _examples() -> None:
    with connect() as connection:
        rows = connection.execute(
            """
            WITH best AS (
                SELECT p.*, q.text, q.options, q.gold, q.task,
                       row_number() OVER (PARTITION BY q.task ORDER BY p.confidence DESC, p.prediction_id) AS place
                FROM predictions p JOIN questions q USING (question_id)
                WHERE p.status = 'answered' AND list_contains(q.gold, p.answer) AND len(q.options) > 0
            )
            SELECT prediction_id, text, options, answer, task FROM best WHERE place <= 2 ORDER BY place, task LIMIT 3
            """
        ).fetchall()
        for prediction_id, text, options, answer, task in rows:
            index = options.index(answer) if task == "verification" else ord(answer) - ord("A")
            chosen = answer if task == "verification" else f"{answer}. {options[index]}"
            out.print(f"\n[bold]{escape(plain(text))}[/bold]\n  answer: {escape(plain(chosen))}")
            cited = connection.execute(
                """
                SELECT DISTINCT e.kind, e.locator, e.text, e.source_id, ci.verdict
                FROM chains c JOIN predictions p ON p.question_id = c.question_id AND p.selector = c.selector
                     AND p.reasoner = c.reasoner AND p.answer = c.hypothesis
                     JOIN citations ci USING (chain_id) JOIN evidence e USING (evidence_id)
                WHERE p.prediction_id = $id ORDER BY ALL LIMIT 3
                """,
                {"id": prediction_id},
            ).fetchall()
            for kind, locator, evidence_text, source, verdict in cited:
                shown = " ".join(evidence_text.split())
                shown = shown if len(shown) <= 240 else shown[:239] + "…"
                place = f"{kind} {source[:12]} {locator}".strip()
                out.print(f"  {verdict} evidence ({escape(plain(place))}): {escape(plain(shown))}", style="dim")
            out.print(f"  evidence trace {prediction_id[:12]}", style="dim")


@commands.command()
def limits() -> None:
    """Let Dagster run as many steps at once as the profile allows, by pool: gpu, llm. `make ui` does so at its start."""
    with sentences():
        from dagster import DagsterInstance

        from evidence_assets.assets.placing import set_limits
        from evidence_assets.cli.demo import dagster_home

        dagster_home()
        with DagsterInstance.get() as instance:
            found = set_limits(instance)
    out.print(", ".join(f"{pool}: {limit}" for pool, limit in found.items()))
