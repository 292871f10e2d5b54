"""The plan of a variant whose method picks evidence: where its stages read and write, under which version and pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evidence_assets.benchmarks.declared_benchmarks import benchmarks_of_family
from evidence_assets.experiment.evidence.sources import source_inputs
from evidence_assets.experiment.scores import graph_stages
from evidence_assets.experiment.solvers import find_pool, prompts_version, reasoning_version
from evidence_assets.experiment.stage import InputPartitions, StageInput
from evidence_assets.experiment.system import Method, System, is_answered_by_model
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.ids import key_for_model
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.prompted_solver import PromptStyle
from evidence_assets.reasoning.published_prompts import STYLES

VERSION = "3"
"""Changes when the rows of chains, predictions, citations or scores would be others from the same evidence."""


@dataclass(frozen=True)
class Plan:
    """A variant of a system with its method and settings; what its stages share is worked out here, once."""

    system: System
    variant: Variant
    method: Method[Any]
    settings: Any

    @property
    def explains_options(self) -> bool:
        """Whether options are explained one by one before one is chosen."""
        return self.variant.family in ("mcqa", "table")

    @property
    def uses_graph(self) -> bool:
        """Whether options are weighed by evidence from a graph."""
        return self.variant.family == "mcqa" and "graph" in self.method.sources

    @property
    def style(self) -> PromptStyle:
        """How a language model is asked."""
        return STYLES[self.method.published_style if self.variant.asks_as_published else ""]

    @property
    def temperature(self) -> float:
        """What probabilities of options are calibrated by."""
        calibration = self.variant.profile.calibration
        return calibration.table if self.variant.family == "table" else calibration.mcqa

    # Names and inputs -----------------------------------------------------------------------------------------------

    @cached_property
    def evidence_models(self) -> dict[ModelKind, str]:
        """The models that pick evidence, where they are not the profile's first."""
        kinds = self.method.resolve_model_kinds(self.settings)
        return {kind: name for kind, name in self.variant.using.items() if kind in kinds}

    @property
    def selector(self) -> str:
        """Name under which rows say who picked their evidence: models that pick belong to it, others do not."""
        return self.variant.with_models(self.variant.selector, self.evidence_models, "@")

    @property
    def vector_encoder(self) -> str:
        """The encoder of the stored vectors that it reads; empty for the profile's first."""
        return "" if self.method.has_own_encoder else self.evidence_models.get("encoder", "")

    def key(self, table: str) -> str:
        """The asset of this variant, or of its family, that holds rows of a table."""
        variant = self.variant
        if table == "questions":
            return f"questions/{variant.family}"
        if table == "evidence":
            return variant.with_models(f"evidence/{variant.family}/{variant.selector}", self.evidence_models)
        if table == "subgraphs":
            return key_for_model("subgraphs/mcqa", self.vector_encoder)
        return f"{table}/{variant.key}"

    def inputs_of(self, name: str, partitions: InputPartitions) -> list[StageInput]:
        """The assets behind an input that a stage declares: a table, or one of the names below."""
        variant = self.variant
        match name:
            case "prepared":
                return list(self.method.extra_inputs(variant, self.settings))
            case "sources":
                stored = source_inputs(variant.family, self.method.sources, self.vector_encoder)
                return [*stored, *self.inputs_of("prepared", partitions)]
            case "answered_from":
                return [read for part in self._answered_from for read in self.inputs_of(part, partitions)]
            case "scored_from":
                return [read for table in self.scored_tables for read in self.inputs_of(table, partitions)]
            case "chunks":
                corpora = sorted({b.corpus for b in benchmarks_of_family("retrieval") if b.corpus})
                return [StageInput(f"corpus/{corpus}/chunks", "every") for corpus in corpora]
            case "names":
                graphs = (
                    {b.graph for b in benchmarks_of_family("search") if b.graph}
                    if variant.family == "search"
                    else set()
                )
                return [StageInput(f"knowledge/{graph}/nodes") for graph in sorted(graphs)]
        return [StageInput(self.key(name), partitions)]

    @property
    def _answered_from(self) -> tuple[str, ...]:
        if self.explains_options:
            return "questions", "evidence", "chains"
        if self.method.open_answerer:
            return "questions", "sources", "evidence"
        return ("questions", "evidence", "prepared") if self.method.preparation_errors else ("questions", "evidence")

    @property
    def scored_tables(self) -> list[str]:
        more = {"counterfactuals": self.variant.counterfactual, "subgraphs": self.uses_graph}
        return ["questions", "evidence", "predictions", "citations", *(table for table in more if more[table])]

    # Versions and pools ---------------------------------------------------------------------------------------------

    def version(self, table: str) -> str:
        """The code version of a stage: everything of code and settings that decides its rows."""
        variant = self.variant
        if table == "scores":
            stated: list[object] = [VERSION]
            if variant.family != "retrieval":
                # The class's former name stays in the version: another one would make every stored score stale.
                published = str(variant.published or "").replace("PublishedName(", "PrintedAs(")
                stated += [variant.retrieval, variant.bertscore, published]
            return ":".join(map(str, [*stated, *([graph_stages.VERSION] if self.uses_graph else [])]))
        asks = self.method.prompted_tasks
        asked = prompts_version(variant.profile.generator, *asks, prompts=variant.words) if asks else ""
        picked = ":".join(filter(None, (self.system.version_with(self.settings), asked)))
        if table == "evidence":
            return picked
        checked = f"{VERSION}:{picked}:{variant.explain}"
        if table == "citations":
            return checked
        who = reasoning_version(variant.family, variant.profile, self.style, variant.words)
        calibrated = f":{self.temperature}" if table == "predictions" and self.explains_options else ""
        return f"{checked}:{who}{calibrated}"

    def pool(self, table: str) -> str | None:
        """The concurrency pool of a stage: of the models that pick, that answer, or that scores are compared by."""
        variant, picking = self.variant, self.method.resolve_model_kinds(self.settings)
        if table == "citations":
            return None
        if table == "scores":
            return "gpu" if variant.bertscore or variant.family == "graph" else None
        if table == "evidence":
            return self._pool_of(picking)
        if is_answered_by_model(variant):
            return self._pool_of(["generator"] if variant.family == "table" else ["generator", "encoder"])
        return self._pool_of(picking if self.method.open_answerer else ["encoder"])

    def _pool_of(self, kinds: Sequence[ModelKind]) -> str | None:
        return find_pool(self.variant.profile.generator, kinds)
