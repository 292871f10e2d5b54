"""MMLU: one csv a subject without a header row: question, four options, answer letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import one_of
from evidence_assets.benchmarks.reading import headed_rows

COLUMNS = ("question", "A", "B", "C", "D", "answer")
MEDICAL = {
    "anatomy": 135,
    "clinical_knowledge": 265,
    "college_biology": 144,
    "college_medicine": 173,
    "medical_genetics": 100,
    "professional_medicine": 272,
}
"""The six biomedical subjects and the size of their test files: 1,089 questions together."""
SPLITS = ("dev", "val", "test")


def _info(name: str, title: str, subjects: tuple[str, ...], counts: dict[str, int]) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        title=title,
        task="mcqa",
        files={split: tuple(f"{split}/{subject}_{split}.csv" for subject in subjects) for split in SPLITS},
        counts=counts,
        licence="MIT",
        source="https://github.com/hendrycks/test",
        note="A question is called by its subject, its split and its place from 0 in the file.",
    )


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        subject = file.name.removesuffix(".gz").removesuffix(".csv").removesuffix(f"_{split}")
        for place, row in enumerate(headed_rows(file, COLUMNS, header=COLUMNS)):
            options = tuple(row.text(letter) for letter in "ABCD")
            source_id, gold = f"{subject}-{split}-{place:03d}", (one_of(row, "answer", options),)
            yield info.question(row, split, source_id, row.text("question"), options=options, gold=gold)


READERS = (
    (_info("mmlu", "MMLU, all 57 subjects", ("*",), {"dev": 285, "val": 1531, "test": 14042}), read),
    (_info("mmlu_med", "MMLU, six biomedical subjects", tuple(MEDICAL), {"test": sum(MEDICAL.values())}), read),
    *(
        (_info(f"mmlu_{subject}", f"MMLU, {subject.replace('_', ' ')}", (subject,), {"test": count}), read)
        for subject, count in MEDICAL.items()
    ),
)
