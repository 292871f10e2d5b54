"""Commands about experiments: ``variants``, ``presets``, ``card`` and ``add``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
import yaml

from evidence_assets.cli.console import (
    JsonOption,
    LakeOption,
    out,
    print_if_json,
    print_table,
    report_errors,
    strip_controls,
)
from evidence_assets.experiment.variants import Variant
from evidence_assets.experiment.variants import variants as declared_variants
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.lake.catalogue import LAKE_VARIABLE, connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.presets import PRESETS_VARIABLE, enabled_presets
from evidence_assets.reproduction.presets import presets as declared_presets
from evidence_assets.text.spelling import did_you_mean

commands = typer.Typer(rich_markup_mode=None)
adding = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Add your own data to the lake.")
commands.add_typer(adding, name="add")


@commands.command()
def variants(
    family: Annotated[str, typer.Argument(help="Family of tasks, such as mcqa; by default all.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the variants: what they are, and when they are loaded.

    A variant is a method of a system with parameters; `evidence ask --system` takes its name.
    """
    with report_errors():
        families = sorted({variant.family for variant in declared_variants()})
        if family and family not in families:
            raise BadInput(f"there is no family {family!r}{did_you_mean(family, families)}")
        listed = sorted((v for v in declared_variants() if family in ("", v.family)), key=lambda v: v.family)
        rows = [describe_variant(variant) for variant in listed]
    if not print_if_json(as_json, rows):
        print_table(list(rows[0]), (tuple(row.values()) for row in rows))


def describe_variant(variant: Variant) -> dict[str, str]:
    """A row of the list of variants."""
    from evidence_assets.systems import open_method

    method_class = type(open_method(variant))
    parameters = yaml.safe_dump(variant.parameters, default_flow_style=True, sort_keys=False, width=1000)
    return {
        "variant": variant.name,
        "family": variant.family,
        "system": variant.system,
        "method": (method_class.__doc__ or "").partition("\n")[0],
        "parameters": parameters.strip() if variant.parameters else "",
        "loaded": describe_loading(variant),
    }


def describe_loading(variant: Variant) -> str:
    """When the variant is part of the asset graph, in words."""
    if variant.is_loaded:
        return "yes"
    if variant.only_ad_hoc:
        return "evidence ask only"
    if not variant.printed.is_enabled:
        return f"preset {' or '.join(variant.printed.presets)}"
    return f"no benchmark of {variant.family}"


@commands.command()
def presets() -> None:
    """List the presets of published tables with their variants."""
    with report_errors():
        enabled_names = enabled_presets()
        rows = []
        for preset in declared_presets().values():
            members = ", ".join(
                sorted({variant.key for variant in declared_variants() if preset.name in variant.printed.presets})
            )
            tables = ", ".join(preset.all_tables)
            benchmarks = ", ".join(preset.benchmarks)
            enabled = "yes" if preset.name in enabled_names else ""
            rows.append((preset.name, tables, preset.about, members or "none", benchmarks, enabled))
    print_table(("preset", "table", "description", "variants", "benchmarks", "enabled"), rows, show_lines=True)
    out.print(
        f"Enable presets with {PRESETS_VARIABLE}=name,name (or all), or `presets: [name]` in a profile; then "
        'materialize their assets; the Dagster UI finds them by tag:"preset/name"'
    )


@commands.command()
def card(
    prediction: Annotated[str, typer.Argument(help="First characters of a prediction_id.")], lake: LakeOption = None
) -> None:
    """Show a prediction with its evidence."""
    with report_errors(), connect(lake) as connection:
        view = view_answer(connection, prediction)
    print(strip_controls(format_answer(view)), end="")


NameArgument = Annotated[str, typer.Argument(help="Lowercase letters, digits and '_'.")]


@adding.command("corpus")
def add_corpus(
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(help="Documents: Parquet, JSON lines, text, Markdown, HTML or PDF.")],
    lake: LakeOption = None,
) -> None:
    """Add documents as a corpus, or update the corpus.

    `evidence ask --corpus NAME` then answers from it.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.ask import add_folder
        from evidence_assets.experiment.corpus_building import open_chunks

        _use_lake(lake)
        opened_lake = LakeResource().open()
        add_folder(opened_lake, folder, name)
        documents = open_chunks(opened_lake, name).documents
    out.print(f"{name}: {documents:,} documents; `evidence ask QUESTION --corpus {name}` answers from them,")
    out.print("`evidence add benchmark` adds your own questions. Reload the Dagster UI to see the corpus.")


@adding.command("graph")
def add_graph(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="Triples in three tab-separated columns: head, relation, tail.")],
    lake: LakeOption = None,
) -> None:
    """Add a file of triples as a graph, or update the graph.

    `evidence ask --graph NAME` then answers from it.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli import add_graph as adding_graphs
        from evidence_assets.cli.ask import make_progress_printer

        _use_lake(lake)
        n_triples = adding_graphs.add_graph(LakeResource().open(), name, file, make_progress_printer(name))
    out.print(f"{name}: {n_triples:,} triples; `evidence ask QUESTION --graph {name}` answers from them.")


@adding.command("benchmark")
def add_benchmark(
    name: NameArgument,
    questions: Annotated[
        Path, typer.Option(help="JSON lines with source_id, text, options or task, and gold. With --reader, a folder.")
    ],
    reader: Annotated[str, typer.Option(help="Dataset of these files, such as obqa; a wrong name lists all.")] = "",
    corpus: Annotated[str | None, typer.Option(help="Folder of documents, or name of a corpus.")] = None,
    tables: Annotated[Path | None, typer.Option(help="JSON lines of tables, a table file, or a folder.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Tab-separated triples; for skb_search a folder with nodes.jsonl and edges.tsv.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split to answer. Default: test, if there is one.")] = None,
    lake: LakeOption = None,
) -> None:
    """Validate your benchmark and add or update it.

    A second time, it replaces the files of the benchmark. On any error nothing is changed.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_benchmark import plan_benchmark, write_benchmark

        _use_lake(lake)
        plan = plan_benchmark(name, questions, reader=reader, corpus=corpus, tables=tables, graph=graph, split=split)
        write_benchmark(plan, LakeResource().open())
    counts = ", ".join(f"{n:,} {kind}" for kind, n in plan.counts.items())
    out.print(f"{name}: {counts}; task {plan.task}, split {plan.split}")
    for note in plan.notes:
        out.print(note)
    out.print(f"Next: `evidence run {name}` computes its scores. Reload the Dagster UI to see it.")


def _use_lake(root: Path | None) -> None:
    """This process uses the lake at ``root`` and its declarations."""
    if root is not None:
        os.environ[LAKE_VARIABLE] = str(root)
