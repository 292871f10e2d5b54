"""Each process has a card of its own, which a kill frees. The cards are made up, the processes are real."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from evidence_assets.models import cards, inference

PROGRAM = """
import sys
from evidence_assets.models import cards, inference
cards.list_cards = lambda: sys.argv[1].split()
devices = {inference.resolve_device("auto") for _ in range(2)}
print(*devices, flush=True)
sys.stdin.read()
"""
Start = Callable[[str], tuple[subprocess.Popen[str], str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that sees these cards; returns it, still running, and the device that it took."""
    processes: list[subprocess.Popen[str]] = []

    def start_process(names: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", PROGRAM, names]
        environment = {"PATH": "", "TMPDIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True
        )
        processes.append(process)
        return process, process.stdout.readline().strip()

    yield start_process
    for process in processes:
        process.kill()
        process.communicate()


def test_each_process_has_a_card_of_its_own_and_a_kill_frees_it(start: Start) -> None:
    (first, device), (_, second), (_, third) = (start("a b c") for _ in range(3))
    assert [device, second, third] == ["cuda:0", "cuda:1", "cuda:2"]
    first.kill()
    first.wait()
    assert start("a b c")[1] == "cuda:0"


def test_more_processes_than_cards_share_them_evenly(start: Start) -> None:
    devices = [start("a b")[1] for _ in range(4)]
    assert sorted(devices) == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]


def test_a_card_is_known_by_its_identifier_not_by_its_number(start: Start) -> None:
    assert start("a b")[1] == "cuda:0"
    assert start("b a")[1] == "cuda:0", "b is free, though it has another number here"
    assert start("a")[1] == "cuda:0", "the only visible card is shared"


def test_without_a_card_models_run_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cards._choose_card.cache_clear()
    assert cards.list_cards() == [] and inference.resolve_device("auto") == "cpu"
    assert inference.resolve_device("cuda:3") == "cuda:3", "a profile's own choice is kept"
    cards._choose_card.cache_clear()
