"""What a trained reader is worth on the set that it was trained on, and on sets that were left out.

    python -m bench.answers.measure_reader FOLDER --trained-on obqa [--layers 3 --rate 1e-4] [--markdown FILE]

Trains a reader on the training questions of one or several sets of EVIDENCE_DEV_DATA (``obqa``, ``csqa``, ``boolq``),
without those that are also development questions, or reuses the one in FOLDER. It then answers the development
questions of OpenBookQA, ARC, CommonsenseQA and PubMedQA, and the tenth of BoolQ that is held out of every training.

OpenBookQA and ARC have the nearest facts of the open book, PubMedQA the nearest paragraphs of its abstracts, a question
of BoolQ its passage, and CommonsenseQA nothing. Beside it are today's answers, of the extractive solver with the five
nearest pieces, as in the variant ``cosine`` (``closed_book`` for CommonsenseQA), with the paired bootstrap interval.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.differences import format_difference
from evidence_assets.benchmarks.readers import read_passages
from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.scores.metrics import accuracy, calibration_error, order_by_confidence, paired_bootstrap
from evidence_assets.extractive.options import ExtractiveSolver
from evidence_assets.lake.ids import content_id
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.reader.network import EncoderName, OptionInput
from evidence_assets.models.reader.training import (
    WEIGHTS_FILE,
    TrainedReader,
    TrainingQuestion,
    TrainingSettings,
    is_held_out,
    train_reader,
)
from evidence_assets.models.vectors import encode_ends, softmax
from evidence_assets.systems.reader.training import choice_of_facts, extractive_weights, question_keys

DATA = Path(os.environ.get("EVIDENCE_DEV_DATA", "."))
TRAINING = {
    "obqa": "train/obqa_train_complete.jsonl",
    "csqa": "train/csqa_train.jsonl",
    "boolq": "train/boolq_dev.jsonl",
}
DEVELOPMENT = {
    "obqa": "obqa/Data/Additional/dev_complete.jsonl",
    "arc": "arc/ARC-Challenge-Dev-all.jsonl",
    "csqa": "csqa/train_500.jsonl",
    "pubmedqa": "pubmedqa/ori_pqal_not_test.json",
    "boolq": "train/boolq_dev.jsonl",
}
EVIDENCE_OF_TODAY = 5
HEADS = ("set", "n", "today", "reader", "difference (95 %)", "surest 25 %", "today", "calibration error", "today")


def read_rows(name: str, file: str) -> Iterator[tuple[str, str, tuple[str, ...], int, str]]:
    """Id, text, options, position of the right option, and passage of each question of a file."""
    text = (DATA / file).read_text(encoding="utf-8")
    if name == "pubmedqa":
        labels = ("yes", "no", "maybe")
        for key, row in json.loads(text).items():
            yield key, row["QUESTION"], labels, labels.index(row["final_decision"]), ""
        return
    for number, row in enumerate(map(json.loads, text.splitlines())):
        if name == "boolq":
            yield str(number), f"{row['question']}?", ("yes", "no"), 0 if row["answer"] else 1, row["passage"]
        else:
            choices = row["question"]["choices"]
            gold = [choice["label"] for choice in choices].index(row["answerKey"])
            yield row["id"], row["question"]["stem"], tuple(choice["text"] for choice in choices), gold, ""


def read_pieces(name: str) -> dict[str, str]:
    """The documents of a set's corpus with their names: facts of the open book, or paragraphs of abstracts."""
    if name in ("obqa", "arc"):
        return {document.text: document.doc_id for document in read_passages("obqa", DATA / "obqa", "dev")}
    if name == "pubmedqa":
        rows = json.loads((DATA / DEVELOPMENT[name]).read_text(encoding="utf-8"))
        return {paragraph: key for key, row in rows.items() for paragraph in row["CONTEXTS"]}
    return {}


