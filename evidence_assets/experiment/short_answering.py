"""Evidence rows that are triples, and the task of answering a question from them in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evidence_assets.experiment.selection import Asked
from evidence_assets.reasoning.short_answers import Fact, ShortTask

MODEL_KNOWLEDGE = "model"
"""What ``why.origin`` of an evidence row says where no source but a language model states the fact."""


def is_sourced(row: Mapping[str, Any]) -> bool:
    """Whether an evidence row comes from a source, not from what a language model recalled."""
    return bool(_why(row).get("origin") != MODEL_KNOWLEDGE)


def triple_of(row: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Head, relation and tail of an evidence row that is a triple."""
    triple = _why(row).get("triple")
    if row["kind"] != "triple" or not isinstance(triple, list) or len(triple) != 3:
        return None
    return str(triple[0]), str(triple[1]), str(triple[2])


def _why(row: Mapping[str, Any]) -> dict[str, Any]:
    value = json.loads(row["why"]) if row["why"] else {}
    return value if isinstance(value, dict) else {}


def short_task(question: Asked, rows: Sequence[dict[str, Any]]) -> ShortTask:
    """What a solver is asked, from rows of evidence in the order of their rank."""
    facts = []
    for row in rows:
        triple = triple_of(row)
        if triple is not None:
            facts.append(Fact(row["evidence_id"], *triple, row["text"], is_sourced(row)))
    return ShortTask(question.text, tuple(facts))
