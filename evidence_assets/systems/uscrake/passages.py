"""The chunks that USCRaKE ranks, with their tokens and those of their titles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import IntArray, TermIndex, TokenWeighting
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.token_cache import CachedTexts, TextTokens, TokenCache
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts
from evidence_assets.transport import TokenPool


@dataclass(frozen=True, eq=False)
class Passages:
    """The chunks of a corpus by their positions, with what it says of their tokens."""

    corpus: IndexedCorpus
    store: TokenStore

    def with_encoder(
        self, encoder: Encoder, *, words: bool = False, weighting: TokenWeighting = "text", titles: bool = False
    ) -> EncodedPassages:
        """The chunks as they are ranked.

        ``view``, ``words``: The encoder of their tokens, and whether these are whole words.
        ``reading``: How tokens are weighed.
        ``titles``: Whether the tokens of its title stand before those of a chunk.
        """
        terms = self.store.forms if words else self.store.pieces
        return EncodedPassages(self.corpus, self.store.tokens(encoder), terms, weighting, encoder.dimensions, titles)


@dataclass(frozen=True, eq=False)
class EncodedPassages:
    """Chunks as one variant ranks them: the tokens of an encoder, or of another view of it, weighed in one way."""

    corpus: IndexedCorpus
    _cache: TokenCache
    terms: TermIndex
    weighting: TokenWeighting
    dimensions: int
    titles: bool

    def token_weights(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Weights of the tokens of a text that is compared with the chunks: as those are weighed."""
        return self.terms.token_weights(tokens, self.weighting)

    def _kept(self, positions: IntArray) -> CachedTexts:
        return self._cache.get(self.corpus.text_keys(positions), lambda asked: self.corpus.texts(positions[asked]))

    def texts(self, positions: IntArray) -> TokenTexts:
        """Some of the chunks, each behind its title where titles are ranked; what is not kept yet is encoded."""
        kept = self._kept(positions)
        if not self.titles:
            return TokenTexts.from_cached(kept, self.terms, self.weighting, self.dimensions)
        named = self.corpus.titles(positions)
        distinct = sorted(set(named) - {""})
        of_titles = self._cache.get(hash_texts(distinct), lambda asked: [distinct[i] for i in asked.tolist()])
        number = {title: len(kept) + i for i, title in enumerate(distinct)}
        members = [m for i, t in enumerate(named) for m in ((number[t], i) if t else (i,))]
        bounds = np.concatenate([[0], np.cumsum([2 if title else 1 for title in named])])
        joined = kept.concatenate(of_titles)
        return TokenTexts(
            joined, self.terms, self.weighting, self.dimensions, np.array(members, dtype=np.int64), bounds
        )

    def chunks(self, positions: IntArray) -> tuple[TokenPool, list[TextTokens]]:
        """The tokens of a few chunks, titles left out, in memory; and their places in each chunk."""
        kept = self._kept(positions)
        texts = TokenTexts.from_cached(kept, self.terms, self.weighting, self.dimensions)
        return texts.select(range(len(kept))), [kept.tokens(i) for i in range(len(kept))]
