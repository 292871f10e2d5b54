"""Work that several do at once: which piece is next, and a second process that does what it is told.

What the pieces are is no matter here.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
Tell = Callable[[str, bool], None]
"""Told of each step of the work in words, and whether something was made."""


class Order(Generic[Piece]):
    """Gives out the pieces of groups, each once, and none before all of the groups that its own needs are done.

    ``needs``: For each group the numbers of those that it needs, all before it.
    ``pieces``: The pieces of a group, asked for when what it needs is done.
    """

    def __init__(self, needs: Sequence[set[int]], pieces: Callable[[int], Sequence[Piece]]) -> None:
        self._needs, self._pieces = needs, pieces
        self._waiting: dict[int, deque[Piece]] = {}
        self._running = [0] * len(needs)
        self._done: set[int] = set()
        self._stopped = False
        self._changed = threading.Condition()

    def work(self, do: Callable[[Piece], None]) -> None:
        """Do piece after piece until none is left; called by each who works. Where one fails, all stop after their piece."""
        try:
            while (taken := self._take()) is not None:
                group, piece = taken
                do(piece)
                with self._changed:
                    self._running[group] -= 1
                    self._changed.notify_all()
        except BaseException:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            raise

    def _take(self) -> tuple[int, Piece] | None:
        with self._changed:
            while not self._stopped and len(self._done) < len(self._needs):
                for group, needs in enumerate(self._needs):
                    if group in self._done or not needs <= self._done:
                        continue
                    if group not in self._waiting:
                        self._waiting[group] = deque(self._pieces(group))
                    if self._waiting[group]:
                        self._running[group] += 1
                        return group, self._waiting[group].popleft()
                    if not self._running[group]:
                        self._done.add(group)
                if len(self._done) < len(self._needs):
                    self._changed.wait()
            self._changed.notify_all()
            return None


class _Done(NamedTuple):
    result: Any


class _Interrupted(NamedTuple):
    """Somebody interrupted the work there, and so here."""


class SecondProcess(Generic[Piece, Result]):
    """A process beside this one, which it does not outlive, whatever happens to this one.

    ``start``: A function of a module, called there once; what it gives does the pieces.
    """

    def __init__(self, start: Callable[..., Callable[[Piece, Tell], Result]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, start, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> SecondProcess[Piece, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._pipe.close()  # it waits for the next piece, and ends
        else:
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def do(self, piece: Piece, tell: Tell) -> Result:
        """What comes of a piece; waits for it."""
        with _alive():
            self._pipe.send(piece)
        while True:
            with _alive():
                said = self._pipe.recv()
            if isinstance(said, _Interrupted):
                raise KeyboardInterrupt
            if isinstance(said, _Done):
                result: Result = said.result
                return result
            tell(*said)


@contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise ChildProcessError(
            "the second process ended early; where nothing above says why, memory was short: run it again, "
            "what is done is taken over"
        ) from error


def _serve(pipe: Connection, start: Callable[..., Callable[[Any, Tell], Any]], arguments: Sequence[Any]) -> None:
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    try:
        do = start(*arguments)
        while True:
            piece = pipe.recv()
            pipe.send(_Done(do(piece, lambda text, made: pipe.send((text, made)))))
    except EOFError:
        return
    except KeyboardInterrupt:
        pipe.send(_Interrupted())


def _end_with_the_other() -> None:
    other = multiprocessing.parent_process()
    if other is not None:
        other.join()
        os._exit(1)
