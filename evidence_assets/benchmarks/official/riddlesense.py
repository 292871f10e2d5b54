"""RiddleSense: JSON lines in the layout of CommonsenseQA, without a question concept."""

from __future__ import annotations

from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import read_ai2

INFO = DatasetInfo(
    name="riddle",
    title="RiddleSense",
    task="mcqa",
    files={"train": ("rs_train.jsonl",), "dev": ("rs_dev.jsonl",), "test": ("rs_test_hidden.jsonl",)},
    counts={"train": 3510, "dev": 1021, "test": 1184},
    hidden=("test",),
    licence="non-commercial use only",
    source="https://inklab.usc.edu/RiddleSense/",
    note="Results are published on dev.",
)

READERS = ((INFO, read_ai2),)
