"""The door people enter by: ``evidence demo | query | scoreboard | compare | trace | impact | diff | card | …``.

A query or a trace starts in under a second: Dagster and torch are loaded only by the commands that run assets.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Evidence-based reasoning as data assets: make answers, then ask what they rest on.",
)
out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
adding = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring your own data into the lake.")
app.add_typer(adding, name="add")
LakeOption = Annotated[
    Path | None, typer.Option("--lake", help="Folder of the lake; EVIDENCE_LAKE or the nearest data_lake otherwise.")
]


@contextmanager
def _sentences() -> Iterator[None]:
    """Ends with the error's sentence and exit status 1, not with a stack of calls, where the user can mend it."""
    import duckdb

    from evidence_assets.lake.errors import BadInput, LakeVersionError, ModelUnavailable, StaleInput
    from evidence_assets.lake.lineage import UnknownId

    try:
        yield
    except (BadInput, LakeVersionError, ModelUnavailable, StaleInput, UnknownId, duckdb.Error) as error:
        Console(stderr=True, highlight=False).print(f"evidence: {error}", markup=False, style="red")
        raise typer.Exit(1) from error


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="Such as \"SELECT * FROM scores WHERE metric = 'accuracy'\".")],
    format: Annotated[Literal["table", "csv", "json"], typer.Option(help="How the rows are printed.")] = "table",
    lake: LakeOption = None,
) -> None:
    """Ask the lake with SQL. Every table is a view; "SHOW TABLES" lists them, "DESCRIBE predictions" its columns."""
    with _sentences():
        from evidence_assets.lake.catalogue import connect

        with connect(lake) as connection:
            cursor = connection.execute(sql)
            names = [description[0] for description in cursor.description or []]
            rows = cursor.fetchall()
    if format == "json":
        print(
            json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1, default=str, ensure_ascii=False)
        )
    elif format == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([names, *rows])
        print(buffer.getvalue(), end="")
    else:
        shown = Table(*names)
        for row in rows:
            shown.add_row(*(_cell(value) for value in row))
        out.print(shown)
        out.print(f"{len(rows):,} rows")


def _cell(value: Any) -> Any:
    from rich.text import Text

    if isinstance(value, float):
        value = f"{value:.4g}"
    return Text("" if value is None else str(value))


def _line(node: Any) -> Any:
    from rich.text import Text

    content = ", ".join(
        f"{name}: {' '.join(str(value).split())}" for name, value in node.content.items() if value is not None
    )
    line = Text()
    line.append(f"{node.relation} " if node.relation else "", style="dim")
    line.append(node.kind, style="bold")
    line.append(f" {node.id[:12]} ")
    line.append(content if len(content) <= 220 else content[:219] + "…")
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
JsonOption = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]
MostOption = Annotated[int, typer.Option(help="Rows shown below each row.")]


def _walk(direction: str, identifier: str, as_json: bool, most: int, lake: Path | None) -> None:
    with _sentences():
        from evidence_assets.lake import lineage
        from evidence_assets.lake.catalogue import connect

        with connect(lake) as connection:
            root = (lineage.trace if direction == "trace" else lineage.impact)(connection, identifier)
        if as_json:
            print(json.dumps(root.as_dict(), indent=1, default=str, ensure_ascii=False))
            return
        out.print(_tree(root, most))
        counts = {kind: len(ids) for kind, ids in lineage.distinct_rows(root).items()}
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
    with _sentences():
        from evidence_assets.lake import lineage
        from evidence_assets.lake.catalogue import connect

        with connect(lake) as connection:
            rows = lineage.diff(connection, run_a, run_b)
    if as_json:
        print(json.dumps(rows, indent=1, default=str, ensure_ascii=False))
        return
    shown = Table("asset", "partition", "row", "change", "before", "after")
    for row in rows:
        before = " ".join(str(v) for v in (row["answer_before"], row["status_before"]) if v)
        after = " ".join(str(v) for v in (row["answer_after"], row["status_after"]) if v)
        shown.add_row(*map(_cell, (row["asset"], row["partition"], row["row_id"][:12], row["change"], before, after)))
    out.print(shown)
    out.print(f"{len(rows):,} rows differ")


