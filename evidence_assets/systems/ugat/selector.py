"""UGAT-MedQA as a selector: paths of a graph as evidence for each option.

Belongs here: joining linked concepts with the stages of `systems.ugat.system`, and a path as a pick with the reasons for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.experiment.question_concepts import VERSION as LINKING
from evidence_assets.experiment.question_concepts import NamedNodes, QuestionConcepts, numbers
from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.graphs.attention import scorer as graph_attention
from evidence_assets.graphs.knowledge import OpenGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.ugat.system import (
    Knowledge,
    LinkedQuestion,
    PathPassage,
    PathSelection,
    UgatSettings,
    relevant_paths_batch,
)

VERSION = f"1/{graph_attention.VERSION}/{LINKING}"
DIGITS = 4
"""Scores are rounded to so many digits: a question is scored beside others, which moves the ones behind."""


class GraphPaths:
    """The best paths from what is relevant to a question to each of its options.

    Parameters
    ----------
    linked
        What each question names, by question id; a question that is not there has no concepts and no evidence.
    settings
        The four stages; ``settings.attention.variant`` says how nodes are scored.
    """

    def __init__(
        self,
        name: str,
        graph: OpenGraph,
        linked: Mapping[str, QuestionConcepts],
        vocabulary: Vocabulary,
        settings: UgatSettings,
        device: str = "cpu",
    ) -> None:
        self.name, self._graph, self._linked, self._settings, self._device = name, graph, linked, settings, device
        self._knowledge = Knowledge(
            graph.graph, graph.names, graph.node_vectors, graph.relations, graph.edge_ids, vocabulary
        )
        self.version = content_id("graph_paths", VERSION, asdict(settings), graph.version)

    def find(self, questions: Sequence[Asked]) -> list[PathSelection]:
        """Everything that was found for each question, node scores included."""
        vectors = self._graph.encode([q.text for q in questions])
        asked = []
        for question, vector in zip(questions, vectors, strict=True):
            named = self._linked.get(question.question_id, QuestionConcepts(question.question_id, (), {}))
            options = {label: numbers(named.options.get(label, ())) for label in question.labels}
            asked.append(LinkedQuestion(question.question_id, vector, numbers(named.concepts), options))
        return relevant_paths_batch(self._knowledge, asked, self._settings, self._device)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        made = []
        for done, found in enumerate(self.find(questions), 1):
            relevance: dict[int, float] = {}
            if found.scores is not None:
                scored = zip(found.subgraph.nodes.tolist(), found.scores.scores.tolist(), strict=True)
                relevance = {node: round(score, DIGITS) for node, score in scored}
            made.append([self._pick(p, found, relevance) for passages in found.passages.values() for p in passages])
            if progress:
                progress(done, len(questions))
        return made

    def _pick(self, passage: PathPassage, found: PathSelection, relevance: Mapping[int, float]) -> Pick:
        named = self._linked[found.question_id]
        ends = [_rule_of(named.concepts, passage.nodes[0]), _rule_of(named.options[passage.option], passage.nodes[-1])]
        why = {
            "nodes": [{"name": self._graph.names[n], "relevance": relevance.get(n)} for n in passage.nodes],
            "links": [link for link in ends if link],
            "attention": {e: [round(a, DIGITS), round(b, DIGITS)] for e, a, b in passage.attention},
            "contradictory": passage.contradictory,
            "relevant_by": found.scores.rule if found.scores else "all",
            "spread": round(found.scores.spread, DIGITS) if found.scores else None,
        }
        return Pick(
            passage.option,
            "path",
            tuple(Parent("edge", edge, edge) for edge in passage.edge_ids),
            passage.locator,
            passage.text,
            round(passage.score, DIGITS),
            json.dumps(why, ensure_ascii=False, sort_keys=True),
        )


def _rule_of(named: Sequence[NamedNodes], node: int) -> dict[str, object] | None:
    """By which phrase and rule a node was linked; None for one that is there by its relevance."""
    link = next((each for each in named if node in each.nodes), None)
    return None if link is None else {"phrase": link.phrase, "rule": link.rule, "score": link.score}
