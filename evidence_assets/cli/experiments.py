"""Commands about experiments: variants compared, recorded answers scored, presets planned, answers and graphs to read,
a benchmark of one's own."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import declared
from evidence_assets.cli.console import JsonOption, LakeOption, as_json_only, out, plain, sentences, table
from evidence_assets.experiment import variants as declared_presets
from evidence_assets.experiment.scores import comparison
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.variants import variants
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.cards import card as card_page
from evidence_assets.explorer.graph_sizes import graph_sizes
from evidence_assets.lake.array_files import open_json
from evidence_assets.lake.catalogue import LAKE_VARIABLE, connect, find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval.corpus import index_key
from evidence_assets.retrieval.vector_index import META
from evidence_assets.systems.baselines.recorded import Scored, score_recording

if TYPE_CHECKING:
    from evidence_assets.assets.planning import Planned
    from evidence_assets.experiment.corpus_plan import CorpusPlan

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
    with sentences(), connect(lake) as connection:
        found = [(b, row) for b in variants_b for row in comparison.compare(connection, variant_a, b, benchmark)]
    if as_json_only(as_json, [{"b": b, **row.as_dict()} for b, row in found]):
        return
    headers = ("B", "benchmark", "n", "A", "B", "A − B", "95 %", "only A right", "only B right", "McNemar p", "better")
    rows = []
    for name, row in found:
        values = (row.n, f"{row.accuracy_a:.3f}", f"{row.accuracy_b:.3f}", f"{row.difference.value:+.3f}")
        interval = f"{row.difference.low:+.3f} – {row.difference.high:+.3f}"
        tests = (row.only_a, row.only_b, f"{row.p_value:.3g}", row.verdict)
        rows.append((name, row.benchmark, *values, interval, *tests))
    table(headers, rows, title=f"A = {variant_a}")
    left_out = sum(row.left_out for _, row in found)
    if left_out:
        out.print(f"{left_out:,} questions are left out: only one of the two has a prediction for them")
    out.print("better: only where the 95 % interval excludes 0 and McNemar's test gives p < 0.05", style="dim")


@commands.command()
def replay(
    folder: Annotated[Path, typer.Argument(help="Folder with index.tsv and one file an answer.")],
    several: Annotated[
        Literal["first", "refuse"],
        typer.Option(help="What to do with a reply that names several letters: take the first, or refuse it."),
    ] = "first",
    as_json: JsonOption = False,
) -> None:
    """Recorded answers of other models, scored as ours are: accuracy with its 95 % interval, and what was unusable."""
    with sentences():
        scored: dict[tuple[str, str, str], list[Scored]] = {}
        for item in score_recording(folder, several):
            for benchmark in (item.question.benchmark, "all"):
                scored.setdefault((benchmark, item.model, item.mode), []).append(item)
        found = [(*key, accuracy([i.correct for i in items]), items) for key, items in scored.items()]
    names = ("benchmark", "model", "mode", "accuracy", "low", "high", "n", "unusable")
    rows = [(*key, e.value, e.low, e.high, e.n, sum(i.answer is None for i in items)) for *key, e, items in found]
    if as_json_only(as_json, [dict(zip(names, row, strict=True)) for row in rows]):
        return
    table(
        ("benchmark", "model", "mode", "accuracy", "95 %", "right", "n", "unusable"),
        [
            (*key, f"{value:.3f}", f"{low:.3f} – {high:.3f}", sum(i.correct for i in items), n, unusable)
            for (*key, value, low, high, n, unusable), (*_, items) in zip(rows, found, strict=True)
        ],
    )
    reasons = Counter(i.error for benchmark, *_, items in found if benchmark == "all" for i in items if i.error)
    for reason, count in reasons.most_common():
        out.print(plain(f"{count:,} unusable: {reason}"), style="dim", markup=False)


@commands.command()
def presets() -> None:
    """The published tables as presets: which variants and benchmarks each stands for, and whether it is opted in."""
    with sentences():
        asked = declared_presets.opted_in()
        rows = []
        for preset in declared_presets.presets().values():
            members = ", ".join(sorted({variant.place for variant in variants() if preset.name in variant.presets}))
            tables, benchmarks = ", ".join((*preset.tables, *preset.beside)), ", ".join(preset.benchmarks)
            in_use = "yes" if preset.name in asked else ""
            rows.append((preset.name, tables, preset.about, members or "none yet", benchmarks, in_use))
    table(("preset", "table", "what it stands for", "variants", "benchmarks", "in use"), rows, show_lines=True)
    out.print(
        f"Opt in with {declared_presets.VARIABLE}=name,name (or all), or `presets: [name]` in a profile; then "
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
    with sentences():
        from dagster import DagsterInstance

        from evidence_assets.assets.planning import plan as planned
        from evidence_assets.cli.demo import dagster_home

        place = lake or find_lake()
        dagster_home()
        with DagsterInstance.get() as instance:
            rows = planned(preset, Lake(place) if (place / "format.json").exists() else None, instance, model)
    if as_json_only(as_json, [asdict(row) for row in rows]):
        return
    show_plan(rows, preset)
    named = {part for row in rows for part in row.variant.split("@")[1:]}
    encoders = ["", *(name for name in profiles.load().names("encoder")[1:] if name in named)]
    asked = [declared()[name] for name in {row.benchmark for row in rows} & set(declared())]
    for name in sorted({benchmark.corpus for benchmark in asked} - {""}):
        for encoder in encoders:
            out.print(corpus_told(name, place, encoder))


def corpus_told(name: str, lake: Path, encoder: str = "") -> str:
    """How large a corpus is that questions are answered from, or how to learn it before it is made."""
    stated = Lake(lake).index_folder(index_key(name, encoder)) / META if (lake / "format.json").exists() else None
    called = f"corpus {name} by {encoder}" if encoder else f"corpus {name}"
    if stated is None or not stated.exists():
        return (
            f"{called}: not made here; `evidence add corpus {name} FOLDER --plan` tells its size, time and disk from a "
            "sample, docs/measured.md what corpora and graphs took elsewhere"
        )
    index = open_json(stated)
    recall = ", ".join(f"{share:.3f} at {k}" for k, share in index["recall"].items()) or "exact"
    size = f"{index['bytes'] / 2**20:,.1f} MiB"
    return f"{called}: {index['vectors']:,} chunks, index {index['kind']} of {size}, recall {recall}"


def show_plan(rows: Sequence[Planned], name: str) -> None:
    """Questions, model calls, tokens and time of each variant on each benchmark."""
    headers = ("variant", "benchmark", "questions", "model calls", "time")
    told = []
    for row in rows:
        counted = (UNKNOWN if n is None else f"{n:,}" for n in (row.questions, row.calls))
        told.append((row.variant, row.benchmark, *counted, _duration(row.seconds)))
    table(headers, told, title=f"{name} with profile {profiles.load().name}")
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
    with sentences(), connect(lake) as connection:
        if output is None:
            print(plain(view_answer(connection, prediction).as_text()), end="")
            return
        page = card_page(connection, prediction)
    output.write_text(page, encoding="utf-8")
    out.print(f"wrote {output}", markup=False, soft_wrap=True)


@commands.command()
def graphs(as_json: JsonOption = False, lake: LakeOption = None) -> None:
    """Size of every knowledge graph, and what each of its sources gives under which licence."""
    with sentences(), connect(lake) as connection:
        found = graph_sizes(connection)
    if as_json_only(as_json, found):
        return
    rows: list[tuple[str, ...]] = []
    for row in found:
        size = (row["graph"], *(f"{row[name]:,}" for name in ("nodes", "edges", "relations")))
        for of in row["sources"] or [{"source": "", "edges": 0, "licences": ()}]:
            rows.append((*size, of["source"], f"{of['edges']:,}", ", ".join(of["licences"])))
            size = ("",) * 4
    table(("graph", "nodes", "edges", "relations", "source", "edges of it", "licences"), rows)
    out.print("An edge that several sources state counts for each of them.", style="dim")


@adding.command("corpus")
def add_corpus(
    name: Annotated[str, typer.Argument(help="Small letters, digits and '_'.")],
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER_OR_FILES",
            help="Documents: Parquet, JSON lines, text, Markdown; HTML and PDF with the extra documents.",
        ),
    ],
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it will take.")] = False,
    lake: LakeOption = None,
) -> None:
    """Add documents as a corpus, or bring it up to date; `evidence ask --corpus NAME` answers from it."""
    with sentences():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_corpus import add_corpus as added
        from evidence_assets.cli.add_corpus import plan_only
        from evidence_assets.cli.ask import make_anew, tell

        if plan:
            _show_corpus(name, plan_only(name, places))
            return
        opened = _with_its_declarations(LakeResource(root=str(lake or "")).open())
        done = added(opened, name, places, lambda planned: _show_corpus(name, planned), tell(name))
        make_anew(opened, name, done)
    out.print(
        f"{name}: {done.documents:,} documents; `evidence ask QUESTION --corpus {name}` asks them,", soft_wrap=True
    )
    out.print("`evidence add benchmark` adds questions of your own, the Dagster UI shows the corpus after a reload.")


def _show_corpus(name: str, plan: CorpusPlan) -> None:
    out.print(
        f"{name}: {plan.files:,} files of {plan.bytes / 1e9:,.2f} GB, about {plan.documents:,} documents, "
        f"{plan.chunks:,} chunks; {_duration(plan.seconds)} at the pace of a sample now; "
        f"{plan.disk_bytes / 1e9:,.2f} GB of disk; token vectors "
        + ("of all chunks" if plan.kept == "stored" else "on demand"),
        soft_wrap=True,
    )


@adding.command("benchmark")
def add_benchmark(
    name: Annotated[str, typer.Argument(help="Small letters, digits and '_'.")],
    questions: Annotated[Path, typer.Option(help="JSON lines; the fields stand in evidence_assets/benchmarks/own.py.")],
    corpus: Annotated[str | None, typer.Option(help="Folder of documents, or the name of a declared corpus.")] = None,
    tables: Annotated[Path | None, typer.Option(help="JSON lines of tables, one table, or a folder of tables.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Triples: head, relation, tail with tabs between; for skb_search a folder.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split to answer; test where there is one.")] = None,
    lake: LakeOption = None,
) -> None:
    """Check a benchmark of your own, copy its files into the lake and declare it: all of it, or nothing."""
    with sentences():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.cli.add_benchmark import plan as planned
        from evidence_assets.cli.add_benchmark import write

        opened = _with_its_declarations(LakeResource(root=str(lake or "")).open())
        made = planned(name, questions, corpus=corpus, tables=tables, graph=graph, split=split)
        loaded: list[str] = []
        files = write(made, opened, lambda: loaded.extend(_loads(name)))
    counts = ", ".join(f"{n:,} {what}" for what, n in made.counts.items())
    out.print(f"{name}: {counts}; task {made.task}, split {made.split}")
    for file in files:
        out.print(f"  wrote {file}", markup=False, soft_wrap=True)
    out.print("Dagster now loads:")
    for line in loaded:
        out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print(f"`evidence run {name}` makes all of it, down to scores; the Dagster UI shows it after a reload.")


def _with_its_declarations(lake: Lake) -> Lake:
    """The lake, as the one whose declarations this process reads beside the package's."""
    os.environ[LAKE_VARIABLE] = lake.address
    return lake


def _loads(name: str) -> list[str]:
    """What the asset graph holds of a benchmark: assets of its own, and how many have it as a partition."""
    from dagster import DagsterInstance

    from evidence_assets.definitions import defs

    graph, relations = defs().resolve_asset_graph(), DagsterInstance.ephemeral()
    own, shared = [], 0
    for key in sorted(graph.materializable_asset_keys):
        partitions = graph.get(key).partitions_def
        keys = partitions.get_partition_keys(dynamic_partitions_store=relations) if partitions is not None else []
        shared += any(str(k).split("|")[0] == name for k in keys)
        if name in key.path[1:]:
            own.append("/".join(key.path))
    return [*own, f"a partition {name} of {shared} assets"]
