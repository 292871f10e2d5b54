"""Questions of tasks in tests."""

from evidence_assets.reasoning.questions import Question


def make_question(text: str, *options: str, task: str = "", negated: bool = False) -> Question:
    """A question of a task, by default multiple choice or, without options, a question on a graph."""
    return Question("q", "b", task or ("mcqa" if options else "kgqa"), text, options, negated=negated)
