"""Commands about experiments: variants compared, recorded answers scored, presets planned, answers and graphs to read,
a benchmark of one's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.cli.console import (
    JsonOption,
    LakeOption,
    out,
    print_if_json,
    print_table,
    report_errors,
    strip_controls,
)
from evidence_assets.experiment import variants as declared_presets
from evidence_assets.experiment.scores import comparison
from evidence_assets.experiment.variants import variants
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.export import evidence_card as card_page
from evidence_assets.lake.array_files import open_json
from evidence_assets.lake.catalogue import LAKE_VARIABLE, connect, find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval.corpus import index_key
from evidence_assets.retrieval.vector_index import META

if TYPE_CHECKING:
    from evidence_assets.assets.planning import PlanRow

commands = typer.Typer(rich_markup_mode=None)
adding = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring your own data into the lake.")
commands.add_typer(adding, name="add")


@commands.command()
def compare(
    variant_a: Annotated[
        str, typer.Argument(help="Such as bm25, mcqa/bm25 where several families have one, or bm25@model.")
    ],
    variants_b: Annotated[list[str], typer.Argument(help="The variant, or variants, that it is compared with.")],
    benchmark: Annotated[str | None, typer.Option(help="Only on this benchmark.")] = None,
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Variants on the same questions: paired bootstrap interval of the difference and McNemar's exact test."""
    with report_errors(), connect(lake) as connection:
        found = [(b, row) for b in variants_b for row in comparison.compare(connection, variant_a, b, benchmark)]
    if print_if_json(as_json, [{"b": b, **row.as_dict()} for b, row in found]):
        return
    headers = ("B", "benchmark", "n", "A", "B", "A − B", "95 %", "only A right", "only B right", "McNemar p", "better")
    rows = []
    for name, row in found:
        values = (row.n, f"{row.accuracy_a:.3f}", f"{row.accuracy_b:.3f}", f"{row.difference.value:+.3f}")
        interval = f"{row.difference.low:+.3f} – {row.difference.high:+.3f}"
        tests = (row.only_a, row.only_b, f"{row.p_value:.3g}", row.verdict)
        rows.append((name, row.benchmark, *values, interval, *tests))
    print_table(headers, rows, title=f"A = {variant_a}")
    left_out = sum(row.left_out for _, row in found)
    if left_out:
        out.print(f"{left_out:,} questions are left out: only one of the two has a prediction for them")
    out.print("better: only where the 95 % interval excludes 0 and McNemar's test gives p < 0.05", style="dim")


@commands.command()
def presets() -> None:
    """The published tables as presets: which variants and benchmarks each stands for, and whether it is opted in."""
    with report_errors():
        asked = declared_presets.enabled_presets()
        rows = []
        for preset in declared_presets.presets().values():
            members = ", ".join(sorted({variant.key for variant in variants() if preset.name in variant.presets}))
            tables, benchmarks = ", ".join((*preset.tables, *preset.beside)), ", ".join(preset.benchmarks)
            in_use = "yes" if preset.name in asked else ""
            rows.append((preset.name, tables, preset.about, members or "none yet", benchmarks, in_use))
    print_table(("preset", "table", "what it stands for", "variants", "benchmarks", "in use"), rows, show_lines=True)
    out.print(
        f"Opt in with {declared_presets.PRESETS_VARIABLE}=name,name (or all), or `presets: [name]` in a profile; then "
        'materialize the assets tagged with it, in the Dagster UI: tag:"preset/name"',
        markup=False,
    )


