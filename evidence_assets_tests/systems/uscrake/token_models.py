"""An encoder of tokens whose vectors follow from the words alone, so that rankings can be worked out again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import TokenVectors

LONGEST_PIECE = 6


class PieceEncoder:
    """Words are cut into pieces of six letters; a piece's vector is drawn with its hash as the seed."""

    model_id, revision, dimensions, max_tokens = "pieces", "1", 16, 512

    def __init__(self) -> None:
        self.asked: list[str] = []

    def vector(self, piece: str) -> npt.NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(piece.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).normal(size=self.dimensions).astype(np.float32)

    def _cut(self, text: str) -> list[tuple[str, int, int, int]]:
        found = []
        for number, match in enumerate(re.finditer(r"\w+|[^\w\s]", text)):
            for start in range(match.start(), match.end(), LONGEST_PIECE):
                end = min(start + LONGEST_PIECE, match.end())
                mark = "" if start == match.start() else "##"
                found.append((mark + text[start:end].lower(), start, end, number))
        return found

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(self._cut(text)) for text in texts]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [tuple(piece for piece, *_ in self._cut(text)) for text in texts]

    def count_words(self, texts: Sequence[str]) -> list[int]:
        return [len({number for *_, number in self._cut(text)}) for text in texts]

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self.token_layers(texts, 1)

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """A layer before the last is drawn with its distance from it in the seed."""
        self.asked += texts
        made = []
        names = [*(f"{back}:" for back in range(layers - 1, 0, -1)), ""]
        for text in texts:
            cut = self._cut(text)
            rows = [np.concatenate([self.vector(name + piece) for name in names]) for piece, *_ in cut]
            vectors = np.stack(rows) if cut else np.zeros((0, layers * self.dimensions))
            made.append(
                TokenVectors(
                    vectors.astype(np.float32),
                    np.array([(a, b) for _, a, b, _ in cut], dtype=np.int32).reshape(-1, 2),
                    np.array([number for *_, number in cut], dtype=np.int32),
                    tuple(piece for piece, *_ in cut),
                )
            )
        return made

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        means = np.stack(
            [t.vectors.mean(axis=0) if len(t.tokens) else np.ones(self.dimensions) for t in self.encode_tokens(texts)]
        )
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)
