"""The command line: ``evidence demo | query | scoreboard | compare | trace | impact | diff | card | …``.

A query or a trace starts in under a second: only commands that run assets load Dagster and torch.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import typer.core
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from evidence_assets.cli.console import (
    JsonOption,
    LakeOption,
    format_cell,
    out,
    print_if_json,
    print_table,
    report_errors,
    strip_controls,
)
from evidence_assets.lake import lineage
from evidence_assets.lake.catalogue import connect, find_lake, run_read_only_query
from evidence_assets.lake.housekeeping import delete_orphans, find_orphans
from evidence_assets.lake.ids import short_id
from evidence_assets.lake.store import Lake

# Hide Dagster's beta warnings.
warnings.filterwarnings("ignore", message=".*is currently in (beta|preview)")


COMMAND_MODULES = ("materialize", "ask", "explore", "experiments", "reproduce", "get")
"""Modules with more commands; this module has those that must start fast."""


class _LazyCommands(typer.core.TyperGroup):
    """Imports the command modules only when one of their commands is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        for family in COMMAND_MODULES:
            self.commands.update(typer.main.get_group(import_module(f"{__name__}.{family}").commands).commands)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evidence-based reasoning as data assets: answer questions and trace the evidence.",
)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="Such as \"SELECT * FROM scores WHERE metric = 'accuracy'\".")],
    format: Annotated[Literal["table", "csv", "json"], typer.Option(help="Output format.")] = "table",
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of the query.")] = 60,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Run without restrictions: the SQL can read and write any of your files, load extensions and "
            "change settings. Use it only for SQL that you trust.",
        ),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Query the lake with SQL.

    Every table is a view: "SHOW TABLES" lists them, "DESCRIBE predictions" lists columns. Queries are read-only and
    see only the lake: one SELECT, DESCRIBE, SUMMARIZE or SHOW, with at most 2 GB of memory and a million rows. COPY,
    ATTACH, SET, EXPLAIN and all other statements need --unsafe.
    """
    with report_errors(), connect(lake, unsafe=unsafe) as connection:
        if unsafe:
            cursor = connection.execute(sql)
            names = [description[0] for description in cursor.description or []]
            rows = cursor.fetchall()
        else:
            names, rows = run_read_only_query(connection, sql, seconds)
    if format == "json":
        print_if_json(True, [dict(zip(names, row, strict=True)) for row in rows])
    elif format == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([names, *rows])
        print(buffer.getvalue(), end="")
    else:
        print_table(names, rows)
        out.print(f"{len(rows):,} rows")


def _format_node(node: Any) -> Any:
    content = ", ".join(f"{k}: {' '.join(str(v).split())}" for k, v in node.content.items() if v is not None)
    line = Text()
    line.append(f"{node.relation} " if node.relation else "", style="dim")
    line.append(node.kind, style="bold")
    line.append(strip_controls(f" {short_id(node.id)} "))
    line.append(strip_controls(content if len(content) <= 220 else content[:219] + "…"))
    return line


def _build_tree(root: Any, max_children: int) -> Tree:
    tree = Tree(_format_node(root))
    stack = [(root, tree)]
    visited: set[int] = set()
    while stack:
        node, branch = stack.pop()
        if id(node.next) in visited:
            continue
        visited.add(id(node.next))
        for child in node.next[:max_children]:
            stack.append((child, branch.add(_format_node(child))))
        if len(node.next) > max_children:
            branch.add(f"… and {len(node.next) - max_children} more (use --most or --json)")
    return tree


IdArgument = Annotated[str, typer.Argument(help="Id of a row or its first characters, such as a prediction_id.")]
MostOption = Annotated[int, typer.Option("--most", help="Maximum rows to show below each row.")]


def _print_lineage(direction: str, identifier: str, as_json: bool, max_children: int, lake: Path | None) -> None:
    with report_errors():
        with connect(lake, lazy=True) as connection:
            root = (lineage.trace if direction == "trace" else lineage.impact)(connection, identifier)
        if print_if_json(as_json, root.as_dict()):
            return
        out.print(_build_tree(root, max_children))
        counts = {kind: len(ids) for kind, ids in lineage.distinct_ids(root).items()}
        label = "upstream" if direction == "trace" else "downstream"
        out.print(f"{label}: " + (", ".join(f"{n:,} {kind}" for kind, n in counts.items()) or "nothing"))


@app.command()
def trace(
    identifier: IdArgument, as_json: JsonOption = False, max_children: MostOption = 5, lake: LakeOption = None
) -> None:
    """Trace a row back to its evidence and sources.

    For example from a prediction to its chains, evidence, and documents, cells or seeds.
    """
    _print_lineage("trace", identifier, as_json, max_children, lake)


@app.command()
def impact(
    identifier: IdArgument, as_json: JsonOption = False, max_children: MostOption = 20, lake: LakeOption = None
) -> None:
    """List the rows and predictions that depend on a row.

    For example on a seed, a chunk or a triple.
    """
    _print_lineage("impact", identifier, as_json, max_children, lake)


@app.command()
def diff(
    run_a: Annotated[str, typer.Argument(help="Id of a run or its first characters; the table history has all ids.")],
    run_b: Annotated[str, typer.Argument(help="Id of the later run.")],
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """List the rows that differ between two runs."""
    with report_errors(), connect(lake, lazy=True) as connection:
        rows = lineage.diff_runs(connection, run_a, run_b)
    if print_if_json(as_json, rows):
        return
    lines = []
    for row in rows:
        before, after = (
            " ".join(str(v) for v in (row[f"answer_{moment}"], row[f"status_{moment}"]) if v)
            for moment in ("before", "after")
        )
        lines.append((row["asset"], row["partition"], row["row_id"][:12], row["change"], before, after))
    print_table(("asset", "partition", "row", "change", "before", "after"), lines)
    out.print(f"{len(rows):,} rows differ")


@app.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list.")] = False, lake: LakeOption = None
) -> None:
    """List or delete data of removed assets and killed runs."""
    with report_errors():
        import dagster as dg

        from evidence_assets.assets.run_liveness import fail_killed_runs
        from evidence_assets.cli.runner import dagster_home, lake_assets
        from evidence_assets.experiment.ad_hoc_questions import find_ad_hoc_assets

        home = dagster_home()
        with dg.DagsterInstance.get() as instance:
            if ended := fail_killed_runs(instance, home):
                out.print(f"{ended} runs of killed processes marked as failed")
        opened_lake = Lake(lake or find_lake())
        orphaned = find_orphans(opened_lake, [*lake_assets(), *find_ad_hoc_assets(opened_lake)])
        for path, size in orphaned:
            out.print(f"{size:>14,} bytes  {path.relative_to(opened_lake.root)}", markup=False)
        total = sum(size for _, size in orphaned)
        if not orphaned:
            out.print("nothing to delete")
        elif yes:
            delete_orphans(orphaned)
            out.print(f"deleted {len(orphaned)} folders and files, {total:,} bytes")
        else:
            out.print(f"{len(orphaned)} folders and files, {total:,} bytes; `evidence gc --yes` deletes them")


@app.command()
def doctor(
    profile: Annotated[str | None, typer.Option(help="Profile to check. Default: the current profile.")] = None,
) -> None:
    """Check the packages, models and devices that a profile needs."""
    with report_errors():
        from evidence_assets import profiles
        from evidence_assets.models.diagnosis import diagnose

        findings = diagnose(profiles.load(profile))
    table = Table("", "what", "found", "what to do", show_header=False)
    for result in findings:
        status = {True: "[green]ok[/green]", False: "[red]missing[/red]", None: "note"}[result.is_ok]
        table.add_row(status, format_cell(result.requirement), format_cell(result.status), format_cell(result.remedy))
    out.print(table)
    if any(result.is_ok is False for result in findings):
        raise typer.Exit(1)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does.
        sys.stderr.close()
        raise SystemExit(0) from None