@app.command()
def demo(
    verbose: Annotated[bool, typer.Option(help="Show what Dagster logs.")] = False,
) -> None:
    """Materialize the whole asset graph of the profile in use, then show scores and three answers with their evidence."""
    with _sentences():
        from evidence_assets.demo import run_all

        report = run_all(verbose=verbose)
    scoreboard()
    _examples()
    out.print(
        f"\n{report.assets} assets, {report.materializations} materializations in {report.seconds:.0f} s; "
        f"rows reused {report.rows_reused:,}, computed {report.rows_computed:,}; peak memory {report.peak_gib:.2f} GiB"
    )
    if report.failed_checks:
        out.print(f"checks that failed: {', '.join(report.failed_checks)}", style="red")
        raise typer.Exit(1)
    out.print("Open the Dagster UI with `make ui`; ask more with `evidence query` and `evidence trace ID`.")


@app.command()
def scoreboard(lake: LakeOption = None) -> None:
    """Accuracy of every variant on every benchmark, with 95 % intervals, beside the published figure."""
    with _sentences():
        from evidence_assets.lake.catalogue import connect

        with connect(lake) as connection:
            rows = connection.execute(
                """
                SELECT scope_id, regexp_extract(asset, '[^/]+$') AS variant, reasoner, metric, value, low, high, n,
                       published, published_source
                FROM scores WHERE metric IN ('accuracy', 'hit@1', 'precision@50') ORDER BY scope_id, metric, value DESC
                """
            ).fetchall()
    headers = (
        "benchmark",
        "variant",
        "reasoner",
        "metric",
        "value",
        "95 %",
        "n",
        "published",
        "difference",
        "printed in",
    )
    shown = Table(*headers, title="Scoreboard")
    for scope, variant, reasoner, metric, value, low, high, n, published, source in rows:
        interval = "" if low is None else f"{low:.3f} – {high:.3f}"
        shown.add_row(
            scope, variant, reasoner, metric, "" if value is None else f"{value:.3f}", interval, str(n),
            "" if published is None else f"{published:.3f}", _difference(value, low, high, published), _cell(source),
        )  # fmt: skip
    out.print(shown)
    if any(row[8] is not None for row in rows):
        out.print("difference: value − published; * where the interval leaves the published figure out", style="dim")


def _difference(value: float | None, low: float | None, high: float | None, published: float | None) -> str:
    if value is None or published is None:
        return ""
    outside = low is not None and high is not None and not low <= published <= high
    return f"{value - published:+.3f}" + ("*" if outside else "")


