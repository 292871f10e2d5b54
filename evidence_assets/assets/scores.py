"""The scores of a variant that writes predictions without chains: ranked nodes, short answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl

from evidence_assets.benchmarks.declared import Family
from evidence_assets.assets.counterfactuals import key_of
from evidence_assets.assets.partitions import BY_BENCHMARK, benchmark_partitions
from evidence_assets.assets.reasoner import Published
from evidence_assets.assets.table_asset import Made, Step, dep, table_asset
from evidence_assets.experiment import scoring
from evidence_assets.experiment.metrics import Estimate
from evidence_assets.experiment.published_figures import PrintedAs
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.schemas import TABLES

More = Callable[[Step, Sequence[dict[str, Any]], pl.DataFrame], Mapping[str, Estimate]]


def scores_asset(
    family: Family,
    name: str,
    *,
    group: str,
    about: str,
    headline: str,
    tags: Mapping[str, str],
    published: Published | None = None,
    more: More | None = None,
    more_version: str = "",
    counterfactual: bool = False,
) -> dg.AssetsDefinition:
    """``scores/<family>/<name>``; ``headline`` is the metric shown with its interval, ``more`` adds metrics.

    ``counterfactual`` says that the variant has counterfactuals, and adds what they come to.
    """
    printed = None if published is None else PrintedAs(published.system, published.variant, published.language_model)
    named = (published.system, published.variant, published.language_model) if published else ()
    place = f"{family}/{name}"
    inputs = {
        "questions": f"questions/{family}", "predictions": f"predictions/{place}", "evidence": f"evidence/{place}"
    }  # fmt: skip

    again = key_of(family, name)

    def make(step: Step) -> Made:
        read = {table: step.read_benchmark(table, asset) for table, asset in inputs.items()}
        predicted = read["predictions"]
        if read["questions"].height and not predicted.height:
            raise StaleInput(f"{inputs['predictions']} has no rows for {step.benchmark}: materialize it first")
        rows = scoring.score_rows(
            step.benchmark,
            name,
            predicted["reasoner"][0] if predicted.height else "",
            predicted["model_id"][0] if predicted.height else "",
            read["questions"],
            predicted,
            read["evidence"],
            pl.DataFrame(schema=dict.fromkeys(TABLES["citations"].names, pl.String)),
            printed_as=printed,
            counterfactuals=step.read_benchmark("counterfactuals", again) if counterfactual else None,
            more=more(step, read["questions"].sort("question_id").to_dicts(), read["evidence"]) if more else None,
        )
        shown = {row["metric"]: row["value"] for row in rows if row["value"] is not None}
        best = next(row for row in rows if row["metric"] == headline)
        interval = f"{best['value'] or 0:.1%} [{best['low'] or 0:.1%}, {best['high'] or 0:.1%}], n = {best['n']}"
        compared = {f"published_{r['metric']}": r["published"] for r in rows if r["published"] is not None}
        speed = step.pace(inputs["evidence"], inputs["predictions"])
        return Made(rows, metadata={**shown, **compared, f"{headline}_95": interval, **speed})

    return table_asset(
        f"scores/{place}",
        "scores",
        make,
        description=f"What the variant reaches: {about}.",
        code_version=":".join([scoring.VERSION, *filter(None, (more_version, *named))]),
        deps=[dep(key, BY_BENCHMARK) for key in (*inputs.values(), *([again] if counterfactual else []))],
        group=group,
        tags=tags,
        partitions=benchmark_partitions(family),
    )
