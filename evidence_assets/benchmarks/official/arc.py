"""ARC, Challenge and Easy: JSON lines; the labels of the choices are letters or digits, three to five of them."""

from __future__ import annotations

from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import read_ai2


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


READERS = (
    (_info("arc_c", "Challenge", {"train": 1119, "dev": 299, "test": 1172}), read_ai2),
    (_info("arc_e", "Easy", {"train": 2251, "dev": 570, "test": 2376}), read_ai2),
)
