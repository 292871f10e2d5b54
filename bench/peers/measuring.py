"""What a library needs for a piece of work: wall and CPU seconds, and memory beyond what the process had before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import distributions, version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def anonymous() -> float:
    """Megabytes of this process that are of no file."""
    process_status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(process_status["RssAnon"].split()[0]) / 1024


class Highest:
    """The most memory while a block runs, beyond what there was before."""

    def __enter__(self) -> Highest:
        self._before, self.megabytes, self._running = anonymous(), 0.0, True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._running:
            self.megabytes = max(self.megabytes, anonymous() - self._before)
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        self._running = False
        self._thread.join()


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
