"""``python -m tools.background_records FOLDER``: answers that the authors of prompting with background knowledge
recorded, as files of ``raw/recorded``, and their scores by our metrics.

FOLDER is the authors' repository (DerpLEL/knowledge-base-project) or a part of it; it has no licence, so it is not part
of this package. A record is a JSON object in ``<case>_<dataset>/<run>_<number>.json``, with these fields:

    answer, is_correct                      the reply, and whether the authors counted it as right
    question, or prompt                     the question, or a prompt that ends in "Question: …" and "Answer:"
    kaping_triples or external_triples      "(head, relation, tail), …" of the graph, nearest first, if shown
    background_triples                      those that the model recalled, as it replied, if shown

Each run and case becomes one file with the questions of the benchmark that it names, found by their words. The sampled
questions are listed in the file of the benchmark's listed sample. A question that was sampled twice has its first
record there; the share of ``is_correct`` counts all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from evidence_assets import profiles
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, Subset, all_benchmarks
from evidence_assets.benchmarks.json_streams import json_items
from evidence_assets.benchmarks.line_streams import Row
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.cli.console import JsonOption, out, print_if_json, print_table, report_errors, strip_controls
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.experiment.scores.metrics import Estimate, accuracy
from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.short_answers import parse_short_answer
from evidence_assets.reproduction.published_figures import INCLUDED_SUFFIX, RECALLED_SUFFIX, RUN_SEPARATOR, figure_for
from evidence_assets.systems.background.recall import Triple, parse_triples
from evidence_assets.systems.baselines.recorded_answers import FOLDER, measure_file, parse_name

MODELS = {
    "gemini": "@gemini-1.0-pro",
    "gemini2": f"@gemini-1.0-pro{RUN_SEPARATOR}gemini2",
    "chatgpt": "@gpt-3.5-turbo",
    "gemsura": "@gemsura-7b",
    "vimrc": "@xlm-roberta",
}
"""The model in print of each run, as names of recorded files end; Gemini has answered twice, by different prompts."""
GRAPH_FIELDS = ("kaping_triples", "external_triples")
RECALLED_FIELDS = ("background_triples",)
CASES: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "no_knowledge": ("no_knowledge", ()),
    "kaping": ("kaping", (GRAPH_FIELDS,)),
    "background": ("kaping_background+background_only", (RECALLED_FIELDS,)),
    "kaping_background": ("kaping_background+full", (GRAPH_FIELDS, RECALLED_FIELDS)),
}
"""The system and variant in print of each case, and the fields of the triples that its prompt shows."""
FAILED = "Error"
"""The reply that the authors write where a request has failed."""
TOP_K = 10
"""Triples of a prompt, as in the authors' code; not in print."""
METRICS = ("accuracy", *(f"{name}{reading}" for name in ("hit@1", "answer_f1") for reading in ("", INCLUDED_SUFFIX)))
_DUMP_SUFFIX = "-result-question-dump"
_FOLDER_NAME = re.compile(rf"({'|'.join(CASES)})_([a-z0-9]+)")
_FILE_NAME = re.compile(r"([a-z0-9]+)_([0-9]+)\.json")
_QUESTION = re.compile(r".*Question: (.+?)\s*\n\s*Answer:\s*", re.DOTALL)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@dataclass(frozen=True)
class Place:
    """What the names of a record's folder and file say."""

    dataset: str
    case: str
    run: str
    number: int


@dataclass(frozen=True)
class Record:
    """A reply to a question, with the triples that the prompt of its case shows."""

    question: str
    reply: str
    is_correct: bool
    graph_triples: tuple[Triple, ...]
    recalled_triples: tuple[Triple, ...]
    n_unread: int
    """Parts of the triples' texts that are no triples."""


