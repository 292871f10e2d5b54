"""UGAT-MedQA, stages 3 to 5: score the nodes of a question's subgraph, find paths, and verbalise them.

`experiment.evidence.question_concepts` computes stages 1 and 2 once per question; stage 6 is a reasoning task.
Options do not expand the subgraph, so that the evidence is not biased towards a candidate; they only end paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.graphs.relations import Vocabulary, load_vocabulary
from evidence_assets.experiment.evidence.question_concepts import (
    MIN_DEPTH,
    LinkedPhrase,
    QuestionSubgraph,
    link_concepts,
    linked_nodes,
    load_question_subgraphs,
)
from evidence_assets.experiment.evidence.selection import (
    QUESTIONS_PER_GROUP,
    NoEvidence,
    Parent,
    SelectedEvidence,
    Selector,
)
from evidence_assets.experiment.evidence.sources import open_benchmark_graph
from evidence_assets.experiment.methods import NoSettings, SelectionMethod
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.stage import StageContext
from evidence_assets.graphs.arrays import FloatArray, IntArray, Subgraph
from evidence_assets.graphs.attention.scorer import (
    TUNED_SETTINGS,
    AttentionSettings,
    FeatureGraph,
    NodeScores,
    train_and_score,
)
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.paths import GraphPath, shortest_paths
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.inference import resolve_device
from evidence_assets.models.vectors import unit_rows
from evidence_assets.profiles import Profile
from evidence_assets.reasoning.paths import path_locator, path_text
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.ugat import VERSION

CANDIDATES_PER_PASSAGE = 3


@dataclass(frozen=True)
class UgatSettings:
    """Parameters of the stages; ``ugat`` of the profile limits the stored subgraphs.

    ``scorer``: Node scorer; `gat` is the published one. `none` keeps the raw subgraph: no node has a score, and shorter
        paths come first (the published ablation).
    ``D``: Maximum hops from the concepts; 3 is the published best.
    ``whole``: Use all nodes within D hops, as published, without the hub caps of the stored subgraphs, up to
        ``most_nodes`` nodes: nearer ones first, then by the cosine of their names. The limit bounds the memory of
        `train_and_score`.
    ``rank``: Score of a path: the mean relevance of its ``nodes`` (published), or the cosine of its ``words`` with the
        question. The latter rescores the `CANDIDATES_PER_PASSAGE` × ``passages`` most relevant paths of an option.
    ``layers``, ``heads``, ``steps``, ``learning_rate``: L, K, the training steps T and the rate of the published
        scorers; not in the thesis.
    ``threshold``, ``least_spread``: θ_0, not in the thesis either: nodes with higher scores are relevant. Below this
        standard deviation of the scores, the ten best nodes are relevant instead; 0 always thresholds, as published.
    ``concepts``: Link all names in the question, then its other key phrases; or its key phrases alone (published).
    ``anchors``: Paths start at the concepts and the relevant nodes, or at the relevant nodes alone (published). Without
        a scorer, all nodes of the subgraph are relevant.
    ``paths_within``: Find paths in the whole graph, or in the subgraph, so that D bounds them. Both are printed (6.4.4;
        6.4.3 and 6.6.1).
    ``max_sources``: Maximum start nodes of paths: the concepts, then the relevant nodes with the best scores.
    ``path_length``, ``paths_per_pair``, ``passages``: Maximum edges of a path, shortest paths between two nodes, and
        passages of an option.
    """

    scorer: Literal["gat", "gcn", "cosine", "contrastive", "walk", "none"] = "gat"
    rank: Literal["nodes", "words"] = "nodes"
    D: int = 3
    whole: bool = False
    most_nodes: int = 100_000
    layers: int = AttentionSettings.layers
    heads: int = AttentionSettings.heads
    steps: int = 50
    learning_rate: float = AttentionSettings.learning_rate
    threshold: float = AttentionSettings.threshold
    least_spread: float = AttentionSettings.least_spread
    concepts: Literal["names_and_phrases", "key_phrases"] = "names_and_phrases"
    anchors: Literal["concepts_and_relevant", "relevant"] = "concepts_and_relevant"
    paths_within: Literal["graph", "subgraph"] = "graph"
    max_sources: int = 64
    path_length: int = 3
    paths_per_pair: int = 3
    passages: int = 5

    @property
    def attention(self) -> AttentionSettings | None:
        """Settings of the attention; None if nodes are not scored."""
        if self.scorer == "none":
            return None
        return TUNED_SETTINGS.get(self.scorer) or AttentionSettings(
            self.scorer,
            self.layers,
            self.heads,
            self.steps,
            self.learning_rate,
            threshold=self.threshold,
            least_spread=self.least_spread,
        )


@dataclass(frozen=True)
class PathSelection:
    """Passages, subgraph and node scores of one question.

    ``passages``: The paths of each option label by their text, best first; empty for an option without paths.
    ``scores``: Node scores; None if nodes are not scored.
    """

    question: QuestionSubgraph
    passages: Mapping[str, Mapping[str, GraphPath]]
    subgraph: Subgraph
    scores: NodeScores | None

    @cached_property
    def relevance(self) -> Mapping[int, float]:
        """Score of each node; empty if nodes are not scored."""
        nodes = self.subgraph.nodes.tolist()
        return dict(zip(nodes, self.scores.scores.tolist(), strict=True)) if self.scores else {}

    @cached_property
    def attention(self) -> Mapping[int, list[float]]:
        """Attention of each edge in its two directions; empty without attention."""
        edges = self.subgraph.edges.tolist()
        return dict(zip(edges, self.scores.attention.tolist(), strict=False)) if self.scores else {}


SCORE_DIGITS = 4
"""Decimals of stored scores: the batch of a question changes the digits after these."""


class PathSelector:
    """Selects the best paths from a question's concepts and relevant nodes to each of its options.

    ``subgraphs``: Linked concepts and subgraph of each question, by id; a question without one has no evidence.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        subgraphs: Mapping[str, QuestionSubgraph],
        vocabulary: Vocabulary,
        settings: UgatSettings,
        device: str = "cpu",
    ) -> None:
        self._graph = graph
        self._subgraphs = subgraphs
        self._vocabulary = vocabulary
        self._settings = settings
        self._device = device
        self.version = content_id("graph_paths", VERSION, asdict(settings), graph.version)
        self.notes = {"nodes_cut": 0} if settings.whole else {}
        """Nodes that ``most_nodes`` removed from the subgraphs of all questions."""

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        # A subgraph without caps may be as large as the graph, so only one is in memory.
        batch = 1 if self._settings.whole else QUESTIONS_PER_GROUP
        for start in range(0, len(questions), batch):
            group = [question.question_id for question in questions[start : start + batch]]
            selections = iter(self.select_paths([self._subgraphs[q] for q in group if q in self._subgraphs]))
            for question_id in group:
                selection = next(selections) if question_id in self._subgraphs else None
                if selection and self._settings.whole:
                    self.notes["nodes_cut"] += len(selection.subgraph.dropped)
                yield self._build_rows(selection) if selection else []

    def select_paths(self, questions: Sequence[QuestionSubgraph]) -> list[PathSelection]:
        """Ranked paths of each question; the node scorers of all questions are trained together."""
        settings = self._settings
        subgraphs = [self._subgraph(question) for question in questions]
        features = [self._graph.node_vectors[subgraph.nodes].astype(np.float32) for subgraph in subgraphs]
        node_scores: Sequence[NodeScores | None] = [None] * len(questions)
        if settings.attention is not None:
            graphs = [
                FeatureGraph(q.links.question_id, vectors, part.heads, part.tails)
                for q, part, vectors in zip(questions, subgraphs, features, strict=True)
            ]
            node_scores = train_and_score(graphs, [q.vector for q in questions], settings.attention, self._device)
        paths = [self._paths(*case) for case in zip(questions, subgraphs, node_scores, strict=True)]
        if settings.rank == "words":
            paths = self._rank_by_words(questions, paths)
        passages = [{label: self._passages(ranked) for label, ranked in of_options.items()} for of_options in paths]
        return [PathSelection(*parts) for parts in zip(questions, passages, subgraphs, node_scores, strict=True)]

    def _subgraph(self, question: QuestionSubgraph) -> Subgraph:
        """The subgraph of a question: the stored one, or all nodes within D hops, as published."""
        if not self._settings.whole:
            return question.subgraph.limit_hops(self._settings.D)
        seeds = linked_nodes(question.links.concepts)
        nearness = self._graph.cosine_to(question.vector)
        max_nodes = self._settings.most_nodes
        return self._graph.arrays.neighbourhood(seeds, self._settings.D, score=nearness, max_nodes=max_nodes)

    def _paths(
        self, question: QuestionSubgraph, subgraph: Subgraph, scores: NodeScores | None
    ) -> dict[str, list[GraphPath]]:
        """Candidate paths to each option, most relevant first."""
        settings = self._settings
        # Nodes outside the subgraph have no score and count as 0.
        relevance = np.zeros(self._graph.arrays.n_nodes, dtype=np.float32)
        if scores is not None:
            relevance[subgraph.nodes] = scores.scores
        relevant = subgraph.nodes if scores is None else subgraph.nodes[scores.relevant]
        find_paths = partial(
            shortest_paths,
            self._graph.arrays,
            self._choose_sources(question, relevant, relevance),
            max_length=settings.path_length,
            max_paths=settings.paths_per_pair,
            relevance=relevance,
            top=CANDIDATES_PER_PASSAGE * settings.passages,
            within=subgraph.nodes if settings.paths_within == "subgraph" else None,
        )
        return {label: find_paths(linked_nodes(phrases)) for label, phrases in question.links.options.items()}

    def _choose_sources(
        self, question: QuestionSubgraph, relevant: IntArray, relevance: npt.NDArray[np.float32]
    ) -> IntArray:
        """Start nodes of paths: the concepts, then the relevant nodes, each by relevance."""
        concepts = np.array(linked_nodes(question.links.concepts), dtype=np.int64)
        concepts = concepts[np.argsort(-relevance[concepts], kind="stable")]
        if self._settings.anchors == "relevant":
            concepts = concepts[np.isin(concepts, relevant)]
        # A path between two options is no evidence for the question.
        others = np.setdiff1d(relevant, np.union1d(concepts, question.links.targets))
        others = others[np.argsort(-relevance[others], kind="stable")]
        return np.concatenate([concepts, others])[: self._settings.max_sources]

    def _rank_by_words(
        self, questions: Sequence[QuestionSubgraph], paths: Sequence[Mapping[str, list[GraphPath]]]
    ) -> list[dict[str, list[GraphPath]]]:
        """Rank paths by cos(q, Σ_e v_e), where v_e is the vector of edge e's sentence and q the question's."""
        all_paths = (path for option_paths in paths for ranked in option_paths.values() for path in ranked)
        edges = sorted({edge for path in all_paths for edge in path.edges})
        vectors = self._graph.vectors.encode([self._text([edge]) for edge in edges])
        vector_of_edge = dict(zip(edges, vectors, strict=True))
        return [
            {label: _rescore(ranked, question.vector, vector_of_edge) for label, ranked in option_paths.items()}
            for question, option_paths in zip(questions, paths, strict=True)
        ]

    def _passages(self, paths: Sequence[GraphPath]) -> dict[str, GraphPath]:
        """The best paths by their text: one sentence per edge, from head to tail in either direction of the path."""
        passages: dict[str, GraphPath] = {}
        for path in paths:
            passages.setdefault(self._text(path.edges), path)
            if len(passages) == self._settings.passages:
                break
        return passages

    def _is_contradictory(self, step: Sequence[tuple[int, bool]]) -> bool:
        """Whether two edges of a step have the same direction and opposite relations."""
        relations = [(self._graph.triple(edge)[1], along) for edge, along in step]
        return any(a[1] == b[1] and (a[0], b[0]) in self._vocabulary.opposites for a, b in combinations(relations, 2))

    def _text(self, edges: Sequence[int]) -> str:
        """Edges as text, one sentence each."""
        return path_text(map(self._graph.triple, edges), self._vocabulary.template)

    def _build_rows(self, selection: PathSelection) -> list[SelectedEvidence]:
        """A row of kind ``path`` for each passage."""
        return [
            self._build_row(selection, label, text, path)
            for label, paths in selection.passages.items()
            for text, path in paths.items()
        ]

    def _build_row(self, selection: PathSelection, label: str, text: str, path: GraphPath) -> SelectedEvidence:
        edge_ids = self._graph.edge_ids
        edges = [edge_ids[edge] for edge in dict.fromkeys(path.edges)]
        return SelectedEvidence(
            label,
            "path",
            tuple(Parent("edge", edge, edge) for edge in edges),
            path_locator((edge_ids[edge], along) for step in path.steps for edge, along in step),
            text,
            round(path.score, SCORE_DIGITS),
            json.dumps(self._explain(selection, label, path), ensure_ascii=False, sort_keys=True),
        )

    def _explain(self, selection: PathSelection, label: str, path: GraphPath) -> dict[str, object]:
        """Why a path was selected.

        ``attention`` of an edge is that from head to tail and that from tail to head. A path is ``contradictory`` if
        two of its edges state opposite relations between the same two nodes.
        """
        links = selection.question.links
        scores = selection.scores
        graph = self._graph
        ends = [_link_of(links.concepts, path.nodes[0]), _link_of(links.options[label], path.nodes[-1])]
        attention = {graph.edge_ids[edge]: selection.attention.get(edge, []) for edge in path.edges}
        return {
            "nodes": [
                {"name": graph.names[node], "relevance": _round(selection.relevance.get(node))} for node in path.nodes
            ],
            "links": [link for link in ends if link],
            "attention": {
                edge: [_round(weight) for weight in weights] for edge, weights in attention.items() if weights
            },
            "contradictory": any(self._is_contradictory(step) for step in path.steps),
            "relevant_by": scores.rule if scores else "all",
            "spread": _round(scores.spread if scores else None),
            "kept": len(scores.relevant if scores else selection.subgraph.nodes),
            "of": len(selection.subgraph.nodes),
        }


