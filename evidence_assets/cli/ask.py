"""``evidence ask``: runs the assets' stages for one question, without Dagster."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.corpora import group_files, has_documents
from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK
from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.table_files import read_tables_of
from evidence_assets.cli import STARTED
from evidence_assets.cli.console import LakeOption, err, out, print_if_json, report_errors, strip_controls
from evidence_assets.experiment.methods import used_model_kinds
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import AnswerView, view_answer
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets.profiles.model_source import MODEL_VARIABLE, is_model_source
from evidence_assets.reasoning.tasks import STATED_STATUS
from evidence_assets.text.spelling import did_you_mean

if TYPE_CHECKING:
    from evidence_assets.experiment.ad_hoc_questions import QuestionSource
    from evidence_assets.experiment.asked_sources import AskedSource
    from evidence_assets.experiment.stage import LogFunction
    from evidence_assets.experiment.stored_rows import PredictionRow

commands = typer.Typer(rich_markup_mode=None)
DEFAULT_SYSTEMS = {"table": "ucret", "mcqa": "uscrake", "graph": "uscrake"}
GRAPH_ONLY_SYSTEMS = {"mcqa": "ugat", "graph": "a2q_paths"}
"""Default variant by task family: with a corpus or a table, and with only a graph."""

SystemOption = Annotated[str, typer.Option(help="Name in `evidence variants`, such as bm25, or bm25@MODEL.")]
ModelOption = Annotated[
    str, typer.Option(help="Language model: one of the profile, an address, a GGUF file, or a name at OPENAI_BASE_URL.")
]


class SystemChoice(NamedTuple):
    """What a user chose to answer with: the names of a variant and a model, empty for the defaults."""

    variant: str
    model: str
    asks_why: bool


class OpenedSources(NamedTuple):
    """What the questions are put to. ``is_joint``: whether documents and graph are read jointly."""

    lake: Lake
    source: QuestionSource | None
    tables: Sequence[Table]
    is_joint: bool


class SourceAnswer(NamedTuple):
    """The answer of one source."""

    source: AskedSource
    view: AnswerView

    @property
    def status(self) -> str:
        return str(self.view.prediction["status"])

    @property
    def confidence(self) -> float | None:
        value: float | None = self.view.prediction["confidence"]
        return value

    @property
    def summary(self) -> str:
        """What the source says, such as "prices.csv says 12 (probability 0.61)"."""
        number = "" if self.confidence is None else f" ({self.view.confidence_name} {self.confidence:.2f})"
        return f"{self.source.statement_start} {self.view.answer_text.rstrip('.')}{number}"


@commands.command()
def ask(  # noqa: PLR0913 - one parameter per option
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUESTION] [OPTION]...", help="Without them, questions are read from standard input."),
    ] = None,
    corpus: Annotated[str, typer.Option("--corpus", "--folder", help="Corpus, or a folder to add as one.")] = "",
    graph: Annotated[str, typer.Option(help="Graph, or a file of triples to add as one; alone or with --corpus.")] = "",
    table: Annotated[
        list[Path] | None, typer.Option(help="File with tables: CSV, TSV, Parquet, Markdown or HTML; may be repeated.")
    ] = None,
    system: SystemOption = "",
    model: ModelOption = "",
    why: Annotated[bool, typer.Option("--why", help="Let a language model explain each option; takes longer.")] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Also print unused evidence and cells of a table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line and question.")] = False,
    lake: LakeOption = None,
) -> None:
    """Answer a question from documents, tables and a graph.

    Each source is asked, and tables with a common key are joined; the most probable answer is printed with its evidence
    and what would change it, and what the others say. Or that no answer was found with confidence.
    """
    with report_errors():
        choice = SystemChoice(*split_system(system, model), why)
        tables = [read for file in table or [] for read in _read_tables(file)]
        sources = _open_sources(lake, corpus, graph, tables)
        _ask_each(sources, texts or [], choice, as_json=as_json, show_all=show_all)


def _ask_each(
    sources: OpenedSources, texts: Sequence[str], choice: SystemChoice, *, as_json: bool, show_all: bool
) -> None:
    """Answer and print question by question; of several, one that cannot be asked does not stop the others."""
    questions, options = _split_texts(texts)
    failed = 0
    for number, text in enumerate(map(str.strip, questions)):
        if number and not as_json:
            out.print()
        start = time.monotonic() if number else STARTED  # the first answer waits for imports and the corpus
        try:
            best, *others = _answer_all(sources, text, options, choice)
        except (BadInput, StaleInput) as error:
            if texts:
                raise
            failed += 1
            _print_error(text, str(error), as_json=as_json)
            continue
        _print_answer(best, others, time.monotonic() - start, bool(options), as_json=as_json, show_all=show_all)
    if failed:
        raise BadInput(f"questions that could not be asked: {failed}")


def _read_tables(file: Path) -> list[Table]:
    """The tables of a file; prints a hint if columns have the same name."""
    from evidence_assets.experiment.ad_hoc_questions import with_content_id

    tables = [with_content_id(table) for table in read_tables_of(file)]
    for table in tables:
        for name, count in Counter(name.strip() for name in table.header).items():
            if name and count > 1:
                _print_hint(f"{count} columns are called {name!r}: an answer may come from any of them")
    return tables


def _use_default_corpus(lake: Lake, corpus: str) -> None:
    """Update a corpus that the user did not name, and print how to choose another."""
    from evidence_assets.experiment.ad_hoc_questions import list_corpora

    refresh_corpus(lake, corpus)
    others = [name for name in list_corpora(lake) if name != corpus]
    _print_hint(f"corpus {corpus} of {lake.root}; choose another by --corpus: {', '.join([*others, './FOLDER'])}")


def _print_hint(text: str) -> None:
    err.print(strip_controls(text), style="dim")


def _open_sources(lake: Path | None, corpus: str, graph: str, tables: Sequence[Table]) -> OpenedSources:
    """Open the lake and what the questions are answered from; a folder, a file or a table creates the lake."""
    from evidence_assets.cli.add_graph import complete_graph
    from evidence_assets.experiment import ad_hoc_questions, asked_sources

    is_folder = _is_folder(corpus)
    is_graph_file = "/" in graph or "." in graph
    opened_lake = _open_lake(lake or find_lake(), creates=is_folder or is_graph_file or bool(tables))
    if is_folder:
        corpus, folder_tables = _add_folder_or_tables(opened_lake, Path(corpus))
        tables = [*tables, *folder_tables]
    elif corpus:
        refresh_corpus(opened_lake, corpus)
    if is_graph_file:
        graph = add_graph_file(opened_lake, Path(graph))
    elif graph:
        complete_graph(opened_lake, graph, make_progress_printer(graph))
    if tables and not (corpus or graph):
        return OpenedSources(opened_lake, None, tables, is_joint=False)
    source = ad_hoc_questions.resolve_source(opened_lake, corpus, graph)
    if source.corpus and not corpus:
        _use_default_corpus(opened_lake, source.corpus)
    if source.corpus:
        tables = [*tables, *asked_sources.read_corpus_tables(opened_lake, source.corpus, _print_hint)]
    return OpenedSources(opened_lake, source, tables, is_joint=not graph)


def _add_folder_or_tables(lake: Lake, folder: Path) -> tuple[str, Sequence[Table]]:
    """The name of the corpus of a folder; or no name and the folder's tables if it has no readable documents."""
    from evidence_assets.cli.add_corpus import NoReadableDocument
    from evidence_assets.experiment.asked_sources import read_tables_below

    if folder.is_dir() and not has_documents(folder):
        return "", read_tables_below(folder, _print_hint)
    try:
        return add_folder(lake, folder), []
    except NoReadableDocument:
        tables = read_tables_below(folder, _print_hint)
        if not tables:
            raise
        return "", tables


