"""Which nodes of a graph a question and its options name: stage 1 of UGAT-MedQA, shared by all graph selectors.

Belongs here: choosing the phrases of a text and linking them. Does not belong here: what is expanded from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.selection import Asked
from evidence_assets.experiment.step import Made
from evidence_assets.graphs import entity_linking, keyphrases
from evidence_assets.graphs.entity_linking import EntityLinker, Link
from evidence_assets.graphs.graph import OVER_BUDGET
from evidence_assets.graphs.keyphrases import Encode, extract_concepts
from evidence_assets.graphs.knowledge import FloatArray, OpenGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, USED

VERSION = f"2/{entity_linking.VERSION}/{keyphrases.VERSION}"
PHRASES = 8
"""Key phrases of a question that are linked where no name stands in the text."""


@dataclass(frozen=True)
class NamedNodes:
    """A phrase and the nodes that it names, with the rule and the similarity by which it does."""

    phrase: str
    rule: str
    score: float
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, phrase: str, link: Link) -> NamedNodes:
        """What linking gave."""
        return cls(phrase, link.rule, round(link.score, 4), link.nodes)


@dataclass(frozen=True)
class QuestionConcepts:
    """What a question names, and what each of its options (by label) names; either may be nothing."""

    question_id: str
    concepts: tuple[NamedNodes, ...]
    options: Mapping[str, tuple[NamedNodes, ...]]


def concepts_of(questions: Sequence[Asked], linker: EntityLinker, encode: Encode) -> list[QuestionConcepts]:
    """Concepts of the questions, and separately those of their options.

    Names that stand in the question come first; then its key phrases, as far as they touch no such name, by spelling
    and by meaning. An option is linked as a whole, and only where that fails by the names that stand in it.
    """
    phrases = extract_concepts([q.text for q in questions], encode, top_n=PHRASES)
    spans = [linker.find_spans(q.text) for q in questions]
    free = [
        [c for c in found if all(c.end <= s.start or c.start >= s.end for s in named)]
        for found, named in zip(phrases, spans, strict=True)
    ]
    options = [text for q in questions for text in q.options]
    wanted = list(dict.fromkeys([*options, *(c.text for found in free for c in found)]))
    links = dict(zip(wanted, linker.link_many(wanted), strict=True))
    made = []
    for question, named, found in zip(questions, spans, free, strict=True):
        own = [NamedNodes.of(question.text[s.start : s.end], s.link) for s in named]
        own += [NamedNodes.of(c.text, links[c.text]) for c in found if links[c.text].found]
        targets = {label: _of_option(text, links[text], linker) for label, text in question.hypotheses if label}
        made.append(QuestionConcepts(question.question_id, _distinct(own), targets))
    return made


def _of_option(text: str, link: Link, linker: EntityLinker) -> tuple[NamedNodes, ...]:
    if link.found:
        return (NamedNodes.of(text, link),)
    return _distinct([NamedNodes.of(text[s.start : s.end], s.link) for s in linker.find_spans(text)])


def _distinct(named: list[NamedNodes]) -> tuple[NamedNodes, ...]:
    """One entry for each set of nodes, the first."""
    return tuple({each.nodes: each for each in reversed(named)}.values())[::-1]


def numbers(named: Sequence[NamedNodes]) -> tuple[int, ...]:
    """The nodes of all phrases, ascending, each once."""
    return tuple(sorted({node for each in named for node in each.nodes}))


# Rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expansion:
    """How far and how wide the concepts of a question are expanded; see `systems.ugat.system.UgatSettings`."""

    D: int
    cap: int
    max_nodes: int


def subgraph_rows(
    questions: Sequence[Asked],
    knowledge: OpenGraph,
    expansion: Expansion,
    previous: pl.DataFrame,
    lineage: pl.DataFrame,
) -> Made:
    """Rows of ``subgraphs``: what each question and its options name, and what lies around it."""
    version = content_id("subgraph", VERSION, knowledge.version, expansion.D, expansion.cap, expansion.max_nodes)
    node_ids, edge_ids = knowledge.node_ids, knowledge.edge_ids
    wanted = {q.question_id: content_id(q.question_id, version) for q in questions}
    writer = RowWriter("subgraphs", previous, lineage, wanted, kind="subgraph", row_id="subgraph_id", by="question_id")
    by_id = {q.question_id: q for q in questions}
    todo = [by_id[question_id] for question_id in writer.todo]
    found = concepts_of(todo, knowledge.linker, knowledge.encode)
    for question, named, vector in zip(todo, found, knowledge.encode([q.text for q in todo]), strict=True):
        seeds = numbers(named.concepts)
        cosine = cosine_to(knowledge.node_vectors, vector)
        part = knowledge.graph.neighbourhood(seeds, expansion.D, expansion.cap, cosine, expansion.max_nodes)
        identifier = content_id("subgraph", question.question_id, knowledge.name)
        row: dict[str, Any] = {
            "subgraph_id": identifier,
            "question_id": question.question_id,
            "benchmark": question.benchmark,
            "graph": knowledge.name,
            "concepts": [_link_row("", each, node_ids) for each in named.concepts],
            "targets": [_link_row(label, each, node_ids) for label, of in named.options.items() for each in of],
            "nodes": [{"node_id": node_ids[n], "hop": int(h)} for n, h in zip(part.nodes, part.hop, strict=True)],
            "edges": [edge_ids[e] for e in part.edges],
            "dropped": [
                {"hub_id": "" if hub == OVER_BUDGET else node_ids[hub], "node_id": node_ids[node]}
                for hub, node in part.dropped
            ],
            "note": None if seeds else "no phrase of the question names a node of the graph",
        }
        row["content_hash"] = content_id(row)
        writer.add(row)
        writer.link(identifier, USED, "question", question.question_id, question.question_id)
        targets = [n for of in named.options.values() for n in numbers(of)]
        for n in sorted({*seeds, *targets}):
            writer.link(identifier, DERIVED, "node", node_ids[n], node_ids[n])
    made = writer.finish()
    assert isinstance(made.rows, pa.Table)
    made.metadata = {
        "questions_without_concept": pc.sum(pc.equal(pc.list_value_length(made.rows["concepts"]), 0)).as_py() or 0,
        "nodes_dropped": pc.sum(pc.list_value_length(made.rows["dropped"])).as_py() or 0,
    }
    return made


def _link_row(option: str, named: NamedNodes, node_ids: Sequence[str]) -> dict[str, Any]:
    return {
        "option": option,
        "phrase": named.phrase,
        "rule": named.rule,
        "score": named.score,
        "node_ids": [node_ids[n] for n in named.nodes],
    }


def concepts_from_row(row: Mapping[str, Any], labels: Sequence[str], number: Mapping[str, int]) -> QuestionConcepts:
    """What :func:`subgraph_rows` wrote down of a question's concepts; ``number`` gives a node's number by its id."""

    def named(link: Mapping[str, Any]) -> NamedNodes:
        nodes = tuple(number[node] for node in link["node_ids"])
        return NamedNodes(link["phrase"], link["rule"], link["score"], nodes)

    options = {label: tuple(named(link) for link in row["targets"] if link["option"] == label) for label in labels}
    return QuestionConcepts(row["question_id"], tuple(map(named, row["concepts"])), options)


def cosine_to(vectors: FloatArray, query: FloatArray) -> FloatArray:
    """Cosine of unit vectors with a query."""
    made: FloatArray = vectors @ (query / max(float(np.linalg.norm(query)), 1e-12))
    return made
