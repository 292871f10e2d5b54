"""What typed cells (percentages, units, ranges, dates, bounds, scales) are worth when claims are checked.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.measure_typed_cells

The claims of SCITAB and TabFact are checked on the typed view of their tables, on one whose only values are cells that
Python reads as a number, and on one without values. Weights are fitted on the first half of the claims for each view;
paired differences (95 %, bootstrap) are on the second half.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from bench.differences import format_difference
from bench.tables.claim_data import read_scitab, read_tabfact
from bench.tables.fit_claim_weights import Sample, build_samples, fit
from evidence_assets.experiment.scores.metrics import accuracy, paired_bootstrap
from evidence_assets.reasoning.tables import cells, table


def parse_plain(text: str) -> cells.Cell:
    """A cell whose value, if it has one, is its whole text.

    >>> parse_plain("0.5").number, parse_plain("50 %").number, parse_plain("3-4").number
    (0.5, None, None)
    """
    cell = cells.parse_cell(text)
    try:
        value = float(text)
    except ValueError:
        return replace(cell, values=())
    return replace(cell, values=(cells.CellValue("number", value, text, 0, len(text)),))


def parse_words(text: str) -> cells.Cell:
    return replace(cells.parse_cell(text), values=())


VIEWS = {"typed": cells.parse_cell, "plain numbers": parse_plain, "words": parse_words}


def answer(samples: list[Sample]) -> dict[str, list[bool]]:
    """Whether each claim of the second half is answered correctly, by benchmark."""
    weights = fit([sample for sample in samples if sample.claim.is_first_half])
    answers: dict[str, list[bool]] = {}
    for sample in samples:
        if not sample.claim.is_first_half:
            answers.setdefault(sample.claim.question.benchmark, []).append(sample.is_right(weights))
    return answers


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    claims = [*read_scitab(folder), *read_tabfact(folder)]
    answers = {}
    for name, parse in VIEWS.items():
        with patch.object(table, "parse_cell", parse):
            samples = build_samples(claims)
        answers[name] = answer(samples)
        settled = [s.features.settled_as is not None for s in samples if not s.claim.is_first_half]
        print(f"{name}: an operation settles {100 * sum(settled) / len(settled):.1f} % of the claims")
    for benchmark, typed in answers["typed"].items():
        for name in VIEWS:
            values = answers[name][benchmark]
            line = f"{benchmark:8} {name:14} n = {len(values)} accuracy {100 * accuracy(values).value:.1f} %"
            if name != "typed":
                line += f", typed {format_difference(paired_bootstrap(typed, values), '+.1%')}"
            print(line)


if __name__ == "__main__":
    main()
