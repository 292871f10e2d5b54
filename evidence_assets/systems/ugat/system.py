"""UGAT-MedQA, stages 2 to 5: from the nodes that a question and its options name to paths put into words.

Stage 1 (which nodes those are) is entity linking, stage 6 (the answer) is a reasoning task; both lie elsewhere. The
question's concepts alone are expanded; options are only what paths lead to, so that no candidate draws evidence to
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.graphs.attention.scorer import AttentionSettings, FeatureGraph, NodeScores, train_batch
from evidence_assets.graphs.graph import FloatArray, Graph, Subgraph
from evidence_assets.graphs.paths import Path, shortest_paths
from evidence_assets.reasoning.paths import Fact, path_locator, path_text

Filter = Literal["scores", "none"]


@dataclass(frozen=True)
class Knowledge:
    """A graph with what its numbers stand for.

    Attributes
    ----------
    names, vectors
        Name and sentence embedding of each node.
    relations
        Relation names by code.
    edge_ids
        Id under which each edge is stored.
    vocabulary
        Wording of the relations.
    """

    graph: Graph
    names: Sequence[str]
    vectors: FloatArray
    relations: Sequence[str]
    edge_ids: Sequence[str]
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.vectors) == self.graph.n_nodes:
            raise ValueError(
                f"{self.graph.n_nodes} nodes, but {len(self.names)} names and {len(self.vectors)} vectors: "
                "build them from the same version of the graph"
            )
        if len(self.edge_ids) != self.graph.n_edges:
            raise ValueError(f"{self.graph.n_edges} edges, but {len(self.edge_ids)} edge ids")


@dataclass(frozen=True)
class LinkedQuestion:
    """A question after linking: its vector, the nodes it names, and those that each option (by label) names."""

    question_id: str
    vector: FloatArray
    concepts: tuple[int, ...]
    options: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class UgatSettings:
    """Parameters of the four stages.

    Attributes
    ----------
    D
        Depth: most steps from the concepts; 3 is the published best.
    cap, max_nodes
        Most new nodes that one node brings in, and most nodes of a subgraph; the cosine to the question decides.
    node_filter
        `none` keeps every node of the subgraph and ranks by the cosine to the question (the published ablation).
    attention
        How nodes are scored.
    max_sources
        Most nodes that paths start from: the concepts, then the relevant nodes with the best scores.
    max_length, paths_per_pair, passages
        Longest path, most paths between two nodes, most passages of an option.
    """

    D: int = 3
    cap: int = 32
    max_nodes: int = 300
    node_filter: Filter = "scores"
    attention: AttentionSettings = field(default_factory=AttentionSettings)
    max_sources: int = 64
    max_length: int = 3
    paths_per_pair: int = 3
    passages: int = 5

    def __post_init__(self) -> None:
        if self.node_filter not in ("scores", "none"):
            raise ValueError(f"node_filter is scores or none, not {self.node_filter!r}")


@dataclass(frozen=True)
class PathPassage:
    """One path put into words: a row of `evidence` of the kind `path`.

    Attributes
    ----------
    option, rank, score
        The option it leads to, its rank there from 1, and the mean relevance of its nodes.
    source_id
        The first edge.
    locator
        The stored edges with the direction they are walked in, see `reasoning.paths.path_locator`.
    edge_ids, nodes
        Every edge that the passage says something from, without repeats, and the node numbers walked through.
    text
        One sentence an edge, as stored: a path walked backwards does not turn a sentence round.
    attention
        For edges inside the scored subgraph: edge id, weight that its head gives its tail, and the tail its head.
    contradictory
        Whether two of its edges say opposed things of the same two nodes.
    """

    option: str
    rank: int
    score: float
    source_id: str
    locator: str
    edge_ids: tuple[str, ...]
    nodes: tuple[int, ...]
    text: str
    attention: tuple[tuple[str, float, float], ...]
    contradictory: bool
    kind: Literal["path"] = "path"


@dataclass(frozen=True)
class PathSelection:
    """Everything that was found for one question.

    Attributes
    ----------
    passages
        For each option label its passages, best first; an option without any is there with none.
    subgraph, scores
        What was looked at, and how its nodes were scored (None where nothing was).
    sources
        Nodes that paths were searched from.
    notes
        Why something is missing, in sentences.
    """

    question_id: str
    passages: Mapping[str, tuple[PathPassage, ...]]
    subgraph: Subgraph
    scores: NodeScores | None
    sources: tuple[int, ...]
    notes: tuple[str, ...]


def relevant_paths_batch(
    knowledge: Knowledge,
    questions: Sequence[LinkedQuestion],
    settings: UgatSettings | None = None,
    device: str = "cpu",
) -> list[PathSelection]:
    """The same for many questions, whose node scorers are trained side by side."""
    settings = settings or UgatSettings()
    cosines = [_cosine(knowledge.vectors, question) for question in questions]
    parts = [
        knowledge.graph.neighbourhood(question.concepts, settings.D, settings.cap, cosine, settings.max_nodes)
        for question, cosine in zip(questions, cosines, strict=True)
    ]
    scored: Sequence[NodeScores | None] = [None] * len(questions)
    if settings.node_filter == "scores":
        scored = train_batch(
            [
                FeatureGraph(question.question_id, np.asarray(knowledge.vectors[part.nodes]), part.heads, part.tails)
                for question, part in zip(questions, parts, strict=True)
            ],
            [question.vector for question in questions],
            settings.attention,
            device,
        )
    return [_select(knowledge, *case, settings) for case in zip(questions, cosines, parts, scored, strict=True)]


def _cosine(vectors: FloatArray, question: LinkedQuestion) -> FloatArray:
    """Cosine of every node with the question up to the question's length: the cheap score that caps go by."""
    if np.shape(question.vector) != (vectors.shape[1],):
        raise ValueError(
            f"question {question.question_id}: the vector has shape {np.shape(question.vector)}, "
            f"the node vectors {vectors.shape[1]} columns"
        )
    lengths = np.linalg.norm(vectors, axis=1) * max(float(np.linalg.norm(question.vector)), 1e-12)
    cosine: FloatArray = vectors @ question.vector / np.maximum(lengths, 1e-12)
    return cosine


