"""From questions to rows of evidence: what selectors give, how its rows and lineage are made, what is checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.records import option_labels
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import PathFact, find_path_errors, parse_path_locator

Progress = Callable[[int, int], None]
QUESTIONS_PER_BATCH = 256
"""Questions that a selector is given at a time."""
MAX_REPORTED_ERRORS = 5


@dataclass(frozen=True)
class Question:
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


def build_questions(questions: pl.DataFrame) -> list[Question]:
    """The questions of a frame, gold answers left behind."""
    return [
        Question(
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
class SelectedEvidence:
    """One piece of evidence that a selector picked for an option (or, with an empty label, for the whole question)."""

    option: str
    kind: str
    parents: tuple[Parent, ...]
    locator: str
    text: str
    score: float
    why: str | None = None


def edge_evidence(
    graph: KnowledgeGraph, edge: int, score: float, option: str = "", text: str = "", /, **why: object
) -> SelectedEvidence:
    """An edge of a graph as evidence, in the graph's words where no text is given; ``why`` says what led to it."""
    reason = json.dumps({"triple": graph.triple(edge), **why}, ensure_ascii=False, sort_keys=True)
    edge_id = graph.edge_ids[edge]
    parent = Parent("edge", edge_id, edge_id)
    return SelectedEvidence(option, "triple", (parent,), "", text or graph.sentence(edge), float(score), reason)


def distinct_by_text(picks: Iterable[SelectedEvidence], most: int) -> list[SelectedEvidence]:
    """The first picks that say different things: parallel edges of several sources are one piece of evidence."""
    distinct: dict[str, SelectedEvidence] = {}
    for pick in picks:
        distinct.setdefault(pick.text, pick)
        if len(distinct) == most:
            break
    return list(distinct.values())


MODEL_KNOWLEDGE = "model"
"""What ``why.origin`` of an evidence row says where no source but a language model states the fact."""


def selection_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """Why a row of evidence was picked."""
    value = json.loads(row["why"]) if row["why"] else {}
    return value if isinstance(value, dict) else {}


def is_sourced(row: Mapping[str, Any]) -> bool:
    """Whether an evidence row comes from a source, not from what a language model recalled."""
    return bool(selection_details(row).get("origin") != MODEL_KNOWLEDGE)


class Selector(Protocol):
    """Picks evidence; best first within each option."""

    @property
    def version(self) -> str:
        """Everything besides the question that decides the picks: parameters, models, sources, code."""
        ...

    def select(self, questions: Sequence[Question]) -> Iterable[list[SelectedEvidence]]:
        """The picks of each question, in order."""
        ...


@dataclass(frozen=True)
class NoEvidence:
    """Picks nothing: for a benchmark that lacks what a method reads, and for the closed book. ``reason`` says which."""

    reason: str

    @property
    def version(self) -> str:
        return content_id("no evidence", self.reason)

    @property
    def notes(self) -> dict[str, str]:
        """Optional metadata of the asset."""
        return {"no_evidence": self.reason}

    def select(self, questions: Sequence[Question]) -> list[list[SelectedEvidence]]:
        return [[] for _ in questions]


