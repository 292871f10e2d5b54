"""RiddleSense: JSON lines in the layout of CommonsenseQA, without a question concept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.datasets.checks import Located
from evidence_assets.datasets.choices import ai2_question
from evidence_assets.datasets.info import DatasetInfo
from evidence_assets.datasets.reading_json import jsonl

INFO = DatasetInfo(
    name="riddle",
    title="RiddleSense",
    task="mcqa",
    files={"train": ("rs_train.jsonl",), "dev": ("rs_dev.jsonl",), "test": ("rs_test_hidden.jsonl",)},
    counts={"train": 3510, "dev": 1021, "test": 1184},
    licence="non-commercial use only",
    source="https://inklab.usc.edu/RiddleSense/",
    note="The answers of the test split are hidden; results are published on dev.",
)


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        for row in jsonl(file):
            yield ai2_question(row, info.name, split, hidden=split == "test")


READERS = ((INFO, read),)