def read_questions(name: str, file: str, encoder: Encoder, facts: int) -> list[TrainingQuestion]:
    """The questions of a file, each option with the pieces nearest to question and option."""
    rows = list(read_rows(name, file))
    pieces = list(read_pieces(name))
    queries = [f"{text} {option}".strip() for _, text, options, _, _ in rows for option in options]
    nearest: list[tuple[str, ...]] = [()] * len(queries)
    if pieces:
        vectors = encode_ends(encoder, [*queries, *pieces])
        matrix = np.stack([vectors[piece] for piece in pieces])
        ranks = [np.argsort(-(matrix @ vectors[query]), kind="stable")[:facts] for query in queries]
        nearest = [tuple(pieces[i] for i in rank) for rank in ranks]
    pieces_of_options = iter(nearest)
    return [
        TrainingQuestion(
            content_id(name, key),
            tuple(OptionInput(text, o, next(pieces_of_options) or (passage,) * bool(passage)) for o in options),
            gold,
        )
        for key, text, options, gold, passage in rows
    ]


def training_questions(name: str, encoder: Encoder, settings: TrainingSettings) -> list[TrainingQuestion]:
    """The training questions of a set, without those that are measured."""
    questions = read_questions(name, TRAINING[name], encoder, settings.facts)
    if name == "boolq":
        return [q for q in questions if not is_held_out(q.question_id, settings.held_out)]
    measured = {
        key
        for identifier, text, options, _, _ in read_rows(name, DEVELOPMENT[name])
        for key in question_keys(name, identifier, text, options)
    }
    ids = [identifier for identifier, *_ in read_rows(name, TRAINING[name])]
    return [q for identifier, q in zip(ids, questions, strict=True) if not measured & keys_of(name, identifier, q)]


def keys_of(name: str, identifier: str, question: TrainingQuestion) -> set[tuple[object, ...]]:
    """The keys of a question, to compare it with others."""
    options = [each.option for each in question.options]
    return question_keys(name, identifier, question.options[0].question, options)


def development_questions(name: str, encoder: Encoder, facts: int) -> list[TrainingQuestion]:
    """The measured questions of a set, in the order of their ids."""
    questions = read_questions(name, DEVELOPMENT[name], encoder, facts)
    if name == "boolq":
        questions = [q for q in questions if is_held_out(q.question_id, TrainingSettings.held_out)]
    return sorted(questions, key=lambda question: question.question_id)


def answer_by_reader(
    reader: TrainedReader, solver: ExtractiveSolver, questions: Sequence[TrainingQuestion]
) -> tuple[list[int], list[float]]:
    """Positions and probabilities of the reader's answers."""
    weighed = add_weights(solver, questions, reader.settings.facts)
    scores = reader.score([option for q in weighed for option in q.options])
    parts = np.split(scores, np.cumsum([len(q.options) for q in questions])[:-1])
    return [int(part.argmax()) for part in parts], [float(softmax(part).max()) for part in parts]


def answer_by_solver(solver: ExtractiveSolver, questions: Sequence[TrainingQuestion]) -> tuple[list[int], list[float]]:
    """Positions and probabilities of the extractive solver's answers, from the same pieces."""
    weights = [[o.weight for o in q.options] for q in add_weights(solver, questions, EVIDENCE_OF_TODAY)]
    return [int(np.argmax(each)) for each in weights], [float(softmax(each).max()) for each in weights]


def add_weights(solver: ExtractiveSolver, questions: Sequence[TrainingQuestion], facts: int) -> list[TrainingQuestion]:
    """The questions with the nearest facts only, and the extractive weight of each option."""
    cut = [tuple(replace(option, facts=option.facts[:facts]) for option in q.options) for q in questions]
    labels = [option_labels("mcqa", [each.option for each in options]) for options in cut]
    tasks = [
        choice_of_facts(
            options[0].question,
            names,
            [each.option for each in options],
            {name: each.facts for name, each in zip(names, options, strict=True)},
        )
        for names, options in zip(labels, cut, strict=True)
    ]
    weights = (w for start in range(0, len(tasks), 500) for w in extractive_weights(solver, tasks[start : start + 500]))
    return [
        replace(q, options=tuple(replace(o, weight=each[name]) for name, o in zip(names, options, strict=True)))
        for q, names, options, each in zip(questions, labels, cut, weights, strict=True)
    ]


