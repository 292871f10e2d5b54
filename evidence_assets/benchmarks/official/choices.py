"""Choice questions as several benchmarks write them: lettered options, and the layout of the Allen Institute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located, question
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import GoldEvidence, option_labels


def lettered(row: Row, field: str) -> tuple[str, ...]:
    """Texts of an object ``{"A": text, "B": text, …}``, whose letters must leave no gap."""
    options = row.row(field)
    letters = option_labels("mcqa", tuple(options.values))
    if set(options.values) != set(letters):
        raise row.bad(f"expected the letters {', '.join(letters)}, found {', '.join(options.values)}", field)
    return tuple(options.text(letter) for letter in letters)


def letter_of(row: Row, field: str, number: int, options: tuple[str, ...], first: int = 0) -> str:
    """The label of option ``number``, where the first option is number ``first``."""
    if not first <= number < first + len(options):
        raise row.bad(f"{number} is no option: they are numbered from {first} to {first + len(options) - 1}", field)
    return option_labels("mcqa", options)[number - first]


def one_of(row: Row, field: str, options: tuple[str, ...]) -> str:
    """A field that must hold the letter of an option."""
    letter, labels = row.text(field).strip(), option_labels("mcqa", options)
    if letter not in labels:
        raise row.bad(f"{letter!r} is not one of {', '.join(labels)}", field)
    return letter


def ai2_question(
    row: Row, benchmark: str, split: str, *, hidden: bool = False, gold_evidence: tuple[GoldEvidence, ...] = ()
) -> Located:
    """``{"id", "question": {"stem", "choices": [{"label", "text"}]}, "answerKey"}``.

    The labels may be letters or digits; options are lettered by their place. ``hidden`` splits lack the answer key.
    """
    asked = row.row("question")
    choices = asked.rows("choices")
    labels = [choice.label("label") for choice in choices]
    options = tuple(choice.text("text") for choice in choices)
    if len(set(labels)) < len(labels):
        raise row.bad("two choices have the same label", "question.choices")
    gold: tuple[str, ...] = ()
    if not hidden or row.text_or_none("answerKey"):
        key = row.label("answerKey")
        if key not in labels:
            raise row.bad(f"{key!r} is not one of {', '.join(labels)}", "answerKey")
        gold = (letter_of(row, "answerKey", labels.index(key), options),)
    return question(
        row,
        benchmark=benchmark,
        source_id=row.label("id"),
        split=split,
        task="mcqa",
        text=asked.text("stem"),
        options=options,
        gold=gold,
        topic_entities=tuple(filter(None, [asked.text_or_none("question_concept")])),
        gold_evidence=gold_evidence,
    )


def read_ai2(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    """A split of a dataset that is nothing but JSON lines in this layout."""
    for file in info.find(folder, split):
        for row in jsonl(file):
            yield ai2_question(row, info.name, split, hidden=split in info.hidden)
