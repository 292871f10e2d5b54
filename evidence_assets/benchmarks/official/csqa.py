"""CommonsenseQA 1.11: JSON lines in the Allen Institute's layout, five choices and the concept asked about."""

from __future__ import annotations

from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import read_ai2

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
    hidden=("test",),
    licence="MIT",
    source="https://www.tau-nlp.org/commonsenseqa",
    note="Results are published on dev.",
)

READERS = ((INFO, read_ai2),)
