"""What a language model recalls for questions on a graph, kept apart from what sources say."""

from __future__ import annotations

import dagster as dg

from evidence_assets.benchmarks.declared import of_family
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.table_asset import Made, Step, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.solvers import generator
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.completion_cache import CompletionCache
from evidence_assets.systems.background import system as background_knowledge


class Background(dg.Component, Variant):
    """Makes ``chains/graph/<name>``, what the model recalled, and ``triples/graph/<name>`` with origin ``background``."""

    name: str
    group: str = "graph_questions"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.loaded or not of_family("graph"):
            return dg.Definitions()
        chains, partitions = f"chains/graph/{self.name}", question_partitions("graph")

        def make_chains(step: Step) -> Made:
            settings = step.profile.generator
            if settings.backend == "extractive":
                raise BadInput(
                    f"background knowledge takes a language model: name one under `generator` in the profile "
                    f"{step.profile.name}, or leave this variant out"
                )
            source = background_knowledge.PromptedBackground(
                generator(settings), CompletionCache(step.lake.cache), step.progress("requests")
            )
            questions = asked(step.read("questions", "questions/graph", step.partition))
            rows = background_knowledge.recall_rows(
                source, self.name, questions, step.previous(), step.previous_lineage()
            )
            return Made.of(rows)

        def make_triples(step: Step) -> Made:
            rows = background_knowledge.triple_rows(step.read("chains", chains, step.partition))
            return Made(rows.rows, rows.lineage, rows.metadata)

        made = [
            table_asset(
                chains, "chains", make_chains, description="Entities, relations and facts that a language model recalls.",
                code_version=background_knowledge.VERSION, deps=["questions/graph"], pool="llm", group=self.group, tags=self.tags,
                partitions=partitions,
            ),
            table_asset(
                f"triples/graph/{self.name}", "triples", make_triples,
                description="Recalled facts as triples: model knowledge, stated in no source.",
                code_version=background_knowledge.VERSION, deps=[chains], group=self.group, tags=self.tags, partitions=partitions,
            ),
        ]  # fmt: skip
        return dg.Definitions(assets=made, asset_checks=[sound_check(asset) for asset in made])
