"""MIRAGE: one ``benchmark.json`` that holds five biomedical test sets by name, each an object of questions by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import lettered, one_of
from evidence_assets.benchmarks.reading_json import json_members
from evidence_assets.lake.errors import BadInput


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        some = False
        for name, members in json_members(file):
            if name != split:
                continue
            some = True
            for key in members.values:
                row = members.row(key)
                options = lettered(row, "options")
                gold = (one_of(row, "answer", options),)
                yield info.question(row, split, f"{split}/{key}", row.text("question"), options=options, gold=gold)
        if not some:
            raise BadInput("the file lacks this test set", file=file, field=split)


READERS = {"mirage": read}
