"""WebQSP: WebQuestions with semantic parses over Freebase, one object with a list of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.checks import Located
from evidence_assets.benchmarks.info import DatasetInfo
from evidence_assets.benchmarks.reading import Row
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.lake.errors import BadInput


def read(info: DatasetInfo, folder: Path, split: str) -> Iterator[Located]:
    for file in info.find(folder, split):
        some = False
        for line, field, value in json_items(file):
            if field != "Questions":
                continue
            some = True
            for row in Row({field: value}, file, line).rows(field):
                yield _question(info, split, row)
        if not some:
            raise BadInput("the file lacks this list", file=file, field="Questions")


def _question(info: DatasetInfo, split: str, row: Row) -> Located:
    gold: dict[str, tuple[str, ...]] = {}
    topics: dict[str, None] = {}
    for parse in row.rows("Parses"):
        topic = parse.text_or_none("TopicEntityMid")
        if topic:
            topics[topic] = None
        for answer in parse.rows("Answers") if parse.values.get("Answers") else ():
            argument, name = answer.text("AnswerArgument"), answer.text_or_none("EntityName")
            known = gold.get(name or argument, ())
            gold[name or argument] = tuple(dict.fromkeys((*known, argument))) if name else known
    return info.question(
        row,
        split,
        row.text("QuestionId"),
        row.text("RawQuestion"),
        gold=tuple(gold),
        aliases=tuple(gold.values()),
        topic_entities=tuple(topics),
    )


READERS = {"webqsp": read}
