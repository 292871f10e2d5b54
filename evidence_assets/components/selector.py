"""A selector variant: the ``evidence`` of one task family, by one method with its parameters.

A method is a function in ``METHODS`` that opens what it needs for one partition and returns a selector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from evidence_assets import profiles
from evidence_assets.components.benchmark import Family, benchmarks, of_family
from evidence_assets.components.inputs import open_corpus
from evidence_assets.components.models_in_use import encoder
from evidence_assets.components.partitions import BY_BENCHMARK, EVERY, question_partitions
from evidence_assets.components.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.systems import baselines
from evidence_assets.systems.benchmark_rows import table_of
from evidence_assets.systems.selection import Selector as SelectorProtocol
from evidence_assets.systems.selection import asked, evidence_rows

Make = Callable[[str, Step, dict[str, Any]], SelectorProtocol]


@dataclass(frozen=True)
class Method:
    """How a selector is made, and what of a benchmark it reads: corpus, tables or graph."""

    make: Make
    reads: tuple[str, ...]
    parameters: tuple[str, ...]


def _chunks(step: Step) -> tuple[baselines.Chunks, Any]:
    corpus = open_corpus(step.lake, benchmarks()[step.benchmark].corpus)
    return baselines.Chunks(
        corpus.version, corpus.chunks["chunk_id"].to_list(), corpus.chunks["text"].to_list()
    ), corpus


def _k(parameters: dict[str, Any]) -> int:
    return int(parameters.get("k", profiles.load().retrieval.chunks))


def _bm25(name: str, step: Step, parameters: dict[str, Any]) -> SelectorProtocol:
    return baselines.Bm25Chunks(name, _chunks(step)[0], _k(parameters))


def _cosine(name: str, step: Step, parameters: dict[str, Any]) -> SelectorProtocol:
    chunks, corpus = _chunks(step)
    return baselines.CosineChunks(name, chunks, corpus.index, encoder(profiles.load().encoder), _k(parameters))


def _tables(step: Step) -> dict[str, Any]:
    rows = step.read("tables", "tables", step.benchmark)
    return {row["table_id"]: (table_of(row), row["content_hash"]) for row in rows.to_dicts()}


def _bm25_cells(name: str, step: Step, parameters: dict[str, Any]) -> SelectorProtocol:
    return baselines.CellSelector(name, _tables(step), baselines.bm25_cells, _k(parameters), "bm25")


def _cosine_cells(name: str, step: Step, parameters: dict[str, Any]) -> SelectorProtocol:
    model = encoder(profiles.load().encoder)
    version = f"cosine:{model.model_id}:{model.revision}"
    return baselines.CellSelector(name, _tables(step), baselines.cosine_cells(model), _k(parameters), version)


METHODS: dict[str, Method] = {
    "bm25": Method(_bm25, ("corpus",), ("k",)),
    "cosine": Method(_cosine, ("corpus",), ("k",)),
    "bm25_cells": Method(_bm25_cells, ("tables",), ("k",)),
    "cosine_cells": Method(_cosine_cells, ("tables",), ("k",)),
}


def dependencies(family: Family, reads: tuple[str, ...]) -> list[dg.AssetDep]:
    """Assets that a method of this family reads, over all of the family's benchmarks."""
    found = [dep(f"questions/{family}")]
    if "corpus" in reads:
        for name in sorted({b.corpus for b in of_family(family) if b.corpus}):
            found += [dep(f"corpus/{name}/chunks", EVERY), dep(f"corpus/{name}/index")]
    if "tables" in reads:
        found.append(dep("tables", BY_BENCHMARK))
    return found


class Selector(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``evidence/<family>/<name>``."""

    name: str
    family: Family
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    group: str = "baselines"
    description: str = ""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if self.method not in METHODS:
            raise ValueError(f"selector {self.name}: there is no method {self.method!r}; known: {', '.join(METHODS)}")
        method = METHODS[self.method]
        unknown = sorted(set(self.parameters) - set(method.parameters))
        if unknown:
            raise ValueError(
                f"selector {self.name}: {self.method} has no parameter {unknown[0]!r}; it has {', '.join(method.parameters)}"
            )

        def make(step: Step) -> Made:
            questions = asked(step.read("questions", f"questions/{self.family}", step.partition))
            selector = method.make(self.name, step, dict(self.parameters))
            rows = evidence_rows(
                selector, questions, step.previous(), step.previous_lineage(), step.progress("questions")
            )
            return Made(rows.rows, rows.lineage, rows.metadata, rows.reused)

        asset = table_asset(
            f"evidence/{self.family}/{self.name}",
            "evidence",
            make,
            description=self.description or f"Evidence for {self.family} questions by {self.method}.",
            group=self.group,
            code_version=f"{baselines.VERSION}:{sorted(self.parameters.items())}",
            deps=dependencies(self.family, method.reads),
            partitions=question_partitions(self.family),
        )
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset)])
