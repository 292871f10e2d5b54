"""A variant that is judged by the passages it finds: evidence by one method, and its recall of the gold documents."""

from __future__ import annotations

from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from evidence_assets.benchmarks.declared import benchmarks, of_family
from evidence_assets.assets.partitions import BY_BENCHMARK, EVERY, benchmark_partitions
from evidence_assets.assets.selector import Selector
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment import passage_scores, scoring


class Retrieval(dg.Component, Variant):
    """Makes ``evidence`` and ``scores`` of ``retrieval/<name>``."""

    name: str
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    group: str = "retrieval"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.loaded or not of_family("retrieval"):
            return dg.Definitions()
        place = f"retrieval/{self.name}"
        selector = Selector(
            name=self.name, family="retrieval", method=self.method, parameters=self.parameters, group=self.group,
            presets=self.presets, always=self.always,
        )  # fmt: skip
        corpora = sorted({b.corpus for b in of_family("retrieval") if b.corpus})

        def make_scores(step: Step) -> Made:
            questions, evidence = (step.read_benchmark(t, a) for t, a in (
                ("questions", "questions/retrieval"), ("evidence", f"evidence/{place}")
            ))  # fmt: skip
            chunks = step.lake.read(
                "chunks", f"corpus/{step.benchmark.corpus}/chunks", columns=["chunk_id", "doc_id"]
            ).filter(pl.col("chunk_id").is_in(evidence["source_id"].unique().to_list()))
            metrics = passage_scores.passage_metrics(
                questions.sort("question_id").to_dicts(), evidence, dict(chunks.iter_rows())
            )
            rows = scoring.metric_rows(step.benchmark, self.name, "", "", metrics)
            return Made(rows, metadata={row["metric"]: row["value"] for row in rows if row["value"] is not None})

        scores = table_asset(
            f"scores/{place}", "scores", make_scores, description=f"Gold documents found by {self.name}.",
            group=self.group, tags=self.tags, code_version=f"{scoring.VERSION}:{passage_scores.VERSION}",
            deps=[
                dep("questions/retrieval", BY_BENCHMARK), dep(f"evidence/{place}", BY_BENCHMARK),
                *(dep(f"corpus/{name}/chunks", EVERY) for name in corpora),
            ],
            partitions=benchmark_partitions("retrieval"),
        )  # fmt: skip
        return dg.Definitions.merge(
            selector.build_defs(context), dg.Definitions(assets=[scores], asset_checks=[sound_check(scores)])
        )
