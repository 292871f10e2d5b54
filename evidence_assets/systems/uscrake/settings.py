"""Parameters of the variants of USCRaKE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import TokenWeighting
from evidence_assets.systems.uscrake.token_views import LayerVectors, WordMeans
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
    ``coarse``: Pool of the ``dense`` index, or ``hybrid``: its union with the pool of BM25.
    ``pool``: Each option ranks its ``own`` pool, as published, or the ``union`` of the pools of its question.
    ``parts``: Evidence from ``chunks``, from the ``graph``, or ``both``.
    ``grain``: Granularity of text evidence: sentences (at most 2k per option) or whole chunks.
    ``titles``: Prepend the tokens of the title to each chunk; the published ranking has no titles.
    ``links``: Weight of ``fusion``'s boost for chunks whose title a better chunk mentions (``TitleLinks``); 0 disables
        it.
    ``transported``: Chunks with the best late interaction that ``fusion`` scores by exact transport; it drops the rest.
    ``judge``: Weight of the judge's score in the joint ranking of text and triples: 1 is the judge alone, as published;
        0 keeps the text's own score. Without a graph there is no judge.
    ``triples_judged``: Triples that the judge scores, per kept triple; a cheap word-overlap score selects them. 0: all,
        as published, up to ``MAX_TRIPLES``.
    ``linking``: Concepts link to nodes by ``spelling``, as published, or, if that fails, by ``meaning`` (embeddings).
    ``tokens``: Tokens are the encoder's ``pieces``, or ``words`` as the means of their pieces.
    ``weights``: Token masses: BM25 within the ``text``; BM25 summed over the ``corpus`` (the other reading of equation
        7.9); or ``idf``. A ground cost that defines its own masses overrides ``text``.
    """

    cost: str = "fusion"
    R: int = 40
    k: int = 5
    s: int = 5
    coarse: Literal["dense", "hybrid"] = "dense"
    pool: Literal["own", "union"] = "own"
    parts: Literal["both", "chunks", "graph"] = "both"
    grain: Literal["sentence", "chunk"] = "sentence"
    titles: bool = True
    links: float = 2.0
    transported: int = 100
    judge: float = 0.0
    triples_judged: int = 10
    linking: Literal["spelling", "meaning"] = "meaning"
    tokens: Literal["pieces", "words"] = "pieces"
    weights: TokenWeighting = "text"

    def __post_init__(self) -> None:
        ground = self.ground
        for name in ("R", "k", "transported"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("s", "links", "triples_judged"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must not be negative")
        if not 0 <= self.judge <= 1:
            raise ValueError(f"judge is {self.judge}: it must be between 0 and 1")
        if ground and ground.layers and self.tokens != "pieces":
            raise ValueError(f"{self.cost} uses the layers of pieces: set tokens: pieces")
        if ground and ground.weighting and self.weights not in ("text", ground.weighting):
            raise ValueError(f"{self.cost} defines its own weights, {ground.weighting}: remove weights")
        if self.cost == "embedding" and self.grain != "chunk":
            raise ValueError("embedding ranks whole chunks: set grain: chunk")

    @property
    def ground(self) -> GroundCost | None:
        """The ground cost; None if ``cost`` is a ranking."""
        return None if self.cost in RANKINGS else get_ground_cost(self.cost)

    @property
    def weighting(self) -> TokenWeighting:
        """How tokens are weighted: by the ground cost, if it defines that, else by ``weights``."""
        return (self.ground.weighting if self.ground else None) or self.weights

    @property
    def max_triples(self) -> int:
        """Maximum triples of an option that the judge scores; the asset's metadata count the others."""
        return self.triples_judged * self.s or MAX_TRIPLES

    def view(self, encoder: Encoder) -> Encoder:
        """The encoder of the ranked tokens: pieces of the last layer, words, or several layers."""
        if self.ground and self.ground.layers:
            return LayerVectors(encoder, self.ground)
        return WordMeans(encoder) if self.tokens == "words" else encoder

    def contains_evidence_of(self, other: UscrakeSettings) -> bool:
        """Whether evidence with these settings contains that of ``other``, for every question.

        That is so if only k and s differ and are no smaller here, and if no score and no cap depends on them: whole
        chunks are ranked, the judge alone orders them with the triples, and it scores all triples.
        """
        is_independent = self.parts == "chunks" or (self.triples_judged == 0 and self.judge == 1)
        is_equal = replace(self, k=other.k, s=other.s) == other
        return self.grain == "chunk" and is_independent and is_equal and self.k >= other.k and self.s >= other.s
