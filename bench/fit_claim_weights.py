"""Fits the weights of the signs that claims about tables are labelled by, and writes the file that the package ships.

    EVIDENCE_DEV_DATA=<folder> python -m bench.fit_claim_weights [--check]

With ``--check`` nothing is written: the shares of claims labelled rightly are printed, of the first halves by weights that
were fitted without their tables, and of the second halves. Reads the first halves of SCITAB and TabFact (`bench.measure_tables` reports the second ones). Maximum likelihood with a
Gaussian prior (`reasoning.tables.claims` states the model): a statement of TabFact is true or false, a claim of SCITAB
may be open, too, and as there are few of them each counts as several. Which signs there are, the prior and that count
were chosen by cross-validation on the same halves. Deterministic; weights are rounded to two digits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.claim_data import Claim, scitab_claims, tabfact_claims
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.reasoning.tables import claims as claims_module
from evidence_assets.reasoning.tables.claims import Signs, Weights, check_claim, probabilities
from evidence_assets.reasoning.tables.view import TableView

PRIOR, SCITAB_COUNTS = 6.0, 3.0
FOLDS, TIMES = 5, 10
Floats = NDArray[np.float64]


def signs_of(claims: Sequence[Claim]) -> list[Signs]:
    """The signs of claims, each read in its whole table."""
    found = []
    for claim in claims:
        view = TableView.of(claim.table.table_id, claim.table.caption, claim.table.header, claim.table.rows).upright
        found.append(check_claim(view, claim.question.text).signs)
    return found


Read = tuple[Sequence[Claim], Sequence[Signs], float]
"""Claims, their signs, and how much each counts."""


def fit(read: Sequence[Read]) -> dict[str, dict[str, float]]:
    """The most likely weights."""
    truth = sorted({name for _, signs, _ in read for one in signs for name in one.truth})
    openness = sorted({name for _, signs, _ in read for one in signs for name in one.openness})
    data = []
    for claims, signs, counts in read:
        t = np.array([[one.truth.get(name, 0.0) for name in truth] for one in signs])
        o = np.array([[one.openness.get(name, 0.0) for name in openness] for one in signs])
        gold = np.array([CLAIM_LABELS.index(claim.question.gold[0]) for claim in claims])
        offered = 3 if len(claims[0].question.labels) == 3 else 2
        data.append((t, o, np.eye(3)[gold][:, :offered], counts))

    def loss(weights: Floats) -> tuple[float, Floats]:
        a, b = weights[: len(truth)], weights[len(truth) :]
        value, slope = 0.5 * PRIOR * weights @ weights, PRIOR * weights
        for t, o, gold, counts in data:
            balance = 0.5 * t @ a
            scores = np.stack([balance, -balance, o @ b], axis=1)[:, : gold.shape[1]]
            scores = scores - scores.max(axis=1, keepdims=True)
            chance = np.exp(scores)
            chance /= chance.sum(axis=1, keepdims=True)
            value -= counts * float((gold * np.log(chance)).sum())
            off = counts * (chance - gold)
            slope = slope + np.concatenate(
                [
                    0.5 * t.T @ (off[:, 0] - off[:, 1]),
                    o.T @ off[:, 2] if gold.shape[1] == 3 else np.zeros(len(openness)),
                ]
            )
        return value, slope

    found = minimize(loss, np.zeros(len(truth) + len(openness)), jac=True, method="L-BFGS-B").x
    rounded = [round(float(weight), 2) + 0.0 for weight in found]
    return {
        "truth": dict(zip(truth, rounded, strict=False)),
        "openness": dict(zip(openness, rounded[len(truth) :], strict=True)),
    }


def right(claims: Sequence[Claim], signs: Sequence[Signs], weights: Weights) -> float:
    """How many claims have their label as the most probable of those offered."""
    found = 0
    for claim, one in zip(claims, signs, strict=True):
        chances = probabilities(one, weights)[: len(claim.question.labels)]
        found += CLAIM_LABELS[chances.index(max(chances))] == claim.question.gold[0]
    return found


def print_check(first: Sequence[Read], second: Sequence[Read]) -> None:
    """Shares of right labels: tables left out in turn, in five parts drawn anew each time, and the second halves."""
    sums = [0.0] * len(first)
    for seed in range(TIMES):
        for part in range(FOLDS):
            kept, left = [], []
            for claims, signs, counts in first:
                tables = sorted({claim.table.table_id for claim in claims})
                order = np.random.default_rng(seed).permutation(len(tables))
                out = {tables[k] for k in order[part::FOLDS]}
                pairs = list(zip(claims, signs, strict=True))
                kept.append(
                    (
                        [c for c, _ in pairs if c.table.table_id not in out],
                        [s for c, s in pairs if c.table.table_id not in out],
                        counts,
                    )
                )
                left.append([(c, s) for c, s in pairs if c.table.table_id in out])
            weights = fit(kept)
            for k, pairs in enumerate(left):
                sums[k] += right([c for c, _ in pairs], [s for _, s in pairs], weights) / TIMES
    weights = fit(first)
    for k, (claims, _, _) in enumerate(first):
        others, signs, _ = second[k]
        print(
            f"{claims[0].question.benchmark}: tables left out {sums[k] / len(claims):.3f} of {len(claims)}, "
            f"second half {right(others, signs, weights) / len(others):.3f} of {len(others)}"
        )


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    sets = ((scitab_claims(folder), SCITAB_COUNTS), (tabfact_claims(folder), 1.0))
    first, second = (
        [
            (part, signs_of(part), counts)
            for claims, counts in sets
            if (part := [c for c in claims if c.first_half is half])
        ]
        for half in (True, False)
    )
    if sys.argv[1:] == ["--check"]:
        print_check(first, second)
        return
    weights = fit(first)
    text = "# Weights of the signs of claims about tables; written by bench/fit_claim_weights.py, not by hand.\n"
    path = Path(claims_module.__file__).with_name("weights.yaml")
    path.write_text(text + yaml.safe_dump(weights, sort_keys=True), encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
