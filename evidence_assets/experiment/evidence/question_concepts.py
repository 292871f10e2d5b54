"""Entity links of questions and options, the subgraph around them, and rows of ``subgraphs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from evidence_assets.experiment.evidence.selection import QUESTIONS_PER_GROUP
from evidence_assets.experiment.rows import RowWriter, batches
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import LinkRow, SubgraphRow, typed_rows
from evidence_assets.graphs.arrays import OVER_BUDGET, FloatArray, GraphArrays, IntArray, Subgraph
from evidence_assets.graphs.entity_linking import EntityLinker, Link
from evidence_assets.graphs.keyphrases import extract_concepts
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, USED
from evidence_assets.profiles import GraphPaths
from evidence_assets.reasoning.questions import Question

VERSION = "6"
"""Bump when equal questions get other links or other subgraphs."""
MAX_KEY_PHRASES = 8
"""Key phrases of a question that are linked in addition to the names in its text."""
UNREACHED_HOP = -1
"""Hop of an option's node that expansion did not reach; such nodes are in the subgraph, too."""
MIN_DEPTH = 4
"""Minimum depth of stored subgraphs; a smaller depth is a filter on the hop."""


@dataclass(frozen=True)
class LinkedPhrase:
    """A phrase and its linked nodes, with the linking rule and the similarity."""

    phrase: str
    rule: str
    score: float
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, phrase: str, link: Link) -> LinkedPhrase:
        """Build from the result of the entity linker."""
        return cls(phrase, link.rule, round(link.score, 4), link.nodes)


@dataclass(frozen=True)
class QuestionConcepts:
    """Linked phrases of a question and of each option, by label; either may be empty."""

    question_id: str
    concepts: tuple[LinkedPhrase, ...]
    options: Mapping[str, tuple[LinkedPhrase, ...]]

    @property
    def targets(self) -> IntArray:
        """Distinct nodes of all options, ascending."""
        return np.array(linked_nodes([each for phrases in self.options.values() for each in phrases]), dtype=np.int64)


def link_concepts(
    questions: Sequence[Question], graph: KnowledgeGraph, *, names: bool = True
) -> list[QuestionConcepts]:
    """Link questions and their options to nodes (stage 1 of UGAT-MedQA).

    Links of a question are the names in its text, then its key phrases that overlap no name; without ``names``, its key
    phrases alone, as published. An option is linked as a whole or, if that fails, by the names in its text.
    """
    linker = graph.linker
    key_phrases = extract_concepts([q.text for q in questions], graph.vectors.encode, top_n=MAX_KEY_PHRASES)
    name_spans = [linker.find_spans(q.text) if names else [] for q in questions]
    free_phrases = [
        [phrase for phrase in phrases if all(phrase.end <= s.start or phrase.start >= s.end for s in spans)]
        for phrases, spans in zip(key_phrases, name_spans, strict=True)
    ]
    options = [text for q in questions for text in q.options]
    texts = list(dict.fromkeys([*options, *(phrase.text for phrases in free_phrases for phrase in phrases)]))
    links = dict(zip(texts, linker.link_many(texts, graph.name_vectors), strict=True))
    question_concepts = []
    for question, spans, phrases in zip(questions, name_spans, free_phrases, strict=True):
        concepts = [LinkedPhrase.of(question.text[s.start : s.end], s.link) for s in spans]
        concepts += [LinkedPhrase.of(p.text, links[p.text]) for p in phrases if links[p.text].nodes]
        targets = {label: _link_option(text, links[text], linker) for label, text in question.hypotheses if label}
        question_concepts.append(QuestionConcepts(question.question_id, _distinct(concepts), targets))
    return question_concepts


def _link_option(text: str, link: Link, linker: EntityLinker) -> tuple[LinkedPhrase, ...]:
    if link.nodes:
        return (LinkedPhrase.of(text, link),)
    return _distinct([LinkedPhrase.of(text[s.start : s.end], s.link) for s in linker.find_spans(text)])


