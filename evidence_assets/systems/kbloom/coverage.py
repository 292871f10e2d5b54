"""How much of what a model could yield a harvest has found: rows of ``scores``, by capture and recapture.

The kept prompts of a relation are dealt into two sets; each harvests by itself, and the overlap of the two catches says how
large the stock is. Prompts mined from the same seeds share their bias, so that coverage is rather overestimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from evidence_assets.experiment.scores.metrics import bare
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.harvest.prompt_mining import MinedPrompt
from evidence_assets.harvest.triple_metrics import capture_recapture
from evidence_assets.models.masked import MaskedLM
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.system import KBloomSettings, Kinds, SentenceEncoder, harvest


def deal(prompts: pl.DataFrame) -> tuple[list[MinedPrompt], list[MinedPrompt]]:
    """Two disjoint sets of the kept prompts (rows of ``prompts``): dealt in turn, the heaviest first."""
    own = pl.col("variant").fill_null("kbloom") != "bertnet"
    kept = prompts.filter(pl.col("kept") & own).sort("weight", "prompt_id", descending=[True, False])
    mined = [
        MinedPrompt(row["text"], row["weight"], row["bert_score"], row["ibleu"], row["certainty"], 0.0, True)
        for row in kept.iter_rows(named=True)
    ]  # fmt: skip
    return mined[0::2], mined[1::2]


def coverage_rows(
    relations: Sequence[Relation],
    prompts: pl.DataFrame,
    model: MaskedLM,
    encoder: SentenceEncoder,
    settings: KBloomSettings,
    variant: str,
    model_key: str,
    kinds: Kinds | None = None,
) -> list[dict[str, Any]]:
    """``coverage`` and ``findable`` tuples of every relation with two kept prompts; ``n`` is what both sets found."""
    rows: list[dict[str, Any]] = []
    for relation in sorted(relations, key=lambda each: each.id):
        halves = deal(prompts.filter(pl.col("relation_id") == relation.id))
        if not all(halves):
            continue
        catches = [
            {
                (triple.head, triple.tail)
                for triple in harvest(relation, model, encoder, settings, prompts=half, kinds=kinds).triples
            }
            for half in halves
        ]
        estimate = capture_recapture(*catches)
        found = len(catches[0] | catches[1])
        numbers = {"coverage": bare(estimate.share, found), "findable": bare(estimate.population, found)}
        rows += metric_rows(relation.id, variant, "", model_key, numbers, kind="relation")
    return rows
