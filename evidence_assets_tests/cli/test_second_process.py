"""Pieces are done once each and in order, whoever works on them; a second process ends with the first
and says its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.cli.second_process import Order, Tell, second_process


@st.composite
def needs_and_sizes(draw: st.DrawFn) -> tuple[list[set[int]], list[int]]:
    """Groups that need earlier ones, and how many pieces each has, which may be none."""
    sizes = draw(st.lists(st.integers(0, 3), max_size=8))
    needs = [draw(st.sets(st.integers(0, number - 1))) if number else set() for number in range(len(sizes))]
    return needs, sizes


@settings(max_examples=40, deadline=None)
@given(needs_and_sizes(), st.integers(1, 3))
def test_each_piece_is_done_once_and_after_all_that_its_group_needs(
    world: tuple[list[set[int]], list[int]], workers: int
) -> None:
    needs, sizes = world
    done: list[tuple[int, int]] = []

    def do(piece: tuple[int, int]) -> None:
        for needed in needs[piece[0]]:
            assert {(needed, i) for i in range(sizes[needed])} <= set(done)
        done.append(piece)

    order = Order(needs, lambda group: [(group, i) for i in range(sizes[group])])
    with ThreadPoolExecutor(workers) as pool:
        for working in [pool.submit(order.work, do) for _ in range(workers)]:
            working.result()
    assert sorted(done) == [(group, i) for group, size in enumerate(sizes) for i in range(size)]


def test_two_work_at_the_same_time_and_none_begins_what_needs_the_other() -> None:
    both = threading.Barrier(2, timeout=60)
    done = []

    def do(piece: str) -> None:
        if piece in ("a", "b"):
            both.wait()
        done.append(piece)

    order = Order([set(), set(), {0, 1}], lambda group: ["abc"[group]])
    with ThreadPoolExecutor(2) as pool:
        for working in [pool.submit(order.work, do) for _ in range(2)]:
            working.result()
    assert done[-1] == "c" and sorted(done) == ["a", "b", "c"]


def test_where_one_fails_nothing_more_is_begun() -> None:
    def fail(piece: int) -> None:
        raise ValueError(f"piece {piece}")

    order = Order([set(), {0}], lambda group: [group])
    waiting: list[int] = []
    with pytest.raises(ValueError, match="piece 0"):
        order.work(fail)
    order.work(waiting.append)
    assert waiting == []


def doubling(factor: int, *, tell: Tell) -> Callable[[int], int]:
    def do(piece: int) -> int:
        if piece < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if piece > 99:
            raise KeyboardInterrupt
        tell(f"{piece} comes", False)
        return factor * piece

    return do


def test_a_second_process_tells_what_it_does_and_gives_what_comes_of_it() -> None:
    told: list[str] = []
    with second_process(doubling, 2, tell=lambda text, made: told.append(text)) as do:
        assert [do(n) for n in (1, 4)] == [2, 8]
    assert told == ["1 comes", "4 comes"]


@pytest.mark.parametrize(("piece", "error"), [(-1, ChildProcessError), (100, KeyboardInterrupt)])
def test_a_second_process_that_was_killed_or_interrupted_is_an_error_and_not_a_wait(
    piece: int, error: type[BaseException]
) -> None:
    with pytest.raises(error), second_process(doubling, 2, tell=lambda text, made: None) as do:
        do(piece)


STARTS_AND_WORKS = """
from evidence_assets.cli.second_process import second_process
from evidence_assets_tests.cli.test_second_process import busy
if __name__ == "__main__":
    with second_process(busy, tell=lambda text, made: print(text, flush=True)) as do:
        do(0)
"""


def busy(*, tell: Tell) -> Callable[[int], None]:
    def do(piece: int) -> None:
        tell(str(os.getpid()), False)
        time.sleep(600)

    return do


def test_a_second_process_ends_with_the_first_one_even_where_that_is_killed() -> None:
    first = subprocess.Popen([sys.executable, "-c", STARTS_AND_WORKS], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    second = int(first.stdout.readline())
    first.kill()
    first.wait()
    for _ in range(600):
        if not _lives(second):
            return
        time.sleep(0.05)
    raise AssertionError("the second process works on")


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