def _is_folder(corpus: str) -> bool:
    """Whether a corpus is given by a folder and not by its name."""
    return "/" in corpus or corpus.startswith(".") or (corpus != "" and Path(corpus).is_dir())


def _open_lake(root: Path, *, creates: bool) -> Lake:
    """The lake; ``creates``: also one that is not there."""
    if not creates and not (root / "format.json").exists():
        return Lake(root)
    shards = profiles.load().shards
    return Lake.create(root, question_shards=shards.questions, corpus_shards=shards.corpus)


def _split_texts(texts: Sequence[str]) -> tuple[Iterable[str], Sequence[str]]:
    """The questions and their options: the first text with the others, or those of standard input without options."""
    return (texts[:1], texts[1:]) if texts else (_read_questions(), [])


def _read_questions() -> Iterator[str]:
    """Questions from standard input, one per line; those of a file are counted first, so that progress has a total."""
    from evidence_assets.experiment.stage import ProgressReporter, discard_message

    is_typed = sys.stdin.isatty()
    if is_typed:
        _print_hint("Enter one question per line; ctrl-D ends.")
    questions: Iterable[str] = filter(str.strip, sys.stdin)
    total = None
    if sys.stdin.seekable():
        in_file = list(questions)
        total = len(in_file)
        questions = in_file
    report = ProgressReporter("questions", discard_message if is_typed else _print_hint)
    for completed, question in enumerate(questions, 1):
        yield question
        report(completed, total)


