"""Commands that read the lake: ``evidence query | trace | impact | diff | explore``; without Dagster and torch."""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text
from rich.tree import Tree

from evidence_assets.cli.console import (
    JsonOption,
    LakeOption,
    err,
    out,
    print_if_json,
    print_table,
    report_errors,
    strip_controls,
)
from evidence_assets.explorer import LOCALHOST, MAX_EXPORTED_PAGES, PORT
from evidence_assets.explorer.answers import Row
from evidence_assets.lake import lineage
from evidence_assets.lake.catalogue import connect, find_lake, run_read_only_query
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import short_id
from evidence_assets.lake.schemas import KINDS
from evidence_assets.lake.store import Lake
from evidence_assets.text.markdown import plain_text

commands = typer.Typer(rich_markup_mode=None)
SECONDS_PER_LINE = 5.0
"""Time between two lines of an export's progress."""


@commands.command()
def query(
    sql: Annotated[str, typer.Argument(help="Such as \"SELECT * FROM scores WHERE metric = 'accuracy'\".")],
    format: Annotated[Literal["table", "csv", "json"], typer.Option(help="Output format.")] = "table",
    lake: LakeOption = None,
) -> None:
    """Query the lake with SQL.

    Every table is a view: "SHOW TABLES" lists them, "DESCRIBE predictions" lists columns. Queries are read-only and
    see only the lake: one SELECT, DESCRIBE, SUMMARIZE or SHOW, with at most a minute, 2 GB of memory, a million rows.
    """
    with report_errors(), connect(lake) as connection:
        names, rows = run_read_only_query(connection, sql)
    if format == "json":
        # JSON has no NaN and no infinity
        finite = ((None if isinstance(v, float) and not isfinite(v) else v for v in row) for row in rows)
        print_if_json(True, [dict(zip(names, row, strict=True)) for row in finite])
    elif format == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([names, *rows])
    else:
        print_table(names, rows)
        out.print(f"{len(rows):,} rows")


MAX_REPEATED = 30
"""Maximum characters of a value that a tree repeats."""
_FIRST_RELATIONS = {lineage.CITED: 0, lineage.USED: 1}


def _one_line(value: Any) -> str:
    return " ".join(plain_text(str(value)).split())


def _format_node(node: Any, first_rows: dict[str, str]) -> Text:
    """A row as one line; ``first_rows`` has the rows and texts printed so far, which are not repeated."""
    name = f"{node.kind} {short_id(node.id)}"
    content = "(above)"
    if name not in first_rows:
        texts = {k: _one_line(v) for k, v in node.content.items() if v is not None and k != "why"}
        content = ", ".join(f"{k}: {f'as {first_rows[t]}' if t in first_rows else t}" for k, t in texts.items())
        for text in (name, *(t for t in texts.values() if len(t) > MAX_REPEATED)):
            first_rows.setdefault(text, name)
    if not content and node.kind in KINDS and node.kind != "model":
        content = "(no longer in the lake)"
    line = Text()
    line.append(f"{node.relation} " if node.relation else "", style="dim")
    line.append(node.kind, style="bold")
    line.append(strip_controls(f" {short_id(node.id)} "))
    line.append(strip_controls(content if len(content) <= 220 else content[:219] + "…"))
    return line


def _build_tree(root: Any) -> Tree:
    """The rows as a tree; a row that occurs twice is expanded at its first place, and cited rows come first."""
    tree = Tree("")
    stack = [(root, tree)]
    visited: set[int] = set()
    first_rows: dict[str, str] = {}
    while stack:
        node, branch = stack.pop()
        branch.label = _format_node(node, first_rows)
        if id(node.next) in visited:
            continue
        visited.add(id(node.next))
        ordered = sorted(node.next, key=lambda child: _FIRST_RELATIONS.get(child.relation, 2))
        stack += reversed([(child, branch.add("")) for child in ordered[:MAX_CHILDREN]])
        if len(node.next) > MAX_CHILDREN:
            branch.add(f"… and {len(node.next) - MAX_CHILDREN} more (use --json)")
    return tree


IdArgument = Annotated[str, typer.Argument(help="Id of a row or its first characters, such as a prediction_id.")]
MAX_CHILDREN = 5
MAX_ANSWERS = 20
"""Maximum rows below each row of a tree, and answers to show."""


def _print_counts(label: str, root: lineage.Node) -> None:
    counts = {kind: len(ids) for kind, ids in lineage.distinct_ids(root).items()}
    out.print(f"{label}: " + (", ".join(f"{n:,} {kind}" for kind, n in counts.items()) or "nothing"))


@commands.command()
def trace(identifier: IdArgument, as_json: JsonOption = False, lake: LakeOption = None) -> None:
    """Trace a row back to its evidence and sources.

    For example from a prediction to its chains, evidence, and documents, cells or seeds.
    """
    with report_errors(), connect(lake, lazy=True) as connection:
        root = lineage.trace(connection, identifier)
    if not print_if_json(as_json, root.as_dict()):
        out.print(_build_tree(root), soft_wrap=False)
        _print_counts("upstream", root)


