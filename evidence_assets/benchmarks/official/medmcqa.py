"""MedMCQA: JSON lines in spite of the name ``.json``; ``cop`` counts from 1, ``exp`` explains and may be null."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import letter_of
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import GoldEvidence


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for row in info.each(folder, split, jsonl):
        options = tuple(row.text(field) for field in ("opa", "opb", "opc", "opd"))
        explanation, source_id = row.text_or_none("exp"), row.label("id")
        hidden = split in info.hidden and row.values.get("cop") in (None, -1)
        gold = () if hidden else (letter_of(row, "cop", row.number("cop"), options, first=1),)
        evidence = (GoldEvidence("chunk", source_id, "", explanation),) if explanation else ()
        text = row.text("question")
        yield info.question(row, split, source_id, text, options=options, gold=gold, gold_evidence=evidence)


READERS = {"medmcqa": read}
