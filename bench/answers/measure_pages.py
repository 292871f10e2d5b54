"""Measure what ``evidence ask`` answers to questions on pages as people have them: handbooks, minutes, price lists.

    python -m bench.answers.measure_pages [--cases] [SET …]

Sets and how they were written: `bench.answers.short_answer_questions`. An answer is right if its token F1 with an
acceptable span is at least .7. Questions for yes or no count as questions without an answer.
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

RIGHT, REFUSED, WRONG, FALSE = "right", "refused", "wrong", "answered without an answer in the page"
MIN_F1 = 0.7


def grade(question: AnswerableQuestion, answer: str | None) -> str:
    """The verdict on an answer; None for no answer."""
    if answer is None:
        return REFUSED if question.golds else RIGHT
    if not question.golds:
        return FALSE
    return RIGHT if token_f1(answer, question.golds) >= MIN_F1 else WRONG


def grade_questions(
    name: str, questions: Sequence[AnswerableQuestion], folder: Path
) -> list[tuple[AnswerableQuestion, str, str | None]]:
    """Each question of a set with its verdict and answer, in a new lake in ``folder``."""
    lake = build_lake(folder, {f"pages_{name}": PAGES / name})
    graded = []
    for question, rows in run_stages(lake, questions, "predictions"):
        answer = next((row["answer"] for row in rows if row["status"] == "answered"), None)
        graded.append((question, grade(question, answer), answer))
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
        for has_answer in (True, False):
            verdicts = Counter(verdict for question, verdict, _ in graded if bool(question.golds) is has_answer)
            shares = ", ".join(f"{verdicts[v]} {v}" for v in (RIGHT, REFUSED, WRONG, FALSE) if verdicts[v])
            print(f"{name}, {verdicts.total()} questions {'with' if has_answer else 'without'} an answer: {shares}")
        for question, verdict, answer in graded if options.cases else ():
            if verdict != RIGHT:
                print(f"  {verdict}: {question.text} {answer!r} instead of {list(question.golds)}")


if __name__ == "__main__":
    main()
