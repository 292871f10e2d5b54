"""One question at a time: ``evidence ask`` and ``prompts``, with the stages of the assets but without Dagster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK
from evidence_assets.benchmarks.records import Table as Cells
from evidence_assets.benchmarks.user_benchmark import read_table_file
from evidence_assets.cli.console import JsonOption, LakeOption, err, out, print_if_json, report_errors, strip_controls
from evidence_assets.experiment.variants import Variant, variants, variants_of
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.text.spelling import closest_name

if TYPE_CHECKING:
    from evidence_assets.cli.add_corpus import AddedCorpus
    from evidence_assets.experiment.ad_hoc_questions import AdHocAnswer, QuestionSource

commands = typer.Typer(rich_markup_mode=None)
DEFAULT_SYSTEMS = {"table": "ucret", "mcqa": "uscrake", "graph": "uscrake"}
GRAPH_ONLY_SYSTEMS = {"mcqa": "ugat", "graph": "a2q_paths"}
"""Who answers in a task family where no system is named: from a corpus, and from a graph alone."""


@commands.command()
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUESTION] [OPTION]...", help="Without one, questions are read line by line."),
    ] = None,
    options: Annotated[list[str] | None, typer.Option(help="An answer to choose from; again for each.")] = None,
    corpus: Annotated[
        str,
        typer.Option(
            "--corpus", "--folder", help="Corpus of the lake, or folder of documents to add; the only one by default."
        ),
    ] = "",
    graph: Annotated[str, typer.Option(help="Graph of the lake to answer from, alone or beside the corpus.")] = "",
    table: Annotated[Path | None, typer.Option(help="Table file (CSV, TSV, Parquet) that is asked about.")] = None,
    system: Annotated[
        str, typer.Option(help="Variant that answers, such as bm25; bm25@MODEL or @MODEL names a model, too.")
    ] = "",
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """Ask one question: the answer, what it rests on, and what would change it; or that the evidence does not say."""
    from evidence_assets.experiment import ad_hoc_questions

    with report_errors():
        folder = _folder(corpus)
        opened = _open_lake(lake, making=folder is not None)
        if folder is not None:
            corpus = add_folder(opened, folder)
        cells = _table(table)
        source = ad_hoc_questions.resolve_source(opened, corpus, graph, cells.table_id if cells else "")
        for text in (words or [])[:1] or _lines():
            _ask(opened, text, [*(options or []), *(words or [])[1:]], source, cells, system, as_json)


def _folder(corpus: str) -> Path | None:
    """The folder that ``--corpus`` names, if it is a path or a folder and not just the name of a corpus."""
    is_folder = "/" in corpus or corpus.startswith(".") or (corpus and Path(corpus).is_dir())
    return Path(corpus) if is_folder else None


def _open_lake(lake: Path | None, *, making: bool) -> Lake:
    place, shards = lake or find_lake(), profiles.load().shards
    if making or (place / "format.json").exists():
        return Lake.create(place, question_shards=shards.questions, corpus_shards=shards.corpus)
    return Lake(place)


def _lines() -> Any:
    """Questions from standard input, one a line, until it ends."""
    if sys.stdin.isatty():
        err.print("One question a line; ctrl-D ends.", style="dim")
    return (line for line in sys.stdin if line.strip())


def _table(file: Path | None) -> Cells | None:
    if file is None:
        return None
    from evidence_assets.experiment.ad_hoc_questions import with_content_id

    if not file.is_file():
        raise BadInput("there is no such file; --table names a CSV, TSV or Parquet file", file=file)
    return with_content_id(read_table_file(file))


def add_folder(lake: Lake, folder: Path) -> str:
    """The corpus named after this folder, added to the lake or brought up to date."""
    from evidence_assets.cli.add_corpus import add_corpus, corpus_name

    name = corpus_name(folder)
    build_corpus(lake, name, add_corpus(lake, name, folder, inform=progress_printer(name)))
    return name


def progress_printer(name: str) -> Callable[[str], None]:
    """Tells what is being made of a corpus, on standard error."""
    return lambda said: err.print(f"{name}: {said}", style="dim")


def build_corpus(lake: Lake, name: str, added: AddedCorpus) -> None:
    """Make the corpus of the files that were added, unless it is made of them already."""
    from evidence_assets.experiment.ad_hoc_questions import list_corpora
    from evidence_assets.experiment.corpus_building import build_corpus

    if not added.changed and name in list_corpora(lake):
        return
    started = time.monotonic()
    made = build_corpus(lake, name, group_files(added.raw), progress_printer(name), added.tokens)
    err.print(
        f"{name}: {added.documents:,} documents, {made['chunks']:,} chunks, {made['reused']:,} of them as before, "
        f"{time.monotonic() - started:.1f} s",
        style="dim",
    )


def select_variant(family: str, source: QuestionSource, system: str, model: str) -> Variant:
    """The variant that answers, with the removal test wherever it explains.

    Raises BadInput where no variant of the family has this name, or the profile no such model.
    """
    known = {v.name: v for v in variants() if v.family == family}
    name = system or (DEFAULT_SYSTEMS if source.corpus or source.table else GRAPH_ONLY_SYSTEMS)[family]
    if name not in known:
        what = {"mcqa": "questions with options", "graph": "questions without options", "table": "questions on tables"}
        raise BadInput(
            f"no system {name!r} answers {what[family]}; did you mean {closest_name(name, known)!r}? There are: "
            f"{', '.join(sorted(known))}"
        )
    generator = profiles.load().generator.name
    if model and f"{name}@{model}" in known:
        name = f"{name}@{model}"
    elif model and model != generator:
        raise BadInput(
            f"profile {profiles.load().name} has no model {model!r}, it reasons with {generator!r}: name the "
            f"model under "
            "`generator` in a profile and choose that by EVIDENCE_PROFILE; `evidence doctor` says what it needs"
        )
    variant = known[name]
    return variant.model_copy(update={"counterfactual": variant.explain})


def select_variants(family: str, source: QuestionSource, system: str, model: str) -> list[Variant]:
    """The variants that are asked in turn, until the evidence of one decides: without options first the graph alone."""
    if family == "graph" and source.graph and source.corpus and not system:
        return [select_variant(family, place, "", model) for place in (replace(source, corpus=""), source)]
    return [select_variant(family, source, system, model)]


def _ask(
    lake: Lake,
    text: str,
    options: Sequence[str],
    source: QuestionSource,
    table: Cells | None,
    system: str,
    as_json: bool,
) -> None:
    """Answer one question and print the answer."""
    started = time.monotonic()
    from evidence_assets.experiment import ad_hoc_questions
    from evidence_assets.experiment.stages import build_stages

    question = ad_hoc_questions.build_question(text, options, source, table)
    name, _, model = system.partition("@")
    chosen = select_variants(FAMILY_OF_TASK[question.task], source, name, model)
    if source.corpus and not table:
        ad_hoc_questions.check_corpus(lake, source.corpus)
    ad_hoc_questions.store_question(lake, question, table)
    answered = pick_clearest(
        ad_hoc_questions.answer_question(
            lake,
            question.question_id,
            question.task,
            source,
            build_stages(systems.load(variant.system), variant),
            lambda said: err.print(said, style="dim"),
        )
        for variant in chosen
    )
    _print(lake, answered, time.monotonic() - started, as_json)


def pick_clearest(answers: Iterable[AdHocAnswer]) -> AdHocAnswer:
    """The first answer that the evidence decides; where none is, the first that leaves least open."""
    left_open = []
    for answered in answers:
        if answered.prediction["status"] == "answered":
            return answered
        left_open.append(answered)
    return min(left_open, key=lambda answered: answered.prediction["status"] != "ambiguous")


def _print(lake: Lake, answered: AdHocAnswer, seconds: float, as_json: bool) -> None:
    identifier = answered.prediction["prediction_id"]
    with connect(lake.root, lazy=True) as connection:
        view = view_answer(connection, identifier)
    taken = {"seconds": round(seconds, 3), "seconds_by_part": dict(answered.seconds)}
    if print_if_json(as_json, view.as_dict() | taken):
        return
    out.print(strip_controls(view.as_text()), end="", markup=False, soft_wrap=True)
    parts = ", ".join(f"{part} {spent:.1f}" for part, spent in answered.seconds.items() if spent >= 0.1)
    out.print(f"{seconds:.1f} s" + (f" ({parts})" if parts else ""), style="dim")


@commands.command()
def prompts(
    system: Annotated[str, typer.Argument(help="Such as ucret.")],
    variant: Annotated[
        str, typer.Option(help="Such as ucret_published, or table/ucret_published; all loaded ones otherwise.")
    ] = "",
    question: Annotated[
        str, typer.Option(help="Beginning of a question's id; the first with evidence otherwise.")
    ] = "",
    as_json: JsonOption = False,
    lake: LakeOption = None,
) -> None:
    """What a language model will be sent for one question, word for word, without sending it."""
    with report_errors():
        from evidence_assets.experiment.prompts import preview_prompts as shown

        if system not in systems.list_systems():
            raise BadInput(
                f"there is no system {system!r}; did you mean {closest_name(system, systems.list_systems())!r}?"
            )
        known = variants_of(system)
        chosen = [v for v in known if (variant in (v.name, v.key) if variant else v.is_loaded)]
        if not chosen:
            near = closest_name(variant, [v.name for v in known])
            raise BadInput(f"{system} has no variant {variant!r}; did you mean {near!r}?")
        loaded, opened = systems.load(system), Lake(lake or find_lake())
        found, silent = [], []
        for one in chosen:
            try:
                found += shown(loaded, one, opened, question)
            except BadInput as error:
                silent.append(error)
        if not found:
            raise silent[0]
    if print_if_json(as_json, [asdict(one) for one in found]):
        return
    for number, each in enumerate(found, 1):
        asked = each.request
        shape = f"one of {', '.join(asked.choices)}" if asked.choices else "JSON" if asked.json_schema else "free text"
        out.rule(f"{number}. {each.asset}", align="left")
        for role, text in (("system", asked.system), ("user", asked.user)):
            out.print(f"{role}:", style="bold")
            out.print(text, markup=False, soft_wrap=True)
        out.print(f"reply: {shape}, at most {asked.max_reply_tokens} tokens", style="dim", markup=False)
