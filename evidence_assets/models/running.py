"""How models of this process are run: on which device, on which texts together, and on how many threads.

Texts run in batches of exactly equal token count, unpadded, because padding moves the other rows of a batch. On a CPU
each batch runs on one thread: matrix products that several threads share are cut by the size of the batch, and sum in
another order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Length = TypeVar("Length", int, tuple[int, int])
Item = TypeVar("Item")
Result = TypeVar("Result")


def device_of(name: str) -> str:
    """The device by name; ``auto`` is CUDA where there is one."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def cards() -> int:
    """CUDA cards of this machine."""
    import torch

    return torch.cuda.device_count()


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


def each_on_one_thread(work: Callable[[Item], Result], items: Sequence[Item], device: str = "cpu") -> Iterator[Result]:
    """What ``work`` gives for each item, in order; as many at a time as torch may use threads, each on one of them.

    On another device than a CPU they run one by one, as they come.
    """
    import torch

    if not device.startswith("cpu"):
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    if threads == 1 or not items:
        yield from map(work, items)
        return
    # The count of a thread is its own, but it is also what threads started later begin with: hence set back at the end.
    if len(items) == 1:
        try:
            torch.set_num_threads(1)
            found = work(items[0])
        finally:
            torch.set_num_threads(threads)
        yield found
        return
    pool = ThreadPoolExecutor(min(threads, len(items)), initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@cache
def thread_pools() -> ThreadpoolController:
    """The libraries of this process that start threads of their own."""
    return ThreadpoolController()


_inside: list[Any] = []
"""What sets the count of threads back, once for each who is inside `one_product_thread`."""
_entering = Lock()


@contextmanager
def one_product_thread() -> Iterator[None]:
    """NumPy's products run on one thread while anybody is inside: several sum in another order, in another last digit.

    The count is the process's own, so the first to enter sets it and the last to leave sets it back.
    """
    with _entering:
        _inside.append(_inside[0] if _inside else thread_pools().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _entering:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


def fingerprint(vectors: npt.NDArray[np.floating], device: str = "cpu") -> str:
    """What a revision says of the machine: its instruction set, and a hash of what the model gives there for a probe.

    Other processors and libraries multiply by other kernels, whose last digits differ: vectors of two machines have one
    key only where the probe's are bitwise the same.
    """
    import torch

    kernels = torch.backends.cpu.get_cpu_capability() if device.startswith("cpu") else torch.cuda.get_device_name()
    return f"{kernels.lower().replace(' ', '_')}-{hashlib.blake2b(np.ascontiguousarray(vectors).tobytes(), digest_size=4).hexdigest()}"
