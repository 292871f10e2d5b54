"""Probabilities of a choice among candidates and no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.ids import content_id

MAX_LOGIT = 30.0


def choice_probabilities(
    bias: float, weights: Mapping[str, float], features: Sequence[Mapping[str, float]]
) -> npt.NDArray[np.float64]:
    """Probability of each candidate: ``exp(s_i) / (1 + Σ exp(s_j))``, where 1 stands for no answer.

    The score ``s`` is the bias plus the weighted sum of a candidate's features; a feature without a weight has none.
    """
    scores = [bias + sum(weights.get(name, 0.0) * value for name, value in each.items()) for each in features]
    odds = np.exp(np.clip(np.array(scores, dtype=np.float64), -MAX_LOGIT, MAX_LOGIT))
    return np.asarray(odds / (1 + odds.sum()))


@dataclass(frozen=True)
class ChoiceWeights:
    """Fitted weights of the features of a candidate.

    ``thresholds``: Minimum probability of an answer by kind of question (``QuestionFocus.kind``).
    """

    candidates: ClassVar[str]
    """What is chosen from; part of the version."""

    bias: float
    weights: Mapping[str, float]
    thresholds: Mapping[str, float]

    @property
    def version(self) -> str:
        return content_id(self.candidates, self.bias, sorted(self.weights.items()), sorted(self.thresholds.items()))

    def probabilities_of(self, features: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
        """Probability that each candidate with these features is the answer."""
        return choice_probabilities(self.bias, self.weights, features)