@dataclass
class Recording:
    """The records of one run and case of a benchmark, by number, each with the id of its question."""

    benchmark: Benchmark
    case: str
    run: str
    records: dict[int, tuple[str, Record]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of its file in ``raw/recorded/<benchmark>``."""
        return f"{CASES[self.case][0]}{MODELS[self.run]}.jsonl"

    @property
    def by_question(self) -> dict[str, list[Record]]:
        """The records of each question, in the order of their numbers."""
        grouped: dict[str, list[Record]] = {}
        for _, (source_id, record) in sorted(self.records.items()):
            grouped.setdefault(source_id, []).append(record)
        return grouped


@dataclass
class Conversion:
    """What a folder of records holds: recordings by dataset, run and case, and the files that are none."""

    recordings: dict[tuple[str, str, str], Recording] = field(default_factory=dict)
    questions: dict[str, list[QuestionRecord]] = field(default_factory=dict)
    """All questions of each benchmark."""
    errors: list[BadInput] = field(default_factory=list)

    def sample(self, benchmark: Benchmark) -> list[QuestionRecord]:
        """The questions of a benchmark that any recording has, in the order of its files."""
        recorded = [r for r in self.recordings.values() if r.benchmark.name == benchmark.name]
        source_ids = {source_id for recording in recorded for source_id, _ in recording.records.values()}
        return [question for question in self.questions[benchmark.name] if question.source_id in source_ids]


# Reading ------------------------------------------------------------------------------------------------------------


def read_folder(folder: Path, lake: Lake) -> Conversion:
    """Read all records below a folder; files that are none are listed as errors, and the others are read."""
    conversion = Conversion()
    files: dict[Path, Place] = {}
    for file in sorted(folder.rglob("*.json")):
        try:
            if place := _find_place(file):
                files[file] = place
        except BadInput as error:
            conversion.errors.append(error)
    if not files and not conversion.errors:
        raise BadInput("has no file <case>_<dataset>/<run>_<number>.json: name the authors' repository", file=folder)
    for dataset in sorted({place.dataset for place in files.values()}):
        _read_dataset(conversion, lake, dataset, {f: place for f, place in files.items() if place.dataset == dataset})
    return conversion


def _read_dataset(conversion: Conversion, lake: Lake, dataset: str, files: Mapping[Path, Place]) -> None:
    """Add the records of a dataset."""
    benchmark = all_benchmarks().get(dataset)
    if benchmark is None or listed_subset(benchmark) is None:
        known_names = [each.name for each in all_benchmarks().values() if listed_subset(each)]
        message = f"there is no listed sample of {dataset!r}, only of {', '.join(known_names)}: {len(files):,} files"
        conversion.errors += [BadInput(message, file=folder) for folder in dict.fromkeys(f.parent for f in files)]
        return
    conversion.questions[dataset] = list(read_benchmark_questions(lake, benchmark))
    source_ids: dict[str, list[str]] = {}
    for question in conversion.questions[dataset]:
        source_ids.setdefault(_letters(question.text), []).append(question.source_id)
    first_files: dict[Place, Path] = {}
    for file, place in files.items():
        try:
            record = read_record(file, place.case)
            entry = (_find_question(record, source_ids, file), record)
            recording = Recording(benchmark, place.case, place.run)
            records = conversion.recordings.setdefault((dataset, place.case, place.run), recording).records
            if records.setdefault(place.number, entry) != entry:
                message = f"differs from {first_files[place]}, of the same run, case and number"
                raise BadInput(f"{message}. Remove one of them", file=file)
            first_files.setdefault(place, file)
        except BadInput as error:
            conversion.errors.append(error)


def _find_place(file: Path) -> Place | None:
    """Dataset, case, run and number of a record; None for other JSON files of the repository."""
    in_folder = _FOLDER_NAME.fullmatch(file.parent.name)
    if in_folder is None:
        if any(part.endswith(_DUMP_SUFFIX) for part in file.parts):
            raise BadInput(f"is in no folder <case>_<dataset>; the cases are {', '.join(CASES)}", file=file)
        return None
    named = _FILE_NAME.fullmatch(file.name)
    if named is None or named[1] not in MODELS:
        raise BadInput(f"is not named <run>_<number>.json; the runs are {', '.join(MODELS)}", file=file)
    return Place(in_folder[2], in_folder[1], named[1], int(named[2]))


def listed_subset(benchmark: Benchmark) -> Subset | None:
    """The subset of a benchmark whose questions a file lists."""
    return next((subset for subset in benchmark.subsets if subset.listed), None)


def read_record(file: Path, case: str) -> Record:
    """Read a record; a field that its case needs and that is missing, or of another type, is an error."""
    row = Row({key: value for _, key, value in json_items(file)}, file)
    is_correct = row.get("is_correct")
    if not isinstance(is_correct, bool):
        raise row.error("is neither true nor false", "is_correct")
    triples = {names: _read_triples(row, names) for names in CASES[case][1]}
    graph_triples, n_unread_of_graph = triples.get(GRAPH_FIELDS, ((), 0))
    recalled_triples, n_unread_recalled = triples.get(RECALLED_FIELDS, ((), 0))
    return Record(
        _read_question(row),
        row.text("answer", blank=True),
        is_correct,
        graph_triples,
        recalled_triples,
        n_unread_of_graph + n_unread_recalled,
    )


def _read_question(row: Row) -> str:
    if (question := row.text_or_none("question")) is not None:
        return question
    match = _QUESTION.fullmatch(row.text("prompt"))
    if match is None:
        raise row.error('does not end in "Question: …" and "Answer:", and there is no field question', "prompt")
    return match[1]


def _read_triples(row: Row, names: Sequence[str]) -> tuple[tuple[Triple, ...], int]:
    """The triples of a text, as replies with background knowledge are read, and how many of its parts are none."""
    text = row.text(next((name for name in names if name in row.values), names[0]), blank=True)
    if not text.strip():
        return (), 0
    try:
        parsed = parse_triples(text)
    except UnusableReply:
        return (), 1
    return parsed.items, len(parsed.rejected)


def _letters(text: str) -> str:
    """Letters and digits in lower case: the authors read WebQSP's questions without capitals and punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())


def _find_question(record: Record, source_ids: Mapping[str, Sequence[str]], file: Path) -> str:
    matches = source_ids.get(_letters(record.question), ())
    if len(matches) != 1:
        how_many = f"{len(matches)} questions of the benchmark have" if matches else "no question of the benchmark has"
        raise BadInput(f"{how_many} the words {record.question[:80]!r}", file=file, field="question")
    return matches[0]


# Writing ------------------------------------------------------------------------------------------------------------


def write_conversion(conversion: Conversion, lake: Lake, encoder: Encoder | None = None) -> list[Path]:
    """Write a file for each run and case, and the list of the sampled questions of each benchmark.

    ``encoder``: Ranks the triples of graph and model together and keeps the nearest, as the authors did.
    """
    written: dict[Path, None] = {}
    for recording in conversion.recordings.values():
        path = lake.raw_path(f"{FOLDER}/{recording.benchmark.name}") / recording.name
        rows = (_build_row(key, records[0], recording.case, encoder) for key, records in recording.by_question.items())
        _write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))
        written[path] = None
        subset = listed_subset(recording.benchmark)
        if subset and subset.listed:
            listed_file = lake.raw_path(subset.listed.file)
            if listed_file not in written:
                _write_lines(listed_file, (question.source_id for question in conversion.sample(recording.benchmark)))
                written[listed_file] = None
    return list(written)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with replacing_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _build_row(source_id: str, record: Record, case: str, encoder: Encoder | None) -> dict[str, object]:
    """A line of a recorded file: a failed request has no answer, a reply without an answer has null."""
    row: dict[str, object] = {"id": source_id}
    if record.reply.strip() != FAILED:
        row["answer"] = record.reply if record.reply.strip() and parse_short_answer(record.reply) else None
    origins = CASES[case][1]
    if origins:
        triples = list(dict.fromkeys((*record.graph_triples, *record.recalled_triples)))
        nearest = _rank(record.question, triples, encoder) if encoder else triples
        row["triples"] = nearest
        if RECALLED_FIELDS in origins:
            row["recalled"] = [triple for triple in nearest if triple not in record.graph_triples]
    return row


