"""STaRK's questions: a csv of query and answer node ids per knowledge base, and files with the ids of each split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.stark import ANSWER_TYPES
from evidence_assets.benchmarks.reading import Row, headed_rows, text_lines
from evidence_assets.lake.errors import BadInput


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    file, *index = info.find(folder, split)
    wanted = _ids(index[0]) if index else None
    for row in headed_rows(file, ("id", "query", "answer_ids")):
        source_id = str(row.number("id"))
        if wanted is None or wanted.pop(source_id, None) is not None:
            yield info.question(row, split, source_id, row.text("query"), gold=_answers(row))
    for missing, line in (wanted or {}).items():
        raise BadInput(f"question {missing} is not in {file.name}", file=index[0], line=line)


def _ids(file: Path) -> dict[str, int]:
    """The ids of a split with the line each stands on."""
    found: dict[str, int] = {}
    for number, line in text_lines(file):
        if line.strip():
            found[str(Row({"id": line.strip()}, file, number).number("id"))] = number
    return found


def _answers(row: Row) -> tuple[str, ...]:
    text = row.text("answer_ids")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise row.bad(f"expected a list such as [12, 7]: {text[:40]!r}", "answer_ids") from error
    if not isinstance(values, list) or not all(
        isinstance(value, int) and not isinstance(value, bool) for value in values
    ):
        raise row.bad(f"expected a list of whole numbers: {text[:40]!r}", "answer_ids")
    return tuple(str(value) for value in dict.fromkeys(values))


READERS = dict.fromkeys((f"stark_{base}_{kind}" for base in ANSWER_TYPES for kind in ("synth", "human")), read)
