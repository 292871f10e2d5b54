"""Questions of tasks in tests, and a solver that answers none."""

from collections.abc import Sequence

from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer, ShortTask
from evidence_assets.reasoning.tasks import Failure


def make_question(text: str, *options: str, task: str = "", negated: bool = False) -> Question:
    """A question of a task, by default multiple choice or, without options, a question on a graph."""
    return Question("q", "b", task or ("mcqa" if options else "kgqa"), text, options, negated=negated)


class NoAnswers:
    """A solver without an answer to any question."""

    name, model_id, version = "none", "none", "1"

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        return [NO_ANSWER for _ in tasks]
