"""The real data sets in the folder that ``EVIDENCE_DEV_DATA`` names."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any


def dev_data() -> Path:
    """The folder; without one, the bench ends and says so, which is no failure."""
    name = os.environ.get("EVIDENCE_DEV_DATA", "")
    if not Path(name or "?").is_dir():
        print("not run: EVIDENCE_DEV_DATA names no folder with the data sets that this bench reads")
        raise SystemExit(0)
    return Path(name)


@cache
def hotpotqa_pages() -> dict[str, list[str]]:
    """Sentences of each passage of HotpotQA's 100 questions, by title."""
    pages: dict[str, list[str]] = json.loads((dev_data() / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text())
    return pages


@cache
def hotpotqa_rows() -> list[dict[str, Any]]:
    """Those questions, as published."""
    rows: list[dict[str, Any]] = json.loads((dev_data() / "hotpotqa-100" / "hotpotqa_train.json").read_text())
    return rows


def hotpotqa_sentences() -> list[str]:
    """All sentences of the passages, without spaces around them."""
    return [sentence.strip() for page in hotpotqa_pages().values() for sentence in page if sentence.strip()]