def evidence_rows(
    name: str,
    selector: Selector,
    questions: Sequence[Question],
    before: PreviousOutput | None = None,
    progress: Progress | None = None,
    encoded_by: str = "",
) -> StageOutput:
    """Evidence for every question: reused where nothing it depends on has changed, else selected anew.

    ``name``: What rows call the selector.
    ``encoded_by``: The encoder that it was picked with, where that is not the profile's first; rows then lead to it.
    """
    model = [encoded_by] if encoded_by else []
    by_id = {question.question_id: question for question in questions}
    inputs = {q: content_id(q, name, selector.version, *model) for q in by_id}
    writer = RowWriter("evidence", before, inputs, "question_id")
    todo = [by_id[q] for q in writer.todo]
    for done, (question, picks) in enumerate(_select_in_batches(selector, todo), 1):
        ranks: Counter[str] = Counter()
        for pick in picks:
            ranks[pick.option] += 1
            parents, source = [(p.kind, p.id) for p in pick.parents], pick.parents[0]
            about = question.question_id, pick.option, name, parents, pick.locator
            evidence_id = content_id("evidence", *about, *model)
            writer.add(
                pick,
                question,
                evidence_id=evidence_id,
                selector=name,
                source_kind=source.kind,
                source_id=source.id,
                rank=ranks[pick.option],
                content_hash=content_id("evidence", pick.kind, source.id, pick.locator, pick.text),
            )
            writer.link(evidence_id, USED, "question", question.question_id, question.question_id)
            for key in model:
                writer.link(evidence_id, GENERATED, "model", key, key)
            for rank, p in enumerate(dict.fromkeys(pick.parents), 1):
                writer.link(evidence_id, DERIVED, p.kind, p.id, p.version, rank, pick.score)
        writer.checkpoint()
        if progress:
            progress(done, len(todo))
    notes: dict[str, Any] = getattr(selector, "notes", {})
    return writer.finish(questions=len(questions), questions_selected_anew=len(todo), **notes)


def _select_in_batches(
    selector: Selector, questions: Sequence[Question]
) -> Iterator[tuple[Question, list[SelectedEvidence]]]:
    """Questions with their picks, a batch of questions at a time, so that rows are soon kept."""
    for start in range(0, len(questions), QUESTIONS_PER_BATCH):
        batch = questions[start : start + QUESTIONS_PER_BATCH]
        yield from zip(batch, selector.select(batch), strict=True)


# The check of paths -----------------------------------------------------------------------------------------------


def read_path_facts(lake: Lake, graph: str, edge_ids: set[str]) -> dict[str, PathFact]:
    """The edges of these ids with the names of their ends in this graph; an unknown id is left out.

    Another graph may have a node of the same id under a name that is written otherwise, so no other is looked at.
    """
    edges = lake.read("kg_edges", f"knowledge/{graph}/edges", columns=["edge_id", "head_id", "relation", "tail_id"])
    edges = edges.filter(pl.col("edge_id").is_in(list(edge_ids)))
    ends = pl.concat([edges["head_id"], edges["tail_id"]]).unique()
    nodes = lake.read("kg_nodes", f"knowledge/{graph}/nodes", columns=["node_id", "name"])
    names = dict(nodes.filter(pl.col("node_id").is_in(ends.implode())).iter_rows())
    return {
        edge: PathFact(head, relation, tail, names.get(head, ""), names.get(tail, ""))
        for edge, head, relation, tail in edges.iter_rows()
    }


def find_evidence_errors(evidence: pl.DataFrame, lake: Lake) -> list[str]:
    """What is wrong with rows of the kind ``path``: edges that the graph lacks, gaps, text that does not follow."""
    wrong, template, benchmarks = [], load_vocabulary().template, all_benchmarks()
    for (benchmark,), paths in evidence.filter(pl.col("kind") == "path").group_by("benchmark", maintain_order=True):
        cited: set[str] = set()
        for locator in paths["locator"]:
            with suppress(ValueError):  # reported for the row below
                cited |= {edge for edge, _ in parse_path_locator(locator)}
        stated = benchmarks[str(benchmark)]
        facts = read_path_facts(lake, stated.graph or stated.joined_graph, cited) if cited else {}
        wrong += [
            f"path {row['evidence_id']}: {complaint}"
            for row in paths.iter_rows(named=True)
            for complaint in find_path_errors(row["locator"], row["text"], facts, template)
        ]
    return wrong[:MAX_REPORTED_ERRORS] + (
        [f"… and {len(wrong) - MAX_REPORTED_ERRORS} more"] if len(wrong) > MAX_REPORTED_ERRORS else []
    )
