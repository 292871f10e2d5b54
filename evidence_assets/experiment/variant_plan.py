"""Keys, inputs, versions and pools of the stages of a variant that selects evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.evidence.sources import source_inputs
from evidence_assets.experiment.methods import AnySelectionMethod
from evidence_assets.experiment.scores import graph_stages
from evidence_assets.experiment.solvers import find_pool, prompts_version
from evidence_assets.experiment.stage import InputPartitions, StageInput
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.ids import content_id, key_for_model
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.confidence import packaged_version

VERSION = "4"
"""Bump when equal evidence gives other chains, predictions, citations or scores."""


SCORES_VERSION = "5"
"""Bump when equal predictions give other scores."""


@dataclass(frozen=True)
class VariantPlan:
    """A method with its settings, the solver of its evidence, and what the stages share."""

    method: AnySelectionMethod

    @property
    def variant(self) -> Variant:
        return self.method.variant

    @cached_property
    def answering(self) -> Answering:
        return Answering(self.method)

    @property
    def selector(self) -> str:
        return self.answering.selector

    @property
    def uses_graph(self) -> bool:
        """Whether options are compared by evidence from a graph."""
        return self.variant.family == "mcqa" and "graph" in self.method.sources

    # Names and inputs -----------------------------------------------------------------------------------------------

    @property
    def vector_encoder(self) -> str:
        """Encoder of the stored vectors; empty for the profile's first."""
        return "" if self.method.reads_default_vectors else self.answering.evidence_models.get("encoder", "")

    def key(self, table: str) -> str:
        """Key of the asset with rows of a table, of this variant or its family."""
        variant = self.variant
        if table == "questions":
            return f"questions/{variant.family}"
        if table == "evidence":
            key = f"evidence/{variant.family}/{variant.selector}"
            return variant.with_models(key, self.answering.evidence_models)
        if table == "subgraphs":
            return key_for_model("subgraphs/mcqa", self.vector_encoder)
        return f"{table}/{variant.key}"

    def read(self, *tables: str, partitions: InputPartitions = "same") -> list[StageInput]:
        """Input assets with rows of these tables, of this variant or its family."""
        return [StageInput(self.key(table), partitions) for table in tables]

    @cached_property
    def sources(self) -> list[StageInput]:
        """Input assets to select evidence from."""
        stored = source_inputs(self.variant.family, self.method.sources, self.vector_encoder)
        return [*stored, *self.method.extra_inputs]

    @property
    def scored_tables(self) -> list[str]:
        optional = {"counterfactuals": self.variant.counterfactual, "subgraphs": self.uses_graph}
        return ["questions", "evidence", "predictions", "citations", *(table for table in optional if optional[table])]

    # Versions and pools ---------------------------------------------------------------------------------------------

    def version(self, table: str) -> str:
        """Code version of a stage: the versions of the classes, settings, prompts and models that make its rows."""
        if table == "scores":
            return content_id("scores", self._scoring)[:16]
        parts: list[object] = [table, self._selection]
        if table != "evidence":
            parts += [VERSION, self.variant.explain]
        if table == "chains":
            parts.append(self.answering.chain_version)
        if table in ("predictions", "counterfactuals"):
            parts.append(self.answering.version)
        if table == "predictions":
            parts.append(packaged_version())
        return content_id(*parts)[:16]

    @cached_property
    def _selection(self) -> list[str]:
        """Versions of what selects evidence."""
        variant = self.variant
        tasks = self.method.prompted_tasks
        prompts = prompts_version(variant.profile.generator, *tasks, prompts=variant.prompt_settings) if tasks else ""
        return [self.method.code_version, prompts]

    @property
    def _scoring(self) -> list[object]:
        """Versions and settings of the scores."""
        variant = self.variant
        parts: list[object] = [VERSION, SCORES_VERSION]
        if variant.family != "retrieval":
            parts += [variant.scores_triples, variant.bertscore, str(variant.printed.figures)]
        if self.uses_graph:
            parts.append(graph_stages.VERSION)
        return parts

    def pool(self, table: str) -> str | None:
        """Concurrency pool of a stage, by the models that it uses."""
        variant = self.variant
        kinds: Sequence[ModelKind]
        if table == "evidence":
            kinds = self.method.model_kinds
        elif table == "citations":
            return None
        elif table == "scores":
            if not variant.bertscore and variant.family != "graph":
                return None
            kinds = ["encoder"]
        else:
            kinds = self.answering.model_kinds
        return find_pool(variant.profile.generator, kinds)
