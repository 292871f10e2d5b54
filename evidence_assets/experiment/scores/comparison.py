"""Paired comparison of two variants on the same questions.

Reads stored predictions with DuckDB, without Dagster or torch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import Estimate, mcnemar_exact, paired_bootstrap
from evidence_assets.experiment.scores.scoring import is_correct
from evidence_assets.lake.errors import BadInput
from evidence_assets.profiles import MODEL_KINDS

SIGNIFICANT = 0.05
ANSWERS_QUERY = """
    WITH a AS (SELECT * FROM predictions WHERE asset IN (SELECT 'predictions/' || unnest($a))),
         b AS (SELECT * FROM predictions WHERE asset IN (SELECT 'predictions/' || unnest($b)))
    SELECT q.benchmark, {'task': q.task, 'gold': q.gold, 'gold_aliases': q.gold_aliases},
           CASE WHEN a.status IS NOT NULL THEN {'answer': a.answer, 'status': a.status} END,
           CASE WHEN b.status IS NOT NULL THEN {'answer': b.answer, 'status': b.status} END
    FROM questions q LEFT JOIN a USING (question_id) LEFT JOIN b USING (question_id)
    WHERE (a.status IS NOT NULL OR b.status IS NOT NULL) AND q.gold IS NOT NULL ORDER BY q.benchmark, question_id
"""
"""Graded questions with the predictions of two variants, or of one."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of variants A and B on the questions of one benchmark that both answered."""

    benchmark: str
    n: int
    accuracy_a: float
    accuracy_b: float
    only_a: int
    """Number of questions that only A answers correctly."""
    only_b: int
    difference: Estimate
    """Mean of A − B with its paired bootstrap interval (95 %)."""
    p_value: float
    """McNemar's exact test, two-sided."""
    left_out: int
    """Number of questions with a prediction of only one variant."""

    @property
    def verdict(self) -> str:
        """``A``, ``B`` or ``undecided``; a win needs an interval without 0 and a significant McNemar's test."""
        if self.p_value >= SIGNIFICANT or self.difference.low <= 0 <= self.difference.high:
            return "undecided"
        return "A" if self.difference.value > 0 else "B"

    def as_dict(self) -> dict[str, Any]:
        """JSON representation."""
        difference = self.difference
        interval = {"difference": difference.value, "low": difference.low, "high": difference.high}
        return vars(self) | interval | {"verdict": self.verdict}


def _find_variants(connection: duckdb.DuckDBPyConnection, variant: str) -> list[str]:
    """Variants with predictions, by ``family/name`` or ``name`` of any family, optionally with ``@model``."""
    rows = connection.execute("SELECT DISTINCT asset FROM predictions ORDER BY asset").fetchall()
    names = [row[0].removeprefix("predictions/") for row in rows]
    name, *models = variant.split("@")
    profile = profiles.load()
    first = {profile.model_names(kind)[0] for kind in MODEL_KINDS}
    key = "/".join([name, *(model for model in models if model not in first)])
    matches = [v for v in names if key in (v, v.partition("/")[2])]
    if not matches:
        raise BadInput(f"no predictions of a variant {variant!r}; there are: {', '.join(names) or 'none'}")
    return matches


def compare(
    connection: duckdb.DuckDBPyConnection, variant_a: str, variant_b: str, benchmark: str | None = None
) -> list[Comparison]:
    """Compare two variants on one benchmark, or on all that both answered."""
    names = {"a": _find_variants(connection, variant_a), "b": _find_variants(connection, variant_b)}
    answers: dict[str, list[tuple[dict[str, Any], ...]]] = defaultdict(list)
    for name, *question_and_predictions in connection.execute(ANSWERS_QUERY, names).fetchall():
        answers[name].append(tuple(question_and_predictions))
    shared = [name for name, rows in answers.items() if any(a and b for _, a, b in rows)]
    if benchmark is not None and benchmark not in shared:
        raise BadInput(
            f"{benchmark!r} was not answered by both variants; common benchmarks: {', '.join(shared) or 'none'}"
        )
    if not shared:
        raise BadInput(
            f"{variant_a} and {variant_b} have no question in common: answer a benchmark with both, "
            f"`evidence run BENCHMARK --variants {variant_a},{variant_b}`"
        )
    return [_compare_on(name, answers[name]) for name in shared if benchmark in (None, name)]


def _compare_on(benchmark: str, answers: list[tuple[dict[str, Any], ...]]) -> Comparison:
    outcomes = [(is_correct(question, a), is_correct(question, b)) for question, a, b in answers if a and b]
    correct_a, correct_b = zip(*outcomes, strict=True)
    return Comparison(
        benchmark,
        len(outcomes),
        sum(correct_a) / len(outcomes),
        sum(correct_b) / len(outcomes),
        sum(a and not b for a, b in outcomes),
        sum(b and not a for a, b in outcomes),
        paired_bootstrap(correct_a, correct_b),
        mcnemar_exact(correct_a, correct_b),
        len(answers) - len(outcomes),
    )
