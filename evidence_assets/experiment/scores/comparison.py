"""Paired comparison of two variants on the same questions.

Reads stored predictions with DuckDB, without Dagster or torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import Estimate, mcnemar_exact, paired_bootstrap
from evidence_assets.experiment.scores.scoring import is_correct
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.row_locations import query_rows
from evidence_assets.profiles import MODEL_KINDS

SIGNIFICANT = 0.05
Answers = dict[str, dict[str, Any]]
"""Predictions by question id."""


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


def list_variants(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Variants with stored predictions, as ``family/name``."""
    rows = connection.execute("SELECT DISTINCT asset FROM predictions ORDER BY asset").fetchall()
    return [row[0].removeprefix("predictions/") for row in rows]


def _find_variants(variant: str, names: list[str]) -> list[str]:
    """Variants by ``family/name`` or ``name`` of any family, optionally with ``@model``."""
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
    names = list_variants(connection)
    predicted = []
    for variant in (variant_a, variant_b):
        rows = query_rows(
            connection,
            """
            SELECT question_id, benchmark, answer, status FROM predictions
            WHERE asset IN (SELECT 'predictions/' || unnest($variants)) ORDER BY question_id
            """,
            variants=_find_variants(variant, names),
        )
        predicted.append({row["question_id"]: row for row in rows})
    first, second = predicted
    shared = sorted({r["benchmark"] for r in first.values()} & {r["benchmark"] for r in second.values()})
    if benchmark is not None and benchmark not in shared:
        raise BadInput(
            f"{benchmark!r} was not answered by both variants; common benchmarks: {', '.join(shared) or 'none'}"
        )
    if not shared:
        raise BadInput(
            f"{variant_a} and {variant_b} have no benchmark in common: answer one with both, "
            f"`evidence run BENCHMARK --variants {variant_a},{variant_b}`"
        )
    selected = [benchmark] if benchmark is not None else shared
    questions = _questions(connection, selected)
    return [_compare_on(name, questions[name], first, second) for name in selected]


def _questions(connection: duckdb.DuckDBPyConnection, benchmarks: list[str]) -> dict[str, list[dict[str, Any]]]:
    sql = """
        SELECT question_id, benchmark, task, gold, gold_aliases FROM questions
        WHERE benchmark IN (SELECT unnest($names)) ORDER BY question_id
    """
    questions: dict[str, list[dict[str, Any]]] = {name: [] for name in benchmarks}
    for row in query_rows(connection, sql, names=benchmarks):
        questions[row["benchmark"]].append(row)
    return questions


def _compare_on(benchmark: str, questions: list[dict[str, Any]], first: Answers, second: Answers) -> Comparison:
    shared = [q for q in questions if q["question_id"] in first and q["question_id"] in second]
    answered = [q for q in questions if q["question_id"] in first or q["question_id"] in second]
    if not shared:
        raise BadInput(f"{benchmark}: the variants have no question in common; answer it with both")
    correct_a = [is_correct(q, first[q["question_id"]]) for q in shared]
    correct_b = [is_correct(q, second[q["question_id"]]) for q in shared]
    return Comparison(
        benchmark,
        len(shared),
        sum(correct_a) / len(shared),
        sum(correct_b) / len(shared),
        sum(a and not b for a, b in zip(correct_a, correct_b, strict=True)),
        sum(b and not a for a, b in zip(correct_a, correct_b, strict=True)),
        paired_bootstrap([float(a) for a in correct_a], [float(b) for b in correct_b]),
        mcnemar_exact(correct_a, correct_b),
        len(answered) - len(shared),
    )
