"""What a selector method is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evidence_assets import profiles
from evidence_assets.assets.benchmark import Benchmark, benchmarks
from evidence_assets.assets.inputs import OpenCorpus, open_corpus, open_graph
from evidence_assets.assets.table_asset import Step
from evidence_assets.experiment.selection import Selector
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph

Source = Literal[
    "corpus", "tables", "graph", "joined_graph", "graph_passages", "subgraphs", "token_store", "taxonomy",
    "tuned_classifier",
]  # fmt: skip


@dataclass(frozen=True)
class Method:
    """How a selector is made from its name, the step it runs in and its parameters; what of a benchmark it reads."""

    make: Callable[[str, Step, dict[str, Any]], Selector]
    reads: tuple[Source, ...]
    parameters: tuple[str, ...]
    version: str


def lacking(reads: Sequence[Source], benchmark: Benchmark) -> str:
    """Why a method that reads this has nothing to read for a benchmark; empty where it has.

    One that reads a corpus and a graph works with either; ``joined_graph`` is the benchmark's graph or, where it is
    answered from a corpus, the one beside that. One that reads tables, which are the benchmark's own, does without all.
    """
    if "tables" in reads:
        return ""
    named = {"corpus": benchmark.corpus, "graph": benchmark.graph, "joined_graph": benchmark.joined_graph}
    wanted = [source for source in named if source in reads]
    if not wanted or any(named[source] for source in wanted):
        return ""
    return f"benchmark {benchmark.name} names no {' and no '.join(w.removeprefix('joined_') for w in wanted)}"


def corpus_of(step: Step) -> OpenCorpus:
    """The corpus that the partition's benchmark is answered from."""
    return open_corpus(step.lake, benchmarks()[step.benchmark].corpus)


def joined_graph_of(step: Step) -> KnowledgeGraph:
    """The graph that is read beside the corpus of the partition's benchmark."""
    return open_graph(step.lake, benchmarks()[step.benchmark].joined_graph)


def chunks_kept(parameters: dict[str, Any]) -> int:
    """The parameter ``k``, by default the profile's."""
    return int(parameters.get("k", profiles.load().retrieval.chunks))
