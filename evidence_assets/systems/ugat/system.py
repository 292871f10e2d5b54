"""UGAT-MedQA, stages 3 to 5: from the part of the graph around a question to paths put into words.

Stages 1 and 2 are worked out once a question, in `experiment.evidence.question_concepts`; stage 6 is a reasoning task.
Options are only what paths lead to, so that no candidate draws evidence to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch

from evidence_assets.benchmarks.graphs.relations import Vocabulary, load_vocabulary
from evidence_assets.experiment.evidence.question_concepts import (
    MIN_DEPTH,
    LinkedPhrase,
    QuestionSubgraph,
    linked_nodes,
    load_question_subgraphs,
)
from evidence_assets.experiment.evidence.selection import (
    NoEvidence,
    Parent,
    Question,
    SelectedEvidence,
    build_questions,
)
from evidence_assets.experiment.evidence.sources import open_benchmark_graph
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import Method, NoSettings, System
from evidence_assets.graphs.arrays import FloatArray, Subgraph
from evidence_assets.graphs.attention.scorer import (
    CONTRASTIVE,
    WALK,
    AttentionSettings,
    FeatureGraph,
    NodeScores,
    train_and_score,
)
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.paths import GraphPath, shortest_paths
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.vectors import unit_rows
from evidence_assets.profiles import Profile
from evidence_assets.reasoning.paths import PathFact, path_locator, path_text
from evidence_assets.systems.ugat import VERSION

TUNED_SCORERS = {"contrastive": CONTRASTIVE, "walk": WALK}
"""Scorers with settings of their own, chosen by measurement."""
CANDIDATES_PER_PASSAGE = 3


@dataclass(frozen=True)
class UgatSettings:
    """Parameters of the stages; `experiment.evidence.question_concepts.Expansion` says how wide stored subgraphs are.

    ``scorer``: How nodes are scored; `gat` is the published one. `none` keeps every node of the subgraph and ranks by
        the cosine to the question (the published ablation).
    ``D``: Depth: most steps from the concepts; 3 is the published best.
    ``whole``: Whether a subgraph is all that lies within D steps, as printed, without the caps of the stored ones:
        the best by name of ``most_nodes`` in all, the nearer first. That bounds the memory; see `train_and_score`.
    ``rank``: What paths are ordered by, and their score: the mean relevance of their ``nodes`` (as printed), or the
        cosine of their ``words`` to the question, for the best `CANDIDATES` times ``passages`` paths of an option by
        relevance.
    ``layers``, ``heads``, ``steps``: L, K and T, the training steps, of the published scorers; print states none of
        them, ours are the defaults.
    ``max_sources``: Most nodes that paths start from: the concepts, then the relevant nodes with the best scores.
    ``path_length``, ``paths_per_pair``, ``passages``: Longest path, most paths between two nodes, most passages of an
        option.
    """

    scorer: Literal["gat", "gcn", "cosine", "contrastive", "walk", "none"] = "gat"
    rank: Literal["nodes", "words"] = "nodes"
    D: int = 3
    whole: bool = False
    most_nodes: int = 100_000
    layers: int = AttentionSettings.layers
    heads: int = AttentionSettings.heads
    steps: int = 50
    max_sources: int = 64
    path_length: int = 3
    paths_per_pair: int = 3
    passages: int = 5

    @property
    def attention(self) -> AttentionSettings | None:
        """How nodes are scored; None where they are not."""
        if self.scorer == "none":
            return None
        return TUNED_SCORERS.get(self.scorer) or AttentionSettings(self.scorer, self.layers, self.heads, self.steps)


@dataclass(frozen=True)
class PathPassage:
    """One path put into words: a row of `evidence` of the kind `path`.

    ``option``, ``score``: The option it leads to, and what it is ranked by; see `UgatSettings.rank`.
    ``locator``: The stored edges with the direction they are walked in, see `reasoning.paths.path_locator`.
    ``edge_ids``, ``nodes``: Every edge that the passage says something from, without repeats, and the node numbers
        walked through.
    ``text``: One sentence an edge, as stored: a path walked backwards does not turn a sentence round.
    ``attention``: For edges inside the scored subgraph: edge id, weight that its head gives its tail, and the tail its
        head.
    ``contradictory``: Whether two of its edges say opposed things of the same two nodes.
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

    ``passages``: For each option label its passages, best first; an option without any is there with none.
    ``subgraph``, ``scores``: What was looked at, and how its nodes were scored (None where nothing was).
    """

    question_id: str
    passages: Mapping[str, tuple[PathPassage, ...]]
    subgraph: Subgraph
    scores: NodeScores | None


SCORE_DIGITS = 4
"""Scores are rounded to so many digits: a question is scored beside others, which moves the ones behind."""


class PathSelector:
    """The best paths from what is relevant to a question to each of its options.

    ``around``: What each question names and what lies around it, by question id; a question that is not there has no
        evidence.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        around: Mapping[str, QuestionSubgraph],
        vocabulary: Vocabulary,
        settings: UgatSettings,
        device: str = "cpu",
    ) -> None:
        self._graph, self._around, self._vocabulary = graph, around, vocabulary
        self._settings, self._device = settings, device
        self.version = content_id("graph_paths", VERSION, asdict(settings), graph.version)
        self.notes = {"nodes_cut": 0} if settings.whole else {}
        """How many nodes whole subgraphs lack, over all questions, for want of room."""

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        # Whole subgraphs may be as large as the graph: of these one is held at a time.
        batch = 1 if self._settings.whole else max(len(questions), 1)
        for start in range(0, len(questions), batch):
            group = [question.question_id for question in questions[start : start + batch]]
            found = {
                each.question_id: each for each in self.find([self._around[q] for q in group if q in self._around])
            }
            if self._settings.whole:
                self.notes["nodes_cut"] += sum(len(each.subgraph.dropped) for each in found.values())
            yield from (self._picks(found[q]) if q in found else [] for q in group)

    def find(self, questions: Sequence[QuestionSubgraph]) -> list[PathSelection]:
        """Ranked paths from what is relevant to each question to its options; node scorers are trained side by side."""
        settings = self._settings
        parts = [self._part(question) for question in questions]
        features = [self._graph.node_vectors[part.nodes].astype(np.float32) for part in parts]
        scored: Sequence[NodeScores | None] = [None] * len(questions)
        if settings.attention is not None:
            graphs = [
                FeatureGraph(question.links.question_id, vectors, part.heads, part.tails)
                for question, part, vectors in zip(questions, parts, features, strict=True)
            ]
            scored = train_and_score(graphs, [q.vector for q in questions], settings.attention, self._device)
        # Vectors of names are of length one.
        cosines = [vectors @ unit_rows(question.vector) for vectors, question in zip(features, questions, strict=True)]
        paths = [self._paths(*case) for case in zip(questions, cosines, parts, scored, strict=True)]
        if settings.rank == "words":
            paths = self._by_words(questions, paths)
        selections = []
        for question, part, scores, by_option in zip(questions, parts, scored, paths, strict=True):
            weights = dict(zip(part.edges.tolist(), scores.attention.tolist(), strict=False)) if scores else {}
            passages = {label: self._passages(label, of_option, weights) for label, of_option in by_option.items()}
            selections.append(PathSelection(question.links.question_id, passages, part, scores))
        return selections

    def _part(self, question: QuestionSubgraph) -> Subgraph:
        """The part of the graph that a question is read in: what is stored, or all within D steps, as printed."""
        if not self._settings.whole:
            return question.subgraph.limit_hops(self._settings.D)
        seeds, nearness = linked_nodes(question.links.concepts), self._graph.cosine_to(question.vector)
        most = self._settings.most_nodes
        return self._graph.arrays.neighbourhood(seeds, self._settings.D, score=nearness, max_nodes=most)

    def _paths(
        self, question: QuestionSubgraph, cosine: FloatArray, part: Subgraph, scores: NodeScores | None
    ) -> dict[str, list[GraphPath]]:
        """The paths to each option, the most relevant first; no more than are looked at."""
        settings, arrays = self._settings, self._graph.arrays
        # Nodes outside the subgraph were not scored and add nothing to a path.
        relevance = np.zeros(arrays.n_nodes, dtype=np.float32)
        relevance[part.nodes] = cosine if scores is None else scores.scores
        relevant = part.nodes if scores is None else part.nodes[scores.relevant]
        concepts = np.array(linked_nodes(question.links.concepts), dtype=np.int64)
        concepts = concepts[np.argsort(-relevance[concepts], kind="stable")]
        # A path from one option to another says nothing of the question.
        others = np.setdiff1d(relevant, np.union1d(concepts, question.links.targets))
        others = others[np.argsort(-relevance[others], kind="stable")]
        sources = np.concatenate([concepts, others])[: settings.max_sources]
        most = CANDIDATES_PER_PASSAGE * settings.passages if settings.rank == "words" else None
        longest, each = settings.path_length, settings.paths_per_pair
        return {
            label: shortest_paths(arrays, sources, linked_nodes(linked), longest, each, relevance)[:most]
            for label, linked in question.links.options.items()
        }

    def _by_words(
        self, questions: Sequence[QuestionSubgraph], paths: Sequence[Mapping[str, list[GraphPath]]]
    ) -> list[dict[str, list[GraphPath]]]:
        """The paths by the score cos(q, Σ_e v_e), best first: v_e the vector of what an edge says, q the question's."""
        edges = sorted({edge for by_option in paths for of in by_option.values() for path in of for edge in path.edges})
        vectors = self._graph.vectors.encode([self._text([edge]) for edge in edges])
        place = {edge: row for row, edge in enumerate(edges)}

        def ranked(of_option: list[GraphPath], query: FloatArray) -> list[GraphPath]:
            if not of_option:
                return []
            sums = np.stack([vectors[[place[edge] for edge in path.edges]].sum(0) for path in of_option])
            scores = np.round((unit_rows(sums) @ unit_rows(query)).astype(np.float64), 6).tolist()
            rescored = [replace(path, score=score) for path, score in zip(of_option, scores, strict=True)]
            return sorted(rescored, key=lambda path: (-path.score, len(path.nodes), path.nodes))

        return [
            {label: ranked(of_option, question.vector) for label, of_option in by_option.items()}
            for question, by_option in zip(questions, paths, strict=True)
        ]

    def _passages(
        self, label: str, paths: Sequence[GraphPath], weights: Mapping[int, list[float]]
    ) -> tuple[PathPassage, ...]:
        """The best paths in words; one that says what a better one says already is left out."""
        edge_ids, passages = self._graph.edge_ids, dict[str, PathPassage]()
        for path in paths:
            text, edges = self._text(path.edges), list(dict.fromkeys(path.edges))
            if text in passages:
                continue
            if len(passages) == self._settings.passages:
                break
            passages[text] = PathPassage(
                option=label,
                score=path.score,
                locator=path_locator((edge_ids[edge], along) for step in path.steps for edge, along in step),
                edge_ids=tuple(edge_ids[edge] for edge in edges),
                nodes=path.nodes,
                text=text,
                attention=tuple((edge_ids[e], weights[e][0], weights[e][1]) for e in edges if e in weights),
                contradictory=any(self._contradicts(step) for step in path.steps),
            )
        return tuple(passages.values())

    def _contradicts(self, step: Sequence[tuple[int, bool]]) -> bool:
        """Whether two edges of a step run the same way under opposed relations."""
        named = [(self._graph.triple(edge)[1], along) for edge, along in step]
        return any(a[1] == b[1] and (a[0], b[0]) in self._vocabulary.opposites for a, b in combinations(named, 2))

    def _text(self, edges: Sequence[int]) -> str:
        """What edges say, a sentence each."""
        arrays, facts = self._graph.arrays, []
        for edge in edges:
            head, relation, tail = self._graph.triple(edge)
            facts.append(PathFact(str(arrays.heads[edge]), relation, str(arrays.tails[edge]), head, tail))
        return path_text(facts, self._vocabulary.template)

    def _picks(self, found: PathSelection) -> list[SelectedEvidence]:
        relevance: dict[int, float] = {}
        if found.scores is not None:
            scored = zip(found.subgraph.nodes.tolist(), found.scores.scores.tolist(), strict=True)
            relevance = {node: round(score, SCORE_DIGITS) for node, score in scored}
        return [self._pick(p, found, relevance) for passages in found.passages.values() for p in passages]

    def _pick(self, passage: PathPassage, found: PathSelection, relevance: Mapping[int, float]) -> SelectedEvidence:
        named = self._around[found.question_id].links
        ends = [_link_of(named.concepts, passage.nodes[0]), _link_of(named.options[passage.option], passage.nodes[-1])]
        why = {
            "nodes": [{"name": self._graph.names[n], "relevance": relevance.get(n)} for n in passage.nodes],
            "links": [link for link in ends if link],
            "attention": {e: [round(a, SCORE_DIGITS), round(b, SCORE_DIGITS)] for e, a, b in passage.attention},
            "contradictory": passage.contradictory,
            "relevant_by": found.scores.rule if found.scores else "all",
            "spread": round(found.scores.spread, SCORE_DIGITS) if found.scores else None,
        }
        return SelectedEvidence(
            passage.option,
            "path",
            tuple(Parent("edge", edge, edge) for edge in passage.edge_ids),
            passage.locator,
            passage.text,
            round(passage.score, SCORE_DIGITS),
            json.dumps(why, ensure_ascii=False, sort_keys=True),
        )


