"""The stages ``models/confidence/<family>``: fits of confidence on the graded answers of the lake."""

from __future__ import annotations

from functools import partial

from evidence_assets.experiment.methods import NoSettings, StagesMethod
from evidence_assets.experiment.scores.calibration import (
    CONFIDENCE_ASSET,
    GradedAnswer,
    calibration_errors,
    fit_answers,
    fits_without_each_set,
    read_graded_answers,
)
from evidence_assets.experiment.stage import Stage, StageContext, StageOutput
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.confidence import FAMILIES, Fit
from evidence_assets.systems.confidence import VERSION

MIN_ANSWERS = 100
"""Fewer graded questions give no fit."""


def _fit_family(family: str, context: StageContext) -> StageOutput:
    """The fits of a family, one per model with at least :data:`MIN_ANSWERS` graded questions."""
    answers = read_graded_answers(context.lake, "first")
    others = read_graded_answers(context.lake, "second")
    rows: list[dict[str, object]] = []
    metadata: dict[str, object] = {}
    for (answered_family, model), group in sorted(answers.items()):
        if answered_family != family:
            continue
        fit = fit_answers(group)
        n = sum(fit.sets.values())
        if n < MIN_ANSWERS:
            context.inform(f"{model}: {n} graded questions give no fit; {MIN_ANSWERS} are needed")
            continue
        rows.append(_build_row(family, model, fit, group))
        metadata[f"n: {model}"] = n
        metadata[f"weights: {model}"] = dict(fit.weights)
        fits = {"in the fit": dict.fromkeys(fit.sets, fit), "left out": fits_without_each_set(group)}
        for how, fit_by_set in fits.items():
            for name, error in calibration_errors(fit_by_set, others.get((family, model), [])).items():
                metadata[f"calibration error of {name}, {how}: {model}"] = round(error, 4)
    return StageOutput(rows, metadata=metadata)


def _build_row(family: str, model: str, fit: Fit, answers: list[GradedAnswer]) -> dict[str, object]:
    graded = sorted((a.question_id, a.variant, sorted(a.signals.items()), a.is_correct) for a in answers)
    return {
        "fit_id": fit.fit_id,
        "family": family,
        "model_id": model,
        "weights": [{"name": name, "value": value} for name, value in fit.weights.items()],
        "sets": [{"name": name, "n": n} for name, n in fit.sets.items()],
        "input_hash": content_id("confidence", VERSION, graded),
    }


class ConfidenceTraining(StagesMethod[NoSettings]):
    """Fits the probabilities of predictions."""

    name = "training"
    version = VERSION
    settings_class = NoSettings

    def build_stages(self) -> list[Stage]:
        return [
            Stage(
                f"{CONFIDENCE_ASSET}/{family}",
                "confidence_fits",
                partial(_fit_family, family),
                f"Fits the confidence of {family.replace('_', ' ')}, by model, on graded answers of the lake: the "
                "first half of each benchmark by question id. The metadata has the calibration error on the second "
                "half, with each benchmark in the fit and left out of it.",
                (),
                VERSION,
                partitions="",
                kinds=("scikitlearn",),
            )
            for family in FAMILIES
        ]
