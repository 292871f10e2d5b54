"""ARC, Challenge and Easy: JSON lines; the labels of the choices are letters or digits, three to five of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.datasets.checks import Located
from evidence_assets.datasets.choices import ai2_question
from evidence_assets.datasets.info import DatasetInfo
from evidence_assets.datasets.reading_json import jsonl


def _info(name: str, kind: str, counts: dict[str, int]) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        title=f"ARC-{kind}",
        task="mcqa",
        files={split: (f"ARC-{kind}/ARC-{kind}-{split.title()}.jsonl",) for split in ("train", "dev", "test")},
        counts=counts,
        licence="CC BY-SA 4.0",
        source="https://allenai.org/data/arc",
    )


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        for row in jsonl(file):
            yield ai2_question(row, info.name, split)


READERS = (
    (_info("arc_c", "Challenge", {"train": 1119, "dev": 299, "test": 1172}), read),
    (_info("arc_e", "Easy", {"train": 2251, "dev": 570, "test": 2376}), read),
)
