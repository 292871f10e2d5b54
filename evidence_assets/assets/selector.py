"""A selector variant: the ``evidence`` of one task family, by one method with its parameters."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field

from evidence_assets.benchmarks.declared import Family, benchmarks, of_family
from evidence_assets.assets.partitions import BY_BENCHMARK, EVERY, question_partitions
from evidence_assets.assets.selector_methods import METHODS
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment.path_check import paths_wrong
from evidence_assets.experiment.selection import NoEvidence, asked, evidence_rows
from evidence_assets.experiment.system import lacking
from evidence_assets.models.in_use import RELEVANCE_CLASSIFIER


def dependencies(family: Family, reads: tuple[str, ...]) -> list[dg.AssetDep]:
    """Assets that a method of this family reads, over all of the family's benchmarks."""
    found = [dep(f"questions/{family}")]
    if "corpus" in reads:
        for name in sorted({b.corpus for b in of_family(family) if b.corpus}):
            found += [dep(f"corpus/{name}/chunks", EVERY), dep(f"corpus/{name}/index")]
    if "token_store" in reads:
        found += [
            dep(f"corpus/{name}/token_store") for name in sorted({b.corpus for b in of_family(family) if b.corpus})
        ]
    if "graph" in reads or "joined_graph" in reads:
        graphs = {b.joined_graph if "joined_graph" in reads else b.graph for b in of_family(family)} - {""}
        for name in sorted(graphs):
            found += [dep(f"knowledge/{name}/{part}") for part in ("nodes", "edges", "csr", "node_vectors")]
    if "subgraphs" in reads:
        found.append(dep(f"subgraphs/{family}"))
    if "graph_passages" in reads:
        found += [dep(f"knowledge/{name}/passages") for name in sorted({b.graph for b in of_family(family) if b.graph})]
    if "taxonomy" in reads:
        found += [
            dep(f"knowledge/{name}/nodes") for name in sorted({b.taxonomy for b in of_family(family) if b.taxonomy})
        ]
    if "tuned_classifier" in reads:
        found.append(dep(RELEVANCE_CLASSIFIER))
    if "tables" in reads:
        found.append(dep("tables", BY_BENCHMARK))
    return found


class Selector(dg.Component, Variant):
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
        if not self.loaded:
            return dg.Definitions()

        def make(step: Step) -> Made:
            questions = asked(step.read("questions", f"questions/{self.family}", step.partition))
            lack = lacking(method.reads, step.benchmark)
            selector = NoEvidence(self.name, lack) if lack else method.make(self.name, step, dict(self.parameters))
            rows = evidence_rows(
                selector, questions, step.previous(), step.previous_lineage(), step.progress("questions")
            )
            notes: dict[str, Any] = getattr(selector, "notes", {})  # what some selectors have to say besides
            return Made(rows.rows, rows.lineage, {**rows.metadata, **notes}, rows.reused)

        asset = table_asset(
            f"evidence/{self.family}/{self.name}",
            "evidence",
            make,
            description=self.description or f"Evidence for {self.family} questions by {self.method}.",
            group=self.group,
            tags=self.tags,
            code_version=f"{method.version}:{sorted(self.parameters.items())}",
            deps=dependencies(self.family, method.reads),
            partitions=question_partitions(self.family),
        )
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset, against=paths_wrong)])