def _distinct(phrases: list[LinkedPhrase]) -> tuple[LinkedPhrase, ...]:
    """The first phrase of each set of nodes."""
    return tuple({each.nodes: each for each in reversed(phrases)}.values())[::-1]


def linked_nodes(phrases: Sequence[LinkedPhrase]) -> tuple[int, ...]:
    """Distinct nodes of all phrases, ascending."""
    return tuple(sorted({node for each in phrases for node in each.nodes}))


@dataclass(frozen=True)
class QuestionSubgraph:
    """Links of a question, its vector, and the subgraph around the linked nodes."""

    links: QuestionConcepts
    vector: FloatArray
    subgraph: Subgraph


def expand_questions(
    questions: Sequence[Question], graph: KnowledgeGraph, expansion: GraphPaths
) -> dict[str, QuestionSubgraph]:
    """Link each question and expand its subgraph, which always includes the nodes of its options."""
    vectors = graph.vectors.encode([q.text for q in questions])
    subgraphs = {}
    for links, vector in zip(link_concepts(questions, graph), vectors, strict=True):
        seeds = linked_nodes(links.concepts)
        limits = (expansion.cap, graph.cosine_to(vector), expansion.max_nodes)
        subgraph = graph.arrays.neighbourhood(seeds, max(expansion.D, MIN_DEPTH), *limits)
        subgraph = _add_nodes(graph.arrays, subgraph, links.targets) if seeds else subgraph
        subgraphs[links.question_id] = QuestionSubgraph(links, vector, subgraph)
    return subgraphs


def _add_nodes(arrays: GraphArrays, subgraph: Subgraph, targets: IntArray) -> Subgraph:
    """Add nodes, and all edges among all nodes."""
    added = np.setdiff1d(targets, subgraph.nodes)
    nodes = np.concatenate([subgraph.nodes, added])
    hop = np.concatenate([subgraph.hop, np.full(len(added), UNREACHED_HOP)])
    order = np.argsort(nodes)
    return arrays.subgraph(nodes[order], hop[order], arrays.edges_among(nodes[order]), subgraph.dropped)


# Rows -------------------------------------------------------------------------------------------------------------


def subgraph_rows(
    questions: Sequence[Question],
    graph: KnowledgeGraph,
    expansion: GraphPaths,
    previous: PreviousOutput | None = None,
    encoder_id: str = "",
) -> StageOutput:
    """Rows of ``subgraphs``: links of each question and its options, and the subgraph around them.

    ``encoder_id``: Id of the encoder that compared names, if it is not the profile's first.
    """
    model = [encoder_id] if encoder_id else []
    limits = max(expansion.D, MIN_DEPTH), expansion.cap, expansion.max_nodes
    version = content_id("subgraph", VERSION, graph.version, *limits)
    input_hashes = {q.question_id: content_id(q.question_id, version) for q in questions}
    writer = RowWriter("subgraphs", previous, input_hashes, "question_id")
    by_id = {q.question_id: q for q in questions}
    todo = [by_id[question_id] for question_id in writer.todo]
    for group in batches(todo, QUESTIONS_PER_GROUP):
        subgraphs = expand_questions(group, graph, expansion)
        for question in group:
            _add_subgraph(writer, question, subgraphs[question.question_id], graph, model)
        writer.checkpoint()
    output = writer.finish()
    assert isinstance(output.rows, pa.Table)
    concepts = pc.list_value_length(output.rows["concepts"])
    dropped = pc.struct_field(pc.list_flatten(output.rows["dropped_counts"]), "nodes")
    output.metadata = {
        "questions_without_concept": pc.sum(pc.equal(concepts, 0)).as_py() or 0,
        "nodes_dropped": pc.sum(dropped).as_py() or 0,
    }
    return output