def _select(
    knowledge: Knowledge,
    question: LinkedQuestion,
    cosine: FloatArray,
    part: Subgraph,
    scores: NodeScores | None,
    settings: UgatSettings,
) -> PathSelection:
    # Nodes outside the subgraph were not scored and add nothing to a path.
    relevance = np.zeros(knowledge.graph.n_nodes, dtype=np.float32)
    relevance[part.nodes] = cosine[part.nodes] if scores is None else scores.scores
    relevant = part.nodes if scores is None else part.nodes[scores.relevant]
    concepts = np.unique(np.asarray(question.concepts, dtype=np.int64))
    concepts = concepts[np.argsort(-relevance[concepts], kind="stable")]
    others = np.setdiff1d(relevant, concepts)
    others = others[np.argsort(-relevance[others], kind="stable")]
    sources = np.concatenate([concepts, others])[: settings.max_sources]
    notes = []
    if not len(concepts):
        notes.append("no concept of the question is a node of the graph")
    if len(concepts) + len(others) > len(sources):
        notes.append(f"paths start from {len(sources)} of {len(concepts) + len(others)} relevant nodes and concepts")
    weights = {} if scores is None else dict(zip(part.edges.tolist(), scores.attention.tolist(), strict=False))
    passages: dict[str, tuple[PathPassage, ...]] = {}
    for label, nodes in question.options.items():
        paths = shortest_paths(knowledge.graph, sources, nodes, settings.max_length, settings.paths_per_pair, relevance)
        passages[label] = _passages(knowledge, label, paths, weights, settings.passages)
        if not nodes:
            notes.append(f"option {label} names no node of the graph")
        elif len(concepts) and not paths:
            notes.append(f"option {label} is not within {settings.max_length} steps of anything relevant")
    return PathSelection(question.question_id, passages, part, scores, tuple(sources.tolist()), tuple(notes))


def _passages(
    knowledge: Knowledge, label: str, paths: Sequence[Path], weights: Mapping[int, list[float]], most: int
) -> tuple[PathPassage, ...]:
    """The best paths in words; one that says what a better one says already is left out."""
    found: list[PathPassage] = []
    said: set[str] = set()
    for path in paths:
        text = verbalise(knowledge, path)
        if text in said or len(found) == most:
            continue
        said.add(text)
        walked = [edge for step in path.steps for edge, _ in step]
        ids = tuple(dict.fromkeys(knowledge.edge_ids[edge] for edge in walked))
        locator = path_locator((knowledge.edge_ids[edge], along) for step in path.steps for edge, along in step)
        found.append(
            PathPassage(
                option=label,
                rank=len(found) + 1,
                score=path.score,
                source_id=ids[0],
                locator=locator,
                edge_ids=ids,
                nodes=path.nodes,
                text=text,
                attention=tuple(
                    (knowledge.edge_ids[e], weights[e][0], weights[e][1]) for e in dict.fromkeys(walked) if e in weights
                ),
                contradictory=any(_contradicts(knowledge, step) for step in path.steps),
            )
        )
    return tuple(found)


def _contradicts(knowledge: Knowledge, step: Sequence[tuple[int, bool]]) -> bool:
    """Whether two edges of a step run the same way under opposed relations."""
    named = [(knowledge.relations[knowledge.graph.relations[edge]], along) for edge, along in step]
    opposites = knowledge.vocabulary.opposites
    return any(a[1] == b[1] and (a[0], b[0]) in opposites for a, b in combinations(named, 2))


def verbalise(knowledge: Knowledge, path: Path) -> str:
    """The edges of a path as sentences, in the order of the path, each sentence once."""
    graph, names = knowledge.graph, knowledge.names
    return path_text(
        (
            Fact(
                str(graph.heads[edge]),
                knowledge.relations[graph.relations[edge]],
                str(graph.tails[edge]),
                names[graph.heads[edge]],
                names[graph.tails[edge]],
            )
            for step in path.steps
            for edge, _ in step
        ),
        knowledge.vocabulary.template,
    )
