"""Unit rows and softmax of numpy arrays."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

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
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}: give a number above 0")
    z = np.asarray(logits, dtype=np.float64) / temperature
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return np.asarray(z / z.sum(axis=-1, keepdims=True))
