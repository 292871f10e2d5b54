"""Rows of ``questions`` and ``tables`` from what readers yield."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from evidence_assets.benchmarks.records import Question, Table
from evidence_assets.graphs.base_rows import node_id
from evidence_assets.lake.ids import content_id, shard_of
from evidence_assets.text.negation import asks_for_exception

_AS_READ = ("question_id", "benchmark", "source_id", "split", "task", "text", "table_id")


def question_rows(
    questions: Iterable[Question], split: str, shard: int, shards: int, graph: str = ""
) -> list[dict[str, Any]]:
    """The split's questions that a stable hash of their id puts into one shard.

    Gold nodes are named as the lake names the nodes of ``graph``; see ``graphs.base_rows``.
    """
    return [
        {
            **{name: getattr(q, name) for name in _AS_READ},
            "options": list(q.options),
            "gold": [node_id(graph, g) for g in q.gold] if q.task == "skb_search" and graph else list(q.gold),
            "gold_aliases": [list(aliases) for aliases in q.aliases],
            "gold_evidence": [asdict(g) for g in q.gold_evidence],
            "topic_entities": list(q.topic_entities),
            "negated": _negated(q),
        }
        for q in questions
        if q.split == split and shard_of(q.question_id, shards) == shard
    ]


def _negated(question: Question) -> bool:
    """What the benchmark says; where it says nothing, what the words of a question with options say."""
    if question.negated is not None:
        return question.negated
    return question.task in ("mcqa", "table_qa") and bool(question.options) and asks_for_exception(question.text)


def table_rows(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Tables as they were read: ragged rows keep their cells, an absent cell has no row here."""
    return [
        {
            **{name: getattr(t, name) for name in ("table_id", "benchmark", "caption")},
            "header": list(t.header),
            "n_rows": len(t.rows),
            "cells": [
                {"row": r, "column": c, "text": text} for r, row in enumerate(t.rows) for c, text in enumerate(row)
            ],
            "content_hash": content_id("table", t.caption, t.header, t.rows),
        }
        for t in tables
    ]


def table_of(row: dict[str, Any]) -> Table:
    rows: list[list[str]] = [[] for _ in range(row["n_rows"])]
    for cell in row["cells"]:
        rows[cell["row"]].append(cell["text"])
    return Table(row["benchmark"], row["table_id"], row["caption"], tuple(row["header"]), tuple(tuple(r) for r in rows))
