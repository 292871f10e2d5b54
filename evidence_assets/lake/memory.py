"""Memory that a process holds beside its files.

Belongs here: what concerns the process as a whole and no table.
"""

from __future__ import annotations

import ctypes
import sys

import pyarrow as pa


def give_back() -> None:
    """Hand what was freed back to the system, as far as its C library and Arrow can.

    Arrays that come and go between small objects that stay leave pages behind that both keep for later. After work
    that needs much memory once, that is as much as the work took.
    """
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
