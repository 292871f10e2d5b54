"""Readers of questions about graphs (SimpleQuestions, WebQSP, Mintaka) and of LAMA's T-REx facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.dataset_info import DatasetInfo, find_dataset
from evidence_assets.benchmarks.graphs.formats import shorten_freebase_id
from evidence_assets.benchmarks.json_streams import json_rows, json_rows_at, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, headed_rows
from evidence_assets.benchmarks.records import GoldEvidence, LocatedQuestion

SIMPLEQUESTIONS_COLUMNS = ("subject", "relation", "object", "question")
FREEBASE_ID = r"(?:www\.freebase\.com/)?m[./]\w+"
IDENTIFIERS = {
    "freebase": {"subject": FREEBASE_ID, "object": FREEBASE_ID},
    "wikidata": {"subject": r"Q\d+", "relation": r"[PR]\d+", "object": r"Q\d+"},
}
"""Form of the ids in each column of SimpleQuestions, by graph."""


def read_simplequestions(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read one fact and question per line, over Freebase (``m.…``) or Wikidata (``Q…``)."""
    graph = "freebase" if info.name == "simplequestions" else "wikidata"
    for file in info.find_files(folder, split):
        for row in headed_rows(file, SIMPLEQUESTIONS_COLUMNS, "\t", quoted=False, header=False):
            for field, form in IDENTIFIERS[graph].items():
                if not re.fullmatch(form, row.text(field)):
                    raise row.error(f"{row.values[field]!r} is not a {graph.capitalize()} identifier", field)
            topic, relation, answer = (shorten_freebase_id(row.text(f)) for f in SIMPLEQUESTIONS_COLUMNS[:3])
            fact = f"{topic} {relation} {answer}"
            if graph == "wikidata" and relation.startswith("R"):
                fact = f"{answer} P{relation[1:]} {topic}"  # the inverse of a property
            evidence = GoldEvidence("triple", graph, "", fact)
            yield info.question(
                row,
                split,
                f"{split}-{row.line}",
                row.text("question"),
                gold=(answer,),
                topic_entities=(topic,),
                gold_evidence=(evidence,),
            )


def read_webqsp(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read WebQuestions with semantic parses over Freebase; answers of all parses are gold."""
    for _, row in info.read_each(folder, split, lambda file: json_rows_at(file, "Questions.*")):
        gold: dict[str, tuple[str, ...]] = {}
        topics: dict[str, None] = {}
        for parse in row.rows("Parses"):
            if topic := parse.text_or_none("TopicEntityMid"):
                topics[topic] = None
            for answer in parse.rows("Answers", optional=True):
                argument = answer.text("AnswerArgument")
                name = answer.text_or_none("EntityName")
                forms = gold.get(name or argument, ())
                gold[name or argument] = tuple(dict.fromkeys((*forms, argument))) if name else forms
        yield info.question(
            row,
            split,
            row.text("QuestionId"),
            row.text("RawQuestion"),
            gold=tuple(gold),
            aliases=tuple(gold.values()),
            topic_entities=tuple(topics),
            unanswerable=not gold,
        )


def read_mintaka(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read questions with Wikidata answers and annotated entities.

    A question that counts has the things that are counted as answers; their number is an alias of the first.
    """
    for row in info.read_each(folder, split, json_rows):
        gold = _read_mintaka_answers(row.row("answer"))
        if row.text_or_none("complexityType") == "count" and len(gold) > 1:
            first = next(iter(gold))
            gold[first] = tuple(dict.fromkeys((*gold[first], str(len(gold)))))
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
            unanswerable=not gold,
        )


def _read_mintaka_answers(row: Row) -> dict[str, tuple[str, ...]]:
    """Read the answers of Mintaka with their aliases."""
    gold: dict[str, tuple[str, ...]] = {}
    answers = row.list("answer", optional=True)
    mention = row.text_or_none("mention")
    for position, answer in enumerate(answers):
        forms = _answer_forms(row, answer, f"answer[{position}]")
        if mention and len(answers) == 1 and mention not in forms:
            forms.append(mention)
        if not forms:
            raise row.error("has neither a label nor a name; add one", f"answer[{position}]")
        gold[forms[0]] = tuple(dict.fromkeys((*gold.get(forms[0], ()), *forms[1:])))
    return gold or ({mention: ()} if mention else {})


def _answer_forms(row: Row, answer: Any, field: str) -> list[str]:
    if isinstance(answer, bool):
        return ["yes" if answer else "no", str(answer).lower()]
    if isinstance(answer, int | float):
        return [str(int(answer)) if isinstance(answer, float) and answer.is_integer() else str(answer)]
    if isinstance(answer, str) and answer.strip():
        return [answer]
    if isinstance(answer, dict):
        entity = Row(answer, row.file, row.line, f"answer.{field}")
        return [form for form in (entity.text_or_none("label"), entity.text_or_none("name")) if form]
    raise row.error(f"{answer!r} is not an answer", field)


def read_lama_facts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Read the facts of all relations, one file per relation: two labels and the Wikidata property between them."""
    for row in find_dataset("lama").read_each(folder, "all", jsonl_rows):
        relation = row.file.name.partition(".")[0]
        yield row.text("sub_label"), relation, row.text("obj_label")


READERS = {
    "simplequestions": read_simplequestions,
    "simplequestions_wd": read_simplequestions,
    "webqsp": read_webqsp,
    "mintaka": read_mintaka,
}
