"""Answers without chains: the ablation that shows what explaining each option first is worth.

Belongs here: solvers that need no explanations. A language model is simply shown all evidence at once; the extractive
reasoner has nothing to compare then but how well the evidence of each option was found.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure
from evidence_assets.text.negation import asks_for_exception

VERSION = "1"
MARGIN = 1e-9
"""Scores nearer than this are not told apart."""


class BestFound:
    """Names the option whose evidence was found with the highest score; the lowest where the exception is asked for.

    Scores have no scale that all selectors share, so that confidence says only how many options are equally good.
    """

    name = "best_found"
    model_id = "best_found"
    version = VERSION

    def task_version(self, task: ExplainOption) -> str:
        """The version: nothing else bears on a task."""
        return self.version

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """A chain without a step for each option."""
        return [Chain(task.hypothesis, ()) for task in tasks]

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question; ``insufficient`` where no option has evidence, ``ambiguous`` where two are best."""
        return [self._choice(task) for task in tasks]

    def _choice(self, task: ChooseAnswer) -> Choice:
        scores = {
            label: max(item.score for item in items) for label in task.labels if (items := task.evidence.get(label, ()))
        }
        if not scores:
            return Choice(None, (), "insufficient", 0.0)
        odd = task.negated or asks_for_exception(task.question)
        if odd:  # an option without evidence is the best exception
            scores = {label: -scores.get(label, float("-inf")) for label in task.labels}
        best = max(scores, key=lambda label: scores[label])
        near = [label for label, score in scores.items() if score == scores[best] or scores[best] - score <= MARGIN]
        status = "answered" if len(near) == 1 else "ambiguous"
        return Choice(best, tuple(near), status, round(1 / len(near), 6))
