"""The stages ``models/confidence/<family>``: fits of confidence on the graded answers of the lake."""

from __future__ import annotations

from functools import partial
from typing import Any

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
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.confidence import FAMILIES, Fit
from evidence_assets.systems.confidence import VERSION

MIN_ANSWERS = 100
"""Fewer graded questions give no fit."""


def _stages(variant: Variant) -> list[Stage]:
    about = (
        "Fits the confidence of {}, by model, on graded answers of the lake: the first half of each benchmark "
        "by question id. The metadata has the calibration error on the second half, with each benchmark in the fit and "
        "left out of it."
    )
    return [
        Stage(
            f"{CONFIDENCE_ASSET}/{family}",
            "confidence_fits",
            partial(_fit_family, family),
            about.format(family.replace("_", " ")),
            (),
            VERSION,
            partitions="",
            kinds=("scikitlearn",),
        )
        for family in FAMILIES
    ]


def _fit_family(family: str, context: StageContext) -> StageOutput:
    """The fits of a family, one per model with at least :data:`MIN_ANSWERS` graded questions."""
    answers, others = (read_graded_answers(context.lake, half) for half in ("first", "second"))
    rows, metadata = list[dict[str, Any]](), dict[str, Any]()
    for (answered_family, model), group in sorted(answers.items()):
        if answered_family != family:
            continue
        fit = fit_answers(group)
        if sum(fit.sets.values()) < MIN_ANSWERS:
            context.inform(f"{model}: {sum(fit.sets.values())} graded questions give no fit; {MIN_ANSWERS} are needed")
            continue
        rows.append(_row(family, model, fit, group))
        other_half = others.get((family, model), [])
        errors = {
            "in the fit": calibration_errors(dict.fromkeys(fit.sets, fit), other_half),
            "left out": calibration_errors(fits_without_each_set(group), other_half),
        }
        metadata |= {f"n: {model}": sum(fit.sets.values()), f"weights: {model}": dict(fit.weights)}
        metadata |= {
            f"calibration error of {name}, {how}: {model}": round(error, 4)
            for how, by_name in errors.items()
            for name, error in by_name.items()
        }
    return StageOutput(rows, metadata=metadata)


def _row(family: str, model: str, fit: Fit, answers: list[GradedAnswer]) -> dict[str, Any]:
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
        return _stages(self.variant)
