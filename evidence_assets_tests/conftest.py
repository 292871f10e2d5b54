"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def dev_data() -> Path:
    """Folder of real development datasets, or a skip with its reason."""
    name = os.environ.get("EVIDENCE_DEV_DATA", "")
    if not name or not Path(name).is_dir():
        pytest.skip("EVIDENCE_DEV_DATA names no folder: the real development datasets are absent")
    return Path(name)
