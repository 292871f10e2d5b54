"""CommonsenseQA 1.11: JSON lines in the Allen Institute's layout, five choices and the concept asked about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.datasets.checks import Located
from evidence_assets.datasets.choices import ai2_question
from evidence_assets.datasets.info import DatasetInfo
from evidence_assets.datasets.reading_json import jsonl

INFO = DatasetInfo(
    name="csqa",
    title="CommonsenseQA 1.11",
    task="mcqa",
    files={
        "train": ("train_rand_split.jsonl",),
        "dev": ("dev_rand_split.jsonl",),
        "test": ("test_rand_split_no_answers.jsonl",),
    },
    counts={"train": 9741, "dev": 1221, "test": 1140},
    licence="MIT",
    source="https://www.tau-nlp.org/commonsenseqa",
    note="The answers of the test split are hidden; results are published on dev.",
)


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        for row in jsonl(file):
            yield ai2_question(row, info.name, split, hidden=split == "test")


READERS = ((INFO, read),)
