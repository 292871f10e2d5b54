"""What a selector method is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from evidence_assets import profiles
from evidence_assets.components.benchmark import benchmarks
from evidence_assets.components.inputs import OpenCorpus, open_corpus
from evidence_assets.components.table_asset import Step
from evidence_assets.systems.selection import Selector

Source = Literal["corpus", "tables", "graph", "graph_passages", "token_store"]


@dataclass(frozen=True)
class Method:
    """How a selector is made from its name, the step it runs in and its parameters; what of a benchmark it reads."""

    make: Callable[[str, Step, dict[str, Any]], Selector]
    reads: tuple[Source, ...]
    parameters: tuple[str, ...]
    version: str


def corpus_of(step: Step) -> OpenCorpus:
    """The corpus that the partition's benchmark is answered from."""
    return open_corpus(step.lake, benchmarks()[step.benchmark].corpus)


def chunks_kept(parameters: dict[str, Any]) -> int:
    """The parameter ``k``, by default the profile's."""
    return int(parameters.get("k", profiles.load().retrieval.chunks))