def _rescore(
    paths: Sequence[GraphPath], query: FloatArray, vector_of_edge: Mapping[int, FloatArray]
) -> list[GraphPath]:
    """Paths by the cosine of the query with the sum of the vectors of their edges."""
    if not paths:
        return []
    sums = np.stack([np.sum([vector_of_edge[edge] for edge in path.edges], axis=0) for path in paths])
    scores = np.round((unit_rows(sums) @ unit_rows(query)).astype(np.float64), 6).tolist()
    rescored = [replace(path, score=score) for path, score in zip(paths, scores, strict=True)]
    return sorted(rescored, key=lambda path: (-path.score, len(path.nodes), path.nodes))


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, SCORE_DIGITS)


def _link_of(phrases: Sequence[LinkedPhrase], node: int) -> dict[str, object] | None:
    """The phrase and rule that linked a node; None for a node selected by relevance."""
    link = next((phrase for phrase in phrases if node in phrase.nodes), None)
    return None if link is None else {"phrase": link.phrase, "rule": link.rule, "score": link.score}


def gate_concepts(
    questions: Sequence[Question], subgraphs: Mapping[str, QuestionSubgraph], graph: KnowledgeGraph
) -> dict[str, QuestionSubgraph]:
    """The questions with the linked key phrases as their only concepts, as published."""
    concepts = {links.question_id: links.concepts for links in link_concepts(questions, graph, names=False)}
    return {
        name: replace(subgraph, links=replace(subgraph.links, concepts=concepts[name]))
        for name, subgraph in subgraphs.items()
    }


