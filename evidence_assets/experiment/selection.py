"""From questions to rows of evidence: what every selector gives and how its rows and lineage are made.

Belongs here: the shape of a question and of a pick, and the one writer of evidence. How evidence is found belongs to
the selectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.step import Before, Made
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED

Progress = Callable[[int, int], None]
SELECTED_TOGETHER = 256
"""Questions that a selector is given at a time."""


@dataclass(frozen=True)
class Asked:
    """A question as selectors and reasoners see it: without its gold answer."""

    question_id: str
    benchmark: str
    task: str
    text: str
    options: tuple[str, ...] = ()
    table_id: str = ""
    topic_entities: tuple[str, ...] = ()
    negated: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        return option_labels(self.task, self.options)

    def query(self, option: str) -> str:
        return f"{self.text} {option}".strip()

    @property
    def hypotheses(self) -> list[tuple[str, str]]:
        """Label and text of each option; one empty label for a question without options."""
        return list(zip(self.labels, self.options, strict=True)) or [("", "")]


def asked(questions: pl.DataFrame) -> list[Asked]:
    """The questions of a frame, gold answers left behind."""
    return [
        Asked(
            **{name: row[name] for name in ("question_id", "benchmark", "task", "text", "negated")},
            options=tuple(row["options"]),
            table_id=row["table_id"] or "",
            topic_entities=tuple(row["topic_entities"]),
        )
        for row in questions.sort("question_id").iter_rows(named=True)
    ]


@dataclass(frozen=True)
class Parent:
    """A row that a piece of evidence stands in, with the version that was read."""

    kind: str
    id: str
    version: str


@dataclass(frozen=True)
class Pick:
    """One piece of evidence that a selector picked for an option (or, with an empty label, for the whole question)."""

    option: str
    kind: str
    parents: tuple[Parent, ...]
    locator: str
    text: str
    score: float
    why: str | None = None


def pick_fact(
    graph: KnowledgeGraph, edge: int, score: float, option: str = "", text: str = "", /, **why: object
) -> Pick:
    """An edge of a graph as evidence, in the graph's words where no text is given; ``why`` says what led to it."""
    reason = json.dumps({"triple": graph.triple(edge), **why}, ensure_ascii=False, sort_keys=True)
    edge_id = graph.edge_ids[edge]
    parent = Parent("edge", edge_id, edge_id)
    return Pick(option, "triple", (parent,), "", text or graph.sentence(edge), float(score), reason)


MODEL_KNOWLEDGE = "model"
"""What ``why.origin`` of an evidence row says where no source but a language model states the fact."""


def why_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Why a row of evidence was picked."""
    value = json.loads(row["why"]) if row["why"] else {}
    return value if isinstance(value, dict) else {}


def is_sourced(row: Mapping[str, Any]) -> bool:
    """Whether an evidence row comes from a source, not from what a language model recalled."""
    return bool(why_of(row).get("origin") != MODEL_KNOWLEDGE)


class Selector(Protocol):
    """Picks evidence; best first within each option."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str:
        """Everything besides the question that decides the picks: parameters, models, sources, code."""
        ...

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterable[list[Pick]]:
        """The picks of each question, in order."""
        ...


@dataclass(frozen=True)
class NoEvidence:
    """Picks nothing: for a benchmark that lacks what a method reads, and for the closed book. ``reason`` says which."""

    name: str
    reason: str

    @property
    def version(self) -> str:
        return content_id("no evidence", self.reason)

    @property
    def notes(self) -> dict[str, str]:
        """What the asset's metadata says of it."""
        return {"no_evidence": self.reason}

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        return [[] for _ in questions]


def _selected(
    selector: Selector, questions: Sequence[Asked], progress: Progress | None
) -> Iterator[tuple[Asked, list[Pick]]]:
    """Questions with their picks, some hundred questions at a time, so that what is found is soon kept."""
    for start in range(0, len(questions), SELECTED_TOGETHER):
        some = questions[start : start + SELECTED_TOGETHER]

        def report(done: int, _: int, before: int = start) -> None:
            if progress:
                progress(before + done, len(questions))

        yield from zip(some, selector.select(some, report), strict=True)


def evidence_rows(
    selector: Selector,
    questions: Sequence[Asked],
    before: Before | None = None,
    progress: Progress | None = None,
    encoded_by: str = "",
) -> Made:
    """Evidence for every question: taken over where nothing it depends on has changed, else selected anew.

    ``encoded_by`` is the encoder that it was picked with, where that is not the profile's first; rows then lead to it.
    """
    model = [encoded_by] if encoded_by else []
    by_id = {question.question_id: question for question in questions}
    inputs = {q: content_id(q, selector.name, selector.version, *model) for q in by_id}
    writer = RowWriter("evidence", before, inputs, "question_id")
    todo = [by_id[q] for q in writer.todo]
    for question, picks in _selected(selector, todo, progress):
        ranks: dict[str, int] = {}
        for pick in picks:
            rank = ranks[pick.option] = ranks.get(pick.option, 0) + 1
            source = pick.parents[0]
            evidence_id = content_id(
                "evidence",
                question.question_id,
                pick.option,
                selector.name,
                [(p.kind, p.id) for p in pick.parents],
                pick.locator,
                *model,
            )
            writer.add(
                {
                    "evidence_id": evidence_id,
                    "question_id": question.question_id,
                    "benchmark": question.benchmark,
                    "option": pick.option,
                    "selector": selector.name,
                    "kind": pick.kind,
                    "source_kind": source.kind,
                    "source_id": source.id,
                    "locator": pick.locator,
                    "text": pick.text,
                    "rank": rank,
                    "score": pick.score,
                    "why": pick.why,
                    "content_hash": content_id("evidence", pick.kind, source.id, pick.locator, pick.text),
                }
            )
            writer.link(evidence_id, USED, "question", question.question_id, question.question_id)
            for key in model:
                writer.link(evidence_id, GENERATED, "model", key, key)
            for i, p in enumerate(dict.fromkeys(pick.parents), 1):
                writer.link(evidence_id, DERIVED, p.kind, p.id, p.version, i, pick.score)
        writer.settle()
    notes: dict[str, Any] = getattr(selector, "notes", {})  # what some selectors have to say besides
    return writer.finish(questions=len(questions), questions_selected_anew=len(todo), **notes)
