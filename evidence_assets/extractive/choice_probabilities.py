"""Probabilities of a choice among candidates and no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

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
