"""Choice questions as several benchmarks write them: lettered options, and the layout of the Allen Institute, JSON lines.

ARC (Challenge and Easy), CommonsenseQA with the concept asked about, and RiddleSense are nothing but that layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
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


def ai2_question(info: DatasetInfo, row: Row, split: str, gold_evidence: tuple[GoldEvidence, ...] = ()) -> Located:
    """``{"id", "question": {"stem", "choices": [{"label", "text"}]}, "answerKey"}``.

    The labels may be letters or digits; options are lettered by their place. Hidden splits lack the answer key.
    """
    asked = row.row("question")
    choices = asked.rows("choices")
    labels = [choice.label("label") for choice in choices]
    options = tuple(choice.text("text") for choice in choices)
    if len(set(labels)) < len(labels):
        raise row.bad("two choices have the same label", "question.choices")
    gold: tuple[str, ...] = ()
    if split not in info.hidden or row.text_or_none("answerKey"):
        key = row.label("answerKey")
        if key not in labels:
            raise row.bad(f"{key!r} is not one of {', '.join(labels)}", "answerKey")
        gold = (letter_of(row, "answerKey", labels.index(key), options),)
    concept = asked.text_or_none("question_concept")
    return info.question(
        row,
        split,
        row.label("id"),
        asked.text("stem"),
        options=options,
        gold=gold,
        gold_evidence=gold_evidence,
        topic_entities=(concept,) if concept else (),
    )


def read_ai2(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    """A split of a dataset that is nothing but JSON lines in this layout."""
    return (ai2_question(info, row, split) for row in info.each(folder, split, jsonl))


READERS = dict.fromkeys(("arc_c", "arc_e", "csqa", "riddle"), read_ai2)
