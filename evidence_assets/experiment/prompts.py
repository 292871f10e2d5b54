"""Prompt previews: the requests of a variant for one question, without sending them.

Replies inside a prompt come from the lake, else a placeholder such as ``[reply 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from evidence_assets import profiles
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.system import System
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import shard_of
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request


@dataclass(frozen=True)
class PromptPreview:
    """A request and the asset whose stage would send it."""

    asset: str
    request: Request


def preview_prompts(system: System, variant: Variant, lake: Lake, question: str = "") -> list[PromptPreview]:
    """Requests of a variant for a question, or for the first question with evidence."""
    all_stages = (stage for stage in build_stages(system, variant) if stage.partitions == "questions")
    stages = [stage for stage in all_stages if stage.table in ("chains", "predictions")]
    no_requests = f"variant {variant.key} sends no requests about questions to a language model: choose another"
    if not stages:
        raise BadInput(no_requests)
    evidence_assets = [item.key for stage in stages for item in stage.inputs if item.key.startswith("evidence/")]
    question_id, partition = _find_question(variant.family, evidence_assets, lake, question)
    previews: list[PromptPreview] = []
    replacement_rows: dict[str, pl.DataFrame] = {}
    for stage in stages:
        requests = list[Request]()
        options: dict[str, Any] = {"question_id": question_id, "captured_requests": requests}
        context = StageContext(lake, stage.table, stage.key, partition, **options, replacement_rows=replacement_rows)
        rows = pl.DataFrame(prepare_rows(stage.table, stage.run(context).rows))
        if stage.table == "chains" and context.read_partition("chains", stage.key).is_empty():
            replacement_rows[stage.key] = rows
        previews += [PromptPreview(stage.key, request) for request in requests]
    if not previews:
        raise BadInput(no_requests)
    return previews


def _find_question(family: str, evidence: list[str], lake: Lake, prefix: str) -> tuple[str, str]:
    """Id and partition of the question with this id prefix, or of the first question with evidence."""
    missing_asset = next((key for key in evidence if not lake.files("evidence", key)), "")
    if missing_asset:
        raise BadInput(f"there is no evidence: materialize {missing_asset} first")
    questions = lake.read("questions", f"questions/{family}", columns=["question_id", "benchmark"])
    matches = questions.filter(pl.col("question_id").str.starts_with(prefix)).sort("question_id")
    if not prefix and evidence:
        with_evidence = lake.read("evidence", evidence[0], columns=["question_id"])["question_id"].unique().to_list()
        matches = matches.filter(pl.col("question_id").is_in(with_evidence)) if with_evidence else matches
    if matches.is_empty() or (prefix and matches.height > 1):
        count = matches.height or "no"
        raise BadInput(f"{count} {family} questions of this lake have an id that begins with {prefix!r}: give one id")
    question_id, benchmark = matches.row(0)
    return question_id, f"{benchmark}|{shard_of(question_id, profiles.load().shards.questions)}"
