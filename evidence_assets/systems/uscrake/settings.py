"""Settings of USCRaKE: how text is ranked, how much of it and of the graph is kept, and how both are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.uscrake.chunk_ranking import RANKINGS, check_cost
from evidence_assets.systems.uscrake.token_views import OfLayers, WordMeans
from evidence_assets.transport import GroundCost, ground_cost


@dataclass(frozen=True)
class Settings:
    """Parameters of a variant.

    ``cost``: A registered ground cost (``transport.costs``), of which ``jsd`` is the published one, or a ranking
        (``chunk_ranking.RANKINGS``).
    ``R``, ``k``, ``s``: Chunks of the coarse pool, chunks kept, triples kept, each for a question and option.
    ``coarse``: ``dense`` is the index alone, ``hybrid`` joins its pool with that of BM25.
    ``parts``: Evidence from ``chunks``, from the ``graph``, or ``both``.
    ``grain``: Whether sentences or whole chunks are evidence; an option gets at most 2k sentences.
    ``titles``: Whether the words of its title are ranked as words of each chunk; the published ranking knows no titles.
    ``links``: How much ``fusion`` raises a chunk whose title a better one names (``chunk_ranking.TitleLinks``); 0 for
        not at all.
    ``transported``: Chunks of the pool that ``fusion`` transports exactly, late interaction leading the way; the others
        are left out.
    ``judge``: What the judge of text and triples has to say in their joint order: 1 for the judge alone, as published,
        0 for text in its own order. Text that stands alone is never judged.
    ``triples_judged``: Triples that the judge reads for each that is kept; the others are dropped by the words they
        share.
    ``tokens``: Whether a word that the encoder cuts into ``pieces`` counts as these, or ``words`` as the means of
        theirs.
    ``weights``: Masses of tokens: BM25 within the own ``text``; summed over the ``corpus``, the other reading of
        equation 7.9; or ``idf`` alone, as some costs need.
    """

    cost: str = "fusion"
    R: int = 40
    k: int = 5
    s: int = 5
    coarse: Literal["dense", "hybrid"] = "dense"
    parts: Literal["both", "chunks", "graph"] = "both"
    grain: Literal["sentence", "chunk"] = "sentence"
    titles: bool = True
    links: float = 2.0
    transported: int = 100
    judge: float = 0.0
    triples_judged: int = 10
    tokens: Literal["pieces", "words"] = "pieces"
    weights: Literal["text", "corpus", "idf"] = "text"

    def __post_init__(self) -> None:
        check_cost(self.cost)
        for name in ("R", "k", "transported", "triples_judged"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: keep at least one")
        if self.s < 0 or self.links < 0:
            raise ValueError("s and links must not be negative")
        if not 0 <= self.judge <= 1:
            raise ValueError(f"judge is {self.judge}: give its share, from 0 to 1")
        ground = self.ground
        if ground and ground.layers and self.tokens != "pieces":
            raise ValueError(f"{self.cost} is made of the layers of pieces: say tokens: pieces")
        if ground and ground.weighting and self.weights != ground.weighting:
            raise ValueError(f"{self.cost} weights its tokens in one way alone: say weights: {ground.weighting}")

    @property
    def ground(self) -> GroundCost | None:
        """The ground cost, unless texts are ranked in another way."""
        return None if self.cost in RANKINGS else ground_cost(self.cost)

    def view(self, encoder: Encoder) -> Encoder:
        """The encoder of the tokens that are ranked: itself, unless they are not those that a token store keeps."""
        if self.ground and self.ground.layers:
            return OfLayers(encoder, self.ground)
        return WordMeans(encoder) if self.tokens == "words" else encoder
