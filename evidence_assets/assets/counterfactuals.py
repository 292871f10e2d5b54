"""Answers without the evidence that they rest on, as an asset: the same for every component that makes predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from evidence_assets.benchmarks.declared import Family
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.table_asset import Made, Step, table_asset
from evidence_assets.experiment.counterfactuals import VERSION, AskedAgain, counterfactual_rows


def key_of(family: Family, name: str) -> str:
    """Key of the asset."""
    return f"counterfactuals/{family}/{name}"


def counterfactual_asset(
    family: Family,
    name: str,
    system: Callable[[Step], AskedAgain],
    *,
    deps: Sequence[dg.AssetDep | str],
    about: str,
    group: str,
    tags: Mapping[str, str],
    pool: str | None,
) -> dg.AssetsDefinition:
    """``counterfactuals/<family>/<name>``, beside the predictions of the same name; ``system`` answers again."""

    def make(step: Step) -> Made:
        rows = counterfactual_rows(
            system(step),
            step.read("predictions", f"predictions/{family}/{name}", step.partition),
            step.previous(),
            step.previous_lineage(),
        )
        return Made.of(rows)

    return table_asset(
        key_of(family, name),
        "counterfactuals",
        make,
        description=f"Answers without the evidence they cite: {about}.",
        code_version=VERSION,
        deps=deps,
        pool=pool,
        group=group,
        tags=tags,
        partitions=question_partitions(family),
    )