@commands.command()
def impact(
    identifier: Annotated[str, typer.Argument(help="Id of a row or its beginning, or a document's file or title.")],
    show_all: Annotated[bool, typer.Option("--all", help="Also print the tree of all rows.")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """List the answers and rows that depend on a row or document.

    Answers that cite it come first. Without answers, as for a seed of a harvest, the tree of rows is printed.
    """
    with report_errors(), connect(lake, lazy=True) as connection:
        root = lineage.impact(connection, identifier)
        answers = [] if as_json else lineage.list_answers(connection, root)
    if print_if_json(as_json, root.as_dict()):
        return
    citing = [row for row in answers if row["cites"]]
    for row in answers if show_all else citing[:MAX_ANSWERS]:
        use = "" if row["cites"] else ", not cited"
        _print_answer_line(row, _format_short(row, row["answer"], row["status"]), f"{row['benchmark']}{use}")
    if show_all or not answers:
        out.print(_build_tree(root), soft_wrap=False)
    else:
        limit = f" ({MAX_ANSWERS} shown: --all)" if len(citing) > MAX_ANSWERS else ""
        others = len(answers) - len(citing)
        out.print(f"answers that cite it: {len(citing):,}{limit}; others that received it: {others:,} (--all)")
    _print_counts("downstream", root)


def _print_answer_line(row: Row, answer: str, place: str) -> None:
    lines = (row["question"] or "question no longer in the lake", answer, f"{row['variant']}, {place}")
    text = "\n  ".join((*lines[:2], f"{lines[2]}, {row['prediction_id'][:12]}"))
    out.print(f"{strip_controls(text)}\n")


def _format_short(row: Row, answer: str | None, status: str | None) -> str:
    """An answer with the text of its option and its status."""
    from evidence_assets.explorer.answer_view import describe_answer

    name = describe_answer(row if row["question"] else None, answer)
    return f"{name} ({status})" if status else name


@commands.command()
def diff(
    run_a: Annotated[str, typer.Argument(help="Id of a run or its first characters; by default the last two.")] = "",
    run_b: Annotated[str, typer.Argument(help="Id of another run; the newer run is the result.")] = "",
    show_all: Annotated[bool, typer.Option("--all", help="List all rows, not only answers.")] = False,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """List what changed between two runs: answers, and counts of other rows.

    The table history has the ids and times of all runs.
    """
    with report_errors(), connect(lake, lazy=True) as connection:
        if run_a and not run_b:
            raise BadInput("give the ids of two runs, or none for the last two")
        runs = lineage.diff_runs(connection, run_a, run_b)
    if print_if_json(as_json, runs.rows):
        return
    older, newer = (f"{name[:8]} ({time or 'time unknown'})" for name, time in (runs.older, runs.newer))
    out.print(f"from run {older} to run {newer}\n")
    if not runs.partitions:
        out.print("The runs have nothing in common: no partition of an asset was written by both.")
        return
    _print_changes(runs.rows, show_all)


def _print_changes(rows: Sequence[Row], show_all: bool) -> None:
    """Print the predictions whose answer or status changed, and the numbers of all changed rows."""
    n_answers = 0
    for row in rows:
        before = (row["answer_before"], row["status_before"])
        after = (row["answer_after"], row["status_after"])
        if row["asset"].startswith("predictions/") and before != after:
            change = f"{_format_short(row, *before)} → {_format_short(row, *after)}"
            _print_answer_line(row, change, row["partition"])
            n_answers += 1
    if show_all:
        lines = ((row["asset"], row["partition"], row["row_id"][:12], row["change"]) for row in rows)
        print_table(("asset", "partition", "row", "change"), lines)
    counts = Counter((row["asset"].split("/")[0], row["change"]) for row in rows)
    others = ", ".join(f"{n:,} {kind} {change}" for (kind, change), n in sorted(counts.items()))
    number = "1 answer differs" if n_answers == 1 else f"{n_answers:,} answers differ"
    out.print(f"{number}; rows: {others or 'all equal'}" + ("" if show_all else "; --all"))


@commands.command()
def explore(
    port: Annotated[int, typer.Option(help="Port on this machine.", min=0, max=65535)] = PORT,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Use 0.0.0.0 only in a container.", metavar="ADDRESS")
    ] = LOCALHOST,
    folder: Annotated[
        Path | None,
        typer.Option("--export", metavar="FOLDER", help="Write the pages to this folder, to open without a server."),
    ] = None,
    max_pages: Annotated[int, typer.Option(help="Maximum pages to export.", min=1)] = MAX_EXPORTED_PAGES,
    model: Annotated[str, typer.Option(help="Language model that answers questions, as in `evidence ask`.")] = "",
    lake: LakeOption = None,
) -> None:
    """Browse answers, evidence and sources, and ask, in a web browser.

    The server never changes the lake. By default it is reachable only from this machine; on another --host, or with
    --export, nothing can be asked.
    """
    with report_errors():
        from evidence_assets.explorer.site import can_ask, serve

        root = Lake(lake or find_lake()).root
        has_box = folder is None and can_ask(root, host)
        if model and not has_box:
            raise BadInput(
                "--model answers questions, and nothing can be asked in exported pages, on another --host or of a lake "
                "in an object store: remove --model"
            )
        if folder is not None:
            _export(root, folder, max_pages)
            return
        from evidence_assets.cli.browser_answers import open_browser_answers

        serve(root, host=host, port=port, answer=open_browser_answers(model) if has_box else None)


def _export(root: Path, folder: Path, max_pages: int) -> None:
    """Export the explorer's pages with progress, then print their number and size."""
    from evidence_assets.explorer.export import export_pages

    start = time.monotonic()
    last_print = start

    def print_progress(n_written: int, n_pages: int) -> None:
        nonlocal last_print
        now = time.monotonic()
        if now - last_print > SECONDS_PER_LINE:
            seconds_left = (now - start) / n_written * (n_pages - n_written)
            err.print(
                f"{n_written:,} of at least {n_pages:,} pages, {now - start:.0f} s, about {seconds_left:.0f} s left"
            )
            last_print = now

    export = export_pages(root, folder, max_pages, print_progress)
    out.print(f"{len(export.pages):,} pages, {export.n_bytes / 1e6:.1f} MB: open {folder / 'index.html'}")
    if export.left_out:
        out.print(f"{len(export.left_out):,} or more linked pages were left out: use a larger --max-pages")
