"""STaRK's questions: a csv of query and answer node ids per knowledge base, and files with the ids of each split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row, headed_rows, text_lines
from evidence_assets.lake.errors import BadInput

SYNTHESIZED = {
    "prime": {"all": 11204, "test": 2801},
    "mag": {"all": 13323, "test": 2665},
    "amazon": {"all": 9100, "test": 1638},
}
HUMAN = {"prime": {"all": 98}, "mag": {"all": 84}, "amazon": {"all": 81}}
CSV, HUMAN_CSV = "stark_qa/stark_qa.csv", "stark_qa/stark_qa_human_generated_eval.csv"


def _info(base: str, kind: str, files: dict[str, tuple[str, ...]], counts: dict[str, int]) -> DatasetInfo:
    return DatasetInfo(
        name=f"stark_{base}_{kind}",
        title=f"STaRK {base}, {'synthesized' if kind == 'synth' else 'written by people'}",
        task="skb_search",
        files=files,
        counts=counts,
        licence="MIT; data CC BY 4.0",
        source="https://huggingface.co/datasets/snap-stanford/stark (folder qa)",
        note="Gold are node ids of the knowledge base. The splits other than all need their index file.",
    )


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


_SPLITS: dict[str, tuple[str, ...]] = {"all": (CSV,)} | {
    split: (CSV, f"split/{split}.index") for split in ("train", "val", "test", "test-0.1")
}
_HUMAN: dict[str, tuple[str, ...]] = {"all": (HUMAN_CSV,)}
READERS = tuple(
    (_info(base, kind, files, counts[base]), read)
    for base in SYNTHESIZED
    for kind, files, counts in (("synth", _SPLITS, SYNTHESIZED), ("human", _HUMAN, HUMAN))
)
