"""Measure what ``evidence ask`` answers to questions on pages as people have them: handbooks, minutes, price lists.

    python -m bench.answers.measure_pages [--cases] [SET …]

Sets and how they were written: `bench.answers.short_answer_questions`. An answer is right if its token F1 with an
acceptable span is at least .7, a statement that is shown instead of an answer if it contains an acceptable span.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.answers.short_answer_questions import (
    PAGE_SETS,
    PAGES,
    AnswerableQuestion,
    build_lake,
    read_pages,
    run_stages,
)
from bench.measuring import make_parser
from evidence_assets.experiment.scores.metrics import token_f1
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.tasks import STATED_STATUS

RIGHT, REFUSED, WRONG, FALSE = "right", "refused", "wrong", "answered without an answer in the page"
STATEMENT = "right as a statement"
MIN_F1 = 0.7


def grade(question: AnswerableQuestion, answer: str | None, *, is_stated: bool = False) -> str:
    """The verdict on an answer or, if ``is_stated``, on a statement; None for no answer."""
    if question.verdict:
        if answer is None or is_stated:
            return REFUSED
        return RIGHT if answer == question.verdict else WRONG
    if answer is not None and question.golds and is_stated:
        return STATEMENT if any(contains_quote(gold, answer) for gold in question.golds) else WRONG
    if answer is None:
        return REFUSED if question.golds else RIGHT
    if not question.golds:
        return FALSE
    return RIGHT if token_f1(answer, question.golds) >= MIN_F1 else WRONG


def kind_of(question: AnswerableQuestion) -> str:
    """Whether a question has an answer, asks for yes or no, or has none."""
    return "for yes or no" if question.verdict else "with an answer" if question.golds else "without an answer"


def grade_questions(
    name: str, questions: Sequence[AnswerableQuestion], folder: Path
) -> list[tuple[AnswerableQuestion, str, str | None]]:
    """Each question of a set with its verdict and answer, in a new lake in ``folder``."""
    lake = build_lake(folder, {f"pages_{name}": PAGES / name})
    graded = []
    for question, rows in run_stages(lake, questions, "predictions"):
        row = next(
            (row for row in rows if row["status"] in ("answered", STATED_STATUS)), {"answer": None, "status": ""}
        )
        graded.append(
            (question, grade(question, row["answer"], is_stated=row["status"] == STATED_STATUS), row["answer"])
        )
    return graded


def read_set(name: str) -> list[AnswerableQuestion]:
    """The questions of a set."""
    return [question for question in read_pages()[1] if question.corpus == f"pages_{name}"]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(PAGE_SETS)}; by default all")
    parser.add_argument("--cases", action="store_true", help="Print the questions that are not answered rightly.")
    options = parser.parse_args()
    for name in options.sets or PAGE_SETS:
        with tempfile.TemporaryDirectory() as folder:
            graded = grade_questions(name, read_set(name), Path(folder))
        for kind in ("with an answer", "for yes or no", "without an answer"):
            verdicts = Counter(verdict for question, verdict, _ in graded if kind_of(question) == kind)
            shares = ", ".join(f"{verdicts[v]} {v}" for v in (RIGHT, STATEMENT, REFUSED, WRONG, FALSE) if verdicts[v])
            print(f"{name}, {verdicts.total()} questions {kind}: {shares}")
        for question, verdict, answer in graded if options.cases else ():
            if verdict not in (RIGHT, STATEMENT):
                print(f"  {verdict}: {question.text} {answer!r} instead of {list(question.golds)}")


if __name__ == "__main__":
    main()
