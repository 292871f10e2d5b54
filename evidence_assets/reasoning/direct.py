"""Answers without chains: the ablation that shows what explaining each option first is worth.

Belongs here: solvers that need no explanations. A language model is simply shown all evidence at once; the extractive
reasoner has nothing to compare then but how well the evidence of each option was found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure
from evidence_assets.text.negation import asks_for_exception

VERSION = "2"
MARGIN = 1e-9
"""Weights nearer than this are not told apart."""


class BestFound:
    """Names the option whose evidence was found with the highest score; the lowest where the exception is asked for.

    Scores have no scale that all selectors share: weights are their places between the lowest and the highest.
    """

    name = "best_found"
    model_id = "best_found"
    version = VERSION

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """A chain without a step for each option."""
        return [Chain(task.hypothesis, ()) for task in tasks]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question; ``insufficient`` where no option has evidence, ``ambiguous`` where two are best."""
        return [self._choice(task) for task in tasks]

    def _choice(self, task: ChooseAnswer) -> Choice:
        scores = {
            label: max((item.score for item in task.evidence.get(label, ())), default=-math.inf)
            for label in task.labels
        }
        found = [score for score in scores.values() if score > -math.inf]
        if not found:
            return Choice(None, (), "insufficient")
        low, span = min(found), (max(found) - min(found)) or 1.0
        # An option without evidence is last, and the best exception.
        weights = {label: max(-1.0, (score - low) / span) for label, score in scores.items()}
        if task.negated or asks_for_exception(task.question):
            weights = {label: -weight for label, weight in weights.items()}
        answer = max(task.labels, key=lambda label: weights[label])
        near = tuple(label for label in task.labels if weights[answer] - weights[label] <= MARGIN)
        return Choice(answer, near, "answered" if len(near) == 1 else "ambiguous", weights=weights)
