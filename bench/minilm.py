"""The embedded encoder for measurements that ask for the same texts again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import TokenVectors


class MiniLm:
    """The embedded encoder in float32; each distinct text is encoded once in the life of the object."""

    def __init__(self) -> None:
        self._encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        self.model_id, self.revision = self._encoder.model_id, self._encoder.revision
        self.dimensions, self.max_tokens = self._encoder.dimensions, self._encoder.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._encoder.count_tokens(texts)

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new_texts = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors.update(zip(new_texts, self._encoder.encode_sentences(new_texts), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def pool_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._encoder.pool_sentences(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self._encoder.encode_tokens(texts)
