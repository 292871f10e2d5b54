"""Fits of choices with no answer among them, and the files of fitted values beside the code that reads them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import yaml
from scipy.optimize import minimize
from sklearn.feature_extraction import DictVectorizer

from bench.measuring import make_parser
from evidence_assets.extractive.choice_probabilities import MAX_LOGIT, ChoiceWeights

FloatArray = npt.NDArray[np.float64]
Item = TypeVar("Item")
Group = TypeVar("Group")
Weights = TypeVar("Weights")
Answer = TypeVar("Answer")


def fit_choice(
    candidates: Sequence[Sequence[Mapping[str, float]]], gains: Sequence[FloatArray], no_answer: FloatArray, l2: float
) -> tuple[float, dict[str, float]]:
    """Bias and weights of the largest likelihood, less ``l2`` times the squares of the weights.

    Candidate i of a question has the probability ``exp(s_i) / (1 + Σ_j exp(s_j))``, where 1 stands for no answer.
    ``gains``: How right each candidate is, 0 to 1. ``no_answer``: 1 for a question that has no right candidate.
    """
    vectorizer = DictVectorizer(dtype=np.float64)
    features = vectorizer.fit_transform([names for question in candidates for names in question]).tocsr()
    transposed = features.T.tocsr()
    counts = np.array([len(question) for question in candidates])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    gain = np.concatenate(gains)

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        weights, bias = values[:-1], values[-1]
        odds = np.exp(np.clip(features @ weights + bias, -MAX_LOGIT, MAX_LOGIT))
        total = 1 + np.add.reduceat(odds, starts)
        right = no_answer + np.add.reduceat(odds * gain, starts) + 1e-9
        slope = odds * (np.repeat(1 / total, counts) - gain * np.repeat(1 / right, counts))
        value = float((np.log(total) - np.log(right)).sum() + l2 * weights @ weights)
        return value, np.concatenate([transposed @ slope + 2 * l2 * weights, [slope.sum()]])

    start = np.zeros(features.shape[1] + 1)
    start[-1] = -4.0
    values = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 80}).x
    names = vectorizer.get_feature_names_out()
    weights = {str(name): round(float(w), 3) for name, w in zip(names, values[:-1], strict=True) if abs(w) >= 0.005}
    return round(float(values[-1]), 4), weights


def read_local_options(description: str | None) -> argparse.Namespace:
    """Options of a fit of a language model's answers: ``lake``, ``write`` and ``json``."""
    parser = make_parser(description)
    parser.add_argument("--lake", type=Path, required=True, help="folder that keeps replies")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def write_local_fit(file: Path, values: Mapping[str, object], module: str, data: str, max_false: float) -> None:
    """Write a packaged file that a bench fitted to replies of the model of the profile ``local``."""
    write_values(
        file,
        values,
        f"python -m bench.answers.{module} --lake FOLDER --write",
        data=data,
        model="Qwen2.5-Coder-1.5B-Instruct, 4 bit",
        max_false=max_false,
        score="docs/with-a-real-model.md",
    )


def smallest_threshold(answers: Sequence[tuple[float, bool]], precision: float) -> float | None:
    """The smallest probability from which on at least this share of the answers is right; None if there is none."""
    ranked = sorted(answers, reverse=True)
    right_counts = np.cumsum([is_right for _, is_right in ranked])
    passing = np.flatnonzero(right_counts >= precision * np.arange(1, len(ranked) + 1))
    return ranked[int(passing[-1])][0] if len(passing) else None


def answer_left_out(
    items: Sequence[Item],
    groups: Sequence[Group],
    group_of: Callable[[Item], Group],
    fit: Callable[[Sequence[Item]], Weights],
    answer: Callable[[Sequence[Item], Weights], Sequence[Answer]],
) -> list[Answer]:
    """The answers to the items of each group, by weights that are fitted on all other items."""
    answers: list[Answer] = []
    for group in groups:
        weights = fit([item for item in items if group_of(item) != group])
        answers += answer([item for item in items if group_of(item) == group], weights)
    return answers


def write_values(file: Path, values: Mapping[str, Any], command: str, **provenance: Any) -> None:
    """Write values with the command, the day and their provenance: data, halves and score."""
    today = datetime.now(UTC).date().isoformat()
    content = {"provenance": {"command": command, "date": today, **provenance}, "values": dict(values)}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    file.write_text(f"# Output of `{command}`.\n{text}", encoding="utf-8")
    print(f"wrote {file}; if values changed, raise VERSION of the code that reads them")


def write_choice(file: Path, weights: ChoiceWeights, command: str, **provenance: Any) -> None:
    """Write the fitted weights of a choice and their thresholds."""
    values = {
        "bias": weights.bias,
        "thresholds": dict(weights.thresholds),
        "weights": dict(sorted(weights.weights.items())),
    }
    write_values(file, values, command, **provenance)
