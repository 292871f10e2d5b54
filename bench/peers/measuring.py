"""What a library needs for a piece of work: wall and CPU seconds, and memory beyond what the process had before."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distributions, version
from importlib.util import find_spec
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from bench.retrieval.pool import Highest

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Used:
    """Seconds by the clock and of all threads, and the greatest growth of memory that is no mapped file, in MB."""

    wall: float
    cpu: float
    megabytes: float

    def each(self, count: int) -> str:
        """Milliseconds of one of ``count`` pieces: by the clock, of the processor."""
        return f"{1000 * self.wall / count:.2f} / {1000 * self.cpu / count:.2f}"

    def __str__(self) -> str:
        return f"{self.wall:.2f} / {self.cpu:.2f}"


def measured(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> tuple[T, Used]:
    """The result of some work, and what it used."""
    wall, cpu = time.perf_counter(), time.process_time()
    with Highest() as highest:
        result = work(*arguments, **options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, Used(wall, cpu, highest.megabytes)


def missing(*modules: str) -> str:
    """Why a peer cannot run here; empty if it can."""
    absent = [name for name in modules if find_spec(name.partition(".")[0]) is None or find_spec(name) is None]
    return f"no module {' or '.join(absent)}; run `make peers`" if absent else ""


def versions(*packages: str) -> str:
    """Name and version of the installed packages."""
    installed = {distribution.name for distribution in distributions()}
    return ", ".join(f"{package} {version(package)}" for package in packages if package in installed)


def in_new_process(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run in a process of its own, so that no library's memory or threads count for another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(work, *arguments, **options).result()
