"""HEAD-QA: exams of the Spanish health service, in English or Spanish; ``ra`` names the ``aid`` of the right answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import letter_of
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.lake.errors import BadInput


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        for line, field, value in json_items(file):
            if field != "exams":
                continue
            if not isinstance(value, dict):
                raise BadInput("expected an object of exams by name", file=file, line=line, field=field)
            exams = Row(value, file, line, field)
            for exam in value:
                for row in exams.row(exam).rows("data"):
                    yield _question(info, split, exam, row)


def _question(info: DatasetInfo, split: str, exam: str, row: Row) -> Located:
    answers = row.rows("answers")
    numbers = [answer.number("aid") for answer in answers]
    options = tuple(answer.text("atext") for answer in answers)
    right = row.number("ra")
    if right not in numbers:
        raise row.bad(f"{right} is not one of the answers {', '.join(map(str, numbers))}", "ra")
    gold = (letter_of(row, "ra", numbers.index(right), options),)
    return info.question(row, split, f"{exam}/{row.label('qid')}", row.text("qtext"), options=options, gold=gold)


READERS = {"headqa": read, "headqa_es": read}
