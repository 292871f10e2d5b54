"""What planning counts with: rates with their sources, and the shape of an estimate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from evidence_assets import profiles
from evidence_assets.experiment.published import figures
from evidence_assets.experiment.published_figures import printed_model

FILE = Path(__file__).with_name("rates.yaml")
CHARACTERS = {"chunk": 0, "triple": 40, "cell": 15, "question": 120, "option": 30, "node": 400}
"""Characters of a text of each kind where a typical one is meant; a chunk is as long as the profile cuts it."""


@lru_cache
def rates() -> dict[str, Any]:
    """The table of rates, each a mapping with ``value`` and ``source``."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def rate(*path: str) -> float:
    """The rate under this path."""
    entry: Any = rates()
    for part in path:
        entry = entry[part]
    return float(entry["value"])


def characters(kind: str) -> int:
    """Characters of a text of this kind."""
    return CHARACTERS[kind] or round(profiles.load().chunking.max_tokens * rate("characters_per_token"))


def seconds_per_call() -> float | None:
    """Seconds a call of the profile's language model; None where none is printed for it."""
    model = printed_model(profiles.load().generator.name, {f.model for f in figures()})
    return rate("seconds_per_call", model) if model in rates()["seconds_per_call"] else None


@dataclass(frozen=True)
class Count:
    """How many questions a benchmark has (or relations a harvest), options each on average, and how that is known."""

    questions: int
    options: float
    known_from: str


@dataclass
class Estimate:
    """The cost of one variant on one benchmark, or on all relations."""

    variant: str
    benchmark: str
    count: Count
    rows: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    """At most: the limit of every call."""
    selecting: float | None = None
    """Seconds; None where no rate is known."""
    reasoning: float | None = None
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """What is known of the time."""
        return (self.selecting or 0.0) + (self.reasoning or 0.0)

    def store(self, characters_of_evidence: float = 0.0) -> None:
        """Work out the bytes of its rows, and of their texts where evidence has some."""
        texts = characters_of_evidence * rate("text_share")
        self.bytes = round(texts + sum(n * rate("bytes_per_row", table) for table, n in self.rows.items()))
