"""Fits the weights by which claims about tables are labelled, and prints them for `reasoning.tables.claims`.

    EVIDENCE_DEV_DATA=<folder> python -m bench.fit_claim_weights [--check]

The weights are fitted on all development claims of SCITAB (120) and TabFact (1,024) together. With ``--check``
what is printed was held out: each half of both sets labelled by weights that were fitted on
the other half, and cross-validation with tables left out in five parts. ``offered all three`` gives TabFact's
statements, all of them true or false, the label NOT ENOUGH INFORMATION, too: what is lost there is lost on tables of
facts.

Two logistic regressions (`reasoning.tables.claims` states the model). Their penalties and sample weights, and the signs
themselves, were chosen with both halves in view, so what is printed is a little too good. Deterministic; weights are
rounded to two digits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.claim_data import Claim, scitab_claims, tabfact_claims
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.reasoning.tables.claims import Signs, Weights, check_claim, probabilities
from evidence_assets.reasoning.tables.table import TableView

# A claim of SCITAB counts as three of TabFact's for what is true, one of TabFact's as 0.06 of SCITAB's for what is
# open.
SCITAB_COUNTS, TABFACT_COUNTS = 3.0, 0.06
TRUTH_C, OPENNESS_C = 0.2, 5.0
FOLDS, TIMES = 5, 10


class Read(NamedTuple):
    """A claim with its signs."""

    claim: Claim
    signs: Signs
    gold: int

    @property
    def has_three_labels(self) -> bool:
        return len(self.claim.question.labels) == 3

    def is_right(self, weights: Weights, *, offered: int | None = None) -> bool:
        """Whether its label is the most probable of those offered."""
        chances = probabilities(self.signs, weights)[: offered or len(self.claim.question.labels)]
        return chances.index(max(chances)) == self.gold


def read(claims: Sequence[Claim]) -> list[Read]:
    """Claims with their signs, each read in its whole table."""
    reads = []
    for claim in claims:
        table = claim.table
        view = TableView.of(table.table_id, table.caption, table.header, table.rows).upright
        signs = check_claim(view, claim.question.text).signs
        reads.append(Read(claim, signs, CLAIM_LABELS.index(claim.question.gold[0])))
    return reads


def fit(reads: Sequence[Read]) -> dict[str, dict[str, float]]:
    """The most likely weights; claims that an operation settles are not weighed."""
    weighed = [one for one in reads if one.signs.settled is None]
    closed = [one for one in weighed if CLAIM_LABELS[one.gold] != "NOT ENOUGH INFORMATION"]
    return {
        "truth": _regression(
            [one.signs.truth for one in closed],
            [one.gold == 0 for one in closed],
            [SCITAB_COUNTS if one.has_three_labels else 1.0 for one in closed],
            TRUTH_C,
        ),
        "openness": _regression(
            [one.signs.openness for one in weighed],
            [one.gold == 2 for one in weighed],
            [1.0 if one.has_three_labels else TABFACT_COUNTS for one in weighed],
            OPENNESS_C,
        ),
    }


def _regression(
    signs: Sequence[Mapping[str, float]], labels: Sequence[bool], counts: Sequence[float], strength: float
) -> dict[str, float]:
    names = sorted({name for one in signs for name in one})
    features = np.array([[one.get(name, 0.0) for name in names] for one in signs])
    model = LogisticRegression(C=strength, max_iter=1000).fit(features, labels, sample_weight=counts)
    fitted = zip(["always", *names], [*model.intercept_, *model.coef_[0]], strict=True)
    return {name: round(float(weight), 2) + 0.0 for name, weight in fitted}


def cross_validated(reads: Sequence[Read]) -> dict[str, float]:
    """The share of each benchmark's claims that are right where their tables were left out, in parts drawn anew
    each time."""
    tables = sorted({one.claim.table.table_id for one in reads})
    right: dict[str, float] = {}
    for seed in range(TIMES):
        drawn = np.random.default_rng(seed).permutation(len(tables))
        for part in range(FOLDS):
            out = {tables[k] for k in drawn[part::FOLDS]}
            weights = fit([one for one in reads if one.claim.table.table_id not in out])
            for one in reads:
                if one.claim.table.table_id in out:
                    name = one.claim.question.benchmark
                    right[name] = right.get(name, 0.0) + one.is_right(weights) / TIMES
    return {name: count / sum(one.claim.question.benchmark == name for one in reads) for name, count in right.items()}


def print_check(reads: Sequence[Read]) -> None:
    """Held-out shares of right labels."""
    halves = [[one for one in reads if one.claim.first_half is first] for first in (True, False)]
    for title, fitted_on, half in (("first half", halves[1], halves[0]), ("second half", halves[0], halves[1])):
        weights = fit(fitted_on)
        for name in sorted({one.claim.question.benchmark for one in half}):
            part = [one for one in half if one.claim.question.benchmark == name]
            settled = [one for one in part if one.signs.settled is not None]
            print(
                f"{name}, {title}: {share(part, weights)} of {len(part)} right, offered all three "
                f"{share(part, weights, offered=3)}, {len(settled)} settled, {share(settled, weights)} of these right"
            )
    for title, part in (("first halves", halves[0]), ("all", list(reads))):
        shares = ", ".join(f"{name} {100 * value:.1f}" for name, value in sorted(cross_validated(part).items()))
        print(f"cross-validation, {title}: {shares}")


def share(reads: Sequence[Read], weights: Weights, *, offered: int | None = None) -> str:
    """The percentage of some claims that are right with these weights."""
    return f"{100 * sum(read.is_right(weights, offered=offered) for read in reads) / max(1, len(reads)):.1f}"


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    reads = read([*scitab_claims(folder), *tabfact_claims(folder)])
    if sys.argv[1:] == ["--check"]:
        print_check(reads)
        return
    print(fit(reads))


if __name__ == "__main__":
    main()
