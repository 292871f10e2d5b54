"""The chunks that USCRaKE ranks, with the tokens of their texts and titles, and the coarse pool of each hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TokenWeighting
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.token_cache import CachedTexts, TextTokens, TokenCache
from evidence_assets.retrieval.token_store import CorpusWeights, TokenStore, TokenTexts
from evidence_assets.systems.uscrake.hypotheses import Hypothesis
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport import TokenPool


@dataclass(frozen=True, eq=False)
class Passages:
    """The chunks of a corpus with its token store."""

    corpus: IndexedCorpus
    store: TokenStore

    def with_encoder(
        self, encoder: Encoder, *, words: bool = False, weighting: TokenWeighting = "text", titles: bool = False
    ) -> EncodedPassages:
        """The chunks with the tokens and weights of one variant.

        ``encoder``, ``words``: The encoder of the tokens, and whether these are whole words.
        ``titles``: Whether the tokens of the title precede those of the chunk.
        """
        terms = self.store.forms if words else self.store.pieces
        return EncodedPassages(self.corpus, self.store.tokens(encoder), terms, weighting, encoder.dimensions, titles)


@dataclass(frozen=True, eq=False)
class EncodedPassages:
    """Chunks of a corpus as one variant ranks them: by the tokens of one encoder, with one weighting."""

    corpus: IndexedCorpus
    _cache: TokenCache
    terms: TermIndex
    weighting: TokenWeighting
    dimensions: int
    titles: bool
    _corpus_weights: CorpusWeights = field(default_factory=dict)

    def token_weights(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Weights of a query's tokens, by the weighting of the chunks."""
        return self.terms.token_weights(tokens, self.weighting)

    def _cached(self, positions: IntArray) -> CachedTexts:
        return self._cache.get(self.corpus.text_keys(positions), lambda rows: self.corpus.texts(positions[rows]))

    def texts(self, positions: IntArray) -> TokenTexts:
        """Chunks at some positions, with their titles if ``titles``; encodes texts that are not cached."""
        cached = self._cached(positions)
        if not self.titles:
            return self._without_titles(cached)
        titles = self.corpus.titles(positions)
        distinct = sorted(set(titles) - {""})
        cached_titles = self._cache.get(hash_texts(distinct), lambda rows: [distinct[i] for i in rows.tolist()])
        number_of_title = {title: len(cached) + i for i, title in enumerate(distinct)}
        members = np.array(
            [m for i, t in enumerate(titles) for m in ((number_of_title[t], i) if t else (i,))], np.int64
        )
        bounds = np.concatenate([[0], np.cumsum([2 if title else 1 for title in titles])])
        texts, statistics = cached.concatenate(cached_titles), (self.terms, self.weighting, self.dimensions)
        return TokenTexts(texts, *statistics, members, bounds, self._corpus_weights)

    def _without_titles(self, cached: CachedTexts) -> TokenTexts:
        return TokenTexts.from_cached(cached, self.terms, self.weighting, self.dimensions, self._corpus_weights)

    def chunks(self, positions: IntArray) -> tuple[TokenPool, list[TextTokens]]:
        """Tokens of a few chunks without titles, in memory, and their locations in each chunk."""
        cached = self._cached(positions)
        tokens = [cached.tokens(i) for i in range(len(cached))]
        return self._without_titles(cached).select(range(len(cached))), tokens


# Step 1: the coarse pool of each hypothesis -------------------------------------------------------------------------


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
