"""Keys, inputs, versions and pools of the stages of a variant that selects evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evidence_assets.experiment.evidence.sources import source_inputs
from evidence_assets.experiment.scores import graph_stages
from evidence_assets.experiment.solvers import find_pool, prompts_version, reasoning_version
from evidence_assets.experiment.stage import InputPartitions, StageInput
from evidence_assets.experiment.system import Method, System, is_answered_by_model
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.ids import key_for_model
from evidence_assets.profiles import ModelKind
from evidence_assets.reasoning.confidence import packaged_version
from evidence_assets.reasoning.prompted_solver import PromptStyle
from evidence_assets.reasoning.published_prompts import STYLES

VERSION = "4"
"""Bump when equal evidence gives other chains, predictions, citations or scores."""


SCORES_VERSION = "4"
"""Bump when equal predictions give other scores."""


@dataclass(frozen=True)
class Plan:
    """A variant with its method and settings, and the properties that its stages share."""

    system: System
    variant: Variant
    method: Method[Any]
    settings: Any

    @property
    def explains_options(self) -> bool:
        """Whether each option gets a chain before one is chosen."""
        return self.variant.family in ("mcqa", "table")

    @property
    def uses_graph(self) -> bool:
        """Whether options are compared by evidence from a graph."""
        return self.variant.family == "mcqa" and "graph" in self.method.sources

    @property
    def style(self) -> PromptStyle:
        """Prompt style of the language model."""
        return STYLES[self.method.published_style if self.variant.uses_published_prompts else ""]

    # Names and inputs -----------------------------------------------------------------------------------------------

    @cached_property
    def evidence_models(self) -> dict[ModelKind, str]:
        """Names of the models that select evidence, by kind, where they differ from the profile's first."""
        kinds = self.method.resolve_model_kinds(self.settings)
        return {kind: name for kind, name in self.variant.using.items() if kind in kinds}

    @property
    def selector(self) -> str:
        """Name of the selector in rows, with the models that select."""
        return self.variant.with_models(self.variant.selector, self.evidence_models, "@")

    @property
    def vector_encoder(self) -> str:
        """Encoder of the stored vectors; empty for the profile's first."""
        return "" if self.method.has_own_encoder else self.evidence_models.get("encoder", "")

    def key(self, table: str) -> str:
        """Key of the asset with rows of a table, of this variant or its family."""
        variant = self.variant
        if table == "questions":
            return f"questions/{variant.family}"
        if table == "evidence":
            return variant.with_models(f"evidence/{variant.family}/{variant.selector}", self.evidence_models)
        if table == "subgraphs":
            return key_for_model("subgraphs/mcqa", self.vector_encoder)
        return f"{table}/{variant.key}"

    def read(self, *tables: str, partitions: InputPartitions = "same") -> list[StageInput]:
        """Input assets with rows of these tables, of this variant or its family."""
        return [StageInput(self.key(table), partitions) for table in tables]

    @property
    def _prepared(self) -> list[StageInput]:
        return list(self.method.extra_inputs(self.variant, self.settings))

    @property
    def sources(self) -> list[StageInput]:
        """Input assets to select evidence from."""
        return source_inputs(self.variant.family, self.method.sources, self.vector_encoder) + self._prepared

    @property
    def answer_sources(self) -> list[StageInput]:
        """Input assets of answers, beside questions, evidence and chains."""
        if self.explains_options:
            return list(self.method.solver_inputs(self.variant, self.settings))
        if self.method.open_answerer:
            return self.sources
        return self._prepared if self.method.preparation_problems else []

    @property
    def scored_tables(self) -> list[str]:
        optional = {"counterfactuals": self.variant.counterfactual, "subgraphs": self.uses_graph}
        return ["questions", "evidence", "predictions", "citations", *(table for table in optional if optional[table])]

    # Versions and pools ---------------------------------------------------------------------------------------------

    def version(self, table: str) -> str:
        """Code version of a stage: everything in code and settings that determines its rows."""
        variant = self.variant
        if table == "scores":
            settings: list[object] = [VERSION, SCORES_VERSION]
            if variant.family != "retrieval":
                settings += [variant.scores_triples, variant.bertscore, variant.published or ""]
            return ":".join(map(str, [*settings, *([graph_stages.VERSION] if self.uses_graph else [])]))
        tasks = self.method.prompted_tasks
        prompts = prompts_version(variant.profile.generator, *tasks, prompts=variant.prompt_settings) if tasks else ""
        selection = ":".join(filter(None, (self.system.version_with(self.settings), prompts)))
        if table == "evidence":
            return selection
        citations = f"{VERSION}:{selection}:{variant.explain}"
        if table == "citations":
            return citations
        profile, prompts_of = variant.profile, variant.prompt_settings
        if self.method.open_solver:  # part of the system's version
            reasoning = f"{profile.encoder.name}@{profile.encoder.revision}"
        else:
            reasoning = reasoning_version(variant.family, profile, self.style, prompts_of, reader=variant.reader)
        confidence = f":{packaged_version()}" if table == "predictions" else ""
        return f"{citations}:{reasoning}{confidence}"

    def pool(self, table: str) -> str | None:
        """Concurrency pool of a stage, by the models that it uses."""
        variant, selection_models = self.variant, self.method.resolve_model_kinds(self.settings)
        kinds: Sequence[ModelKind] = ["encoder"]
        if table == "citations" or (table == "scores" and not variant.bertscore and variant.family != "graph"):
            return None
        if table == "evidence" or (table != "scores" and self.method.open_answerer):
            kinds = selection_models
        elif table != "scores" and is_answered_by_model(variant):
            kinds = ["generator"] if variant.family == "table" else ["generator", "encoder"]
        return find_pool(variant.profile.generator, kinds)
