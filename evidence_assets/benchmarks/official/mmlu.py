"""MMLU: one csv a subject without a header row: question, four options, answer letter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import one_of
from evidence_assets.benchmarks.reading import headed_rows

COLUMNS = ("question", "A", "B", "C", "D", "answer")
MEDICAL = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        subject = file.name.removesuffix(".gz").removesuffix(".csv").removesuffix(f"_{split}")
        for place, row in enumerate(headed_rows(file, COLUMNS, header=COLUMNS)):
            options = tuple(row.text(letter) for letter in "ABCD")
            source_id, gold = f"{subject}-{split}-{place:03d}", (one_of(row, "answer", options),)
            yield info.question(row, split, source_id, row.text("question"), options=options, gold=gold)


READERS = dict.fromkeys(("mmlu", "mmlu_med", *(f"mmlu_{subject}" for subject in MEDICAL)), read)
