"""Fit the probability of answers to questions about a table without options, on the newest two plain sets.

    python -m bench.tables.fit_asked_tables [--write]

The other fit of table questions is of questions with four options. For the answered questions of each half of the
tables this prints the share of right answers, and the mean probability and calibration error of two fits: that of the
other half, and that of questions with options. ``--write`` puts the fit on all tables into the packaged file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from bench.measuring import make_parser
from bench.tables.measure_plain import FOLDER, answer_from_cells, is_among, read_table
from evidence_assets.experiment.scores.calibration import GradedAnswer, fit_answers
from evidence_assets.experiment.scores.metrics import calibration_error
from evidence_assets.extractive.tables.open_questions import is_statement
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning import confidence
from evidence_assets.reasoning.confidence import ASKED_TABLES, Fit, logit, packaged_fits, probabilities

FILE = Path(confidence.__file__).with_name(confidence.PACKAGED_FILE)
SETS = ("fifth", "sixth")


class Case(NamedTuple):
    """A graded answer, and the half of the tables that it is of."""

    half: int
    answer: GradedAnswer


def read_cases(name: str) -> Iterator[Case]:
    """The answers to the questions of a set, but for those with yes or no."""
    folder = FOLDER / name
    tables = sorted(path.stem for path in folder.glob("*.csv"))
    for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if "label" in case or is_statement(case["text"]):
            continue
        try:
            options, choice = answer_from_cells(read_table(folder / f"{case['table']}.csv"), case["text"])
        except BadInput:
            continue
        share = probabilities(choice.weights)[choice.answer or ""]
        signals = {"share": round(logit(round(share, 6)), 6), "answered": float(choice.status == "answered")}
        is_right = is_among([options[label] for label in choice.supported], case["answers"])
        key = f"{case['table']}: {case['text']}"
        answer = GradedAnswer(f"plain_{name}", key, "", signals, is_right, choice.status)
        yield Case(tables.index(case["table"]) % 2, answer)


def describe(fit: Fit, answers: Sequence[GradedAnswer]) -> str:
    """Mean probability and calibration error of answered questions."""
    values = [fit.probability(answer.signals) for answer in answers]
    error = calibration_error(values, [answer.is_correct for answer in answers])
    return f"mean probability {sum(values) / len(values):.2f}, calibration error {error:.3f}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cases = [case for name in SETS for case in read_cases(name)]
    model = TableSolver.model_id
    of_options = packaged_fits()["table_questions", model]
    for half in (0, 1):
        fit = fit_answers([case.answer for case in cases if case.half != half])
        answered = [c.answer for c in cases if c.half == half and c.answer.status == "answered"]
        share = sum(answer.is_correct for answer in answered) / len(answered)
        print(f"half {half + 1}, {len(answered)} answered: {share:.2f} right; fit on the other half: ", end="")
        print(f"{describe(fit, answered)}; fit of questions with options: {describe(of_options, answered)}")
    fit = fit_answers([case.answer for case in cases])
    print(f"all: {dict(fit.weights)}, {dict(fit.sets)}")
    content = yaml.safe_load(text := FILE.read_text(encoding="utf-8"))
    content[ASKED_TABLES] = {model: {"sets": dict(fit.sets), "weights": dict(fit.weights)}}
    if options.write:
        comment = text.partition("\n")[0]
        FILE.write_text(f"{comment}\n{yaml.safe_dump(content, sort_keys=True)}", encoding="utf-8")
    packaged_fits.cache_clear()
    is_packaged = packaged_fits().get((ASKED_TABLES, model)) == fit
    print(f"The packaged file has {'this' if is_packaged else 'another'} fit.")


if __name__ == "__main__":
    main()
