"""Token views of an encoder: words as means of their pieces, and pieces with several layers.

A token store has the pieces of the last layer only, so other views are encoded during ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import Encoder, FloatArray, LayeredEncoder, TokenVectors
from evidence_assets.retrieval.token_store import word_forms
from evidence_assets.transport import GroundCost


class _TokenView:
    """Base of the views; pooled vectors are those of the encoder."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        if not isinstance(encoder, LayeredEncoder):
            raise BadInput(
                f"{encoder.model_id} provides neither words nor several layers: "
                "choose another token_encoder, or avoid tokens: words and costs of several layers"
            )
        self._encoder, self._layered = encoder, encoder
        self.model_id, self.revision = f"{encoder.model_id}+{name}", encoder.revision
        self.dimensions, self.max_tokens = encoder.dimensions, encoder.max_tokens

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled vectors of the encoder."""
        return self._encoder.encode_sentences(texts)


class WordMeans(_TokenView):
    """Each word is one token: the mean of its pieces, with the surface form of the word statistics."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "words")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._layered.count_words(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Words with their characters, from the first piece to the last."""
        return [_word_means(t, ts) for t, ts in zip(texts, self._encoder.encode_tokens(texts), strict=True)]


def _word_means(text: str, tokens: TokenVectors) -> TokenVectors:
    starts = np.flatnonzero(np.diff(tokens.words, prepend=-1))
    ends = np.append(starts[1:], len(tokens.words))[: len(starts)]
    spans = np.stack([tokens.offsets[starts, 0], tokens.offsets[ends - 1, 1]], axis=1)
    vectors = tokens.vectors.astype(np.float64)
    means = np.add.reduceat(vectors, starts, axis=0) / (ends - starts)[:, None] if len(starts) else vectors
    forms = tuple(word_form(text[a:b]) for a, b in spans.tolist())
    return TokenVectors(means.astype(np.float32), spans, np.arange(len(forms), dtype=np.int32), forms)


def word_form(word: str) -> str:
    """Surface form of an encoder's word: its longest run of letters and digits, else its first mark.

    Encoders that split at spaces keep punctuation in words.

    >>> word_form("Sweet."), word_form("...")
    ('sweet', '.')
    """
    return max(word_forms(word), key=len, default="")


class LayerVectors(_TokenView):
    """Pieces with the vectors that a ground cost computes from several layers."""

    def __init__(self, encoder: Encoder, cost: GroundCost) -> None:
        super().__init__(encoder, cost.name)
        self._cost = cost
        self.dimensions = cost.vectors(np.zeros((1, cost.layers, encoder.dimensions))).shape[1]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._encoder.count_tokens(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Pieces with the vectors of the ground cost."""
        return [replace(t, vectors=self._vectors(t)) for t in self._layered.token_layers(texts, self._cost.layers)]

    def _vectors(self, tokens: TokenVectors) -> FloatArray:
        if not len(tokens.tokens):
            return np.zeros((0, self.dimensions), np.float32)
        layers = tokens.vectors.astype(np.float64).reshape(len(tokens.tokens), self._cost.layers, -1)
        return self._cost.vectors(layers).astype(np.float32)
