"""UGAT-MedQA, stages 3 to 5: from the part of the graph around a question to paths put into words.

Stages 1 and 2 (which nodes question and options name, and what lies around the question's) are worked out once a
question, in `experiment.question_concepts`; stage 6 (the answer) is a reasoning task. Options are only what paths lead
to, so that no candidate draws evidence to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.experiment.question_concepts import Surroundings, numbers
from evidence_assets.graphs.arrays import FloatArray, Subgraph
from evidence_assets.graphs.attention.scorer import FeatureGraph, NodeScores, train_batch
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.paths import Path, shortest_paths
from evidence_assets.reasoning.paths import Fact, path_locator, path_text
from evidence_assets.systems.ugat.settings import UgatSettings


@dataclass(frozen=True)
class PathPassage:
    """One path put into words: a row of `evidence` of the kind `path`.

    Attributes
    ----------
    option, score
        The option it leads to, and the mean relevance of its nodes.
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
    score: float
    locator: str
    edge_ids: tuple[str, ...]
    nodes: tuple[int, ...]
    text: str
    attention: tuple[tuple[str, float, float], ...]
    contradictory: bool


@dataclass(frozen=True)
class PathSelection:
    """Everything that was found for one question.

    Attributes
    ----------
    passages
        For each option label its passages, best first; an option without any is there with none.
    subgraph, scores
        What was looked at, and how its nodes were scored (None where nothing was).
    """

    question_id: str
    passages: Mapping[str, tuple[PathPassage, ...]]
    subgraph: Subgraph
    scores: NodeScores | None


def relevant_paths_batch(
    graph: KnowledgeGraph,
    vocabulary: Vocabulary,
    questions: Sequence[Surroundings],
    settings: UgatSettings | None = None,
    device: str = "cpu",
) -> list[PathSelection]:
    """Ranked paths from what is relevant to each question to its options; node scorers are trained side by side."""
    settings = settings or UgatSettings()
    parts = [question.part.within(settings.D) for question in questions]
    features = [np.asarray(graph.node_vectors[part.nodes]) for part in parts]
    scored: Sequence[NodeScores | None] = [None] * len(questions)
    if settings.attention is not None:
        scored = train_batch(
            [
                FeatureGraph(question.named.question_id, vectors, part.heads, part.tails)
                for question, part, vectors in zip(questions, parts, features, strict=True)
            ],
            [question.vector for question in questions],
            settings.attention,
            device,
        )
    cosines = [_cosine(vectors, question.vector) for vectors, question in zip(features, questions, strict=True)]
    return [_select(graph, vocabulary, *case, settings) for case in zip(questions, cosines, parts, scored, strict=True)]


def _cosine(vectors: FloatArray, query: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=1) * max(float(np.linalg.norm(query)), 1e-12)
    cosine: FloatArray = vectors @ query / np.maximum(lengths, 1e-12)
    return cosine


def _select(
    graph: KnowledgeGraph,
    vocabulary: Vocabulary,
    question: Surroundings,
    cosine: FloatArray,
    part: Subgraph,
    scores: NodeScores | None,
    settings: UgatSettings,
) -> PathSelection:
    # Nodes outside the subgraph were not scored and add nothing to a path.
    relevance = np.zeros(graph.arrays.n_nodes, dtype=np.float32)
    relevance[part.nodes] = cosine if scores is None else scores.scores
    relevant = part.nodes if scores is None else part.nodes[scores.relevant]
    concepts = np.array(numbers(question.named.concepts), dtype=np.int64)
    concepts = concepts[np.argsort(-relevance[concepts], kind="stable")]
    others = np.setdiff1d(relevant, concepts)
    others = others[np.argsort(-relevance[others], kind="stable")]
    sources = np.concatenate([concepts, others])[: settings.max_sources]
    weights = {} if scores is None else dict(zip(part.edges.tolist(), scores.attention.tolist(), strict=False))
    passages: dict[str, tuple[PathPassage, ...]] = {}
    for label, linked in question.named.options.items():
        paths = shortest_paths(
            graph.arrays, sources, numbers(linked), settings.path_length, settings.paths_per_pair, relevance
        )
        passages[label] = _passages(graph, vocabulary, label, paths, weights, settings.passages)
    return PathSelection(question.named.question_id, passages, part, scores)


def _passages(
    graph: KnowledgeGraph,
    vocabulary: Vocabulary,
    label: str,
    paths: Sequence[Path],
    weights: Mapping[int, list[float]],
    most: int,
) -> tuple[PathPassage, ...]:
    """The best paths in words; one that says what a better one says already is left out."""
    found: list[PathPassage] = []
    said: set[str] = set()
    for path in paths:
        text = verbalise(graph, vocabulary, path)
        if text in said or len(found) == most:
            continue
        said.add(text)
        walked = [edge for step in path.steps for edge, _ in step]
        ids = tuple(dict.fromkeys(graph.edge_ids[edge] for edge in walked))
        locator = path_locator((graph.edge_ids[edge], along) for step in path.steps for edge, along in step)
        found.append(
            PathPassage(
                option=label,
                score=path.score,
                locator=locator,
                edge_ids=ids,
                nodes=path.nodes,
                text=text,
                attention=tuple(
                    (graph.edge_ids[e], weights[e][0], weights[e][1]) for e in dict.fromkeys(walked) if e in weights
                ),
                contradictory=any(_contradicts(graph, vocabulary, step) for step in path.steps),
            )
        )
    return tuple(found)


def _contradicts(graph: KnowledgeGraph, vocabulary: Vocabulary, step: Sequence[tuple[int, bool]]) -> bool:
    """Whether two edges of a step run the same way under opposed relations."""
    named = [(graph.triple(edge)[1], along) for edge, along in step]
    return any(a[1] == b[1] and (a[0], b[0]) in vocabulary.opposites for a, b in combinations(named, 2))


def verbalise(graph: KnowledgeGraph, vocabulary: Vocabulary, path: Path) -> str:
    """The edges of a path as sentences, in the order of the path, each sentence once."""
    facts = []
    for edge in (edge for step in path.steps for edge, _ in step):
        head, relation, tail = graph.triple(edge)
        facts.append(Fact(str(graph.arrays.heads[edge]), relation, str(graph.arrays.tails[edge]), head, tail))
    return path_text(facts, vocabulary.template)
