"""From questions to rows of evidence: what every selector gives and how its rows and lineage are made.

Belongs here: the shape of a question and of a pick, the hash by which a selection is done again only when something
it depends on has changed. How evidence is found belongs to the selectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl
import pyarrow as pa

from evidence_assets.benchmarks.records import option_labels
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, USED, edge
from evidence_assets.lake.store import typed

Progress = Callable[[int, int], None]


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

    @property
    def hypotheses(self) -> list[tuple[str, str]]:
        """Label and text of each option; one empty label for a question without options."""
        return list(zip(self.labels, self.options, strict=True)) or [("", "")]


def asked(questions: pl.DataFrame) -> list[Asked]:
    """The questions of a frame, gold answers left behind."""
    return [
        Asked(
            row["question_id"],
            row["benchmark"],
            row["task"],
            row["text"],
            tuple(row["options"]),
            row["table_id"] or "",
            tuple(row["topic_entities"]),
            row["negated"],
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


@dataclass
class Rows:
    """Rows of a table with their lineage, and how many were taken over unchanged."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    lineage: list[dict[str, Any]] = field(default_factory=list)
    reused: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


def unchanged(
    previous: pl.DataFrame, lineage: pl.DataFrame, wanted: dict[str, str], *, by: str, row_id: str
) -> tuple[pl.DataFrame, pl.DataFrame, set[str]]:
    """Rows whose ``input_hash`` is what it would be again, their lineage, and the values of ``by`` that they settle.

    ``wanted`` maps the value of column ``by`` (such as a question id) to its hash. Failed rows are never taken over.
    """
    failed: set[str] = set()
    if "status" in previous.columns:
        failed = set(previous.filter(pl.col("status") == "failed")[by].to_list())
    hashes = dict(zip(previous[by].to_list(), previous["input_hash"].to_list(), strict=True))
    settled = {key for key, hash_ in wanted.items() if hashes.get(key) == hash_ and key not in failed}
    kept = previous.filter(pl.col(by).is_in(list(settled)))
    return kept, lineage.filter(pl.col("child_id").is_in(kept[row_id].implode())), settled


def take_over(
    previous: pl.DataFrame, lineage: pl.DataFrame, wanted: dict[str, str], *, by: str, row_id: str
) -> tuple[Rows, set[str]]:
    """What is `unchanged`, as rows to go on from."""
    kept, edges, settled = unchanged(previous, lineage, wanted, by=by, row_id=row_id)
    return Rows(kept.to_dicts(), edges.to_dicts(), kept.height), settled


@dataclass(frozen=True)
class TypedRows:
    """Rows whose lineage, or which themselves, may be millions, and so are typed already; and how many were taken over."""

    rows: pa.Table | list[dict[str, Any]]
    lineage: pa.Table
    reused: int
    metadata: dict[str, Any]


class Growing:
    """Rows of a table that come one by one and are kept typed: those of a large table's cells are millions."""

    BLOCK = 16_384

    def __init__(self, table: str, first: pl.DataFrame) -> None:
        self._table, self._new = table, list[dict[str, Any]]()
        schema = typed(table, []).schema
        self._typed = [first.select(schema.names).to_arrow().cast(schema)] if first.height else []

    def add(self, row: dict[str, Any]) -> None:
        self._new.append(row)
        if len(self._new) == self.BLOCK:
            self._typed.append(typed(self._table, self._new))
            self._new = []

    def whole(self) -> pa.Table:
        return pa.concat_tables([*self._typed, typed(self._table, self._new)])


def evidence_rows(
    selector: Selector,
    questions: Sequence[Asked],
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
    progress: Progress | None = None,
) -> TypedRows:
    """Evidence for every question: taken over where nothing it depends on has changed, else selected anew."""
    wanted = {q.question_id: content_id(q.question_id, selector.name, selector.version) for q in questions}
    kept, edges, settled = unchanged(previous, lineage, wanted, by="question_id", row_id="evidence_id")
    rows, links = Growing("evidence", kept), Growing("lineage_edges", edges)
    todo = [q for q in questions if q.question_id not in settled]
    for question, picks in zip(todo, selector.select(todo, progress) if todo else [], strict=True):
        ranks: dict[str, int] = {}
        for pick in picks:
            rank = ranks[pick.option] = ranks.get(pick.option, 0) + 1
            source = pick.parents[0]
            evidence_id = content_id(
                "evidence", question.question_id, pick.option, selector.name, [(p.kind, p.id) for p in pick.parents],
                pick.locator,
            )  # fmt: skip
            rows.add(
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
                    "input_hash": wanted[question.question_id],
                }
            )
            links.add(edge("evidence", evidence_id, USED, "question", question.question_id, question.question_id))
            for i, p in enumerate(dict.fromkeys(pick.parents), 1):
                links.add(edge("evidence", evidence_id, DERIVED, p.kind, p.id, p.version, i, pick.score))
    numbers = {"questions": len(questions), "questions_selected_anew": len(todo)}
    return TypedRows(rows.whole(), links.whole(), kept.height, numbers)
