"""Fits the weights of the signs that claims about tables are labelled by, and writes the file that the package ships.

    EVIDENCE_DEV_DATA=<folder> python -m bench.fit_claim_weights

Reads the first halves of SCITAB and TabFact (`bench.measure_tables` reports the second ones). Maximum likelihood with a
Gaussian prior (`reasoning.tables.claims` states the model): a statement of TabFact is true or false, a claim of SCITAB
may be open, too, and as there are few of them each counts as several. Which signs there are, the prior and that count
were chosen by cross-validation on the same halves. Deterministic; weights are rounded to two digits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.claim_data import Claim, scitab_claims, tabfact_claims
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.reasoning.tables import claims as claims_module
from evidence_assets.reasoning.tables.claims import Signs, check_claim
from evidence_assets.reasoning.tables.view import TableView

PRIOR, SCITAB_COUNTS = 6.0, 3.0
Floats = NDArray[np.float64]


def signs_of(claims: Sequence[Claim]) -> list[Signs]:
    """The signs of claims, each read in its whole table."""
    found = []
    for claim in claims:
        view = TableView.of(claim.table.table_id, "", claim.table.header, claim.table.rows).upright
        found.append(check_claim(view, claim.question.text).signs)
    return found


def fit(parts: Sequence[tuple[Sequence[Claim], float]]) -> dict[str, dict[str, float]]:
    """The most likely weights, given sets of claims and how much a claim of each counts."""
    read = [(claims, signs_of(claims), counts) for claims, counts in parts]
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


def main() -> None:
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    first = (
        [claim for claim in scitab_claims(folder) if claim.first_half],
        [claim for claim in tabfact_claims(folder) if claim.first_half],
    )
    weights = fit([(first[0], SCITAB_COUNTS), (first[1], 1.0)])
    text = "# Weights of the signs of claims about tables; written by bench/fit_claim_weights.py, not by hand.\n"
    path = Path(claims_module.__file__).with_name("weights.yaml")
    path.write_text(text + yaml.safe_dump(weights, sort_keys=True), encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