def add_folder(lake: Lake, folder: Path, name: str = "") -> str:
    """Add the folder as a corpus, by default named after it, or update the corpus; returns its name."""
    from evidence_assets.cli.add_corpus import add_corpus, corpus_name, source_folder

    if not name:
        name = corpus_name(folder)
        source = source_folder(lake, name)
        if source not in (None, folder.resolve()):
            raise BadInput(
                f"corpus {name!r} has the documents of {source}: replace them (`evidence add corpus {name} FOLDER`) "
                "or give this folder another name (`evidence add corpus NAME FOLDER`)",
                file=folder,
            )
    update_corpus(lake, name, add_corpus(lake, name, folder, log=make_progress_printer(name)))
    return name


def add_graph_file(lake: Lake, file: Path) -> str:
    """Add a file of triples as a graph named after it, or update the graph; returns its name."""
    from evidence_assets.cli.add_graph import add_graph, graph_name, source_file

    name = graph_name(file)
    source = source_file(lake, name)
    if source not in (None, file.resolve()):
        raise BadInput(
            f"graph {name!r} has the triples of {source}: replace them (`evidence add graph {name} FILE`) "
            "or give this file another name (`evidence add graph NAME FILE`)",
            file=file,
        )
    add_graph(lake, name, file, make_progress_printer(name))
    return name


def make_progress_printer(name: str) -> Callable[[str], None]:
    """A callback that prints progress for a corpus or graph to standard error."""
    return lambda text: _print_hint(f"{name}: {text}")


def update_corpus(lake: Lake, name: str, raw: Path) -> None:
    """Build the corpus of the files in ``raw``, unless all its assets are those of these files."""
    from evidence_assets.experiment.corpus_building import build_corpus, is_built, open_chunks

    groups = group_files(raw)
    if is_built(lake, name, groups):
        return
    start = time.monotonic()
    counts = build_corpus(lake, name, groups, make_progress_printer(name))
    _print_hint(
        f"{name}: {open_chunks(lake, name).documents:,} documents, {counts['chunks']:,} chunks, "
        f"{counts['reused']:,} of them reused, {time.monotonic() - start:.1f} s"
    )


def refresh_corpus(lake: Lake, name: str) -> None:
    """Update a corpus that users declared, if its files changed or a run made only a part of its assets."""
    from evidence_assets.cli.add_corpus import describe_changed_files
    from evidence_assets.experiment.asked_sources import list_corpus_folders

    if hint := describe_changed_files(lake, name):
        _print_hint(hint)
    for raw in list_corpus_folders(lake, name):
        update_corpus(lake, name, raw)


def split_system(system: str, model: str) -> tuple[str, str]:
    """Names of the variant and the profile's model from ``--system`` and ``--model``; empty for the defaults."""
    variant_name, _, system_model = system.partition("@")
    names = {find_model(name) for name in (system_model, model) if name}
    if len(names) > 1:
        raise BadInput(f"--system names the model {system_model!r} and --model names {model!r}: remove one")
    return variant_name, "".join(names)


