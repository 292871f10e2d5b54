"""Other ways to take the tokens of a text from the same encoder: its words as means of pieces, several layers at once.

A token store keeps the pieces of the last layer, so texts seen in another way are encoded when they are ranked.
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
    """What both views have in common; pooled vectors are the encoder's own."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        if not isinstance(encoder, LayeredEncoder):
            raise BadInput(
                f"{encoder.model_id} gives neither its words nor more than its last layer: "
                "choose another token_encoder, or leave out tokens: words and costs that are made of layers"
            )
        self._encoder, self._layered = encoder, encoder
        self.model_id, self.revision = f"{encoder.model_id}+{name}", encoder.revision
        self.dimensions, self.max_tokens = encoder.dimensions, encoder.max_tokens

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """The encoder's own pooled vectors."""
        return self._encoder.encode_sentences(texts)


class WordMeans(_TokenView):
    """Each word is one token: the mean of its pieces, under the form that word statistics count it by."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "words")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._layered.count_words(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Words with the characters from their first piece to their last."""
        return [
            _word_means(text, tokens) for text, tokens in zip(texts, self._encoder.encode_tokens(texts), strict=True)
        ]


def _word_means(text: str, tokens: TokenVectors) -> TokenVectors:
    starts = np.flatnonzero(np.diff(tokens.words, prepend=-1))
    ends = np.append(starts[1:], len(tokens.words))[: len(starts)]
    spans = np.stack([tokens.offsets[starts, 0], tokens.offsets[ends - 1, 1]], axis=1)
    vectors = tokens.vectors.astype(np.float64)
    means = np.add.reduceat(vectors, starts, axis=0) / (ends - starts)[:, None] if len(starts) else vectors
    forms = tuple(word_form(text[a:b]) for a, b in spans.tolist())
    return TokenVectors(means.astype(np.float32), spans, np.arange(len(forms), dtype=np.int32), forms)


def word_form(word: str) -> str:
    """The form under which a word of an encoder is counted: its longest run of letters and digits, else its first mark.

    Encoders that cut at spaces alone leave punctuation at a word.

    >>> word_form("Sweet."), word_form("...")
    ('sweet', '.')
    """
    return max(word_forms(word), key=len, default="")


class LayerVectors(_TokenView):
    """Vectors that a ground cost makes of several layers of each piece."""

    def __init__(self, encoder: Encoder, cost: GroundCost) -> None:
        super().__init__(encoder, cost.name)
        self._cost = cost
        self.dimensions = cost.vectors(np.zeros((1, cost.layers, encoder.dimensions))).shape[1]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._encoder.count_tokens(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Pieces with the numbers that the cost compares."""
        return [
            replace(tokens, vectors=self._vectors(tokens))
            for tokens in self._layered.token_layers(texts, self._cost.layers)
        ]

    def _vectors(self, tokens: TokenVectors) -> FloatArray:
        if not len(tokens.tokens):
            return np.zeros((0, self.dimensions), np.float32)
        layers = tokens.vectors.astype(np.float64).reshape(len(tokens.tokens), self._cost.layers, -1)
        return self._cost.vectors(layers).astype(np.float32)
