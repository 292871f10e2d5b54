"""A token encoder whose vectors depend on the words only, so that tests can recompute rankings."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import TokenVectors

LONGEST_PIECE = 6


class PieceEncoder:
    """Splits words into pieces of six letters; the hash of a piece is the seed of its vector."""

    model_id, revision, dimensions, max_tokens = "pieces", "1", 16, 512

    def __init__(self) -> None:
        self.encoded_texts: list[str] = []

    def vector(self, piece: str) -> npt.NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(piece.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).normal(size=self.dimensions).astype(np.float32)

    def _split(self, text: str) -> list[tuple[str, int, int]]:
        pieces = []
        for match in re.finditer(r"\w+|[^\w\s]", text):
            for start in range(match.start(), match.end(), LONGEST_PIECE):
                end = min(start + LONGEST_PIECE, match.end())
                mark = "" if start == match.start() else "##"
                pieces.append((mark + text[start:end].lower(), start, end))
        return pieces

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(self._split(text)) for text in texts]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        return [tuple(piece for piece, *_ in self._split(text)) for text in texts]

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self.token_layers(texts, 1)

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """A layer before the last is drawn with its distance from it in the seed."""
        self.encoded_texts += texts
        encoded = []
        names = [*(f"{back}:" for back in range(layers - 1, 0, -1)), ""]
        for text in texts:
            pieces = self._split(text)
            rows = [np.concatenate([self.vector(name + piece) for name in names]) for piece, *_ in pieces]
            vectors = np.stack(rows) if pieces else np.zeros((0, layers * self.dimensions))
            encoded.append(
                TokenVectors(
                    vectors.astype(np.float32),
                    np.array([(a, b) for _, a, b in pieces], dtype=np.int32).reshape(-1, 2),
                    tuple(piece for piece, *_ in pieces),
                )
            )
        return encoded

    def encode_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        means = np.stack(
            [t.vectors.mean(axis=0) if len(t.tokens) else np.ones(self.dimensions) for t in self.encode_tokens(texts)]
        )
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)