def find_model(name: str) -> str:
    """The profile's name of a language model that is given by this name or by its own; raises BadInput if none is.

    The address of a server or a model file becomes the profile's only language model.
    """
    profile = profiles.load()
    for profile_name, settings in profile.generators.items():
        if name in (profile_name, settings.name):
            return profile_name
    if is_model_source(name):
        os.environ[MODEL_VARIABLE] = name
        return profiles.load().model_names("generator")[0]
    models = (n if n == settings.name else f"{n} ({settings.name})" for n, settings in profile.generators.items())
    raise BadInput(
        f"profile {profile.name} has no language model {name!r}; it has {', '.join(models)}. "
        "EVIDENCE_PROFILE selects a profile, and `generators` in your own adds models. The address of a server is a "
        "model, too: http://127.0.0.1:8081/v1; or set OPENAI_BASE_URL to it"
    )


def select_variant(family: str, source: QuestionSource, system: str, model: str) -> Variant:
    """The variant for a question; adds the counterfactual test if the variant explains its answers.

    ``model``: The profile's name of a language model; empty for its first. Raises BadInput if the family has no such
    variant, or the variant asks no language model.
    """
    by_name = {v.name: v for v in variants() if v.family == family}
    name = system or (DEFAULT_SYSTEMS if source.corpus or source.table else GRAPH_ONLY_SYSTEMS)[family]
    if name not in by_name:
        raise BadInput(
            f"no variant {name!r} answers {family} questions{did_you_mean(name, sorted(by_name))} "
            f"`evidence variants {family}` lists them"
        )
    variant = by_name[name]
    generators = profiles.load().generators
    first, *_ = generators
    model = model or first
    is_asked = "generator" in used_model_kinds(systems.open_method(variant))
    if not is_asked and model != first:
        raise BadInput(f"variant {name} asks no language model: remove --model, or choose another variant")
    if is_asked and (model != first or generators[model].backend != "extractive"):
        # Named in the keys of its assets, so that answers with the model and without it are both kept.
        variant = variant.model_copy(update={"active_models": {"generator": model}})
    return variant.model_copy(update={"counterfactual": variant.explain})


def select_variants(family: str, source: QuestionSource, system: str, model: str) -> list[Variant]:
    """The variants to try in order until one answers; without options, the graph alone comes first."""
    if family == "graph" and source.graph and source.corpus and not system:
        return [select_variant(family, s, "", model) for s in (replace(source, corpus=""), source)]
    return [select_variant(family, source, system, model)]


def _answer_all(sources: OpenedSources, text: str, options: Sequence[str], choice: SystemChoice) -> list[SourceAnswer]:
    """The answers of the sources to ask, as `answer_sources` returns them."""
    listed = _list_asked(sources, text, options, choice.variant)
    answers = answer_sources(sources.lake, text, options, listed, choice, _print_hint)
    if len(listed) == 1:
        _hint_at_claims(answers[0], text)
    return answers


def answer_sources(
    lake: Lake,
    text: str,
    options: Sequence[str],
    sources: Sequence[AskedSource],
    choice: SystemChoice,
    inform: LogFunction,
    on_stage: Callable[[AskedSource, str], None] = lambda source, table: None,
) -> list[SourceAnswer]:
    """The answer of each source, the most probable one first; the others only if they answer.

    A source that cannot be asked is reported by ``inform``; only if none can be asked, the first error is raised.
    ``on_stage`` gets the table of each stage before it runs.
    """
    from evidence_assets.experiment.asked_sources import rank_answers

    answers = []
    errors: list[tuple[str, BadInput | StaleInput]] = []
    for source in sources:
        try:
            prediction = _answer_in_lake(lake, text, options, source, choice, inform, partial(on_stage, source))
        except (BadInput, StaleInput) as error:
            errors.append((source.name, error))
            continue
        with connect(lake.root, lazy=True) as connection:
            answers.append(SourceAnswer(source, view_answer(connection, prediction["prediction_id"])))
    if not answers:
        raise errors[0][1]
    for name, reason in errors:
        inform(f"not asked: {name}: {reason}")
    ranking = rank_answers([(answer.status, answer.confidence) for answer in answers])
    return [answers[position] for position in ranking]


