"""Scores of a harvest that need more than the harvest itself: other language models, or harvesting again.

All of them are opted in: by the profile, which names the models that judge and rate, or by the component.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.models_in_use import MASKED_LM, encoder, masked_lm, model_key, text_likelihood
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.relations import SEEDS
from evidence_assets.assets.solvers import generator
from evidence_assets.assets.table_asset import Made, Step, dep, table_asset
from evidence_assets.models.completion_cache import CompletionCache
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reasoning.asking import Remembered
from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom import coverage as harvest_coverage
from evidence_assets.systems.kbloom import judging as harvest_judging
from evidence_assets.systems.kbloom import rows as harvest_rows
from evidence_assets.systems.kbloom.statement_judging import PromptedJudge
from evidence_assets.systems.kbloom.system import KBloomSettings

SEEDS_NAME = "/".join(SEEDS.path)


def judges() -> list[GeneratorSettings]:
    """The generators that judge: those that the profile names for it, else its language model, if it has one."""
    profile = profiles.load()
    named = profile.harvesting.judges or (profile.generator,)
    return [settings for settings in named if settings.backend != "extractive"]


def judged(base: str, group: str, variants: Mapping[str, str], tags: Mapping[str, str]) -> list[dg.AssetsDefinition]:
    """``scores/<base>_judged``, where the profile names a model that judges or one that rates texts."""
    asked, rated = judges(), profiles.load().harvesting.likelihood
    if not asked and rated is None:
        return []

    def make(step: Step) -> Made:
        kept, told = CompletionCache(step.lake.cache), step.progress("verdicts")
        rows = harvest_judging.judged_rows(
            harvest_rows.relations_of(step.read("relation_seeds", SEEDS_NAME)),
            step.read("triples", f"{base}/harvest"),
            variants=variants,
            judges=[PromptedJudge(Remembered(generator(settings), kept, told)) for settings in asked],
            likelihood=None if rated is None else text_likelihood(rated),
        )
        return Made(rows)

    names = [settings.name for settings in asked] + ([rated.name] if rated else [])
    return [
        table_asset(
            f"scores/{base}_judged", "scores", make, group=group, tags=tags, pool="llm",
            code_version=f"{VERSION}:{names}",
            description="What language models say of the harvest: judged precision and noise, agreement of two judges, "
            "likelihood of the statements.",
            deps=[dep(f"{base}/harvest", EVERY), dep(SEEDS_NAME, EVERY)],
        )
    ]  # fmt: skip


def coverage(
    base: str, group: str, settings: KBloomSettings, kinds: str, tags: Mapping[str, str]
) -> dg.AssetsDefinition:
    """``scores/<base>_coverage``: each relation harvested by two disjoint sets of its prompts."""

    def make(step: Step) -> Made:
        model = masked_lm(step.lake, step.profile.harvesting.model)
        rows = harvest_coverage.coverage_rows(
            harvest_rows.relations_of(step.read("relation_seeds", SEEDS_NAME)),
            step.read("prompts", f"{base}/harvest"),
            model,
            encoder(step.profile.encoder),
            settings,
            base.rpartition("/")[2],
            model_key(model),
            harvest_rows.kinds_of(step.read("triples", kinds)) if kinds else None,
        )
        return Made(rows)

    return table_asset(
        f"scores/{base}_coverage", "scores", make, group=group, tags=tags, kinds=("parquet", "pytorch"), pool="gpu",
        code_version=f"{VERSION}:{settings}",
        description="How much of what the model could yield was found, by two catches with disjoint prompts.",
        deps=[dep(f"{base}/harvest", EVERY), dep(SEEDS_NAME, EVERY), MASKED_LM, *([kinds] if kinds else [])],
    )  # fmt: skip
