"""Settings of 4StepFocus and of the searches that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evidence_assets.systems.four_step_focus.grading import Scale


@dataclass(frozen=True)
class FocusSettings:
    """How the nodes of a knowledge base are ranked.

    Published are 20 nodes reranked, one vector a node, edge types ignored, no node taken out; the other settings are
    ours. Triplets are read by the profile's language model; a profile without one reads them by the forms in which
    the base's questions are written, and the column ``reasoner`` then says ``form_parser``.

    ``triplets``: How triplets narrow the nodes (see ``graphs.substitution``); none where empty, which is the baselines.
    ``edge_types``, ``direction``: Whether an edge must be of its triplet's type, and run from the triplet's head to its
        tail.
    ``exclude_mentioned``: Takes a node that the question itself names (by a constant that only it matches) from the
        candidates: "a medicine for what aspirin helps with" does not ask for aspirin.
    ``fallback``: Ranks a question that could not be read as triplets by vector search alone, and says so; without it
        such a question has failed.
    ``search``: One vector a node, or its best passage.
    ``rerank``: Whether the profile's language model, or its reranker where it has none, grades the best ``k_max``
        nodes.
    ``grades``: What a language model grades by: ``tenths`` from 0.0 to 1.0, or any ``number`` between, as published.
    ``evidence_nodes``, ``edges_per_triplet``: Answers that get evidence rows, and most edges of each triplet among
        them.
    ``card_relations``: Relations of a node that are shown to the grader.
    """

    triplets: Literal["", "corrected", "printed"] = ""
    edge_types: bool = True
    direction: bool = True
    exclude_mentioned: bool = True
    fallback: bool = False
    search: Literal["vector", "multi_vector"] = "multi_vector"
    rerank: bool = False
    grades: Scale = "tenths"
    k_max: int = 20
    evidence_nodes: int = 5
    edges_per_triplet: int = 3
    card_relations: int = 20
