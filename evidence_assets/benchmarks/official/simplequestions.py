"""SimpleQuestions: a fact and a question a line, over Freebase (``m.…``) or mapped to Wikidata (``Q…``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row, delimited
from evidence_assets.benchmarks.records import GoldEvidence

COLUMNS = ("subject", "relation", "object", "question")
FREEBASE_ID = re.compile(r"(?:www\.freebase\.com/)?m[./](\w+)")


def read_freebase(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for row in _rows(info, folder, split):
        subject, answer = _mid(row, "subject"), _mid(row, "object")
        relation = row.text("relation").removeprefix("www.freebase.com/").strip("/").replace("/", ".")
        yield _question(info, row, split, subject, answer, f"{subject} {relation} {answer}", "freebase")


def read_wikidata(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for row in _rows(info, folder, split):
        subject, relation, answer = row.text("subject"), row.text("relation"), row.text("object")
        for field, value, form in (
            ("subject", subject, r"Q\d+"),
            ("relation", relation, r"[PR]\d+"),
            ("object", answer, r"Q\d+"),
        ):
            if not re.fullmatch(form, value):
                raise row.bad(f"{value!r} is not a Wikidata identifier", field)
        forward = f"{subject} {relation} {answer}"
        fact = f"{answer} P{relation[1:]} {subject}" if relation.startswith("R") else forward
        yield _question(info, row, split, subject, answer, fact, "wikidata")


def _rows(info: DatasetInfo, folder: Path, split: str) -> Iterator[Row]:
    for file in info.find(folder, split):
        for number, fields in delimited(file, columns=len(COLUMNS)):
            yield Row(dict(zip(COLUMNS, fields, strict=True)), file, number)


def _mid(row: Row, field: str) -> str:
    match = FREEBASE_ID.fullmatch(row.text(field))
    if match is None:
        raise row.bad(f"{row.values[field]!r} is not a Freebase identifier", field)
    return f"m.{match[1]}"


def _question(info: DatasetInfo, row: Row, split: str, topic: str, answer: str, fact: str, graph: str) -> Located:
    return info.question(
        row,
        split,
        f"{split}-{row.line}",
        row.text("question"),
        gold=(answer,),
        topic_entities=(topic,),
        gold_evidence=(GoldEvidence("triple", graph, "", fact),),
    )


READERS = {"simplequestions": read_freebase, "simplequestions_wd": read_wikidata}