def open_solver(name: str, encoder: Encoder) -> ExtractiveSolver:
    """Today's solver of the questions of a set."""
    documents = read_pieces(name)
    return ExtractiveSolver(encoder, documents=lambda sources: {s: documents.get(s, s) for s in sources})


def format_row(name: str, questions: Sequence[TrainingQuestion], reader: Any, today: Any) -> list[str]:
    """One row of the table: accuracies, their paired difference, and whether confidence ranks the answers."""
    right, right_today = (
        [position == q.gold for position, q in zip(answers[0], questions, strict=True)] for answers in (reader, today)
    )
    difference = paired_bootstrap(np.array(right, float), np.array(right_today, float))
    quarter = max(1, len(questions) // 4)
    surest, surest_today = (
        f"{np.mean(order_by_confidence(answers[1], hits)[:quarter]):.1%}"
        for answers, hits in ((reader, right), (today, right_today))
    )
    estimates = [accuracy(right_today), accuracy(right)]
    return [
        name,
        str(len(questions)),
        *(f"{each.value:.1%} ({each.low:.1%}–{each.high:.1%})" for each in estimates),
        format_difference(difference, "+.1%"),
        surest,
        surest_today,
        f"{calibration_error(reader[1], right):.3f}",
        f"{calibration_error(today[1], right_today):.3f}",
    ]


def load_reader(folder: Path, names: Sequence[str], encoder: Encoder, settings: TrainingSettings) -> TrainedReader:
    """The reader that was trained on these sets, or a new one."""
    target = folder / "-".join(names)
    if not (target / WEIGHTS_FILE).exists():
        questions = [
            question
            for name in names
            for question in add_weights(
                open_solver(name, encoder), training_questions(name, encoder, settings), settings.facts
            )
        ]
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder))
        train_reader(EncoderName(EMBEDDED_ENCODER), questions, temporary, settings, print)
        temporary.rename(target)
    reader = TrainedReader(target, f"reader-{target.name}")
    if reader.settings != settings:
        raise SystemExit(f"{target} has a reader with other settings ({reader.settings}). Name another folder")
    return reader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trained-on", nargs="+", required=True, choices=list(TRAINING))
    for setting in ("layers", "epochs", "rate", "seed"):
        default = getattr(TrainingSettings, setting)
        parser.add_argument(f"--{setting}", type=type(default), default=default)
    parser.add_argument("--sets", nargs="+", default=list(DEVELOPMENT), choices=list(DEVELOPMENT))
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    encoder = load_encoder(EMBEDDED_ENCODER)
    settings = TrainingSettings(layers=options.layers, epochs=options.epochs, rate=options.rate, seed=options.seed)
    reader = load_reader(options.folder, sorted(options.trained_on), encoder, settings)
    lines: list[list[str]] = []
    for name in options.sets:
        questions = development_questions(name, encoder, EVIDENCE_OF_TODAY)
        solver = open_solver(name, encoder)
        label = f"{name} ({'trained on' if name in options.trained_on else 'left out'})"
        answers = answer_by_reader(reader, solver, questions), answer_by_solver(solver, questions)
        half = len(questions) // 2
        second = [tuple(part[half:] for part in each) for each in answers]
        lines.append(format_row(label, questions, *answers))
        lines.append(format_row(f"{label}, second half", questions[half:], *second))
        print(lines[-2], lines[-1], flush=True)
    table = Table(*HEADS, title=str(reader.card["epochs"]))
    for line in lines:
        table.add_row(*line)
    Console(width=200, highlight=False).print(table)
    if options.markdown:
        rows = [HEADS, ["---"] * len(HEADS), *lines]
        options.markdown.write_text("".join(f"| {' | '.join(row)} |\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
