"""What models say of a harvest: rows of ``scores`` where no truth is known.

Belongs here: judged precision and noise, agreement of two judges, and the likelihood of the statements. Triples are put
to models as statements, by the template of their relation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets.experiment.scores.metrics import bootstrap
from evidence_assets.harvest.triple_metrics import cohens_kappa, judge_precision, novel_only
from evidence_assets.systems.kbloom.scores import Number, rows_of
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judging import Judge
from evidence_assets.text.prompt_text import as_sentence, fill


class Likelihood(Protocol):
    """Rates texts given the ones before them."""

    @property
    def model_id(self) -> str: ...
    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.floating]: ...


def statement(relation: Relation, head: str, tail: str) -> str:
    """A triple as a sentence, by its relation's template."""
    return as_sentence(fill(relation.template, head, tail))


def judged_rows(
    relations: Sequence[Relation],
    triples: pl.DataFrame,
    *,
    variants: Mapping[str, str],
    judges: Sequence[Judge] = (),
    likelihood: Likelihood | None = None,
) -> list[dict[str, Any]]:
    """Rows for every relation and variant; ``variants`` says under which name each origin's triples are scored.

    * ``judge_precision`` and ``judge_noisy``, in per cent, by each judge (its name is the ``reasoner``), and
      ``judge_precision_novel`` over what the other variants did not find. A statement without a usable verdict counts
      neither way; ``n`` says how many have one.
    * ``judge_kappa`` of the first two judges, over the statements that both judged.
    * ``likelihood``: mean log-probability of the statement after the relation's seed statements, with its interval over
      the triples. Seeds themselves are left out of everything.
    """
    rows: list[dict[str, Any]] = []
    for relation in sorted(relations, key=lambda each: each.id):
        seeds = {(head.casefold(), tail.casefold()) for head, tail in relation.pairs}
        pairs: dict[str, list[tuple[str, str]]] = {}
        for origin in variants:
            own = triples.filter((pl.col("origin") == origin) & (pl.col("relation_id") == relation.id)).sort("rank")
            pairs[origin] = [
                p for p in own.select("head", "tail").rows() if (p[0].casefold(), p[1].casefold()) not in seeds
            ]
        for origin, variant in variants.items():
            if not pairs[origin]:
                continue
            texts = [statement(relation, *pair) for pair in pairs[origin]]
            elsewhere = [pair for other, found in pairs.items() if other != origin for pair in found]
            novel = novel_only(pairs[origin], elsewhere)
            verdicts = [[v if isinstance(v, bool) else None for v in judge.judge(texts)] for judge in judges]
            model = str(triples["model_id"][0])
            for judge, said in zip(judges, verdicts, strict=True):
                numbers = _verdict_numbers(said, [said[i] for i in novel] if elsewhere else None)
                rows += rows_of("relation", relation.id, variant, model, numbers, judge.model_id)
            if len(verdicts) > 1:
                both = [(a, b) for a, b in zip(*verdicts[:2], strict=True) if a is not None and b is not None]
                kappa = cohens_kappa(*zip(*both, strict=True)) if both else float("nan")
                number: Number = (None if kappa != kappa else kappa, None, None, len(both))
                rows += rows_of("relation", relation.id, variant, model, {"judge_kappa": number}, judges[0].model_id)
            if likelihood is not None:
                before = " ".join(statement(relation, *seed) for seed in relation.pairs)
                rated = bootstrap(likelihood.score([(before, text) for text in texts]), resamples=1000)
                number = (rated.value, rated.low, rated.high, rated.n)
                rows += rows_of("relation", relation.id, variant, model, {"likelihood": number}, likelihood.model_id)
    return rows


def _verdict_numbers(said: Sequence[bool | None], novel: Sequence[bool | None] | None) -> dict[str, Number]:
    judged = sum(verdict is not None for verdict in said)
    if not judged:
        return {"judge_precision": (None, None, None, 0)}
    precision, noisy = judge_precision(said)
    numbers: dict[str, Number] = {
        "judge_precision": (precision, None, None, judged),
        "judge_noisy": (noisy, None, None, judged),
    }
    if novel is not None and any(verdict is not None for verdict in novel):
        of = sum(verdict is not None for verdict in novel)
        numbers["judge_precision_novel"] = (judge_precision(novel)[0], None, None, of)
    return numbers
