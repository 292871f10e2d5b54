"""Fit the packaged confidence on first halves of the development sets, and measure it on the other halves.

    python -m bench.answers.fit_confidence LAKE … [--write] [--json FILE]

Lakes are those of ``bench.measure_all``; fits of models that have answered in none of them stay. Questions are halved
by their ids. Printed are, for the second halves: the calibration error of the raw share, of the fit, of the fit without
the set, and of confidences that are exactly right (by simulation: an error below it is noise); the accuracy of all
answers, of the most confident quarter and half, by fit and by raw share. Then the answered status beside a threshold of
the probability, chosen on the first halves so that as many are answered. Last, whether these fits are packaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from bench.measuring import make_parser
from bench.result_files import print_table, write_results
from evidence_assets.experiment.scores.calibration import (
    AnswersByModel,
    GradedAnswer,
    by_set,
    calibration_errors,
    fit_answers,
    fits_without_each_set,
    read_graded_answers,
)
from evidence_assets.experiment.scores.metrics import Half, accuracy, calibration_error, order_by_confidence
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning import confidence
from evidence_assets.reasoning.confidence import MAX_LOGIT, Fit, packaged_fits

FILE = Path(confidence.__file__).with_name(confidence.PACKAGED_FILE)
SIMULATIONS = 200
HEADS = (
    "set",
    "n",
    "error: raw",
    "fit",
    "set left out",
    "exact",
    "accuracy",
    "quarter",
    "half",
    "quarter, raw",
    "half, raw",
)


@dataclass(frozen=True)
class Reliability:
    """How well confidences are calibrated, and how well they rank the answers."""

    n: int
    calibration_error: float
    accuracy: float
    accuracy_of_quarter: float
    accuracy_of_half: float

    @classmethod
    def of(cls, confidences: Sequence[float], correct: Sequence[bool]) -> Reliability:
        """The reliability of at least one answer."""
        ordered = order_by_confidence(confidences, correct)
        quarter, half = (accuracy(ordered[: -(-len(ordered) // part)]).value for part in (4, 2))
        error = calibration_error(confidences, correct)
        return cls(len(correct), error, accuracy(correct).value, quarter, half)


def raw_share(answer: GradedAnswer) -> float:
    """The share of the answer before calibration."""
    value = answer.signals.get("share", -MAX_LOGIT)
    return float(1 / (1 + np.exp(-value)))


def expected_error(confidences: list[float]) -> float:
    """Mean calibration error of answers that are correct with exactly these probabilities."""
    generator, values = np.random.default_rng(0), np.array(confidences)
    draws = generator.random((SIMULATIONS, len(values))) < values
    return float(np.mean([calibration_error(confidences, draw.tolist()) for draw in draws]))


def reliability_rows(fit: Fit, first: list[GradedAnswer], second: list[GradedAnswer]) -> list[list[str]]:
    """A row per set and variant, and one of all."""
    without = fits_without_each_set(first)
    groups: dict[str, list[GradedAnswer]] = defaultdict(list)
    for name, group in by_set(second).items():
        for answer in group:
            groups[f"{name}:{answer.variant.rpartition('/')[2]}"].append(answer)
    groups["all"] = second
    rows = []
    for label, answers in groups.items():
        left_out = calibration_errors(without, answers) if ":" in label else {}
        correct, values = [a.is_correct for a in answers], [fit.probability(a.signals) for a in answers]
        ours, raw = Reliability.of(values, correct), Reliability.of([raw_share(a) for a in answers], correct)
        figures = [raw.calibration_error, ours.calibration_error]
        rows.append(
            [
                label,
                str(len(answers)),
                *(f"{value:.3f}" for value in figures),
                "".join(f"{error:.3f}" for error in left_out.values()),
                f"{expected_error(values):.3f}",
                *(f"{v:.1%}" for v in (ours.accuracy, ours.accuracy_of_quarter, ours.accuracy_of_half)),
                *(f"{v:.1%}" for v in (raw.accuracy_of_quarter, raw.accuracy_of_half)),
            ]
        )
    return rows


def status_rows(fit: Fit, first: list[GradedAnswer], second: list[GradedAnswer]) -> list[list[str]]:
    """Answered answers by set: by today's status, and by the probability that answers as many on the first halves."""
    values = sorted((fit.probability(a.signals) for a in first), reverse=True)
    n_answered = sum(a.status == "answered" for a in first)
    threshold = values[n_answered - 1] if n_answered else 1.1
    rows = []
    for name, group in by_set(second).items():
        today = [a.is_correct for a in group if a.status == "answered"]
        ours = [a.is_correct for a in group if fit.probability(a.signals) >= threshold]
        cells = [f"{np.mean(hits):.1%} of {len(hits)}" if hits else "none" for hits in (today, ours)]
        rows.append([name, str(len(group)), *cells, f"{threshold:.3f}"])
    return rows


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("lakes", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true", help="Write these fits to the packaged file.")
    parser.add_argument("--json", type=Path, help="a file to write the calibration to")
    options = parser.parse_args()
    first: AnswersByModel = {}
    second: AnswersByModel = {}
    halves: tuple[tuple[AnswersByModel, Half], ...] = ((first, "first"), (second, "second"))
    for lake in map(Lake, options.lakes):
        for answers_by_model, half in halves:
            for key, group in read_graded_answers(lake, half).items():
                answers_by_model.setdefault(key, []).extend(group)
    fits = {}
    all_rows = []
    for (family, model), answers in sorted(first.items()):
        if not family or len({a.question_id for a in answers}) < 50:
            continue
        fits[family, model] = fit = fit_answers(answers)
        print(f"{family}, {model}: {dict(fit.weights)}, {dict(fit.sets)}")
        others = second[family, model]
        rows = reliability_rows(fit, answers, others)
        all_rows += [[f"{family}, {model}", *row] for row in rows]
        print_table(HEADS, rows, f"{family}, {model}")
        heads = ("set", "n", "answered today", "answered by probability", "threshold")
        print_table(heads, status_rows(fit, answers, others), f"status: {family}, {model}")
    if options.json:
        write_results(options.json, ["model", *HEADS], all_rows)
    if options.write:
        content: dict[str, dict[str, object]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        for (family, model), fit in fits.items():
            content.setdefault(family, {})[model] = {"sets": dict(fit.sets), "weights": dict(fit.weights)}
        header = "# Output of `python -m bench.answers.fit_confidence LAKE … --write`: first halves by question id.\n"
        FILE.write_text(header + yaml.safe_dump(content, sort_keys=True), encoding="utf-8")
    packaged_fits.cache_clear()
    is_packaged = all(packaged_fits().get(key) == fit for key, fit in fits.items())
    print(f"These fits are {'' if is_packaged else 'not '}packaged.")


if __name__ == "__main__":
    main()
