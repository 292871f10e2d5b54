"""``python -m tools.replay FOLDER``: recorded answers of other models, read and scored as ours are.

The folder holds ``index.tsv`` (``path, dataset, question_id, model, mode, gold, question, A, B, C, D``; unquoted) and
one file for each answer: a JSON list with the model's reply. A reply that cannot be used is a failed row with its
reason and counts as wrong; a file that is no such list is bad input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from evidence_assets.benchmarks import records
from evidence_assets.benchmarks.json_streams import json_items
from evidence_assets.benchmarks.line_streams import Row, headed_rows
from evidence_assets.benchmarks.official.choices import find_option_letter
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.cli.console import JsonOption, out, print_if_json, print_table, report_errors, strip_controls
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.reasoning.reply_parsing import parse_answers

INDEX = "index.tsv"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@dataclass(frozen=True)
class Scored:
    """What a model once replied to a question in one mode of prompting, and the label that it names.

    ``answer`` is None if the reply is unusable, with the reason in ``error``.
    """

    question: QuestionRecord
    model: str
    mode: str
    path: str
    reply: str
    answer: str | None
    error: str

    @property
    def correct(self) -> bool:
        return self.answer in self.question.gold


def score_recording(folder: Path) -> Iterator[Scored]:
    """The recorded answers in the order of the index; each path, and each question of a model and mode, comes once.

    Of several letters in a reply, the first counts, as in the scores published beside recordings.
    """
    seen_keys: set[tuple[str, ...]] = set()
    columns = ("path", "dataset", "question_id", "model", "mode", "gold", "question")
    for row in headed_rows(folder / INDEX, columns, "\t", quoted=False):
        letters = [name for name in row.values if len(name) == 1 and name.isupper()]
        options = tuple(row.text(letter) for letter in letters if row.text_or_none(letter))
        _, question = records.build_question(
            row,
            benchmark=row.text("dataset"),
            source_id=row.text("question_id"),
            split="test",
            task="mcqa",
            text=row.text("question"),
            options=options,
            gold=(find_option_letter(row, "gold", options),),
        )
        path, model, mode = row.text("path"), row.text("model"), row.text("mode")
        for key in (("path", path), ("answer", question.benchmark, question.source_id, model, mode)):
            if key in seen_keys:
                raise row.error(f"{' / '.join(key[1:])} comes twice", "path" if key[0] == "path" else "question_id")
            seen_keys.add(key)
        reply, answer, error = _reply(folder, path, row), None, ""
        try:
            answer = parse_answers(reply, question.labels, question.options)[0]
        except UnusableReply as unusable:
            error = str(unusable)
        yield Scored(question, model, mode, path, reply, answer, error)


def _reply(folder: Path, path: str, row: Row) -> str:
    file = folder / path
    if not file.resolve().is_relative_to(folder.resolve()):
        raise row.error("lies outside the recording", "path")
    items = list(json_items(file))
    if len(items) != 1 or items[0][1] or not isinstance(items[0][2], str):
        raise BadInput("expected a list with one text: the reply", file=file, line=1)
    return items[0][2]


@app.command(help=__doc__)
def main(
    folder: Annotated[Path, typer.Argument(help="Folder with index.tsv and one file an answer.")],
    as_json: JsonOption = False,
) -> None:
    with report_errors():
        scored: dict[tuple[str, str, str], list[Scored]] = {}
        for item in score_recording(folder):
            for benchmark in (item.question.benchmark, "all"):
                scored.setdefault((benchmark, item.model, item.mode), []).append(item)
        results = [(*key, accuracy([i.correct for i in items]), items) for key, items in scored.items()]
    names = ("benchmark", "model", "mode", "accuracy", "low", "high", "n", "unusable")
    rows = [(*key, e.value, e.low, e.high, e.n, sum(i.answer is None for i in items)) for *key, e, items in results]
    if print_if_json(as_json, [dict(zip(names, row, strict=True)) for row in rows]):
        return
    print_table(names, rows)
    reasons = Counter(i.error for benchmark, *_, items in results if benchmark == "all" for i in items if i.error)
    for reason, count in reasons.most_common():
        out.print(strip_controls(f"{count:,} unusable: {reason}"), style="dim", markup=False)


if __name__ == "__main__":
    app()