def _rank(question: str, triples: Sequence[Triple], encoder: Encoder) -> list[Triple]:
    """The triples nearest to a question, encoded as the variants of the package encode them."""
    query, *vectors = encoder.encode_sentences([question, *(f"({', '.join(triple)})" for triple in triples)])
    nearness = {triple: float(vector @ query) for triple, vector in zip(triples, vectors, strict=True)}
    return sorted(triples, key=lambda triple: -nearness[triple])[:TOP_K]


# Scores -------------------------------------------------------------------------------------------------------------


def score_conversion(conversion: Conversion, lake: Lake) -> Iterator[dict[str, object]]:
    """Rows of scores over the sampled questions, each beside the printed figure; first the authors' own count."""
    schema = pl.DataFrame(TABLES["questions"].arrow.empty_table()).schema
    for recording in conversion.recordings.values():
        benchmark = recording.benchmark
        subset = listed_subset(benchmark)
        assert subset is not None, "only such benchmarks have recordings"
        rows = question_rows(conversion.sample(benchmark), benchmark.split, 0, 1, benchmark.graph)
        path = lake.raw_path(f"{FOLDER}/{benchmark.name}") / recording.name
        measured = measure_file(path, pl.DataFrame(rows, schema=schema), None, reject_unknown=False)
        suffix = RECALLED_SUFFIX if RECALLED_FIELDS in CASES[recording.case][1] else ""
        names = {name: name if name == "accuracy" else f"{name}{suffix}" for name in METRICS}
        authors = accuracy([record.is_correct for _, record in recording.records.values()])
        estimates = {"is_correct": authors} | {n: measured[key] for n, key in names.items() if key in measured}
        for name, estimate in estimates.items():
            metric = "accuracy" if name == "is_correct" else names[name.removesuffix(INCLUDED_SUFFIX)]
            yield _score_row(f"{benchmark.name}.{subset.suffix}", path, name, metric, estimate)


