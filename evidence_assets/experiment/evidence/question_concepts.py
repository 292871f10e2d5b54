"""What a question and its options name in a graph, the part of the graph around it, and both as rows of subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.graphs.arrays import OVER_BUDGET, FloatArray, GraphArrays, IntArray, Subgraph
from evidence_assets.graphs.entity_linking import EntityLinker, Link
from evidence_assets.graphs.keyphrases import extract_concepts
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED

VERSION = "5"
"""Changes whenever equal questions would name other nodes, or other graphs would lie around them."""
MAX_KEY_PHRASES = 8
"""Key phrases of a question that are linked where no name stands in the text."""
UNREACHED_HOP = -1
"""The distance of an option's node that is out of reach or cut off by a cap: it is kept all the same."""
MIN_DEPTH = 4
"""Steps that are expanded at the least; who asks for fewer reads the nodes that are so near."""


@dataclass(frozen=True)
class LinkedPhrase:
    """A phrase and the nodes that it names, with the rule and the similarity by which it does."""

    phrase: str
    rule: str
    score: float
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, phrase: str, link: Link) -> LinkedPhrase:
        """What linking gave."""
        return cls(phrase, link.rule, round(link.score, 4), link.nodes)


@dataclass(frozen=True)
class QuestionConcepts:
    """What a question names, and what each of its options (by label) names; either may be nothing."""

    question_id: str
    concepts: tuple[LinkedPhrase, ...]
    options: Mapping[str, tuple[LinkedPhrase, ...]]

    @property
    def targets(self) -> IntArray:
        """The nodes of all options, ascending, each once."""
        return np.array(linked_nodes([each for named in self.options.values() for each in named]), dtype=np.int64)


def link_concepts(questions: Sequence[Question], graph: KnowledgeGraph) -> list[QuestionConcepts]:
    """Concepts of the questions and of their options (stage 1 of UGAT-MedQA).

    Names that stand in the question come first; then its key phrases, as far as they touch no such name. An option is
    linked as a whole, and only where that fails by the names that stand in it.
    """
    linker = graph.linker
    phrases = extract_concepts([q.text for q in questions], graph.vectors.encode, top_n=MAX_KEY_PHRASES)
    spans = [linker.find_spans(q.text) for q in questions]
    free = [
        [c for c in found if all(c.end <= s.start or c.start >= s.end for s in named)]
        for found, named in zip(phrases, spans, strict=True)
    ]
    options = [text for q in questions for text in q.options]
    wanted = list(dict.fromkeys([*options, *(c.text for found in free for c in found)]))
    links = dict(zip(wanted, linker.link_many(wanted, graph.name_vectors), strict=True))
    made = []
    for question, named, found in zip(questions, spans, free, strict=True):
        own = [LinkedPhrase.of(question.text[s.start : s.end], s.link) for s in named]
        own += [LinkedPhrase.of(c.text, links[c.text]) for c in found if links[c.text].is_linked]
        targets = {label: _link_option(text, links[text], linker) for label, text in question.hypotheses if label}
        made.append(QuestionConcepts(question.question_id, _distinct(own), targets))
    return made


def _link_option(text: str, link: Link, linker: EntityLinker) -> tuple[LinkedPhrase, ...]:
    if link.is_linked:
        return (LinkedPhrase.of(text, link),)
    return _distinct([LinkedPhrase.of(text[s.start : s.end], s.link) for s in linker.find_spans(text)])


def _distinct(named: list[LinkedPhrase]) -> tuple[LinkedPhrase, ...]:
    """One entry for each set of nodes, the first."""
    return tuple({each.nodes: each for each in reversed(named)}.values())[::-1]


def linked_nodes(named: Sequence[LinkedPhrase]) -> tuple[int, ...]:
    """The nodes of all phrases, ascending, each once."""
    return tuple(sorted({node for each in named for node in each.nodes}))


@dataclass(frozen=True)
class Expansion:
    """How far and how wide the concepts of a question are expanded; see `systems.ugat.system.UgatSettings`."""

    D: int
    cap: int
    max_nodes: int


@dataclass(frozen=True)
class QuestionSubgraph:
    """What a question names, its vector, and the part of the graph around what it names."""

    links: QuestionConcepts
    vector: FloatArray
    subgraph: Subgraph


def expand_questions(
    questions: Sequence[Question], graph: KnowledgeGraph, expansion: Expansion
) -> dict[str, QuestionSubgraph]:
    """What each question, by its id, names and what lies around it; the nodes of its options are always there."""
    vectors = graph.vectors.encode([q.text for q in questions])
    found = {}
    for named, vector in zip(link_concepts(questions, graph), vectors, strict=True):
        seeds, limits = linked_nodes(named.concepts), (expansion.cap, graph.cosine_to(vector), expansion.max_nodes)
        part = graph.arrays.neighbourhood(seeds, max(expansion.D, MIN_DEPTH), *limits)
        part = _add_nodes(graph.arrays, part, named.targets) if seeds else part
        found[named.question_id] = QuestionSubgraph(named, vector, part)
    return found


