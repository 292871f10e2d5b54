"""MIRAGE: one ``benchmark.json`` that holds five biomedical test sets by name, each an object of questions by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import lettered, one_of
from evidence_assets.benchmarks.reading_json import json_members
from evidence_assets.lake.errors import BadInput

COUNTS = {"mmlu": 1089, "medqa": 1273, "medmcqa": 4183, "pubmedqa": 500, "bioasq": 618}
INFO = DatasetInfo(
    name="mirage",
    title="MIRAGE",
    task="mcqa",
    files=dict.fromkeys(COUNTS, ("benchmark.json",)),
    counts=COUNTS,
    licence="MIT; of each of its five sources its own",
    source="https://github.com/Teddy-XiongGZ/MIRAGE",
    note="Its five test sets are its splits. An id is unique within its set only, so it is called set/id.",
)


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


READERS = ((INFO, read),)
