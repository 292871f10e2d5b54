"""The search of a variant: the settings and models that decide its prompts and candidates, and the assets with them.

Variants that differ only in how they score candidates share one search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom.harvesting import MiningSettings, SearchSettings, narrow_settings

SearchStage = Literal["prompts", "candidates"]


@dataclass(frozen=True)
class Search:
    """How a variant mines prompts and searches candidates, by K-Bloom's method or the baseline's.

    ``models``: Models that write prompts, besides the masked one and the encoder.
    """

    variant_key: str
    settings: SearchSettings
    models: tuple[str, ...]

    @property
    def mining(self) -> MiningSettings:
        return narrow_settings(self.settings, MiningSettings)

    def version(self, stage: SearchStage) -> str:
        """Version of the code, settings and models that decide the rows of a stage."""
        return f"{VERSION}:{self.mining if stage == 'prompts' else self.settings}:{list(self.models)}"

    def own_key(self, stage: SearchStage) -> str:
        """The asset of a stage if no earlier variant has an equal one."""
        suffix = "" if self.settings.variant == "kbloom" else f"_{self.settings.variant}"
        return f"{self.variant_key}/{stage}{suffix}"


@dataclass(frozen=True)
class SharedSearch:
    """A search and the assets with its rows, which may be those of another variant with an equal search."""

    search: Search
    prompts: str
    candidates: str


def share_search(search: Search, declared: Sequence[Search]) -> SharedSearch:
    """The search with its assets: of each stage, those of the first of all searches with an equal version."""
    return SharedSearch(search, _find_key(search, declared, "prompts"), _find_key(search, declared, "candidates"))


def _find_key(search: Search, declared: Sequence[Search], stage: SearchStage) -> str:
    first = next((other for other in declared if other.version(stage) == search.version(stage)), search)
    return first.own_key(stage)
