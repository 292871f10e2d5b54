"""Gives each process a CUDA card: the one that the fewest processes of this user and machine hold.

A process holds a card by a locked file, from its first use until it ends; the system frees the lock of a killed one.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock

_one_thread = Lock()


def list_cards() -> list[str]:
    """Identifiers of the cards that torch sees, by its numbers of them."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [str(torch.cuda.get_device_properties(number).uuid) for number in range(torch.cuda.device_count())]


def hold_card() -> int | None:
    """Number of this process's card; None without one.

    Processes get a card each while there are enough, and share them evenly if not.
    """
    with _one_thread:
        return _choose_card()


@cache
def _choose_card() -> int | None:
    cards = list_cards()
    if not cards:
        return None
    folder = Path(tempfile.gettempdir()) / f"evidence_cards_{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    places = ((holders, number) for holders in count() for number in range(len(cards)))
    return next(number for holders, number in places if _try_lock(folder / f"{cards[number]}.{holders}"))


def _try_lock(file: Path) -> bool:
    """Lock a file until this process ends; False if another process holds it."""
    handle = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return False
    return True