def _list_asked(sources: OpenedSources, text: str, options: Sequence[str], variant: str) -> list[AskedSource]:
    """The sources to ask: one table is always asked, of several those that may answer."""
    from evidence_assets.experiment import asked_sources
    from evidence_assets.experiment.ad_hoc_questions import QuestionSource

    tables = sources.tables
    if sources.source is None and len(tables) == 1:
        return [asked_sources.AskedSource(QuestionSource(table=tables[0].table_id), tables[0])]
    is_joint = sources.is_joint or bool(options)
    listed = [] if sources.source is None else asked_sources.list_sources(sources.source, is_joint=is_joint)
    listed += asked_sources.select_tables(tables, text, options, _print_hint)
    if variant and len(listed) > 1:
        families = {each.family for each in variants() if each.name == variant}
        with_variant = [each for each in listed if _family(each, options) in families]
        listed = with_variant or listed
    if not listed:
        raise BadInput("no table has all names and a word of the question: use words of its header and cells")
    return listed


def _family(asked_source: AskedSource, options: Sequence[str]) -> str:
    """The family of variants that answer a question from a source."""
    if asked_source.table is not None:
        return "table"
    return "mcqa" if options else "graph"


def _answer_in_lake(
    lake: Lake,
    text: str,
    options: Sequence[str],
    asked_source: AskedSource,
    choice: SystemChoice,
    inform: LogFunction,
    on_stage: LogFunction,
) -> PredictionRow:
    """Answer a question from one source; its rows are written to the lake."""
    from evidence_assets.experiment import ad_hoc_questions
    from evidence_assets.experiment.stages import build_stages

    source = asked_source.source
    question = ad_hoc_questions.build_question(text, options, source, asked_source.table)
    selected = select_variants(FAMILY_OF_TASK[question.task], source, choice.variant, choice.model)
    selected = [variant.model_copy(update={"asks_why": choice.asks_why}) for variant in selected]
    if source.corpus:
        ad_hoc_questions.check_corpus(lake, source.corpus)
    ad_hoc_questions.store_question(lake, question, asked_source.table, asked_source.joined)
    return select_clearest(
        ad_hoc_questions.answer_question(
            lake,
            question.question_id,
            question.task,
            source,
            build_stages(systems.open_method(variant)),
            inform,
            on_stage,
        )
        for variant in selected
    )


def _hint_at_claims(answer: SourceAnswer, text: str) -> None:
    """Print how to check a statement that no source but documents or a graph was asked for."""
    from evidence_assets.experiment import solvers

    is_short = (answer.view.question or {}).get("task") == "kgqa"
    may_be_claim = is_short and not text.rstrip().endswith("?") and not solvers.has_question_word(text)
    if may_be_claim and answer.status not in ("answered", STATED_STATUS):
        _print_hint("this is answered as a question; --table FILE checks a statement as a claim")


def _print_answer(
    best: SourceAnswer,
    others: Sequence[SourceAnswer],
    seconds: float,
    with_options: bool,
    *,
    as_json: bool,
    show_all: bool,
) -> None:
    """Print the answer as text or JSON, what other sources say, and the time that it took."""
    view = best.view
    if as_json:
        also = [
            {"source": other.source.name, "answer_text": other.view.answer_text}
            | {name: other.view.prediction[name] for name in ("confidence", "confidence_basis", "prediction_id")}
            for other in others
        ]
        print_if_json(True, view.as_dict() | {"also": also, "seconds": round(seconds, 3)}, indent=None)
        return
    summaries = [other.summary for other in others]
    text = format_answer(view, options=with_options, everything=show_all, also=summaries)
    out.print(strip_controls(text), end="")
    if rest := (0 if show_all else len(view.other_evidence)):
        out.print(f"{rest} other row{'s' * (rest > 1)} of evidence: --all", style="dim")
    out.print(f"{seconds:.1f} s", style="dim")


def _print_error(question: str, error: str, *, as_json: bool) -> None:
    """Print why a question could not be asked."""
    if not print_if_json(as_json, {"question": question, "status": "failed", "error": error}, indent=None):
        out.print(strip_controls(f"{question}\n\nnot asked: {error}"))


def select_clearest(answers: Iterable[PredictionRow]) -> PredictionRow:
    """The first answered prediction; else the first stated or ambiguous one, else the last, which read the texts."""
    other_answers = []
    for answer in answers:
        if answer["status"] == "answered":
            return answer
        other_answers.append(answer)
    return next((a for a in other_answers if a["status"] in (STATED_STATUS, "ambiguous")), other_answers[-1])
