"""Other ways to take the tokens of a text from the same encoder: its words as means of pieces, several layers at once.

Belongs here: encoders that hand on another encoder's tokens in another form. A token store keeps the pieces of the
last layer, so texts seen in another way are encoded when they are ranked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import Encoder, FloatArray, LayeredEncoder, TokenVectors
from evidence_assets.transport.measures import power_means, word_form, word_means, word_spans

LAYERS = 5
"""Hidden layers that MoverScore takes the power means of."""
POWER_MEANS = 3
"""Mean, greatest and least of them, side by side."""


class _View:
    """What both views have in common; pooled vectors are the encoder's own."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        if not isinstance(encoder, LayeredEncoder):
            raise BadInput(
                f"{encoder.model_id} gives neither its words nor more than its last layer: "
                "choose another token_encoder, or leave tokens: words and cost: moverscore out"
            )
        self._encoder, self._layered = encoder, encoder
        self.model_id, self.revision = f"{encoder.model_id}+{name}", encoder.revision
        self.dimensions, self.max_tokens = encoder.dimensions, encoder.max_tokens

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        """The encoder's own pooled vectors."""
        return self._encoder.sentences(texts)


class WordMeans(_View):
    """Each word is one token: the mean of its pieces, under the form that word statistics count it by."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "words")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words of each text."""
        return self._layered.count_words(texts)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Words with the characters from their first piece to their last."""
        return [_words(text, tokens) for text, tokens in zip(texts, self._encoder.tokens(texts), strict=True)]


def _words(text: str, tokens: TokenVectors) -> TokenVectors:
    edges = word_spans(np.diff(tokens.words, prepend=-1) != 0)
    starts, ends = tokens.offsets[edges[:-1], 0], tokens.offsets[edges[1:] - 1, 1]
    forms = tuple(word_form(text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True))
    return TokenVectors(
        word_means(tokens.vectors, edges).astype(np.float32),
        np.stack([starts, ends], axis=1),
        np.arange(len(forms), dtype=np.int32),
        forms,
    )


class PowerMeans(_View):
    """The points of MoverScore: for each piece the power means of the last five layers, of length one."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder, "power-means")
        self.dimensions = POWER_MEANS * encoder.dimensions

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Pieces of each text."""
        return self._encoder.count_tokens(texts)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Pieces with 3d numbers each."""
        made = []
        for tokens in self._layered.token_layers(texts, LAYERS):
            n = len(tokens.tokens)
            points = power_means(tokens.vectors.reshape(n, LAYERS, -1)) if n else np.zeros((0, self.dimensions))
            norms = np.linalg.norm(points, axis=1, keepdims=True)
            unit = (points / np.where(norms > 0, norms, 1.0)).astype(np.float32)
            made.append(TokenVectors(unit, tokens.offsets, tokens.words, tokens.tokens))
        return made
