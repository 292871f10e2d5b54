"""Step 4 of USCRaKE: judges that score text and triples on one scale, and their joint ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.rows import batches
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker, TokenVectors
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.maxsim import maxsim_scores
from evidence_assets.systems.uscrake.passages import Query
from evidence_assets.transport import TokenPool

TEXTS_PER_BLOCK = 8192
"""Sentences whose token vectors are in memory at a time: 150 MB. More than capped questions have in one call."""
T = TypeVar("T")
TextVectors = npt.NDArray[np.float16] | npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class JudgedText:
    """A text that a judge scores; ``vectors`` are its token vectors if they are known."""

    text: str
    vectors: TextVectors | None = None


class LateInteraction:
    """Mean over the query's words of the best cosine with a token of the evidence.

    Text uses the token vectors of its chunk; a triple's sentence is encoded, once per call for each distinct sentence,
    in blocks. Query tokens without a letter or digit have weight 0.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.version = content_id("late_interaction", encoder.model_id, encoder.revision)

    def score(self, requests: Sequence[tuple[Query, Sequence[JudgedText]]]) -> list[Array]:
        texts = list(dict.fromkeys(item.text for _, items in requests for item in items if item.vectors is None))
        block_of = {text: number // TEXTS_PER_BLOCK for number, text in enumerate(texts)}
        blocks = [
            np.array([-1 if item.vectors is not None else block_of[item.text] for item in items])
            for _, items in requests
        ]
        all_scores = [np.zeros(len(items)) for _, items in requests]
        for number, block in enumerate([(), *batches(texts, TEXTS_PER_BLOCK)], -1):
            encoded = dict(zip(block, self._encoder.encode_tokens(block) if block else [], strict=True))
            for (query, items), blocks_of_items, scores in zip(requests, blocks, all_scores, strict=True):
                rows = np.flatnonzero(blocks_of_items == number)
                scores[rows] = self._score_items(query, [items[row] for row in rows.tolist()], encoded)
        return all_scores

    def _score_items(self, query: Query, items: Sequence[JudgedText], encoded: Mapping[str, TokenVectors]) -> Array:
        """Scores of texts by their token vectors, which are ``encoded`` if the text has none."""
        if not items or not len(query):
            return np.zeros(len(items))
        vectors = [encoded[item.text].vectors if item.vectors is None else item.vectors for item in items]
        rows = [v if len(v) else np.zeros((1, self._encoder.dimensions), np.float32) for v in vectors]
        offsets = np.concatenate([[0], np.cumsum([len(v) for v in rows])])
        pool = TokenPool(np.concatenate(rows, dtype=np.float32), offsets, np.ones(offsets[-1]))
        weights = [float(any(c.isalnum() for c in query.text[a:b])) for a, b in query.tokens.offsets.tolist()]
        return maxsim_scores(query.tokens.vectors, pool, weights)


class PairJudge:
    """A cross-encoder that scores pairs of query and evidence."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.version = content_id("pair_judge", reranker.model_id, reranker.revision)

    def score(self, requests: Sequence[tuple[Query, Sequence[JudgedText]]]) -> list[Array]:
        pairs = [(query.text, item.text) for query, items in requests for item in items]
        scores = np.asarray(self._reranker.score(pairs), dtype=np.float64) if pairs else np.zeros(0)
        ends = np.cumsum([len(items) for _, items in requests])[:-1]
        return [np.asarray(part) for part in np.split(scores, ends)] if requests else []


Judge = LateInteraction | PairJudge
"""Scores text and triples against a query on one scale; larger is better."""


def blend_scores(own_scores: Array, judge_scores: Array, share: float) -> Array:
    """Weighted mean of the judge's scores and the own scores of the same texts.

    The own scores are scaled to the mean and standard deviation of the judge's. ``share`` is the weight of the judge.
    """
    deviation = float(own_scores.std()) if len(own_scores) else 0.0
    if not deviation > 0:
        return judge_scores
    scaled = judge_scores.mean() + judge_scores.std() * (own_scores - own_scores.mean()) / deviation
    return np.asarray(share * judge_scores + (1 - share) * scaled)


def best_first(items: Sequence[T], scores: Array) -> list[tuple[T, float]]:
    """Items with their scores by descending score; ties, after rounding, keep their order."""
    order = np.argsort(-scores.round(9), kind="stable").tolist()
    return [(items[i], float(scores[i])) for i in order]
