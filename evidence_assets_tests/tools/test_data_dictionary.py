"""The data dictionary says what the schemas say."""

from __future__ import annotations

import runpy
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_data_dictionary_is_current() -> None:
    generated = runpy.run_path(str(REPOSITORY / "tools" / "data_dictionary.py"))["dictionary"]()
    written = (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8")
    assert written == generated, "docs/tables.md is old: run python tools/data_dictionary.py"
