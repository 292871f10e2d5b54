"""What USCRaKE ranks: hypotheses and the chunks of a corpus with their tokens, and step 1, the coarse pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from evidence_assets.benchmarks.chunk_store import ReportProgress
from evidence_assets.experiment.rows import batches
from evidence_assets.models.protocols import Encoder, FloatArray, LocalEncoder, TokenVectors
from evidence_assets.models.vectors import Array, cut_to_ends
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.bm25 import IntArray, TokenWeighting
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.token_cache import CachedText
from evidence_assets.retrieval.token_store import CorpusWeights, TokenStore, TokenTexts
from evidence_assets.transport import GroundCost
from evidence_assets.transport.pool import group_equal

GROUP_BYTES = 4 << 30
"""Size of the token vectors of chunks that are ranked together: the space in use on a card, and besides the cache."""
MAX_CHUNK_TOKENS = 512
"""Maximum tokens of a chunk."""
TEXTS_PER_COUNT = 4096
"""Chunks whose texts are in memory at a time while their tokens are counted."""
QUESTIONS_PER_BATCH = 256
POOL_ENTRIES_PER_BATCH = 1 << 16
"""Maximum questions, and chunks in their pools, that are processed as one batch; at least one question."""


@dataclass(frozen=True, eq=False)
class Query:
    """Question ⊕ option with its tokens."""

    text: str
    tokens: TokenVectors

    def __len__(self) -> int:
        return len(self.tokens.tokens)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A question with one of its options.

    ``query`` has the tokens that rank chunks, ``pieces`` those of the token store, which the judge compares.
    """

    question: Question
    label: str
    option: str
    query: Query
    pieces: Query