@app.command()
def compare(
    variant_a: Annotated[str, typer.Argument(help="Such as bm25, or mcqa/bm25 where several families have one.")],
    variant_b: Annotated[str, typer.Argument(help="The variant that it is compared with.")],
    benchmark: Annotated[str | None, typer.Option(help="Only on this benchmark.")] = None,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Two variants on the same questions: paired bootstrap interval of the difference and McNemar's exact test."""
    with _sentences():
        from evidence_assets.lake.catalogue import connect
        from evidence_assets.report.comparison import compare as compared

        with connect(lake) as connection:
            found = compared(connection, variant_a, variant_b, benchmark)
    if as_json:
        print(json.dumps([row.as_dict() for row in found], indent=1, ensure_ascii=False))
        return
    headers = ("benchmark", "n", "A", "B", "A − B", "95 %", "only A right", "only B right", "McNemar p", "better")
    shown = Table(*headers, title=f"A = {variant_a}, B = {variant_b}")
    for row in found:
        d = row.difference
        shown.add_row(
            row.benchmark, str(row.n), f"{row.accuracy_a:.3f}", f"{row.accuracy_b:.3f}", f"{d.value:+.3f}",
            f"{d.low:+.3f} – {d.high:+.3f}", str(row.only_a), str(row.only_b), f"{row.p_value:.3g}", row.verdict,
        )  # fmt: skip
    out.print(shown)
    left_out = sum(row.left_out for row in found)
    if left_out:
        out.print(f"{left_out:,} questions are left out: only one of the two has a prediction for them")
    out.print("better: only where the 95 % interval excludes 0 and McNemar's test gives p < 0.05", style="dim")


@app.command()
def presets() -> None:
    """The published tables as presets: which variants and benchmarks each stands for, and whether it is opted in."""
    with _sentences():
        from evidence_assets.components.declarations import declarations
        from evidence_assets.components.presets import VARIABLE, opted_in
        from evidence_assets.components.presets import presets as known

        asked = opted_in()
        shown = Table("preset", "table", "what it stands for", "variants", "benchmarks", "in use", show_lines=True)
        for preset in known().values():
            members = sorted(
                {d.place for d in declarations() if d.component == "Reasoner" and preset.name in d.presets}
            )
            shown.add_row(
                preset.name, ", ".join(preset.tables), preset.about, ", ".join(members) or "none yet",
                ", ".join(preset.benchmarks), "yes" if preset.name in asked else "",
            )  # fmt: skip
    out.print(shown)
    out.print(
        f"Opt in with {VARIABLE}=name,name (or all), or `presets: [name]` in a profile; then materialize the assets "
        'tagged with it, in the Dagster UI: tag:"preset/name"',
        markup=False,
    )


@app.command()
def plan(
    preset: Annotated[str, typer.Argument(help="A preset; `evidence presets` lists them.")],
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """What a preset will cost before anything runs: rows, model calls, tokens, time and disk, as estimates."""
    with _sentences():
        from dataclasses import asdict

        from evidence_assets import profiles
        from evidence_assets.components.planning import plan as planned
        from evidence_assets.lake.catalogue import find_lake
        from evidence_assets.lake.store import Lake

        place = lake or find_lake()
        made = planned(preset, Lake(place) if (place / "format.json").exists() else None)
    if as_json:
        print(json.dumps(asdict(made) | {"preset": preset}, indent=1, ensure_ascii=False))
        return
    headers = (
        "variant",
        "benchmark",
        "questions",
        "evidence",
        "chains",
        "calls",
        "tokens in",
        "tokens out ≤",
        "time",
        "disk",
    )
    shown = Table(*headers, title=f"{preset} with profile {profiles.load().name}: estimates")
    for row in made.estimates:
        shown.add_row(
            row.variant, row.benchmark, f"{row.count.questions:,} ({row.count.known_from})", f"{row.rows['evidence']:,}",
            f"{row.rows['chains']:,}", f"{row.calls:,}", f"{row.prompt_tokens:,}", f"{row.reply_tokens:,}",
            _duration(row.seconds, complete=row.selecting is not None and row.reasoning is not None),
            f"{row.bytes / 2**20:,.1f} MiB",
        )  # fmt: skip
    total = made.estimates
    shown.add_section()
    shown.add_row(
        "all", "", f"{sum(r.count.questions for r in total):,}", f"{sum(r.rows['evidence'] for r in total):,}",
        f"{sum(r.rows['chains'] for r in total):,}", f"{sum(r.calls for r in total):,}",
        f"{sum(r.prompt_tokens for r in total):,}", f"{sum(r.reply_tokens for r in total):,}",
        _duration(
            sum(r.seconds for r in total), complete=all(r.selecting is not None and r.reasoning is not None for r in total)
        ),
        f"{sum(r.bytes for r in total) / 2**20:,.1f} MiB",
    )  # fmt: skip
    out.print(shown)
    for note in made.notes:
        out.print(f"note: {note}", markup=False)
    out.print(
        "All numbers are estimates: one request after another, nothing taken from the cache, corpora and graphs left out. "
        "> marks a time of which a part is not known. Rates and their sources: evidence_assets/components/rates.yaml",
        style="dim",
    )


def _duration(seconds: float, *, complete: bool) -> str:
    sign = "" if complete else "> "
    if seconds >= 3600:
        return f"{sign}{seconds / 3600:,.1f} h"
    return f"{sign}{seconds / 60:,.1f} min" if seconds >= 60 else f"{sign}{seconds:,.1f} s"


@app.command()
def card(
    prediction: Annotated[str, typer.Argument(help="Id of a prediction, or its beginning.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")],
    lake: LakeOption = None,
) -> None:
    """One prediction as an HTML page: question, chains with checked citations, evidence with its sources, lineage."""
    with _sentences():
        from evidence_assets.lake.catalogue import connect
        from evidence_assets.report.cards import card as made

        with connect(lake) as connection:
            page = made(connection, prediction)
    output.write_text(page, encoding="utf-8")
    out.print(f"wrote {output}", markup=False, soft_wrap=True)


@adding.command("benchmark")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="Small letters, digits and '_'.")],
    questions: Annotated[Path, typer.Option(help="JSON lines; the fields stand in evidence_assets/datasets/own.py.")],
    corpus: Annotated[str | None, typer.Option(help="Folder of documents, or the name of a declared corpus.")] = None,
    tables: Annotated[Path | None, typer.Option(help="JSON lines of tables, one table, or a folder of tables.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Triples: head, relation and tail, with tabs between.")] = None,
    split: Annotated[str | None, typer.Option(help="Split to answer; test where there is one.")] = None,
    lake: LakeOption = None,
) -> None:
    """Check a benchmark of your own, copy its files into the lake and declare it: all of it, or nothing."""
    with _sentences():
        from evidence_assets.components.add_benchmark import plan as planned
        from evidence_assets.components.add_benchmark import write
        from evidence_assets.defs.resources import LakeResource

        made = planned(name, questions, corpus=corpus, tables=tables, graph=graph, split=split)
        loaded: list[str] = []
        opened = LakeResource(root=str(lake or "")).open()
        files = write(made, opened, lambda: loaded.extend(_loads(name)))
    counts = ", ".join(f"{n:,} {what}" for what, n in made.counts.items())
    out.print(f"{name}: {counts}; task {made.task}, split {made.split}")
    for file in files:
        out.print(f"  wrote {file}", markup=False, soft_wrap=True)
    out.print("Dagster now loads:")
    for line in loaded:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    if made.graph:
        out.print(
            f"The triples lie in raw/{made.folder}/graph.tsv; a graph is made of them where a component declares it."
        )
    out.print("`evidence demo` makes all of it; the Dagster UI shows it after a reload.")


