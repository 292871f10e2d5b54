"""Fit the weights of claim features, and print them and held-out accuracies.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.fit_claim_weights [--write]

The weights are fitted on all development claims of SCITAB (120) and TabFact (1,024) together; ``--write`` puts them
into the packaged file. The accuracies are those of each half of both sets with weights fitted on the other half, and of
five-fold cross-validation by table. ``three labels`` adds NOT ENOUGH INFORMATION to the labels of TabFact, where every
statement is true or false.

The model is two logistic regressions (see `extractive.tables.claims`). Penalties, sample weights and features were
chosen on both halves, so the accuracies are slightly too high. Deterministic; weights are rounded to two digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.answers.fitted_values import write_values
from bench.dev_data import dev_data
from bench.measuring import make_parser
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.benchmarks.records import CLAIM_LABELS, QuestionRecord, Table
from evidence_assets.extractive.tables.claims import (
    WEIGHTS_FILE,
    ClaimCheck,
    ClaimWeights,
    check_claim,
    label_probabilities,
)
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION

# Sample weights of a SCITAB claim (truth) and a TabFact statement (NOT ENOUGH INFORMATION); 1 for the other benchmark.
SCITAB_WEIGHT, TABFACT_WEIGHT = 3.0, 0.06
TRUTH_C, NOT_ENOUGH_C = 0.2, 5.0
N_FOLDS, N_REPEATS = 5, 10


class Sample(NamedTuple):
    """A claim with the features of its whole table and the index of its gold label."""

    question: QuestionRecord
    table_id: str
    is_first_half: bool
    features: ClaimCheck
    gold: int

    @property
    def has_three_labels(self) -> bool:
        return len(self.question.labels) == 3

    def is_right(self, weights: ClaimWeights, *, n_labels: int | None = None) -> bool:
        """Whether the gold label is the most probable of the first ``n_labels``, by default of the claim's labels."""
        chances = label_probabilities(self.features, weights)[: n_labels or len(self.question.labels)]
        return chances.index(max(chances)) == self.gold


def read_samples(folder: Path) -> list[Sample]:
    """The claims of both benchmarks: halves of SCITAB are by claim, those of TabFact by table, both in file order."""
    scitab = list(read_pairs("scitab", folder / "scitab", "test"))
    tabfact = list(read_pairs("tabfact", folder / "tabfact", "test"))
    tables = list(dict.fromkeys(table.table_id for _, table in tabfact))
    first_tables = frozenset(tables[: len(tables) // 2])
    samples = [build_sample(*pair, 2 * number < len(scitab)) for number, pair in enumerate(scitab)]
    return samples + [build_sample(*pair, pair[1].table_id in first_tables) for pair in tabfact]


def build_sample(question: QuestionRecord, table: Table, is_first_half: bool) -> Sample:
    """A claim with the features of its whole table."""
    features = check_claim(TableView.of(table.caption, table.header, table.rows), question.text)
    return Sample(question, table.table_id, is_first_half, features, CLAIM_LABELS.index(question.gold[0]))


def fit(samples: Sequence[Sample]) -> ClaimWeights:
    """Maximum likelihood weights from the claims that no operation settles, and the accuracy of the others."""
    unsettled = [sample for sample in samples if sample.features.settled_as is None]
    decided = [sample for sample in unsettled if CLAIM_LABELS[sample.gold] != NOT_ENOUGH_INFORMATION]
    settled = [sample for sample in samples if sample.features.settled_as is not None and not sample.has_three_labels]
    n_right = sum(sample.gold == (0 if sample.features.settled_as else 1) for sample in settled)
    return ClaimWeights(
        _regression(
            [sample.features.truth for sample in decided],
            [sample.gold == 0 for sample in decided],
            [SCITAB_WEIGHT if sample.has_three_labels else 1.0 for sample in decided],
            TRUTH_C,
        ),
        _regression(
            [sample.features.not_enough for sample in unsettled],
            [sample.gold == 2 for sample in unsettled],
            [1.0 if sample.has_three_labels else TABFACT_WEIGHT for sample in unsettled],
            NOT_ENOUGH_C,
        ),
        round(n_right / len(settled), 2),
    )


def _regression(
    rows: Sequence[Mapping[str, float]], labels: Sequence[bool], sample_weights: Sequence[float], c: float
) -> dict[str, float]:
    names = sorted({name for row in rows for name in row})
    features = np.array([[row.get(name, 0.0) for name in names] for row in rows])
    model = LogisticRegression(C=c, max_iter=1000).fit(features, labels, sample_weight=sample_weights)
    weights = zip(["intercept", *names], [*model.intercept_, *model.coef_[0]], strict=True)
    return {name: round(float(weight), 2) + 0.0 for name, weight in weights}


def cross_validate(samples: Sequence[Sample]) -> dict[str, float]:
    """Mean accuracy on each benchmark over repeated cross-validation with disjoint tables."""
    tables = sorted({sample.table_id for sample in samples})
    n_right: dict[str, float] = {}
    for seed in range(N_REPEATS):
        order = np.random.default_rng(seed).permutation(len(tables))
        for fold in range(N_FOLDS):
            test_tables = {tables[k] for k in order[fold::N_FOLDS]}
            weights = fit([sample for sample in samples if sample.table_id not in test_tables])
            for sample in samples:
                if sample.table_id in test_tables:
                    name = sample.question.benchmark
                    n_right[name] = n_right.get(name, 0.0) + sample.is_right(weights) / N_REPEATS
    sizes = Counter(sample.question.benchmark for sample in samples)
    return {name: count / sizes[name] for name, count in n_right.items()}


def measure_halves(samples: Sequence[Sample]) -> dict[str, str]:
    """Held-out accuracies by benchmark and half, and of cross-validation."""
    scores = {}
    halves = [[sample for sample in samples if sample.is_first_half is first] for first in (True, False)]
    for title, train, test in (("first half", halves[1], halves[0]), ("second half", halves[0], halves[1])):
        weights = fit(train)
        for name in sorted({sample.question.benchmark for sample in test}):
            rows = [sample for sample in test if sample.question.benchmark == name]
            settled = [sample for sample in rows if sample.features.settled_as is not None]
            scores[f"{name}, {title}"] = (
                f"accuracy {accuracy(rows, weights)} of {len(rows)}, three labels "
                f"{accuracy(rows, weights, n_labels=3)}, {len(settled)} settled, "
                f"accuracy of these {accuracy(settled, weights)}"
            )
    for title, rows in (("first halves", halves[0]), ("all", list(samples))):
        shares = ", ".join(f"{name} {100 * value:.1f}" for name, value in sorted(cross_validate(rows).items()))
        scores[f"cross-validation, {title}"] = shares
    return scores


def accuracy(samples: Sequence[Sample], weights: ClaimWeights, *, n_labels: int | None = None) -> str:
    """The percentage of samples that are right with these weights."""
    n_right = sum(sample.is_right(weights, n_labels=n_labels) for sample in samples)
    return f"{100 * n_right / max(1, len(samples)):.1f}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write the packaged file")
    options = parser.parse_args()
    samples = read_samples(dev_data())
    weights = fit(samples)
    score = measure_halves(samples)
    print(weights, *(f"{name}: {text}" for name, text in score.items()), sep="\n")
    if options.write:
        write_values(
            WEIGHTS_FILE,
            asdict(weights),
            command="python -m bench.tables.fit_claim_weights --write",
            data="SCITAB (120 claims) and TabFact (1,024 statements), the development sets",
            halves="weights fitted on all; score of each half with the weights of the other, and five-fold by table",
            score=score,
        )


if __name__ == "__main__":
    main()
