"""Mintaka: an array of questions with Wikidata answers, entities with their spans, and a complexity type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_rows


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for row in info.each(folder, split, json_rows):
        gold = _answers(row.row("answer"))
        entities = (item for item in row.rows("questionEntity") if item.get("entityType") == "entity")
        linked = [item.text_or_none(field) for item in entities for field in ("name", "label")]  # id and name
        yield info.question(
            row,
            split,
            row.label("id"),
            row.text("question"),
            gold=tuple(gold),
            aliases=tuple(gold.values()),
            topic_entities=tuple(dict.fromkeys(filter(None, linked))),
        )


def _answers(row: Row) -> dict[str, tuple[str, ...]]:
    """Each answer with its other forms."""
    found: dict[str, tuple[str, ...]] = {}
    answers = row.list("answer") if row.get("answer") is not None else ()
    mention = row.text_or_none("mention")
    for place, answer in enumerate(answers):
        name, other = _answer(row, answer, f"answer[{place}]", mention if len(answers) == 1 else None)
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *other)))
    if not found and mention:
        found[mention] = ()
    return found


def _answer(row: Row, answer: Any, field: str, mention: str | None) -> tuple[str, tuple[str, ...]]:
    forms: list[str]
    if isinstance(answer, bool):
        forms = ["yes" if answer else "no", str(answer).lower()]
    elif isinstance(answer, int | float):
        forms = [str(int(answer)) if isinstance(answer, float) and answer.is_integer() else str(answer)]
    elif isinstance(answer, str) and answer.strip():
        forms = [answer]
    elif isinstance(answer, dict):
        entity = Row(answer, row.file, row.line, f"answer.{field}")
        forms = [form for form in (entity.text_or_none("label"), entity.text_or_none("name")) if form]
    else:
        raise row.bad(f"{answer!r} is not an answer", field)
    if mention and mention not in forms:
        forms.append(mention)
    if not forms:
        raise row.bad("has neither a label nor a name", field)
    return forms[0], tuple(forms[1:])


READERS = {"mintaka": read}
