"""The conversions of evidence: what selectors yield to stored rows, and either to what answerers and scores read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import polars as pl

from evidence_assets.experiment.evidence.selection import Parent, SelectedEvidence, Selector
from evidence_assets.experiment.rows import RowWriter, batches
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import EvidenceRow, rows_by_question
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import MODEL_KNOWLEDGE, TABLE_KINDS, EvidenceItem

QUESTIONS_PER_BATCH = 256
"""Questions per call of a selector."""
Items = dict[tuple[str, str], tuple[EvidenceItem, ...]]
"""Evidence by question id and option label, in rank order."""


# Selected evidence to stored rows -----------------------------------------------------------------------------------


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
    # Selected in batches, so that rows can be checkpointed.
    selected = chain.from_iterable(selector.select(batch) for batch in batches(todo, QUESTIONS_PER_BATCH))
    for completed, (question, items) in enumerate(zip(todo, selected, strict=True), 1):
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


# Stored rows to what answerers and scores read ----------------------------------------------------------------------


def read_item(row: EvidenceRow) -> EvidenceItem:
    """A stored row as answerers and scores read it."""
    return EvidenceItem(
        row["evidence_id"],
        row["kind"],
        row["source_id"],
        row["locator"],
        row["text"],
        row["score"],
        row["why"],
        row["option"],
        row["source_kind"],
        row["rank"],
    )


def evidence_by_question(evidence: pl.DataFrame) -> dict[str, list[EvidenceItem]]:
    """Evidence by question id, best first."""
    rows = rows_by_question(evidence.sort("question_id", "rank"), EvidenceRow)
    return {question_id: list(map(read_item, group)) for question_id, group in rows.items()}


def evidence_by_option(evidence: pl.DataFrame) -> Items:
    """Evidence by question id and option label, in rank order; without ``why``, as options are judged by its text."""
    keys = ["question_id", "option"]
    columns = ["evidence_id", "kind", "source_id", "locator", "text", "score"]
    rows = evidence.sort(*keys, "rank").select(*keys, *columns).rows_by_key(keys)
    return {key: tuple(EvidenceItem(*row) for row in group) for key, group in rows.items()}


def option_evidence(items: Items, question_id: str, label: str) -> tuple[EvidenceItem, ...]:
    """Evidence of the option, then evidence of the whole question."""
    return items.get((question_id, label), ()) + (items.get((question_id, ""), ()) if label else ())


def keep_best_facts(evidence: pl.DataFrame, n: int) -> pl.DataFrame:
    """The rows of the ``n`` facts of each question with the highest scores over all options, and all rows of tables."""
    is_of_table = pl.col("kind").is_in(TABLE_KINDS)
    facts = evidence.filter(~is_of_table).sort("score", "option", "rank", descending=[True, False, False])
    distinct = facts.unique(["question_id", "content_hash"], keep="first", maintain_order=True)
    best = distinct.group_by("question_id", maintain_order=True).head(n)
    return pl.concat([evidence.filter(is_of_table), best.select(evidence.columns)])


def sourced_rows(evidence: pl.DataFrame) -> pl.DataFrame:
    """The rows that have a source; facts recalled by a language model have none."""
    return evidence.filter(pl.col("why").str.json_path_match("$.origin").ne_missing(MODEL_KNOWLEDGE))


# Between selectors and answerers, without the lake ------------------------------------------------------------------


def select_again(row: EvidenceRow) -> SelectedEvidence:
    """A stored row as selected evidence, for selectors that choose among rows of another variant."""
    parent = Parent(row["source_kind"], row["source_id"], row["source_id"])
    return SelectedEvidence(
        row["option"], row["kind"], (parent,), row["locator"], row["text"], row["score"], row["why"]
    )
