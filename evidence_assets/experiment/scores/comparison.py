"""Two variants on the same questions, so that a difference is never read off two noisy numbers.

Reads stored predictions with DuckDB; nothing is predicted again, and neither Dagster nor torch is loaded.
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
    """Two variants, A and B, on the questions of one benchmark that both have answered."""

    benchmark: str
    n: int
    accuracy_a: float
    accuracy_b: float
    only_a: int
    """Questions that only A answers rightly."""
    only_b: int
    difference: Estimate
    """Mean of A − B with its paired bootstrap interval (95 %)."""
    p_value: float
    """McNemar's exact test, two-sided."""
    left_out: int
    """Questions that only one of the two has a prediction for."""

    @property
    def verdict(self) -> str:
        """``A``, ``B`` or ``undecided``: better only where the interval excludes 0 and McNemar's test agrees."""
        if self.p_value >= SIGNIFICANT or self.difference.low <= 0 <= self.difference.high:
            return "undecided"
        return "A" if self.difference.value > 0 else "B"

    def as_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        difference = self.difference
        interval = {"difference": difference.value, "low": difference.low, "high": difference.high}
        return vars(self) | interval | {"verdict": self.verdict}


def list_variants(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Variants with stored predictions, as ``family/name``."""
    rows = connection.execute("SELECT DISTINCT asset FROM predictions ORDER BY asset").fetchall()
    return [row[0].removeprefix("predictions/") for row in rows]


def _assets(variant: str, known: list[str]) -> list[str]:
    """Variants of a name: ``family/name``, or ``name`` in whatever families have it; ``name@model`` unless the model is
    the profile's first."""
    name, *models = variant.split("@")
    profile = profiles.load()
    first = {profile.model_names(kind)[0] for kind in MODEL_KINDS}
    wanted = "/".join([name, *(model for model in models if model not in first)])
    found = [v for v in known if wanted in (v, v.partition("/")[2])]
    if not found:
        raise BadInput(f"no predictions of a variant {variant!r}; there are: {', '.join(known) or 'none'}")
    return found


def compare(
    connection: duckdb.DuckDBPyConnection, variant_a: str, variant_b: str, benchmark: str | None = None
) -> list[Comparison]:
    """Both variants on every benchmark that both have answered, or on one of them."""
    known = list_variants(connection)
    predicted = []
    for variant in (variant_a, variant_b):
        rows = query_rows(
            connection,
            """
            SELECT question_id, benchmark, answer, status FROM predictions
            WHERE asset IN (SELECT 'predictions/' || unnest($variants)) ORDER BY question_id
            """,
            variants=_assets(variant, known),
        )
        predicted.append({row["question_id"]: row for row in rows})
    first, second = predicted
    shared = sorted({r["benchmark"] for r in first.values()} & {r["benchmark"] for r in second.values()})
    if benchmark is not None and benchmark not in shared:
        raise BadInput(f"{benchmark!r} was not answered by both variants; {', '.join(shared) or 'no benchmark'} was")
    if not shared:
        raise BadInput(f"{variant_a} and {variant_b} have answered no benchmark in common")
    names = [benchmark] if benchmark is not None else shared
    questions = _questions(connection, names)
    return [_compare_on(name, questions[name], first, second) for name in names]


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
    both = [q for q in questions if q["question_id"] in first and q["question_id"] in second]
    either = [q for q in questions if q["question_id"] in first or q["question_id"] in second]
    if not both:
        raise BadInput(f"{benchmark}: the two have no question in common; answer it again with both")
    right_a = [is_correct(q, first[q["question_id"]]) for q in both]
    right_b = [is_correct(q, second[q["question_id"]]) for q in both]
    return Comparison(
        benchmark,
        len(both),
        sum(right_a) / len(both),
        sum(right_b) / len(both),
        sum(a and not b for a, b in zip(right_a, right_b, strict=True)),
        sum(b and not a for a, b in zip(right_a, right_b, strict=True)),
        paired_bootstrap([float(a) for a in right_a], [float(b) for b in right_b]),
        mcnemar_exact(right_a, right_b),
        len(either) - len(both),
    )
