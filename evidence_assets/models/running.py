"""How models of this process are run: on which device, and on which texts together.

Texts run in batches of exactly equal token count, unpadded, because padding moves the other rows of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Length = TypeVar("Length", int, tuple[int, int])


def device_of(name: str) -> str:
    """The device by name; ``auto`` is CUDA where there is one."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def equal_length_batches(lengths: Sequence[Length], size: Callable[[Length], int]) -> Iterator[list[int]]:
    """Positions of equal length, longest first, at most ``size(length)`` of them together.

    >>> list(equal_length_batches([2, 3, 2, 2], lambda length: 2))
    [[1], [0, 2], [3]]
    """
    rows: dict[Length, list[int]] = {}
    for row, length in enumerate(lengths):
        rows.setdefault(length, []).append(row)
    for length in sorted(rows, reverse=True):
        most = size(length)
        for start in range(0, len(rows[length]), most):
            yield rows[length][start : start + most]
