"""Work of two processes at once: which piece is next, and a second process that does what it is given."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from graphlib import TopologicalSorter
from threading import Condition, Thread
from typing import Any, Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Tell = Callable[[str, bool], None]
"""Told of each step of the work in words, and whether something was made."""


class Order(Generic[Piece]):
    """Gives out the pieces of groups, each once, and none before all of the groups that its own needs are done.

    ``needs``: For each group the numbers of those that it needs.
    ``pieces``: The pieces of a group, asked for when what it needs is done.
    """

    def __init__(self, needs: Sequence[set[int]], pieces: Callable[[int], Sequence[Piece]]) -> None:
        self._groups, self._pieces = TopologicalSorter(dict(enumerate(needs))), pieces
        self._groups.prepare()
        self._waiting: list[tuple[int, Piece]] = []
        self._open = Counter[int]()
        self._stopped, self._changed = False, Condition()

    def work(self, do: Callable[[Piece], None]) -> None:
        """Do piece after piece until none is left; called by each who works. Where one fails, all stop after their
        piece.
        """
        try:
            while (taken := self._take()) is not None:
                do(taken[1])
                with self._changed:
                    self._close(taken[0])
        except BaseException:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            raise

    def _take(self) -> tuple[int, Piece] | None:
        """The next piece, of the first group that has one; waits for it, and is None where none is left."""
        with self._changed:
            while not self._stopped and self._groups.is_active():
                ready = self._groups.get_ready()
                for group in ready:
                    pieces = self._pieces(group)
                    self._waiting += [(group, piece) for piece in pieces]
                    self._open[group] = len(pieces) + 1
                    self._close(group)
                if self._waiting:
                    self._waiting.sort(key=lambda waiting: waiting[0])
                    return self._waiting.pop(0)
                if not ready:
                    self._changed.wait()
            return None

    def _close(self, group: int) -> None:
        """A piece of a group is done, or its pieces are known."""
        self._open[group] -= 1
        if not self._open[group]:
            self._groups.done(group)
        self._changed.notify_all()


@contextmanager
def second_process(
    start: Callable[..., Callable[[Piece], Result]], *arguments: Any, tell: Tell
) -> Iterator[Callable[[Piece], Result]]:
    """Does pieces in a process beside this one, which it does not outlive; where this one fails, that is killed.

    ``start``: A function of a module, called there once with the arguments and ``tell``; what it gives does the pieces.
    """
    context = multiprocessing.get_context("spawn")
    told = context.SimpleQueue()

    def listen() -> None:
        for said in iter(told.get, None):
            tell(*said)

    listener = Thread(target=listen, daemon=True)
    listener.start()
    pool = ProcessPoolExecutor(1, context, _begin, (start, arguments, told))

    def do(piece: Piece) -> Result:
        try:
            result: Result = pool.submit(_do, piece).result()
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "the second process ended early; where nothing above says why, memory was short: run it again, "
                "what is done is taken over"
            ) from error
        return result

    try:
        yield do
    except BaseException:
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        pool.shutdown()
        told.put(None)
        listener.join()


_work: list[Callable[[Any], Any]] = []
"""What does the pieces in the second process."""


def _begin(start: Callable[..., Callable[[Any], Any]], arguments: Sequence[Any], told: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches both; the first one ends both
    Thread(target=_end_with_the_first, daemon=True).start()
    _work.append(start(*arguments, tell=lambda *said: told.put(said)))


def _do(piece: Any) -> Any:
    return _work[0](piece)


def _end_with_the_first() -> None:
    first = multiprocessing.parent_process()
    if first is not None:
        first.join()
        os._exit(1)
