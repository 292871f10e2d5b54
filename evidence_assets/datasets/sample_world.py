"""The benchmarks that the sample world renders: the format is described in ``evidence_assets/sample/README.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.datasets.checks import Located, question, unique_questions
from evidence_assets.datasets.reading import Row
from evidence_assets.datasets.reading_json import jsonl
from evidence_assets.datasets.records import GoldEvidence, Question, option_labels

FIELDS = (
    "question_id", "split", "task", "text", "options", "gold", "gold_also", "gold_aliases", "table_id", "topic_entities",
    "gold_evidence", "answerable", "negated", "hops", "operation", "shape",
)  # fmt: skip


def read_questions(file: Path, benchmark: str) -> Iterator[Question]:
    """The questions of one rendered benchmark, of both splits."""
    yield from unique_questions(_questions(file, benchmark))


def _questions(file: Path, benchmark: str) -> Iterator[Located]:
    for row in jsonl(file):
        row.only(FIELDS)
        task, options = row.text("task"), row.texts("options")
        gold = _gold(row, task, options)
        by_answer = row.values.get("gold_aliases") or {}
        yield question(
            row,
            benchmark=benchmark,
            source_id=row.text("question_id"),
            split=row.text("split"),
            task=task,
            text=row.text("text"),
            options=options,
            gold=gold,
            table_id=row.text_or_none("table_id"),
            topic_entities=row.texts("topic_entities"),
            gold_evidence=tuple(_evidence(item) for item in row.rows("gold_evidence")),
            negated=bool(row.get("negated")),
            aliases=tuple(tuple(by_answer.get(answer, ())) for answer in gold) if by_answer else (),
        )


def _gold(row: Row, task: str, options: tuple[str, ...]) -> tuple[str, ...]:
    value = row.get("gold")
    if value is None:
        return ()
    if isinstance(value, list):
        return row.texts("gold")
    labels = option_labels(task, options)
    indexes = [value, *row.list("gold_also")]
    if not all(isinstance(i, int) and 0 <= i < len(labels) for i in indexes):
        raise row.bad(f"{indexes} are no numbers of its {len(labels)} options", "gold")
    return tuple(labels[i] for i in indexes)


def _evidence(item: Row) -> GoldEvidence:
    kind, place = item.text("kind"), item.get("locator")
    fact = item.values.get("fact")
    return GoldEvidence(
        kind, item.text("source"), _locator(kind, place), item.text("text"), json.dumps(fact) if fact else ""
    )


def _locator(kind: str, place: Any) -> str:
    if kind == "sentence":
        return f"{place['char_start']}:{place['char_end']}"
    if kind == "cell":
        return f"r{place['row']}c{place['column']}"
    return json.dumps(place, ensure_ascii=False)
