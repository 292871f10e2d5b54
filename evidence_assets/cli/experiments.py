"""Commands about experiments: ``presets``, ``card`` and ``add``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evidence_assets import systems
from evidence_assets.cli.console import LakeOption, err, out, print_table, report_errors, strip_controls
from evidence_assets.experiment.variants import PRESETS_VARIABLE, enabled_presets, variants
from evidence_assets.experiment.variants import presets as declared_presets
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.answers import AnswerRows, Row
from evidence_assets.lake.catalogue import LAKE_VARIABLE, connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

commands = typer.Typer(rich_markup_mode=None)
adding = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Add your own data to the lake.")
commands.add_typer(adding, name="add")


@commands.command()
def presets() -> None:
    """List the presets of published tables with their variants."""
    with report_errors():
        enabled_names = enabled_presets()
        rows = []
        for preset in declared_presets().values():
            members = ", ".join(sorted({variant.key for variant in variants() if preset.name in variant.presets}))
            tables, benchmarks = ", ".join((*preset.tables, *preset.beside)), ", ".join(preset.benchmarks)
            enabled = "yes" if preset.name in enabled_names else ""
            rows.append((preset.name, tables, preset.about, members or "none", benchmarks, enabled))
    print_table(("preset", "table", "description", "variants", "benchmarks", "enabled"), rows, show_lines=True)
    out.print(
        f"Enable presets with {PRESETS_VARIABLE}=name,name (or all), or `presets: [name]` in a profile; then "
        'materialize their assets; the Dagster UI finds them by tag:"preset/name"',
        markup=False,
    )


@commands.command()
def card(
    prediction: Annotated[str, typer.Argument(help="First characters of a prediction_id.")],
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Also answer without the cited evidence, and with only it.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Show a prediction with its evidence.

    `evidence ask` tests its answers without their evidence; --what-if does so for the answers of a benchmark.
    """
    with report_errors(), connect(lake) as connection:
        view = view_answer(connection, prediction)
        if what_if and view.rows.counterfactual is None:
            counterfactual = compute_counterfactual(Lake(lake or find_lake()), view.rows)
            view = replace(view, rows=replace(view.rows, counterfactual=counterfactual))
    print(strip_controls(format_answer(view)), end="")
    if view.rows.counterfactual is None and view.rows.used_ids:
        err.print("--what-if also answers without the cited evidence", style="dim")


def compute_counterfactual(lake: Lake, rows: AnswerRows) -> Row:
    """The counterfactual of a benchmark's answer, computed without storing it; BadInput if it can have none."""
    from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as AD_HOC_BENCHMARK
    from evidence_assets.experiment.answers.predictions import ANSWERED_STATUSES
    from evidence_assets.experiment.stage import StageContext
    from evidence_assets.experiment.stages import build_stages
    from evidence_assets.experiment.system import model_combinations
    from evidence_assets.lake.rows import prepare_rows

    row, variant_name = rows.prediction, rows.variant
    if row["status"] not in ANSWERED_STATUSES or not rows.partition or row["benchmark"] == AD_HOC_BENCHMARK:
        raise BadInput(f"--what-if needs an answer that evidence supports; this one has the status {row['status']}")
    candidates = (v for v in variants() if f"{variant_name}/".startswith(f"{v.family}/{v.name}/"))
    combinations = (c for v in candidates for c in model_combinations(systems.load(v.system), v, frozenset(v.presets)))
    variant = next((c for c in combinations if c.key == variant_name), None)
    if variant is None:
        raise BadInput(f"there is no variant {variant_name} any more: --what-if cannot answer again")
    stages = build_stages(systems.load(variant.system), variant.model_copy(update={"counterfactual": True}))
    stage = next(stage for stage in stages if stage.table == "counterfactuals")
    context = StageContext(lake, stage.table, stage.key, rows.partition, question_id=row["question_id"])
    return next(iter(prepare_rows(stage.table, stage.run(context).rows).to_pylist()))


@adding.command("corpus")
def add_corpus(
    name: Annotated[str, typer.Argument(help="Lowercase letters, digits and '_'.")],
    folder: Annotated[
        Path,
        typer.Argument(help="Documents: Parquet, JSON lines, text, Markdown; HTML and PDF need the extra `documents`."),
    ],
    lake: LakeOption = None,
) -> None:
    """Add documents as a corpus, or update the corpus.

    `evidence ask --corpus NAME` then answers from it.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_corpus import add_corpus as add_documents
        from evidence_assets.cli.ask import make_progress_printer, update_corpus

        _select_lake(lake)
        opened_lake = LakeResource().open()
        added = add_documents(opened_lake, name, folder, make_progress_printer(name))
        update_corpus(opened_lake, name, added.raw)
    out.print(
        f"{name}: {added.documents:,} documents; `evidence ask QUESTION --corpus {name}` answers from them,",
        soft_wrap=True,
    )
    out.print("`evidence add benchmark` adds your own questions. Reload the Dagster UI to see the corpus.")


@adding.command("benchmark")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="Lowercase letters, digits and '_'.")],
    questions: Annotated[
        Path, typer.Option(help="JSON lines with source_id, text, options or task, and gold. With --reader, a folder.")
    ],
    reader: Annotated[
        str, typer.Option(help="Dataset whose published files these are, such as obqa; an unknown name lists all.")
    ] = "",
    corpus: Annotated[str | None, typer.Option(help="Folder of documents, or name of a corpus.")] = None,
    tables: Annotated[
        Path | None, typer.Option(help="JSON lines of tables, one table file, or a folder of table files.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Tab-separated triples (head, relation, tail); for skb_search a folder.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split to answer. Default: test, if there is one.")] = None,
    lake: LakeOption = None,
) -> None:
    """Validate your benchmark and add or update it.

    A second time, it replaces the files of the benchmark. On any error nothing is changed.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_benchmark import plan_benchmark, plan_published_benchmark, write_benchmark

        _select_lake(lake)
        if reader and tables:
            raise BadInput("--tables is only for your own files; a reader finds the tables of its dataset")
        if reader:
            plan = plan_published_benchmark(name, reader, questions, corpus=corpus, graph=graph, split=split)
        else:
            plan = plan_benchmark(name, questions, corpus=corpus, tables=tables, graph=graph, split=split)
        write_benchmark(plan, LakeResource().open())
    counts = ", ".join(f"{n:,} {kind}" for kind, n in plan.counts.items())
    out.print(f"{name}: {counts}; task {plan.task}, split {plan.split}")
    for note in plan.notes:
        out.print(note, markup=False, soft_wrap=True)
    out.print(f"Next: `evidence run {name}` computes its scores. Reload the Dagster UI to see it.")


def _select_lake(root: Path | None) -> None:
    """Select the lake whose declarations this process reads."""
    os.environ[LAKE_VARIABLE] = Lake(root or find_lake()).address