def batch_questions(questions: Sequence[Question], R: int) -> Iterator[Sequence[Question]]:
    """Questions in batches, by the number of chunks in their pools."""
    pool_entries = R * max((len(question.hypotheses) for question in questions), default=1)
    return batches(questions, max(1, min(QUESTIONS_PER_BATCH, POOL_ENTRIES_PER_BATCH // pool_entries)))


def encode_hypotheses(questions: Sequence[Question], view: Encoder, token_encoder: Encoder) -> list[Hypothesis]:
    """Every option of the questions, in order; each distinct text is encoded once by each encoder.

    ``view``: Encodes the tokens that rank chunks; often the same as ``token_encoder``.
    """
    pairs = [(q, label, option, q.query(option)) for q in questions for label, option in q.hypotheses]
    texts = list(dict.fromkeys(text for *_, text in pairs))
    pieces = _encode_queries(texts, token_encoder)
    ranked_tokens = pieces if view is token_encoder else _encode_queries(texts, view)
    return [Hypothesis(q, label, option, ranked_tokens[text], pieces[text]) for q, label, option, text in pairs]


def _encode_queries(texts: Sequence[str], encoder: Encoder) -> dict[str, Query]:
    ends = cut_to_ends(encoder, texts)
    encoded = encoder.encode_tokens(ends) if texts else []
    return {text: Query(end, tokens) for text, end, tokens in zip(texts, ends, encoded, strict=True)}


class LayerVectors:
    """An encoder whose token vectors are those that a ground cost computes from several layers.

    A token store has the last layer only, so these vectors are encoded during ranking.
    """

    def __init__(self, encoder: Encoder, cost: GroundCost) -> None:
        self._encoder = cast(LocalEncoder, encoder)
        self._cost = cost
        self.model_id = f"{encoder.model_id}+{cost.name}"
        self.revision = encoder.revision
        self.dimensions = cost.vectors(np.zeros((1, cost.layers, encoder.dimensions))).shape[1]
        self.max_tokens = encoder.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._encoder.count_tokens(texts)

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled vectors of the encoder."""
        return self._encoder.encode_sentences(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Pieces with the vectors of the ground cost."""
        return [replace(t, vectors=self._vectors(t)) for t in self._encoder.token_layers(texts, self._cost.layers)]

    def _vectors(self, tokens: TokenVectors) -> FloatArray:
        if not len(tokens.tokens):
            return np.zeros((0, self.dimensions), np.float32)
        layers = tokens.vectors.astype(np.float64).reshape(len(tokens.tokens), self._cost.layers, -1)
        return self._cost.vectors(layers).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Passages:
    """The chunks of a corpus with its token store.

    ``start_report``: Starts the progress report of a pass over all chunks, given how many were encoded before.
    """

    corpus: IndexedCorpus
    store: TokenStore
    start_report: Callable[[int], ReportProgress] = field(
        default=lambda before: lambda completed, total: None, kw_only=True
    )


@dataclass(frozen=True, eq=False)
class EncodedPassages(Passages):
    """Chunks of a corpus as one variant ranks them: by the tokens of one encoder, with one weighting.

    ``titles``: Whether the tokens of the title precede those of the chunk.
    """

    encoder: Encoder
    weighting: TokenWeighting = "text"
    titles: bool = False
    _corpus_weights: CorpusWeights = field(default_factory=CorpusWeights)

    def token_weights(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Weights of a query's tokens, by the weighting of the chunks."""
        return self.store.pieces.token_weights(tokens, self.weighting)

    def _cached(self, positions: IntArray) -> list[CachedText]:
        cache = self.store.tokens(self.encoder)
        return cache.get(self.corpus.text_keys(positions), lambda rows: self.corpus.texts(positions[rows]))

    @property
    def chunks_per_group(self) -> int:
        """Chunks of any length that are ranked together."""
        return self._tokens_per_group // min(self.encoder.max_tokens, MAX_CHUNK_TOKENS)

    @property
    def _tokens_per_group(self) -> int:
        return GROUP_BYTES // (np.dtype(np.float16).itemsize * self.encoder.dimensions)

    def groups(self, positions: IntArray) -> list[IntArray]:
        """Ascending positions in groups of at most about ``GROUP_BYTES``, each with chunks of about as many tokens.

        So the encoder, which encodes texts of equally many tokens at once, has as few calls as for all positions.
        """
        if len(positions) <= self.chunks_per_group:
            return [positions]
        n_tokens: list[int] = []
        for start in range(0, len(positions), TEXTS_PER_COUNT):
            n_tokens += self.encoder.count_tokens(self.corpus.texts(positions[start : start + TEXTS_PER_COUNT]))
        by_length = np.argsort(n_tokens, kind="stable")
        last_tokens = np.cumsum(np.array(n_tokens)[by_length])
        return [np.sort(positions[by_length[group]]) for group in group_equal(last_tokens // self._tokens_per_group)]

    def texts(self, positions: IntArray) -> TokenTexts:
        """Chunks at some positions, with their titles if ``titles``; encodes texts that are not cached."""
        chunks = self._cached(positions)
        titles = self.corpus.titles(positions) if self.titles else [""] * len(chunks)
        distinct = sorted(set(titles) - {""})
        cache = self.store.tokens(self.encoder)
        cached_titles = cache.get(hash_texts(distinct), lambda rows: [distinct[i] for i in rows.tolist()])
        of_title = dict(zip(distinct, cached_titles, strict=True))
        return self.weigh([[of_title[t], chunk] if t else [chunk] for t, chunk in zip(titles, chunks, strict=True)])

    def weigh(self, members: Sequence[Sequence[CachedText]]) -> TokenTexts:
        """Texts, each of which concatenates cached texts, with the weights of their tokens."""
        dimensions = self.encoder.dimensions
        return TokenTexts(members, self.store.pieces, self.weighting, dimensions, self._corpus_weights)


# Step 1: the coarse pool of each hypothesis -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pool:
    """Coarse pool of a hypothesis: ascending positions of chunks in the corpus, and their cosines with it."""

    chunks: IntArray
    cosines: Array

    def select(self, positions: IntArray | Sequence[int]) -> Pool:
        """The part with these places in the pool."""
        return Pool(self.chunks[positions], self.cosines[positions])


def find_pools(hypotheses: Sequence[Hypothesis], corpus: IndexedCorpus, encoder: Encoder, R: int) -> list[Pool]:
    """The R chunks nearest to each hypothesis.

    ``encoder``: Encoder of the corpus's index.
    """
    if not len(corpus) or not hypotheses:
        return [Pool(np.zeros(0, np.int64), np.zeros(0)) for _ in hypotheses]
    vectors = encoder.encode_sentences(cut_to_ends(encoder, [hypothesis.query.text for hypothesis in hypotheses]))
    pools = []
    for cosines, positions in zip(*corpus.index.search(vectors, R), strict=True):
        order = np.argsort(positions, kind="stable")
        order = order[positions[order] >= 0]
        pools.append(Pool(positions[order].astype(np.int64), cosines[order].astype(np.float64)))
    return pools
