"""The door people enter by: ``evidence demo | query | scoreboard | compare | trace | impact | diff | card | …``.

A query or a trace starts in under a second: Dagster and torch are loaded only by the commands that run assets.
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


FAMILIES = ("materialize", "ask", "explore", "experiments", "reproduce", "get")
"""Modules of commands; what a query or a trace takes stands here, so that it starts without them."""


class _Commands(typer.core.TyperGroup):
    """The commands, whose modules are imported when one of theirs is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        for family in FAMILIES:
            self.commands.update(typer.main.get_group(import_module(f"{__name__}.{family}").commands).commands)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evidence-based reasoning as data assets: make answers, then ask what they rest on.",
)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="Such as \"SELECT * FROM scores WHERE metric = 'accuracy'\".")],
    format: Annotated[Literal["table", "csv", "json"], typer.Option(help="How the rows are printed.")] = "table",
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the query may take.")] = 60,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="DuckDB whole, without limits: the SQL may read and write every file that you may, load "
            "extensions and "
            "change settings. Only for SQL that you wrote or read.",
        ),
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Ask the lake with SQL. Every table is a view; "SHOW TABLES" lists them, "DESCRIBE predictions" its columns.

    It only reads, and only the lake's tables: one SELECT, DESCRIBE, SUMMARIZE or SHOW, at most 2 GB of memory and a
    million rows. COPY, ATTACH, SET, EXPLAIN and the rest of DuckDB need --unsafe.
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


def _line(node: Any) -> Any:
    content = ", ".join(
        f"{name}: {' '.join(str(value).split())}" for name, value in node.content.items() if value is not None
    )
    line = Text()
    line.append(f"{node.relation} " if node.relation else "", style="dim")
    line.append(node.kind, style="bold")
    line.append(strip_controls(f" {short_id(node.id)} "))
    line.append(strip_controls(content if len(content) <= 220 else content[:219] + "…"))
    return line


def _tree(root: Any, most: int) -> Tree:
    tree = Tree(_line(root))
    stack = [(root, tree)]
    shown: set[int] = set()
    while stack:
        node, branch = stack.pop()
        if id(node.next) in shown:
            continue
        shown.add(id(node.next))
        for child in node.next[:most]:
            stack.append((child, branch.add(_line(child))))
        if len(node.next) > most:
            branch.add(f"… and {len(node.next) - most} more (--most shows more, --json all)")
    return tree


IdArgument = Annotated[str, typer.Argument(help="Id of a row, or its beginning, such as a prediction_id.")]
MostOption = Annotated[int, typer.Option(help="Rows shown below each row.")]


def _walk(direction: str, identifier: str, as_json: bool, most: int, lake: Path | None) -> None:
    with report_errors():
        with connect(lake, lazy=True) as connection:
            root = (lineage.trace if direction == "trace" else lineage.impact)(connection, identifier)
        if print_if_json(as_json, root.as_dict()):
            return
        out.print(_tree(root, most))
        counts = {kind: len(ids) for kind, ids in lineage.distinct_ids(root).items()}
        word = "rests on" if direction == "trace" else "touches"
        out.print(f"{word}: " + (", ".join(f"{n:,} {kind}" for kind, n in counts.items()) or "nothing"))


@app.command()
def trace(identifier: IdArgument, as_json: JsonOption = False, most: MostOption = 5, lake: LakeOption = None) -> None:
    """What a row rests on: from a prediction to its chains, evidence, and the documents, cells or seeds below."""
    _walk("trace", identifier, as_json, most, lake)


@app.command()
def impact(identifier: IdArgument, as_json: JsonOption = False, most: MostOption = 20, lake: LakeOption = None) -> None:
    """What a row touches: from a seed, a chunk or a triple to every prediction that used it."""
    _walk("impact", identifier, as_json, most, lake)


@app.command()
def diff(
    run_a: Annotated[str, typer.Argument(help="Id of a run, or its beginning; evidence query lists them in history.")],
    run_b: Annotated[str, typer.Argument(help="Id of the later run.")],
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Which rows two runs made differently."""
    with report_errors(), connect(lake, lazy=True) as connection:
        rows = lineage.diff_runs(connection, run_a, run_b)
    if print_if_json(as_json, rows):
        return
    told = []
    for row in rows:
        before, after = (
            " ".join(str(v) for v in (row[f"answer_{when}"], row[f"status_{when}"]) if v)
            for when in ("before", "after")
        )
        told.append((row["asset"], row["partition"], row["row_id"][:12], row["change"], before, after))
    print_table(("asset", "partition", "row", "change", "before", "after"), told)
    out.print(f"{len(rows):,} rows differ")


@app.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only say what would be deleted.")] = False,
    lake: LakeOption = None,
) -> None:
    """Folders that no asset makes any more, and what killed runs left behind."""
    with report_errors():
        import dagster as dg

        from evidence_assets.assets.run_liveness import fail_killed_runs
        from evidence_assets.cli.runner import dagster_home, lake_assets
        from evidence_assets.experiment.ad_hoc_questions import find_ad_hoc_assets

        home = dagster_home()
        with dg.DagsterInstance.get() as instance:
            if ended := fail_killed_runs(instance, home):
                out.print(f"{ended} runs of killed processes marked as failed")
        opened = Lake(lake or find_lake())
        found = find_orphans(opened, [*lake_assets(), *find_ad_hoc_assets(opened)])
        for path, size in found:
            out.print(f"{size:>14,} bytes  {path.relative_to(opened.root)}", markup=False)
        total = sum(size for _, size in found)
        if not found:
            out.print("nothing to delete")
        elif yes:
            delete_orphans(found)
            out.print(f"deleted {len(found)} folders and files, {total:,} bytes")
        else:
            out.print(f"{len(found)} folders and files, {total:,} bytes; `evidence gc --yes` deletes them")


@app.command()
def doctor(
    profile: Annotated[str | None, typer.Option(help="Profile to check; the one in use otherwise.")] = None,
) -> None:
    """What is installed, which models and devices are usable, and what a profile still lacks."""
    with report_errors():
        from evidence_assets import profiles
        from evidence_assets.models.diagnosis import diagnose

        findings = diagnose(profiles.load(profile))
    shown = Table("", "what", "found", "what to do", show_header=False)
    for finding in findings:
        sign = {True: "[green]ok[/green]", False: "[red]missing[/red]", None: "note"}[finding.is_ok]
        shown.add_row(sign, format_cell(finding.requirement), format_cell(finding.status), format_cell(finding.remedy))
    out.print(shown)
    if any(finding.is_ok is False for finding in findings):
        raise typer.Exit(1)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        sys.stderr.close()
        raise SystemExit(0) from None