def _add_nodes(arrays: GraphArrays, part: Subgraph, targets: IntArray) -> Subgraph:
    """The part together with these nodes and all edges among both."""
    more = np.setdiff1d(targets, part.nodes)
    nodes, hop = np.concatenate([part.nodes, more]), np.concatenate([part.hop, np.full(len(more), UNREACHED_HOP)])
    order = np.argsort(nodes)
    return arrays.subgraph(nodes[order], hop[order], arrays.edges_among(nodes[order]), part.dropped)


# Rows -------------------------------------------------------------------------------------------------------------


def subgraph_rows(
    questions: Sequence[Question],
    graph: KnowledgeGraph,
    expansion: Expansion,
    before: PreviousOutput | None = None,
    encoded_by: str = "",
) -> StageOutput:
    """Rows of ``subgraphs``: what each question and its options name, and what lies around it.

    ``encoded_by`` is the encoder that names were compared by, where that is not the profile's first.
    """
    model = [encoded_by] if encoded_by else []
    limits = max(expansion.D, MIN_DEPTH), expansion.cap, expansion.max_nodes
    version = content_id("subgraph", VERSION, graph.version, *limits)
    node_ids, edge_ids = graph.node_ids, graph.edge_ids
    wanted = {q.question_id: content_id(q.question_id, version) for q in questions}
    writer = RowWriter("subgraphs", before, wanted, "question_id")
    by_id = {q.question_id: q for q in questions}
    todo = [by_id[question_id] for question_id in writer.todo]
    found = expand_questions(todo, graph, expansion)
    for question in todo:
        named, part = found[question.question_id].links, found[question.question_id].subgraph
        seeds = linked_nodes(named.concepts)
        identifier = content_id("subgraph", question.question_id, graph.name, *model)
        row: dict[str, Any] = {
            "subgraph_id": identifier,
            "question_id": question.question_id,
            "benchmark": question.benchmark,
            "graph": graph.name,
            "concepts": [_link_row("", each, node_ids) for each in named.concepts],
            "targets": [_link_row(label, each, node_ids) for label, of in named.options.items() for each in of],
            "nodes": [
                {"node_id": node, "hop": hop}
                for node, hop in zip(node_ids.gather(part.nodes), part.hop.tolist(), strict=True)
            ],
            "edges": edge_ids.gather(part.edges).to_list(),
            "dropped": [
                {"hub_id": "" if hub == OVER_BUDGET else node_ids[hub], "node_id": node_ids[node]}
                for hub, node in part.dropped.tolist()
            ],
            "note": None if seeds else "no phrase of the question names a node of the graph",
        }
        row["content_hash"] = content_id(row)
        writer.add(row)
        writer.link(identifier, USED, "question", question.question_id, question.question_id)
        for key in model:
            writer.link(identifier, GENERATED, "model", key, key)
        for n in sorted({*seeds, *named.targets.tolist()}):
            writer.link(identifier, DERIVED, "node", node_ids[n], node_ids[n])
    made = writer.finish()
    assert isinstance(made.rows, pa.Table)
    made.metadata = {
        "questions_without_concept": pc.sum(pc.equal(pc.list_value_length(made.rows["concepts"]), 0)).as_py() or 0,
        "nodes_dropped": pc.sum(pc.list_value_length(made.rows["dropped"])).as_py() or 0,
    }
    return made


def _link_row(option: str, named: LinkedPhrase, node_ids: pl.Series) -> dict[str, Any]:
    return {
        "option": option,
        "phrase": named.phrase,
        "rule": named.rule,
        "score": named.score,
        "node_ids": [node_ids[n] for n in named.nodes],
    }


def load_question_subgraphs(
    rows: pl.DataFrame, questions: Sequence[Question], graph: KnowledgeGraph
) -> dict[str, QuestionSubgraph]:
    """What :func:`subgraph_rows` wrote down of these questions, as :func:`surroundings_of` gave it."""

    def named(link: Mapping[str, Any]) -> LinkedPhrase:
        nodes = tuple(graph.node_numbers(link["node_ids"]).tolist())
        return LinkedPhrase(link["phrase"], link["rule"], link["score"], nodes)

    by_id = {row["question_id"]: row for row in rows.iter_rows(named=True)}
    known = [q for q in questions if q.question_id in by_id]
    found = {}
    for question, vector in zip(known, graph.vectors.encode([q.text for q in known]), strict=True):
        row = by_id[question.question_id]
        options = {
            label: tuple(named(link) for link in row["targets"] if link["option"] == label) for label in question.labels
        }
        concepts = QuestionConcepts(question.question_id, tuple(map(named, row["concepts"])), options)
        nodes = graph.node_numbers([node["node_id"] for node in row["nodes"]])
        hop = np.array([node["hop"] for node in row["nodes"]], dtype=np.int64)
        part = graph.arrays.subgraph(nodes, hop, graph.edge_numbers(row["edges"]))
        found[question.question_id] = QuestionSubgraph(concepts, vector, part)
    return found
