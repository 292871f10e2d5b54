"""Parameters of the variants of USCRaKE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from evidence_assets.retrieval.bm25 import TokenWeighting
from evidence_assets.transport import GroundCost, get_ground_cost

RANKINGS = ("embedding", "fusion", "maxsim")
"""Rankings that are not ground costs.

``embedding`` is the cosine of pooled vectors, ``maxsim`` late interaction, ``fusion`` its mean with transport.
"""
MAX_TRIPLES = 100_000
"""Maximum triples of an option that the judge scores if ``triples_judged`` is 0; it limits memory."""


@dataclass(frozen=True)
class UscrakeSettings:
    """Parameters of a variant.

    ``cost``: A ground cost of transport (``transport.costs``; ``jsd`` is published), or one of ``RANKINGS``.
    ``R``, ``k``, ``s``: Chunks of the coarse pool, kept chunks and kept triples, per question and option.
    ``parts``: Evidence from ``chunks``, from the ``graph``, or ``both``.
    ``grain``: Granularity of text evidence: sentences (at most 2k per option) or whole chunks.
    ``titles``: Prepend the tokens of the title to each chunk; the published ranking has no titles.
    ``links``: Weight of ``fusion``'s boost for chunks whose title a better chunk mentions (``boost_linked_texts``);
        0 disables it.
    ``judge``: Weight of the judge's score in the joint ranking of text and triples: 1 is the judge alone, as published;
        0 keeps the text's own score. Without a graph there is no judge.
    ``triples_judged``: Triples that the judge scores, per kept triple; a cheap word-overlap score selects them. 0: all,
        as published, up to ``MAX_TRIPLES``.
    ``linking``: Concepts link to nodes by ``spelling``, as published, or, if that fails, by ``meaning`` (embeddings).
    ``weights``: Token masses: BM25 within the ``text``; BM25 summed over the ``corpus`` (the other reading of equation
        7.9); or ``idf``. A ground cost that defines its own masses overrides ``text``.
    """

    cost: str = "fusion"
    R: PositiveInt = 40
    k: PositiveInt = 5
    s: NonNegativeInt = 5
    parts: Literal["both", "chunks", "graph"] = "both"
    grain: Literal["sentence", "chunk"] = "sentence"
    titles: bool = True
    links: NonNegativeFloat = 2.0
    judge: Annotated[float, Field(ge=0, le=1)] = 0.0
    triples_judged: NonNegativeInt = 10
    linking: Literal["spelling", "meaning"] = "meaning"
    weights: TokenWeighting = "text"

    def __post_init__(self) -> None:
        if self.ground and self.ground.weighting and self.weights not in ("text", self.ground.weighting):
            raise ValueError(f"{self.cost} defines its own weights, {self.ground.weighting}: remove weights")
        if self.cost == "embedding" and self.grain != "chunk":
            raise ValueError("embedding ranks whole chunks: set grain: chunk")

    @cached_property
    def ground(self) -> GroundCost | None:
        """The ground cost; None if ``cost`` is a ranking."""
        return None if self.cost in RANKINGS else get_ground_cost(self.cost)

    @property
    def weighting(self) -> TokenWeighting:
        """How tokens are weighted: by the ground cost, if it defines that, else by ``weights``."""
        return (self.ground.weighting if self.ground else None) or self.weights

    @property
    def ranking(self) -> str:
        """Name of the ranking of a pool."""
        return self.cost if self.weights == "text" else f"{self.cost} with {self.weights} weights"

    @property
    def pools(self) -> UscrakeSettings | None:
        """What decides its pools and their tokens: equal for variants that rank the same pools by other costs.

        None if more than whole chunks is ranked, by other vectors than those of the token store.
        """
        has_own_vectors = self.cost == "embedding" or bool(self.ground and self.ground.layers)
        if self.parts != "chunks" or self.grain != "chunk" or has_own_vectors:
            return None
        return replace(self, cost="jsd", weights="text", k=1)

    @property
    def max_triples(self) -> int:
        """Maximum triples of an option that the judge scores; the asset's metadata count the others."""
        return self.triples_judged * self.s or MAX_TRIPLES


@dataclass(frozen=True)
class MeanFirstSettings(UscrakeSettings):
    """Parameters of a variant that narrows its pools by the mean points of chunks.

    ``exact_share``: Share of a pool, at least k chunks, that is encoded and ranked exactly; 1 ranks the whole pool.
    """

    exact_share: Annotated[float, Field(gt=0, le=1)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.ground and self.ground.is_convex):
            raise ValueError(f"{self.cost} has no lower bound by mean points: choose a convex cost such as jsd")
