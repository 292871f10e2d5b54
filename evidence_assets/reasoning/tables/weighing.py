"""How much each sign that a claim leaves in a table says for each label.

What belongs here: the model of the labels. With truth signs ``t`` and openness signs ``o`` of a claim, and the weights
``a`` and ``b`` of ``weights.yaml``,

    P(label) ∝ exp(s),   s(SUPPORTS) = a·t / 2,   s(REFUTES) = -a·t / 2,   s(NOT ENOUGH INFORMATION) = b·o,

a logistic regression in three classes; where the third is not offered it is left out, and what remains is the logistic
regression of true against false.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import exp, fsum

import yaml


@dataclass(frozen=True)
class Signs:
    """What bears on a claim, by name: on whether it is true (positive) or false (negative), and on whether it is open.

    What follows of itself is not weighed: a claim that one expression ``settled`` is not open, and one that sets a thing
    above another in what is ``unmeasured`` by any column is.
    """

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    settled: bool = False
    unmeasured: bool = False


@lru_cache(maxsize=1)
def _weights() -> dict[str, dict[str, float]]:
    text = files(__package__).joinpath("weights.yaml").read_text(encoding="utf-8")
    weights: dict[str, dict[str, float]] = yaml.safe_load(text)
    return weights


def _weighed(side: str, signs: Mapping[str, float]) -> float:
    weights = _weights()[side]
    return fsum(weights.get(sign, 0.0) * value for sign, value in signs.items())


def probabilities(signs: Signs) -> tuple[float, float, float]:
    """Probabilities that a claim is true, that it is false, and that the table leaves it open."""
    balance = 0.5 * _weighed("truth", signs.truth)
    left_open = _weighed("openness", signs.openness)
    if signs.settled or signs.unmeasured:
        left_open = min(left_open, -abs(balance)) if signs.settled else max(left_open, 2 * abs(balance))
    scores = (balance, -balance, left_open)
    powers = [exp(score - max(scores)) for score in scores]
    total = fsum(powers)
    return powers[0] / total, powers[1] / total, powers[2] / total
