"""Recall of gold paths: by the edges that were picked, whatever row they stand in."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.scores.gold_evidence import evidence_recall
from evidence_assets.graphs.merge import edge_id, node_id
from evidence_assets.reasoning.paths import path_locator
from evidence_assets.text.words import name_key

PATH = [["metformin", "may_treat", "diabetes"], ["Excessive thirsts", "is_associated_with", "diabetes"]]
TEXT = "metformin may_treat diabetes; excessive thirst is_associated_with diabetes"


def edge(head: str, relation: str, tail: str) -> str:
    return edge_id(node_id(name_key(head)), relation, node_id(name_key(tail)))


FIRST, SECOND = edge("Metformin", "may_treat", "diabetes"), edge("excessive thirst", "is_associated_with", "diabetes")


def recall(*rows: dict[str, Any]) -> float:
    gold = {"kind": "path", "source": "graph", "locator": json.dumps(PATH), "text": TEXT, "group": ""}
    frame = pl.DataFrame(
        [
            {"question_id": "q", "source_id": "", "source_kind": "edge", "text": "", "why": None, "rank": 1, **row}
            for row in rows
        ],
        schema=dict.fromkeys(("question_id", "kind", "locator", "source_id", "source_kind", "text", "why"), pl.String)
        | {"rank": pl.Int32},
    )
    (share,) = evidence_recall([{"question_id": "q", "gold_evidence": [gold]}], frame)
    return share


def path(*edges: str) -> dict[str, Any]:
    return {"kind": "path", "locator": path_locator((e, True) for e in edges)}


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([path(FIRST, SECOND)], 1),
        ([path(SECOND), path(FIRST)], 1),
        ([path(FIRST), {"kind": "triple", "locator": "", "source_id": SECOND}], 1),
        ([path(FIRST)], 0),
        ([{"kind": "chunk", "locator": "", "source_kind": "chunk", "source_id": SECOND}, path(FIRST)], 0),
        ([], 0),
    ],
)
def test_a_gold_path_is_there_if_all_its_edges_are(rows: list[dict[str, Any]], share: float) -> None:
    assert recall(*rows) == share
