"""Step 1 of USCRaKE: the coarse pool of chunks of each hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.systems.uscrake.hypotheses import Hypothesis
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.settings import UscrakeSettings


@dataclass(frozen=True, eq=False)
class Pool:
    """Coarse pool of a hypothesis.

    ``chunks``: Ascending positions in the corpus.
    ``cosines``: Cosine of each chunk with the hypothesis; minus infinity if the index did not return it.
    """

    chunks: IntArray
    cosines: Array


def find_pools(
    hypotheses: Sequence[Hypothesis], passages: Passages, encoder: Encoder, settings: UscrakeSettings
) -> list[Pool]:
    """The R chunks nearest to each hypothesis, with those of BM25 and of the question's other options on request.

    ``encoder``: Encoder of the corpus's index.
    """
    if not len(passages.corpus) or not hypotheses:
        return [Pool(np.zeros(0, np.int64), np.zeros(0)) for _ in hypotheses]
    vectors = encoder.encode_sentences([hypothesis.query.text for hypothesis in hypotheses])
    cosines, positions = passages.corpus.index.search(vectors, settings.R)
    pools = [sorted_unique(row[row >= 0]) for row in positions]
    if settings.coarse == "hybrid":
        words = [hypothesis.pieces.tokens.tokens for hypothesis in hypotheses]
        pools = [
            np.union1d(p, passages.store.pieces.top_k(w, settings.R)[0]) for p, w in zip(pools, words, strict=True)
        ]
    if settings.pool == "union":
        pools = _unite_by_question(hypotheses, pools)
    return [
        Pool(chunks, _cosines_of(chunks, *results)) for chunks, *results in zip(pools, cosines, positions, strict=True)
    ]


def _unite_by_question(hypotheses: Sequence[Hypothesis], pools: Sequence[IntArray]) -> list[IntArray]:
    united: list[IntArray] = []
    for _, group in groupby(zip(hypotheses, pools, strict=True), lambda pair: pair[0].question.question_id):
        pools_of_question = [pool for _, pool in group]
        united += [sorted_unique(np.concatenate(pools_of_question))] * len(pools_of_question)
    return united


def _cosines_of(chunks: IntArray, cosines: Array, positions: IntArray) -> Array:
    """The cosine of each ascending chunk in a row of search results."""
    cosines_of_chunks = np.full(len(chunks), -np.inf)
    is_result = positions >= 0
    cosines_of_chunks[np.searchsorted(chunks, positions[is_result])] = cosines[is_result]
    return cosines_of_chunks
