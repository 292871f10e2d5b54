"""Unit rows and softmax of numpy arrays, and unit vectors of texts of any length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.text.sentences import sentence_spans

Array = npt.NDArray[np.float64]
Float = TypeVar("Float", bound=np.floating[Any])


def unit_rows(vectors: npt.NDArray[Float]) -> npt.NDArray[Float]:
    """Vectors divided by their lengths along the last axis, in their own precision; zero vectors stay zero.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=vectors.dtype)


def softmax(logits: npt.ArrayLike, temperature: float = 1.0) -> Array:
    r"""Turn each row into a distribution over its dimensions: :math:`P_l = \exp(z_l / T) / \sum_m \exp(z_m / T)`.

    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    z = np.asarray(logits, dtype=np.float64) / temperature
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return np.asarray(z / z.sum(axis=-1, keepdims=True))


def encode_ends(encoder: Encoder, texts: Iterable[str]) -> dict[str, FloatArray]:
    """Unit vectors of distinct texts; of a text above the token limit, its end is encoded."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    return dict(zip(distinct, unit_rows(encoder.encode_sentences(cut_to_ends(encoder, distinct))), strict=True))


def cut_to_ends(encoder: Encoder, texts: Sequence[str]) -> list[str]:
    """The texts; of each above the encoder's token limit, its end."""
    counts = encoder.count_tokens(texts)
    return [t if n <= encoder.max_tokens else _end_of(encoder, t) for t, n in zip(texts, counts, strict=True)]


def _end_of(encoder: Encoder, text: str) -> str:
    """The last sentences within the token limit, else the last words: the question is at the end."""
    ends = [text[start:] for start, _ in sentence_spans(text)]
    words = text.split()
    ends += [" ".join(words[-count:]) for count in (200, 100, 50, 25, 12)] + [text[-100:]]
    counts = encoder.count_tokens(ends)
    return next((end for end, n in zip(ends, counts, strict=True) if n <= encoder.max_tokens), text[-20:])


def row_positions(offsets: npt.NDArray[np.integer[Any]], rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Concatenated positions of compressed rows: row i has the positions ``offsets[i]`` to ``offsets[i + 1] - 1``."""
    counts = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(counts)
    positions: npt.NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(offsets[rows] - (ends - counts), counts)
    return positions


def top_positions(scores: npt.NDArray[np.floating[Any]], k: int) -> list[int]:
    """Positions of the k largest finite scores, ties by position."""
    return [int(i) for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]