class Ugat(SelectionMethod[UgatSettings]):
    """UGAT-MedQA: paths through the relevant nodes of a question's subgraph."""

    name = "ugat"
    version = VERSION
    settings_class = UgatSettings
    sources = ("graph", "subgraphs")
    model_kinds = ("encoder",)
    published_style = "passages"

    @classmethod
    def read_defaults(cls, profile: Profile) -> Mapping[str, object]:
        return profile.ugat.model_dump(exclude={"cap", "max_nodes"})

    def open_selector(self, context: StageContext) -> PathSelector:
        settings = self.settings
        max_depth = max(context.profile.ugat.D, MIN_DEPTH)
        if max_depth < settings.D:
            raise BadInput(
                f"{context.asset} needs {settings.D} hops; stored subgraphs have {max_depth}. "
                "Raise ugat.D in the profile."
            )
        graph = open_benchmark_graph(context)
        questions = build_questions(context.read_input("questions"))
        subgraphs = load_question_subgraphs(context.read_input("subgraphs"), questions, graph)
        if settings.concepts == "key_phrases":
            subgraphs = gate_concepts(questions, subgraphs, graph)
        return PathSelector(graph, subgraphs, load_vocabulary(), settings, resolve_device("auto"))


class ClosedBook(SelectionMethod[NoSettings]):
    """No evidence: the model answers from what it knows."""

    name = "closed_book"
    version = VERSION
    settings_class = NoSettings
    published_style = "question"

    def open_selector(self, context: StageContext) -> Selector:
        return NoEvidence("closed book: the model answers without evidence")
