"""Rows of the lake's tables as typed dictionaries, for the code that computes answers and scores."""

from __future__ import annotations

from typing import Literal, TypedDict, TypeVar, cast

import polars as pl

RowType = TypeVar("RowType")


class GoldEvidenceRow(TypedDict):
    """A piece of gold evidence of a question."""

    kind: str
    source: str
    locator: str
    text: str
    group: str


class QuestionRow(TypedDict):
    """A row of ``questions``."""

    question_id: str
    benchmark: str
    source_id: str
    split: str
    task: str
    text: str
    options: list[str]
    gold: list[str] | None
    gold_aliases: list[list[str]]
    gold_evidence: list[GoldEvidenceRow]
    table_id: str | None
    topic_entities: list[str]
    negated: bool


class EvidenceRow(TypedDict):
    """A row of ``evidence``."""

    evidence_id: str
    question_id: str
    benchmark: str
    option: str
    selector: str
    kind: str
    source_kind: str
    source_id: str
    locator: str
    text: str
    rank: int
    score: float
    why: str | None
    content_hash: str
    input_hash: str


class StepRow(TypedDict):
    """A sentence of a chain."""

    text: str
    cited: list[str]
    quoted: list[str]


class OmissionRow(TypedDict):
    """A part that an answer or a chain lacks."""

    kind: Literal["missing", "cut", "rejected"]
    part: str
    reason: str


class ReasonedRow(TypedDict):
    """What rows of ``chains`` and ``predictions`` share: question, reasoner, outcome and cost of the reply."""

    question_id: str
    benchmark: str
    selector: str
    reasoner: str
    model_id: str
    status: str
    error: str | None
    omissions: list[OmissionRow] | None
    tokens_in: int | None
    tokens_out: int | None
    finish_reason: str | None
    content_hash: str
    input_hash: str


class ChainRow(ReasonedRow):
    """A row of ``chains``."""

    chain_id: str
    hypothesis: str
    steps: list[StepRow]
    support: float | None
    prompt_hash: str


class SignalRow(TypedDict):
    """A signal that a confidence is computed from."""

    name: str
    value: float


class PredictionRow(ReasonedRow):
    """A row of ``predictions``."""

    prediction_id: str
    answer: str | None
    ranked_answers: list[str]
    probabilities: list[float] | None
    supported_answers: list[str]
    confidence: float | None
    confidence_basis: str | None
    signals: list[SignalRow] | None
    steps: list[StepRow] | None


class LinkRow(TypedDict):
    """A phrase of a question or an option with its nodes."""

    option: str
    phrase: str
    rule: str
    score: float
    node_ids: list[str]


class HopRow(TypedDict):
    """A node of a subgraph with its distance from the concepts."""

    node_id: str
    hop: int


class DroppedNodeRow(TypedDict):
    """A node that a limit dropped from a subgraph, in older lakes."""

    hub_id: str
    node_id: str


class DroppedCountRow(TypedDict):
    """Number of nodes that the cap of a hub, or the limit on all nodes, dropped from a subgraph."""

    hub_id: str
    nodes: int


class SubgraphRow(TypedDict):
    """A row of ``subgraphs``."""

    subgraph_id: str
    question_id: str
    benchmark: str
    graph: str
    concepts: list[LinkRow]
    targets: list[LinkRow]
    nodes: list[HopRow]
    edges: list[str]
    dropped: list[DroppedNodeRow]
    note: str | None
    content_hash: str
    input_hash: str
    dropped_counts: list[DroppedCountRow] | None


def typed_rows(frame: pl.DataFrame, row_type: type[RowType]) -> list[RowType]:
    """The rows of a stored table with the type of that table."""
    return cast(list[RowType], frame.to_dicts())


def rows_by_question(frame: pl.DataFrame, row_type: type[RowType]) -> dict[str, list[RowType]]:
    """The rows of a stored table by question id, in their order."""
    rows = frame.rows_by_key("question_id", named=True, include_key=True)
    return cast(dict[str, list[RowType]], dict(rows))