@commands.command()
def plan(
    preset: Annotated[str, typer.Argument(help="A preset; `evidence presets` lists them.")],
    model: Annotated[str, typer.Option(help="Only with this model of the profile.")] = "",
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """What a preset asks for before anything runs: questions, model calls, and time where measured here."""
    with report_errors():
        from dagster import DagsterInstance

        from evidence_assets.assets.planning import plan as planned
        from evidence_assets.cli.runner import dagster_home

        place = lake or find_lake()
        dagster_home()
        with DagsterInstance.get() as instance:
            rows = planned(preset, Lake(place) if (place / "format.json").exists() else None, instance, model)
    if print_if_json(as_json, [asdict(row) for row in rows]):
        return
    show_plan(rows, preset)
    corpora = {all_benchmarks()[row.benchmark].corpus for row in rows if row.benchmark in all_benchmarks()}
    for name in sorted(corpora - {""}):
        out.print(describe_corpus(name, place))


def describe_corpus(name: str, lake: Path) -> str:
    """How large a corpus is that questions are answered from, or how to learn it before it is made."""
    stated = Lake(lake).index_folder(index_key(name)) / META if (lake / "format.json").exists() else None
    if stated is None or not stated.exists():
        return f"corpus {name}: not in this lake"
    index = open_json(stated)
    recall = ", ".join(f"{share:.3f} at {k}" for k, share in index["recall"].items()) or "exact"
    size = f"{index['bytes'] / 2**20:,.1f} MiB"
    return f"corpus {name}: {index['vectors']:,} chunks, index {index['kind']} of {size}, recall {recall}"


def show_plan(rows: Sequence[PlanRow], name: str) -> None:
    """Questions, model calls, tokens and time of each variant on each benchmark."""
    headers = ("variant", "benchmark", "questions", "model calls", "time")
    told = []
    for row in rows:
        counted = (UNKNOWN if n is None else f"{n:,}" for n in (row.questions, row.calls))
        told.append((row.variant, row.benchmark, *counted, _duration(row.seconds)))
    print_table(headers, told, title=f"{name} with profile {profiles.load().name}")
    out.print(
        f"time: at the pace of the variant's last steps here, evidence included; {UNKNOWN} where nothing here tells: "
        "a benchmark that declares no size, calls whose number depends on what is retrieved",
        style="dim",
    )


UNKNOWN = "?"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not measured here"
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:,.1f} min" if seconds >= 60 else f"{seconds:,.1f} s"


@commands.command()
def card(
    prediction: Annotated[str, typer.Argument(help="Id of a prediction, or its beginning.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML file to write; without one, the short form as text.")
    ] = None,
    lake: LakeOption = None,
) -> None:
    """One prediction to read: question, chains with checked citations, evidence with sources; as a page lineage too."""
    with report_errors(), connect(lake) as connection:
        if output is None:
            print(strip_controls(view_answer(connection, prediction).as_text()), end="")
            return
        page = card_page(connection, prediction)
    output.write_text(page, encoding="utf-8")
    out.print(f"wrote {output}", markup=False, soft_wrap=True)


@adding.command("corpus")
def add_corpus(
    name: Annotated[str, typer.Argument(help="Small letters, digits and '_'.")],
    folder: Annotated[
        Path,
        typer.Argument(help="Documents: Parquet, JSON lines, text, Markdown; HTML and PDF with the extra documents."),
    ],
    lake: LakeOption = None,
) -> None:
    """Add documents as a corpus, or bring it up to date; `evidence ask --corpus NAME` answers from it."""
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_corpus import add_corpus as added
        from evidence_assets.cli.ask import build_corpus, progress_printer

        opened = _with_its_declarations(LakeResource(root=str(lake or "")).open())
        done = added(opened, name, folder, progress_printer(name))
        build_corpus(opened, name, done)
    out.print(
        f"{name}: {done.documents:,} documents; `evidence ask QUESTION --corpus {name}` asks them,", soft_wrap=True
    )
    out.print("`evidence add benchmark` adds questions of your own, the Dagster UI shows the corpus after a reload.")


@adding.command("benchmark")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="Small letters, digits and '_'.")],
    questions: Annotated[
        Path, typer.Option(help="JSON lines; the fields stand in evidence_assets/benchmarks/user_benchmark.py.")
    ],
    corpus: Annotated[str | None, typer.Option(help="Folder of documents, or the name of a declared corpus.")] = None,
    tables: Annotated[Path | None, typer.Option(help="JSON lines of tables, one table, or a folder of tables.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Triples: head, relation, tail with tabs between; for skb_search a folder.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split to answer; test where there is one.")] = None,
    lake: LakeOption = None,
) -> None:
    """Check a benchmark of your own, copy its files into the lake and declare it: all of it, or nothing."""
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_benchmark import plan_benchmark as planned
        from evidence_assets.cli.add_benchmark import write_benchmark

        opened = _with_its_declarations(LakeResource(root=str(lake or "")).open())
        made = planned(name, questions, corpus=corpus, tables=tables, graph=graph, split=split)
        files = write_benchmark(made, opened, _loads)
    counts = ", ".join(f"{n:,} {what}" for what, n in made.counts.items())
    out.print(f"{name}: {counts}; task {made.task}, split {made.split}")
    for file in files:
        out.print(f"  wrote {file}", markup=False, soft_wrap=True)
    out.print(f"`evidence run {name}` makes all of it, down to scores; the Dagster UI shows it after a reload.")


def _with_its_declarations(lake: Lake) -> Lake:
    """The lake, as the one whose declarations this process reads beside the package's."""
    os.environ[LAKE_VARIABLE] = lake.address
    return lake


def _loads() -> None:
    """Load the asset graph with what was declared; raises what is wrong with it."""
    from evidence_assets.definitions import defs

    defs().resolve_asset_graph()
