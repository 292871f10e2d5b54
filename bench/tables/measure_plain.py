"""Measure questions and claims on small plain tables, such as people have them: staff, prices, timetables, results.

    python -m bench.tables.measure_plain [--cases] [--halves] [SET …]

A set is a folder of ``bench/tables/plain`` with tables and ``cases.jsonl``: a question has ``answers``, alternatives
that are sets of cells (none if the table has no answer), a claim its ``label``. They were written for this project
without looking at the solver. The rules were improved on ``first``, ``second``, ``third`` and every other table of
``fourth``, on these four, then on ``fifth`` and every other table of ``sixth``. The last two sets chose the probability
of an answer (``fit_asked_tables``). Each case is answered from all cells; ``evidence ask --table`` selects columns
first.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.measuring import make_parser
from evidence_assets.benchmarks.records import CLAIM_LABELS, Table
from evidence_assets.benchmarks.user_benchmark import read_table_file
from evidence_assets.experiment.ad_hoc_questions import parse_table, table_options
from evidence_assets.extractive.tables.claims import REFUTES, SUPPORTS
from evidence_assets.extractive.tables.open_questions import is_statement
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.questions import Question, option_texts
from evidence_assets.reasoning.tasks import (
    NOT_ENOUGH_INFORMATION,
    Chain,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
)

FOLDER = Path(__file__).with_name("plain")
RIGHT, REFUSED, WRONG, WRONG_LIST = "right", "refused", "wrong", "wrong list"
SOLVER = TableSolver()
read_table = cache(read_table_file)


def answer(table: Table, text: str, task: str, options: Sequence[str]) -> Choice:
    """The choice of the solver from all cells of a table: it explains each option, then chooses one."""
    grid = ((i, j, cell) for i, row in enumerate([table.header, *table.rows]) for j, cell in enumerate(row) if cell)
    cells = tuple(EvidenceItem(f"r{i}c{j}", "cell", table.table_id, f"r{i}c{j}", cell) for i, j, cell in grid)
    question = Question("", "", task, text, tuple(options))
    explained = SOLVER.explain([ExplainOption(question, label, cells) for label in question.labels])
    chains = tuple(chain for chain in explained if isinstance(chain, Chain))
    [choice] = SOLVER.choose([ChooseAnswer(question, chains, dict.fromkeys(question.labels, cells))])
    if not isinstance(choice, Choice):
        raise ValueError(f"{question.text!r} was not answered: {choice.reason}")
    return choice


def grade(table: Table, case: dict[str, Any]) -> tuple[str, str]:
    """The verdict on a case, and what was answered."""
    if "label" in case:
        choice = answer(table, case["text"], "verification", CLAIM_LABELS)
        is_answered = choice.status == "answered"
        if case["label"] == (choice.answer if is_answered else NOT_ENOUGH_INFORMATION):
            return RIGHT, ""
        return (WRONG if is_answered else REFUSED), str(choice.answer)
    if is_statement(case["text"]):  # a question for yes or no
        choice = answer(table, case["text"], "verification", CLAIM_LABELS)
        reply = {SUPPORTS: "yes", REFUTES: "no"}.get(choice.answer or "", "") if choice.status == "answered" else ""
        if not reply:
            return (REFUSED if case["answers"] else RIGHT), ""
        return (RIGHT if [reply] in case["answers"] else WRONG), reply
    try:
        texts, choice = answer_from_cells(table, case["text"])
    except BadInput as error:
        return (REFUSED if case["answers"] else RIGHT), str(error)
    cells = [texts[label] for label in choice.supported]
    if choice.status == "insufficient":
        return (REFUSED if case["answers"] else RIGHT), ""
    if is_among(cells, case["answers"]):
        return RIGHT, ""
    return (WRONG if choice.status == "answered" else WRONG_LIST), "; ".join(cells)


def answer_from_cells(table: Table, question: str) -> tuple[dict[str, str], Choice]:
    """The options of a question without any, by label, and the choice among them."""
    options = table_options(parse_table(table), question)
    return option_texts("table_qa", options), answer(table, question, "table_qa", options)


def is_among(cells: Sequence[str], alternatives: Sequence[Sequence[str]]) -> bool:
    """Whether cells are one of the right answers."""
    return any(sorted(map(normalise, cells)) == sorted(map(normalise, each)) for each in alternatives)


def normalise(text: str) -> str:
    """A cell without case and spaces; a number as Python writes it."""
    text = " ".join(text.split()).casefold()
    try:
        return str(float(text.replace(",", "")))
    except ValueError:
        return text


def grade_set(name: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Each case of a set with its verdict and what was answered."""
    for line in (FOLDER / name / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield (case, *grade(read_table(FOLDER / name / f"{case['table']}.csv"), case))


def main() -> None:
    names = sorted(path.name for path in FOLDER.iterdir())
    parser = make_parser(__doc__)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(names)}; by default all")
    parser.add_argument("--cases", action="store_true", help="Print the cases that are not right.")
    parser.add_argument("--halves", action="store_true", help="Count every other table apart, the first one in half 1.")
    options = parser.parse_args()
    for name in options.sets or names:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        tables = sorted(path.stem for path in (FOLDER / name).glob("*.csv"))
        for case, verdict, answered in grade_set(name):
            half = f" of half {tables.index(case['table']) % 2 + 1}" if options.halves else ""
            counts[("claims" if "label" in case else "questions") + half][verdict] += 1
            if options.cases and verdict != RIGHT:
                expected = case.get("label") or case["answers"]
                print(f"  {verdict}: {case['table']}: {case['text']} {answered!r} instead of {expected}")
        for kind, verdicts in counts.items():
            shares = ", ".join(f"{verdicts[v]} {v}" for v in (RIGHT, REFUSED, WRONG, WRONG_LIST) if verdicts[v])
            print(f"{name}, {verdicts.total()} {kind}: {shares}")


if __name__ == "__main__":
    main()
