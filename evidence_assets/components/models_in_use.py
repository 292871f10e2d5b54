"""The models that a profile names, loaded once a process and shared by every asset in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.protocols import Encoder, FloatArray, Reranker, TokenVectors
from evidence_assets.models.rerankers import MAXSIM, load_reranker
from evidence_assets.profiles import ModelSettings

REMEMBERED = 50_000
"""Sentence vectors kept in memory: the variants of a system read the same sentences again and again."""


class RememberingEncoder:
    """An encoder that keeps the vectors of the texts it met last; possible because no vector depends on its batch."""

    def __init__(self, inner: Encoder) -> None:
        self._inner = inner
        self._known: dict[str, FloatArray] = {}
        self.model_id, self.revision = inner.model_id, inner.revision
        self.dimensions, self.max_tokens = inner.dimensions, inner.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._inner.count_tokens(texts)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self._inner.tokens(texts)

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        found = dict(zip(new, self._inner.sentences(new), strict=True)) if new else {}
        made = np.zeros((len(texts), self.dimensions), np.float32)
        for i, text in enumerate(texts):
            made[i] = found[text] if text in found else self._known[text]
        for text, vector in found.items():
            self._known[text] = vector
        for text in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[text]
        return made


@lru_cache
def encoder(settings: ModelSettings) -> Encoder:
    """The encoder that these settings name."""
    loaded = load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)
    return RememberingEncoder(loaded)


def model_key(model: Encoder) -> str:
    """Name and revision, as tables keep them."""
    return f"{model.model_id}@{model.revision}"


@lru_cache
def reranker(settings: ModelSettings, tokens: ModelSettings) -> Reranker:
    """The reranker that these settings name; ``tokens`` is the encoder whose token vectors ``maxsim`` compares."""
    own = encoder(tokens) if settings.name == MAXSIM else None
    return load_reranker(settings.name, encoder=own, revision=settings.revision, device=settings.device)
