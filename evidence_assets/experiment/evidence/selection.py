"""Evidence selection: selectors, and the rows and lineage of selected evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import polars as pl

from evidence_assets.experiment.rows import RowWriter, batches
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import EvidenceRow, typed_rows
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED
from evidence_assets.reasoning.questions import Question

QUESTIONS_PER_BATCH = 256
"""Questions per call of a selector."""
QUESTIONS_PER_GROUP = 16
"""Questions that a selector of a graph encodes and ranks at a time, so that its rows come one group after another."""


@dataclass(frozen=True)
class Parent:
    """A source row of selected evidence, with its version."""

    kind: str
    id: str
    version: str


@dataclass(frozen=True)
class SelectedEvidence:
    """Evidence selected for an option or, with an empty label, for the whole question."""

    option: str
    kind: str
    parents: tuple[Parent, ...]
    locator: str
    text: str
    score: float
    why: str | None = None


def edge_evidence(
    graph: KnowledgeGraph, edge: int, score: float, option: str = "", text: str = "", /, **details: object
) -> SelectedEvidence:
    """An edge of a graph as evidence; ``details`` are stored in the column ``why``."""
    why = json.dumps({"triple": graph.triple(edge), **details}, ensure_ascii=False, sort_keys=True)
    edge_id = graph.edge_ids[edge]
    parent = Parent("edge", edge_id, edge_id)
    return SelectedEvidence(option, "triple", (parent,), "", text or graph.sentence(edge), float(score), why)


def distinct_by_text(items: Iterable[SelectedEvidence], limit: int) -> list[SelectedEvidence]:
    """The first ``limit`` items with different texts; parallel edges of several sources count once."""
    distinct: dict[str, SelectedEvidence] = {}
    for item in items:
        distinct.setdefault(item.text, item)
        if len(distinct) == limit:
            break
    return list(distinct.values())


MODEL_KNOWLEDGE = "model"
"""Value of ``why.origin`` for facts recalled by a language model, without a source."""


def selection_details(row: EvidenceRow) -> dict[str, object]:
    """Parse the column ``why``: how the evidence was selected."""
    details: object = json.loads(row["why"]) if row["why"] else {}
    return cast(dict[str, object], details) if isinstance(details, dict) else {}


def is_sourced(row: EvidenceRow) -> bool:
    """Whether an evidence row has a source; facts recalled by a language model have none."""
    return selection_details(row).get("origin") != MODEL_KNOWLEDGE


def sourced_rows(evidence: pl.DataFrame) -> pl.DataFrame:
    """The evidence rows that have a source."""
    return evidence.filter(pl.Series([is_sourced(row) for row in typed_rows(evidence, EvidenceRow)], dtype=pl.Boolean))


class Selector(Protocol):
    """Selects evidence, best first within each option."""

    @property
    def version(self) -> str:
        """Hash of the parameters, models, sources and code that determine the selection."""
        ...

    def select(self, questions: Sequence[Question]) -> Iterable[list[SelectedEvidence]]:
        """The selected evidence of each question, in order."""
        ...


class NoEvidence:
    """Selects nothing: for a closed book, or a benchmark without the required sources."""

    def __init__(self, reason: str) -> None:
        self.version = content_id("no evidence", reason)
        self.notes = {"no_evidence": reason}
        """Optional metadata of the asset."""

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        return [[] for _ in questions]


def evidence_rows(
    name: str,
    selector: Selector,
    questions: Sequence[Question],
    previous: PreviousOutput | None = None,
    progress: Callable[[int, int], None] | None = None,
    encoder_id: str = "",
) -> StageOutput:
    """Evidence rows for every question; rows with unchanged inputs are reused.

    ``name``: Name of the selector in the rows.
    ``encoder_id``: Id of the encoder, if it is not the profile's first; rows then have lineage to it.
    """
    model = [encoder_id] if encoder_id else []
    by_id = {question.question_id: question for question in questions}
    inputs = {q: content_id(q, name, selector.version, *model) for q in by_id}
    writer = RowWriter("evidence", previous, inputs, "question_id")
    todo = [by_id[q] for q in writer.todo]
    for completed, (question, items) in enumerate(_select_in_batches(selector, todo), 1):
        ranks: Counter[str] = Counter()
        for item in items:
            ranks[item.option] += 1
            _add_evidence(writer, name, question, item, ranks[item.option], model)
        writer.checkpoint()
        if progress:
            progress(completed, len(todo))
    notes: dict[str, object] = getattr(selector, "notes", {})
    return writer.finish(questions=len(questions), questions_selected=len(todo), **notes)


def _add_evidence(
    writer: RowWriter, selector: str, question: Question, item: SelectedEvidence, rank: int, model: Sequence[str]
) -> None:
    """Write one row of evidence with its lineage."""
    source = item.parents[0]
    parents = [(parent.kind, parent.id) for parent in item.parents]
    evidence_id = content_id("evidence", question.question_id, item.option, selector, parents, item.locator, *model)
    writer.add(
        item,
        question,
        evidence_id=evidence_id,
        selector=selector,
        source_kind=source.kind,
        source_id=source.id,
        rank=rank,
        content_hash=content_id("evidence", item.kind, source.id, item.locator, item.text),
    )
    writer.link(evidence_id, USED, "question", question.question_id, question.question_id)
    for key in model:
        writer.link(evidence_id, GENERATED, "model", key, key)
    for position, parent in enumerate(dict.fromkeys(item.parents), 1):
        writer.link(evidence_id, DERIVED, parent.kind, parent.id, parent.version, position, item.score)


def _select_in_batches(
    selector: Selector, questions: Sequence[Question]
) -> Iterator[tuple[Question, list[SelectedEvidence]]]:
    """Questions with their evidence, selected in batches so that rows can be checkpointed."""
    for batch in batches(questions, QUESTIONS_PER_BATCH):
        yield from zip(batch, selector.select(batch), strict=True)
