"""Step 4 of USCRaKE: judges that score text and triples on one scale, and their joint ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.maxsim import maxsim_scores
from evidence_assets.systems.uscrake.passages import Query
from evidence_assets.transport import TokenPool

T = TypeVar("T")
TextVectors = npt.NDArray[np.float16] | npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class JudgedText:
    """A text that a judge scores; ``vectors`` are its token vectors if they are known."""

    text: str
    vectors: TextVectors | None = None


class LateInteraction:
    """Mean over the query's words of the best cosine with a token of the evidence.

    Text uses the token vectors of its chunk; a triple's sentence is encoded, once per call for each distinct sentence.
    Query tokens without a letter or digit have weight 0.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.version = content_id("late_interaction", encoder.model_id, encoder.revision)

    def score(self, requests: Sequence[tuple[Query, Sequence[JudgedText]]]) -> list[Array]:
        texts = list(dict.fromkeys(item.text for _, items in requests for item in items if item.vectors is None))
        encoded = dict(zip(texts, self._encoder.encode_tokens(texts) if texts else [], strict=True))
        return [
            self._score_vectors(query, [encoded[i.text].vectors if i.vectors is None else i.vectors for i in items])
            for query, items in requests
        ]

    def _score_vectors(self, query: Query, vectors: Sequence[TextVectors]) -> Array:
        """Scores of texts by their token vectors."""
        if not vectors or not len(query):
            return np.zeros(len(vectors))
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
