"""Settings of UGAT-MedQA: how nodes are scored, how far is looked around a question, how many paths are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evidence_assets.graphs.attention.scorer import CONTRASTIVE, WALK, AttentionSettings

MEASURED = {"contrastive": CONTRASTIVE, "walk": WALK}
"""Scorers with settings of their own, chosen by measurement."""
CANDIDATES = 3


@dataclass(frozen=True)
class UgatSettings:
    """Parameters of the stages; `experiment.evidence.question_concepts.Expansion` says how wide stored subgraphs are.

    ``scorer``: How nodes are scored; `gat` is the published one. `none` keeps every node of the subgraph and ranks by
        the cosine to the question (the published ablation).
    ``D``: Depth: most steps from the concepts; 3 is the published best.
    ``whole``: Whether a subgraph is all that lies within D steps, as printed, without the caps of the stored ones:
        the best by name of ``most_nodes`` in all, the nearer first. That number bounds the memory; see `train_batch`.
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
        return MEASURED.get(self.scorer) or AttentionSettings(self.scorer, self.layers, self.heads, self.steps)