def _link_of(named: Sequence[LinkedPhrase], node: int) -> dict[str, object] | None:
    """By which phrase and rule a node was linked; None for one that is there by its relevance."""
    link = next((each for each in named if node in each.nodes), None)
    return None if link is None else {"phrase": link.phrase, "rule": link.rule, "score": link.score}


def _defaults(profile: Profile) -> Mapping[str, Any]:
    return profile.ugat.model_dump(exclude={"cap", "max_nodes"})


def _open(context: StageContext, settings: UgatSettings) -> PathSelector:
    graph, deepest = open_benchmark_graph(context), max(context.profile.ugat.D, MIN_DEPTH)
    if deepest < settings.D:
        raise BadInput(
            f"{context.asset} looks {settings.D} steps around, but subgraphs reach {deepest}: raise the profile's D"
        )
    around = load_question_subgraphs(
        context.read_input("subgraphs"), build_questions(context.read_input("questions")), graph
    )
    return PathSelector(graph, around, load_vocabulary(), settings, "cuda" if torch.cuda.is_available() else "cpu")


def _closed_book(context: StageContext, settings: NoSettings) -> NoEvidence:
    return NoEvidence("the closed book is answered from what the model knows")


SYSTEM = System(
    "ugat",
    VERSION,
    {
        "ugat": Method(
            settings=UgatSettings,
            open_selector=_open,
            sources=("graph", "subgraphs"),
            defaults=_defaults,
            model_kinds=("encoder",),
            published_style="passages",
        ),
        "closed_book": Method(settings=NoSettings, open_selector=_closed_book, published_style="question"),
    },
)
