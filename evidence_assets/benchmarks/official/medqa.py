"""MedQA (USMLE, four options): one object a line with question, options by letter, answer_idx and answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.official.choices import lettered, one_of
from evidence_assets.benchmarks.reading_json import jsonl


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        for place, row in enumerate(jsonl(file)):
            options = lettered(row, "options")
            gold = one_of(row, "answer_idx", options)
            answer = row.text("answer")
            if answer != options[ord(gold) - ord("A")]:
                raise row.bad(f"{answer!r} is not the text of option {gold}", "answer")
            # What MetaMap found in the question, where the file says so; some of its phrases are empty.
            found = row.texts("metamap_phrases", blank=True) if "metamap_phrases" in row.values else ()
            yield info.question(
                row,
                split,
                f"{split}-{place:04d}",
                row.text("question"),
                options=options,
                gold=(gold,),
                topic_entities=tuple(dict.fromkeys(phrase.strip() for phrase in found if phrase.strip())),
            )


READERS = {"medqa": read}
