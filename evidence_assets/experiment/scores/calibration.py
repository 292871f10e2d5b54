"""Confidence fitted on graded answers of a lake, and how well it is calibrated on the other half of the questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from evidence_assets.experiment.scores.metrics import Half, calibration_error, halve
from evidence_assets.experiment.scores.scoring import is_correct
from evidence_assets.experiment.stored_rows import PredictionRow, QuestionRow, typed_rows
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.confidence import FITTED, Fit, Signals, confidence_family, fit_weights, fitted_signals

CONFIDENCE_ASSET = "models/confidence"
"""Prefix of the assets with the fits of a lake, one per family."""


@dataclass(frozen=True)
class GradedAnswer:
    """An answer with the signals of its confidence, and whether it is correct."""

    benchmark: str
    question_id: str
    variant: str
    signals: Signals
    is_correct: bool
    status: str = "answered"


AnswersByModel = dict[tuple[str, str], list[GradedAnswer]]
"""Graded answers by family and ``model_id``, as in :data:`Fits`."""


def read_graded_answers(lake: Lake, half: Half) -> AnswersByModel:
    """Answers of all variants to the questions with gold answers, on one half of each benchmark by question id."""
    questions = _read_half(lake, half)
    graded = {row["question_id"]: row for row in typed_rows(questions, QuestionRow) if row["gold"]}
    answers: AnswersByModel = {}
    for asset in sorted(asset for table, asset in lake.assets() if table == "predictions"):
        for row in typed_rows(lake.read("predictions", asset), PredictionRow):
            question = graded.get(row["question_id"])
            if question is None:
                continue
            signals = {each["name"]: each["value"] for each in row["signals"] or ()}
            if not fitted_signals(signals):
                continue
            key = confidence_family(question["task"], question["options"]), row["model_id"]
            answer = GradedAnswer(
                row["benchmark"],
                row["question_id"],
                asset.removeprefix("predictions/"),
                signals,
                is_correct(question, row["answer"], row["status"]),
                row["status"],
            )
            answers.setdefault(key, []).append(answer)
    return answers


def _read_half(lake: Lake, half: Half) -> pl.DataFrame:
    """Half of the questions of each benchmark; in all its subsets, a question is in the same half."""
    benchmark = pl.col("benchmark").str.split(".").list.first().alias("whole")
    first_id = pl.col("question_id").min().over("whole", "source_id").alias("first_id")
    questions = lake.read("questions").unique("question_id").with_columns(benchmark).with_columns(first_id)
    distinct = questions.filter(pl.col("question_id") == pl.col("first_id"))
    ids = [halve(group, half)["question_id"] for group in distinct.partition_by("whole")]
    return questions.filter(pl.col("first_id").is_in(pl.concat(ids).implode() if ids else []))


def fit_answers(answers: Sequence[GradedAnswer]) -> Fit:
    """The fit of answers with the best signals; the variants of a question together weigh as much as one."""
    available = {fitted_signals(answer.signals) for answer in answers}
    names = next(names for names in FITTED if names in available)
    answers = [answer for answer in answers if fitted_signals(answer.signals) == names]
    variants = Counter((answer.benchmark, answer.question_id) for answer in answers)
    weights = fit_weights(
        [[answer.signals[name] for name in names] for answer in answers],
        [answer.is_correct for answer in answers],
        [1 / variants[answer.benchmark, answer.question_id] for answer in answers],
    )
    sets = Counter(benchmark for benchmark, _ in variants)
    return Fit(dict(zip(("intercept", *names), weights, strict=True)), dict(sorted(sets.items())))


def fits_without_each_set(answers: Sequence[GradedAnswer]) -> dict[str, Fit]:
    """By benchmark or subset, the fit on all other benchmarks; none if there are no others."""
    sets = sorted({answer.benchmark for answer in answers})
    others = {name: [a for a in answers if _whole(a.benchmark) != _whole(name)] for name in sets}
    return {name: fit_answers(group) for name, group in others.items() if group}


def _whole(benchmark: str) -> str:
    """The benchmark of a subset, whose questions other subsets share."""
    return benchmark.partition(".")[0]


def by_set(answers: Iterable[GradedAnswer]) -> dict[str, list[GradedAnswer]]:
    """Answers by benchmark, in the order of the names."""
    ordered = sorted(answers, key=lambda answer: (answer.benchmark, answer.variant, answer.question_id))
    return {name: list(group) for name, group in groupby(ordered, key=lambda answer: answer.benchmark)}


def calibration_errors(fits: Mapping[str, Fit], answers: Iterable[GradedAnswer]) -> dict[str, float]:
    """Calibration error by benchmark; ``fits`` has the fit of each."""
    groups = by_set(a for a in answers if a.benchmark in fits and fits[a.benchmark].applies_to(a.signals))
    return {
        name: calibration_error([fits[name].probability(a.signals) for a in group], [a.is_correct for a in group])
        for name, group in groups.items()
    }
