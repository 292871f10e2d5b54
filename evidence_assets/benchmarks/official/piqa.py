"""PIQA: JSON lines of a goal and two solutions, and beside them a file with a 0 or 1 a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import letter_of
from evidence_assets.benchmarks.reading import Row, text_lines
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.lake.errors import BadInput


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    asked, *labels = info.find(folder, split)
    if not labels:
        for row in jsonl(asked):
            yield _question(info, row, split, ())
        return
    stated = ((number, line) for number, line in text_lines(labels[0]) if line.strip())
    for found, entry in zip_longest(jsonl(asked), stated):
        if found is None or entry is None:
            longer, shorter = (labels[0], asked) if found is None else (asked, labels[0])
            raise BadInput(f"has fewer rows than {longer.name}", file=shorter)
        number, label = entry
        place = Row({"label": label}, labels[0], number)
        yield _question(info, found, split, (letter_of(place, "label", place.number("label"), _options(found)),))


def _question(info: DatasetInfo, row: Row, split: str, gold: tuple[str, ...]) -> Located:
    source_id, options = row.label("id") if "id" in row.values else f"{split}-{row.line}", _options(row)
    return info.question(row, split, source_id, row.text("goal"), options=options, gold=gold)


def _options(row: Row) -> tuple[str, str]:
    return row.text("sol1"), row.text("sol2")


READERS = {"piqa": read}
