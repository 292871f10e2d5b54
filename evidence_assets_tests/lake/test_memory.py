"""What was freed goes back to the system, whatever small objects lie between."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.lake.memory import give_back


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_pages_between_what_stays_are_given_back() -> None:
    def own() -> int:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) // 1024

    large, small = [], []
    for _ in range(1_000):  # 64 MiB in parts too small to have pages of their own
        large.append(np.ones(1 << 13))
        small.append(np.ones(16))
    held = own()
    del large
    give_back()
    assert own() < held - 50
    assert len(small) == 1_000
