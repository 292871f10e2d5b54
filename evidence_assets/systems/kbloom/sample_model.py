"""The sample's masked language model: which sentences and names it is trained on, and when it need not be."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.models import sample_masked_lm
from evidence_assets.models.sample_masked_lm import REPORT, TrainingSettings, train_sample_masked_lm


def sentences_of(chunks: pl.DataFrame) -> list[str]:
    return [
        row["text"][span["start"] : span["end"]]
        for row in chunks.iter_rows(named=True)
        for span in row["sentence_offsets"]
    ]


def names_of(graphs: Sequence[Path]) -> set[str]:
    """Heads and tails of graph files: only what things are called, not what holds between them."""
    names = set()
    for path in graphs:
        for line in path.read_text(encoding="utf-8").splitlines():
            head, _, tail = line.split("\t")
            names |= {head, tail}
    return names


def train(folder: Path, chunks: pl.DataFrame, graphs: Sequence[Path], steps: int) -> dict[str, Any]:
    """Train into ``folder``, or leave what lies there where it was trained on the same; returns columns of ``models``."""
    return train_into(folder, sentences_of(chunks), names_of(graphs), steps)


def train_into(folder: Path, sentences: Sequence[str], names: Collection[str], steps: int) -> dict[str, Any]:
    """The same, from sentences and names."""
    settings = TrainingSettings(steps=steps)
    wanted = content_id(sample_masked_lm.VERSION, sorted(set(sentences)), sorted(names), asdict(settings))
    kept = folder / REPORT
    if kept.exists():
        report: dict[str, Any] = json.loads(kept.read_text())
        weights = report.pop("weights")
        if report["input_hash"] == wanted and file_id(folder / "model.safetensors") == weights:
            return report
    with replacing_folder(folder) as temporary:
        result = train_sample_masked_lm(sentences, names, temporary, settings)
        report = {
            "sentences": result.sentences,
            "accuracy": _number(result.train_accuracy),
            "held_out_accuracy": _number(result.held_out_accuracy),
            "input_hash": wanted,
        }
        stated = {**report, "weights": file_id(temporary / "model.safetensors")}
        (temporary / REPORT).write_text(json.dumps(stated, indent=1) + "\n")
    return report


def _number(value: float) -> float | None:
    return None if value != value else value
