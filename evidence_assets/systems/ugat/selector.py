"""UGAT-MedQA as a selector: paths of a graph as evidence for each option.

Belongs here: joining linked concepts with the stages of `systems.ugat.system`, and a path as a pick with the reasons for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from evidence_assets.benchmarks.graphs.relations import Vocabulary
from evidence_assets.experiment.question_concepts import NamedNodes, Surroundings
from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.systems.ugat import VERSION
from evidence_assets.systems.ugat.settings import UgatSettings
from evidence_assets.systems.ugat.system import PathPassage, PathSelection, relevant_paths_batch

DIGITS = 4
"""Scores are rounded to so many digits: a question is scored beside others, which moves the ones behind."""


class GraphPaths:
    """The best paths from what is relevant to a question to each of its options.

    ``around``: What each question names and what lies around it, by question id; a question that is not there has no
        evidence.
    ``settings``: The stages; ``settings.scorer`` says how nodes are scored.
    """

    def __init__(
        self,
        name: str,
        graph: KnowledgeGraph,
        around: Mapping[str, Surroundings],
        vocabulary: Vocabulary,
        settings: UgatSettings,
        device: str = "cpu",
    ) -> None:
        self.name, self._graph, self._around, self._vocabulary = name, graph, around, vocabulary
        self._settings, self._device = settings, device
        self.version = content_id("graph_paths", VERSION, asdict(settings), graph.version)
        self.notes = {"nodes_cut": 0} if settings.whole else {}
        """How many nodes whole subgraphs lack, over all questions, for want of room."""

    def find(self, questions: Sequence[Asked]) -> dict[str, PathSelection]:
        """Everything that was found for each question that something is known of, by its id."""
        known = [self._around[q.question_id] for q in questions if q.question_id in self._around]
        found = relevant_paths_batch(self._graph, self._vocabulary, known, self._settings, self._device)
        return {selection.question_id: selection for selection in found}

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        # Whole subgraphs may be as large as the graph: of these one is held at a time.
        together, made = 1 if self._settings.whole else max(len(questions), 1), list[list[Pick]]()
        for start in range(0, len(questions), together):
            group = questions[start : start + together]
            selections = self.find(group)
            for question in group:
                found = selections.get(question.question_id)
                made.append(self._picks(found) if found else [])
                if found and self._settings.whole:
                    self.notes["nodes_cut"] += len(found.subgraph.dropped)
                if progress:
                    progress(len(made), len(questions))
        return made

    def _picks(self, found: PathSelection) -> list[Pick]:
        relevance: dict[int, float] = {}
        if found.scores is not None:
            scored = zip(found.subgraph.nodes.tolist(), found.scores.scores.tolist(), strict=True)
            relevance = {node: round(score, DIGITS) for node, score in scored}
        return [self._pick(p, found, relevance) for passages in found.passages.values() for p in passages]

    def _pick(self, passage: PathPassage, found: PathSelection, relevance: Mapping[int, float]) -> Pick:
        named = self._around[found.question_id].named
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