def _score_row(scope: str, file: Path, name: str, metric: str, estimate: Estimate) -> dict[str, object]:
    published, selector = parse_name(file)
    figure = figure_for(scope, published, published.model, metric)
    values = {each: round(getattr(estimate, each), 4) for each in ("value", "low", "high")}
    head = {"benchmark": scope, "system": selector, "model": published.model, "metric": name}
    return {**head, **values, "n": estimate.n, "printed": figure.fraction if figure else None}


def describe_recording(recording: Recording) -> str:
    """How many records there are, and what the file does not show of them."""
    by_question = recording.by_question
    records = [record for _, record in recording.records.values()]
    n_repeated = len(records) - len(by_question)
    n_other = sum(record.reply != first.reply for first, *others in by_question.values() for record in others)
    counts = {
        "of a question sampled before": n_repeated,
        "of these with another reply": n_other,
        "failed requests": sum(record.reply.strip() == FAILED for record in records),
        "parts of triples that are none": sum(record.n_unread for record in records),
    }
    notes = "".join(f", {count:,} {what}" for what, count in counts.items() if count)
    return f"{recording.benchmark.name}/{recording.name}: {len(records):,} records{notes}"


@app.command(help=__doc__)
def main(
    folder: Annotated[Path, typer.Argument(help="The authors' repository, or a part of it.")],
    encoder: Annotated[
        str, typer.Option(help="Encoder of the profile that ranks triples of graph and model, such as mpnet.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    with report_errors():
        settings = profiles.load().encoders
        if encoder and encoder not in settings:
            raise BadInput(f"the profile has no encoder {encoder!r}, only {', '.join(settings)}", field="--encoder")
        lake = LakeResource().open()
        conversion = read_folder(folder, lake)
        written = write_conversion(conversion, lake, get_encoder(settings[encoder]) if encoder else None)
        rows = list(score_conversion(conversion, lake))
    messages = [strip_controls(str(error)) for error in conversion.errors]
    notes = list(map(describe_recording, conversion.recordings.values()))
    files = list(map(str, written))
    if not print_if_json(as_json, {"scores": rows, "records": notes, "files": files, "errors": messages}):
        if rows:
            print_table(list(rows[0]), [list(row.values()) for row in rows])
        for line in (*notes, *files, *messages):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if messages:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
