"""What a piece of work takes: seconds by the clock and of the processor, memory, and disk."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help starts with the docstring of a bench."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def resident(which: str = "RssAnon") -> float:
    """MiB of this process in no mapped file; or, as ``VmHWM``, its peak with mapped files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(next(line for line in status.splitlines() if line.startswith(which)).split()[1]) / 1024


def disk(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class PeakMemory:
    """The peak memory in MiB while a block runs, sampled every 20 ms: ``total``, and ``gained`` beyond the start."""

    def __enter__(self) -> PeakMemory:
        self.before = self.total = resident()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._finished.wait(0.02):
            self.total = max(self.total, resident())

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()
        self.total = max(self.total, resident())

    @property
    def gained(self) -> float:
        return self.total - self.before


@dataclass(frozen=True)
class Used:
    """Seconds by the clock and of all threads, and memory in MiB."""

    wall: float
    cpu: float
    megabytes: float
    """Greatest growth of memory that is no mapped file."""
    peak: float
    """Peak of that memory."""
    with_files: float
    """Peak of the process with mapped files."""

    def each(self, count: int) -> str:
        """Milliseconds of one of ``count`` pieces: by the clock, of the processor."""
        return f"{1000 * self.wall / count:.2f} / {1000 * self.cpu / count:.2f}"

    def __str__(self) -> str:
        return f"{self.wall:.2f} / {self.cpu:.2f}"


def measured(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> tuple[T, Used]:
    """The result of some work, and what it used."""
    wall = time.perf_counter()
    cpu = time.process_time()
    with PeakMemory() as memory:
        result = work(*arguments, **options)
        wall = time.perf_counter() - wall
        cpu = time.process_time() - cpu
    return result, Used(wall, cpu, memory.gained, memory.total, resident("VmHWM"))


def timed(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> tuple[T, float]:
    """The result of some work, and its seconds by the clock."""
    started = time.perf_counter()
    result = work(*arguments, **options)
    return result, time.perf_counter() - started


def in_new_process(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run in a process of its own, so that nothing that ran before counts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(work, *arguments, **options).result()