def _add_subgraph(
    writer: RowWriter, question: Question, expanded: QuestionSubgraph, graph: KnowledgeGraph, model: Sequence[str]
) -> None:
    """Write the subgraph of one question, with lineage to its linked nodes."""
    links = expanded.links
    node_ids = graph.node_ids
    seeds = linked_nodes(links.concepts)
    identifier = content_id("subgraph", question.question_id, graph.name, *model)
    row: dict[str, object] = {
        "subgraph_id": identifier,
        "question_id": question.question_id,
        "benchmark": question.benchmark,
        "graph": graph.name,
        **_link_columns(links, node_ids),
        **_subgraph_columns(expanded.subgraph, graph),
        "note": None if seeds else "no phrase of the question names a node of the graph",
    }
    writer.add(row, content_hash=content_id(row))
    writer.link(identifier, USED, "question", question.question_id, question.question_id)
    for key in model:
        writer.link(identifier, GENERATED, "model", key, key)
    for n in sorted({*seeds, *links.targets.tolist()}):
        writer.link(identifier, DERIVED, "node", node_ids[n], node_ids[n])


def _link_columns(links: QuestionConcepts, node_ids: pl.Series) -> dict[str, list[LinkRow]]:
    """The linked phrases of a question and of its options."""
    targets = [(label, phrase) for label, phrases in links.options.items() for phrase in phrases]
    return {
        "concepts": [_link_row("", phrase, node_ids) for phrase in links.concepts],
        "targets": [_link_row(label, phrase, node_ids) for label, phrase in targets],
    }


def _subgraph_columns(subgraph: Subgraph, graph: KnowledgeGraph) -> dict[str, object]:
    """The nodes and edges of a subgraph, and how many nodes its limits dropped."""
    node_ids = graph.node_ids
    hops = zip(node_ids.gather(subgraph.nodes), subgraph.hop.tolist(), strict=True)
    hubs, counts = np.unique(subgraph.dropped[:, 0], return_counts=True)
    dropped = zip(hubs.tolist(), counts.tolist(), strict=True)
    return {
        "nodes": [{"node_id": node, "hop": hop} for node, hop in hops],
        "edges": graph.edge_ids.gather(subgraph.edges).to_list(),
        "dropped": [],
        "dropped_counts": [
            {"hub_id": "" if hub == OVER_BUDGET else node_ids[hub], "nodes": count} for hub, count in dropped
        ],
    }


def _link_row(option: str, linked: LinkedPhrase, node_ids: pl.Series) -> LinkRow:
    return {
        "option": option,
        "phrase": linked.phrase,
        "rule": linked.rule,
        "score": linked.score,
        "node_ids": [node_ids[n] for n in linked.nodes],
    }


def load_question_subgraphs(
    rows: pl.DataFrame, questions: Sequence[Question], graph: KnowledgeGraph
) -> dict[str, QuestionSubgraph]:
    """Rebuild the result of :func:`expand_questions` from stored rows of ``subgraphs``."""

    def linked_phrase(link: LinkRow) -> LinkedPhrase:
        nodes = tuple(graph.node_numbers(link["node_ids"]).tolist())
        return LinkedPhrase(link["phrase"], link["rule"], link["score"], nodes)

    by_id = {row["question_id"]: row for row in typed_rows(rows, SubgraphRow)}
    stored_questions = [q for q in questions if q.question_id in by_id]
    subgraphs = {}
    vectors = graph.vectors.encode([q.text for q in stored_questions])
    for question, vector in zip(stored_questions, vectors, strict=True):
        row = by_id[question.question_id]
        options = {
            label: tuple(linked_phrase(link) for link in row["targets"] if link["option"] == label)
            for label in question.labels
        }
        concepts = QuestionConcepts(question.question_id, tuple(map(linked_phrase, row["concepts"])), options)
        nodes = graph.node_numbers([node["node_id"] for node in row["nodes"]])
        hop = np.array([node["hop"] for node in row["nodes"]], dtype=np.int64)
        subgraph = graph.arrays.subgraph(nodes, hop, graph.edge_numbers(row["edges"]))
        subgraphs[question.question_id] = QuestionSubgraph(concepts, vector, subgraph)
    return subgraphs
