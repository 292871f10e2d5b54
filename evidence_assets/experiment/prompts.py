"""What a language model would be sent for one question: the steps of a variant, which put their requests into a list.

Where a prompt holds replies, those that the lake has stand in it, else a place such as ``[reply 1]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evidence_assets import profiles
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.system import CustomStages, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import shard_of
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request


@dataclass(frozen=True)
class PromptPreview:
    """One request, with the asset whose step would send it."""

    asset: str
    request: Request


def preview_prompts(system: System, variant: Variant, lake: Lake, question: str = "") -> list[PromptPreview]:
    """Every request that a variant would send for a question, or for the first that has evidence.

    A system that asks about something else than questions shows what it asks about the first of these.
    """
    method, requests = system.method_of(variant), list[Request]()
    if isinstance(method, CustomStages) and method.preview_prompt and not question:
        step = StageContext(
            lake,
            "scores",
            f"scores/{variant.key}",
            captured_requests=requests,
            models=variant.using,
            words=variant.words,
        )
        method.preview_prompt(variant, method.settings_of(variant), step)
        return [PromptPreview(step.asset, request) for request in requests]
    made = [stage for stage in build_stages(system, variant) if stage.partitions == "questions"]
    asking = [stage for stage in made if stage.table in ("chains", "predictions")]
    if not asking:
        raise BadInput(f"variant {variant.key} asks no language model about a question")
    reads = [read.key for stage in asking for read in stage.inputs if read.key.startswith("evidence/")]
    question_id, partition = _question(variant.family, reads, lake, question)
    shown: list[PromptPreview] = []
    replacement_rows: dict[str, pl.DataFrame] = {}
    for stage in asking:
        requests = []
        step = StageContext(
            lake,
            stage.table,
            stage.key,
            partition,
            question_id=question_id,
            captured_requests=requests,
            replacement_rows=replacement_rows,
        )
        rows = pl.from_arrow(prepare_rows(stage.table, stage.run(step).rows))
        assert isinstance(rows, pl.DataFrame)
        if stage.table == "chains" and step.read_partition("chains", stage.key).is_empty():
            replacement_rows[stage.key] = rows
        shown += [PromptPreview(stage.key, request) for request in requests]
    if not shown:
        raise BadInput(f"variant {variant.key} asks no language model about a question")
    return shown


def _question(family: str, evidence: list[str], lake: Lake, beginning: str) -> tuple[str, str]:
    """Id and partition of the question whose id begins so, or of the first with evidence."""
    missing = next((key for key in evidence if not lake.files("evidence", key)), "")
    if missing:
        raise BadInput(f"there is no evidence to ask from: materialize {missing} first")
    asked = lake.read("questions", f"questions/{family}", columns=["question_id", "benchmark"])
    found = asked.filter(pl.col("question_id").str.starts_with(beginning)).sort("question_id")
    if not beginning and evidence:
        ready = lake.read("evidence", evidence[0], columns=["question_id"])["question_id"].unique().to_list()
        found = found.filter(pl.col("question_id").is_in(ready)) if ready else found
    if found.is_empty() or (beginning and found.height > 1):
        counted = "no" if found.is_empty() else f"{found.height}"
        raise BadInput(f"{counted} {family} questions of this lake have an id that begins with {beginning!r}")
    question_id, benchmark = found.row(0)
    return question_id, f"{benchmark}|{shard_of(question_id, profiles.load().shards.questions)}"
