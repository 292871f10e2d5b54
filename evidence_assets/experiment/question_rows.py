"""The conversions of questions: records of readers to stored rows, and either to what selectors and reasoners get."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from evidence_assets.benchmarks.records import ASKED_BENCHMARK, GoldEvidence, QuestionRecord
from evidence_assets.experiment.stored_rows import GoldEvidenceRow, QuestionRow, typed_rows
from evidence_assets.graphs.merge import prefixed_node_id
from evidence_assets.lake.ids import shard_of
from evidence_assets.reasoning.questions import Question
from evidence_assets.text.negation import asks_for_exception


def question_rows(
    records: Iterable[QuestionRecord], split: str, shard: int, shards: int, graph: str = ""
) -> list[QuestionRow]:
    """Rows of the split's questions in one shard; a stable hash of the id decides the shard.

    Gold nodes get the prefix of ``graph``; see ``graphs.merge``. Questions whose answer is not known have no ``gold``.
    """
    return [
        _build_row(record, graph)
        for record in records
        if record.split == split and shard_of(record.question_id, shards) == shard
    ]


def _build_row(record: QuestionRecord, graph: str) -> QuestionRow:
    return {
        "question_id": record.question_id,
        "benchmark": record.benchmark,
        "source_id": record.source_id,
        "split": record.split,
        "task": record.task,
        "text": record.text,
        "options": list(record.options),
        "gold": _prefix_gold(record, graph) if record.is_graded else None,
        "gold_aliases": [list(aliases) for aliases in record.aliases],
        "gold_evidence": [_build_gold_row(gold) for gold in record.gold_evidence],
        "table_id": record.table_id,
        "topic_entities": list(record.topic_entities),
        "negated": _is_negated(record),
    }


def _build_gold_row(gold: GoldEvidence) -> GoldEvidenceRow:
    return {"kind": gold.kind, "source": gold.source, "locator": gold.locator, "text": gold.text, "group": gold.group}


def _prefix_gold(record: QuestionRecord, graph: str) -> list[str]:
    is_search = record.task == "skb_search" and graph
    return [prefixed_node_id(graph, gold) for gold in record.gold] if is_search else list(record.gold)


def _is_negated(record: QuestionRecord) -> bool:
    """The benchmark's annotation; without one, a rule on the words of a question with options."""
    if record.negated is not None:
        return record.negated
    return record.task in ("mcqa", "table_qa") and bool(record.options) and asks_for_exception(record.text)


def build_questions(rows: pl.DataFrame) -> list[Question]:
    """The questions of stored rows, by id, without their gold answers."""
    return [
        Question(
            row["question_id"],
            row["benchmark"],
            row["task"],
            row["text"],
            tuple(row["options"]),
            row["table_id"] or "",
            tuple(row["topic_entities"]),
            row["negated"],
        )
        for row in typed_rows(rows.sort("question_id"), QuestionRow)
    ]


def hide_gold(record: QuestionRecord) -> Question:
    """The question of a record without its gold answer and annotations, as training and fits give it to selectors."""
    return Question(
        record.question_id, record.benchmark, record.task, record.text, record.options, record.table_id or ""
    )


def is_asked_about_table(question: Question) -> bool:
    """Whether a user asks this one question about a table, whose cells are the options if none were given."""
    return (question.benchmark, question.task) == (ASKED_BENCHMARK, "table_qa")
