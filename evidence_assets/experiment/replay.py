"""Recorded answers of other models, scored by the same code as ours.

A recording is a folder with ``index.tsv`` (``path, dataset, question_id, model, mode, gold, question, A, B, C, D``;
unquoted, tabs and line ends of texts written as spaces) and one file an answer: a JSON list with one string, the
model's reply, which is meant to be JSON itself and often is not. A reply that cannot be used is a failed row with its
reason and counts as wrong; a file that is no such list is bad input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evidence_assets.benchmarks.checks import question
from evidence_assets.benchmarks.official.choices import one_of
from evidence_assets.benchmarks.reading import Row, headed_rows
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.benchmarks.records import Question
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.reasoning.answers import parse_answer

INDEX = "index.tsv"
COLUMNS = ("path", "dataset", "question_id", "model", "mode", "gold", "question")


@dataclass(frozen=True)
class Recorded:
    """What a model once replied to a question in one mode of prompting."""

    question: Question
    model: str
    mode: str
    reply: str
    path: str

    @property
    def system(self) -> str:
        return f"{self.model}/{self.mode}"


@dataclass(frozen=True)
class Scored:
    """A recorded reply with the label it names (None if unusable, then with the reason) and whether that is right."""

    recorded: Recorded
    answer: str | None
    error: str

    @property
    def status(self) -> str:
        return "failed" if self.answer is None else "answered"

    @property
    def correct(self) -> bool:
        return self.answer in self.recorded.question.gold


def read_recorded(folder: Path) -> Iterator[Recorded]:
    """The recorded answers in the order of the index; each path, and each question of a model and mode, comes once."""
    seen: set[tuple[str, ...]] = set()
    index = folder / INDEX
    for row in headed_rows(index, COLUMNS, "\t", quoted=False):
        letters = [name for name in row.values if len(name) == 1 and name.isupper()]
        options = tuple(row.text(letter) for letter in letters if row.text_or_none(letter))
        _, asked = question(
            row,
            benchmark=row.text("dataset"),
            source_id=row.text("question_id"),
            split="test",
            task="mcqa",
            text=row.text("question"),
            options=options,
            gold=(one_of(row, "gold", options),),
        )
        path = row.text("path")
        for key in (("path", path), ("answer", asked.benchmark, asked.source_id, row.text("model"), row.text("mode"))):
            if key in seen:
                raise row.bad(f"{' / '.join(key[1:])} comes twice", "path" if key[0] == "path" else "question_id")
            seen.add(key)
        yield Recorded(asked, row.text("model"), row.text("mode"), _reply(folder, path, row), path)


def _reply(folder: Path, path: str, row: Row) -> str:
    file = folder / path
    if not file.resolve().is_relative_to(folder.resolve()):
        raise row.bad("lies outside the recording", "path")
    items = list(json_items(file))
    if len(items) != 1 or items[0][1] or not isinstance(items[0][2], str):
        raise BadInput("expected a list with one text: the reply", file=file, line=1)
    return items[0][2]


def score(recorded: Iterable[Recorded], several: Literal["refuse", "first"] = "first") -> Iterator[Scored]:
    """Parse each reply; ``several`` as in :func:`parse_answer`.

    The scores published beside recordings take the first of several letters, so that is the default here; our own
    reasoners' replies are refused if they name several.
    """
    for item in recorded:
        try:
            answer = parse_answer(item.reply, item.question.labels, item.question.options, several=several)
        except UnusableReply as unusable:
            yield Scored(item, None, str(unusable))
        else:
            yield Scored(item, answer, "")