def _loads(name: str) -> list[str]:
    """What the asset graph holds of a benchmark: assets of its own, and how many have it as a partition."""
    from evidence_assets.definitions import defs

    graph = defs().resolve_asset_graph()
    own, shared = [], 0
    for key in sorted(graph.materializable_asset_keys):
        partitions = graph.get(key).partitions_def
        keys = partitions.get_partition_keys() if partitions is not None else []
        shared += any(str(k).split("|")[0] == name for k in keys)
        if name in key.path[1:]:
            own.append("/".join(key.path))
    return [*own, f"a partition {name} of {shared} assets"]


def _examples(count: int = 3) -> None:
    from rich.markup import escape

    from evidence_assets.lake.catalogue import connect

    with connect() as connection:
        rows = connection.execute(
            """
            WITH best AS (
                SELECT p.*, q.text, q.options, q.gold, q.task,
                       row_number() OVER (PARTITION BY q.task ORDER BY p.confidence DESC, p.prediction_id) AS place
                FROM predictions p JOIN questions q USING (question_id)
                WHERE p.status = 'answered' AND list_contains(q.gold, p.answer) AND len(q.options) > 0
            )
            SELECT prediction_id, text, options, answer, task FROM best WHERE place <= 2 ORDER BY place, task LIMIT $n
            """,
            {"n": count},
        ).fetchall()
        for prediction_id, text, options, answer, task in rows:
            index = options.index(answer) if task == "verification" else ord(answer) - ord("A")
            chosen = answer if task == "verification" else f"{answer}. {options[index]}"
            out.print(f"\n[bold]{escape(text)}[/bold]\n  answer: {escape(chosen)}")
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
                out.print(f"  {verdict} evidence ({escape(place)}): {escape(shown)}", style="dim")
            out.print(f"  evidence trace {prediction_id[:12]}", style="dim")


@app.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only say what would be deleted.")] = False,
    lake: LakeOption = None,
) -> None:
    """Folders that no asset makes any more, and what killed runs left behind."""
    with _sentences():
        from evidence_assets.demo import lake_assets
        from evidence_assets.lake.catalogue import find_lake
        from evidence_assets.lake.housekeeping import collect, orphans
        from evidence_assets.lake.store import Lake

        opened = Lake(lake or find_lake())
        found = orphans(opened, lake_assets())
        for path, size in found:
            out.print(f"{size:>14,} bytes  {path.relative_to(opened.root)}", markup=False)
        total = sum(size for _, size in found)
        if not found:
            out.print("nothing to delete")
        elif yes:
            collect(found)
            out.print(f"deleted {len(found)} folders and files, {total:,} bytes")
        else:
            out.print(f"{len(found)} folders and files, {total:,} bytes; `evidence gc --yes` deletes them")


@app.command()
def doctor(
    profile: Annotated[str | None, typer.Option(help="Profile to check; the one in use otherwise.")] = None,
) -> None:
    """What is installed, which models and devices are usable, and what a profile still lacks."""
    with _sentences():
        from evidence_assets import profiles
        from evidence_assets.models.diagnosis import diagnose

        findings = diagnose(profiles.load(profile))
    shown = Table("", "what", "found", "what to do", show_header=False)
    for finding in findings:
        sign = {True: "[green]ok[/green]", False: "[red]missing[/red]", None: "note"}[finding.fine]
        shown.add_row(sign, _cell(finding.what), _cell(finding.found), _cell(finding.remedy))
    out.print(shown)
    if any(finding.fine is False for finding in findings):
        raise typer.Exit(1)


def main() -> None:
    """Entry point of the console script."""
    try:
        app()
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        sys.stderr.close()
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
