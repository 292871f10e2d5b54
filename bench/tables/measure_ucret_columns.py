"""Measure which questions and claims the extractive solver answers rightly from the columns of `ucret`.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.measure_ucret_columns OUTPUT [BEFORE]

Writes a JSON object with the outcome of each question by benchmark and id to OUTPUT. With the outcomes BEFORE a
change, it prints the accuracy before and after by half, and the paired 95 % interval of the difference. The halves
are those of the ids in sorted order.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bench.minilm import MiniLm
from bench.tables.answering import is_answered_rightly, to_question
from bench.tables.claim_data import read_scitab, read_tabfact
from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.experiment.variants import variants_of
from evidence_assets.systems.ucret.system import Ucret, collapse_tables

Outcomes = dict[str, dict[str, bool]]


def read_benchmarks(folder: Path) -> dict[str, list[tuple[QuestionRecord, Table]]]:
    tabmcq_folder = folder / "tabmcq"
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", tabmcq_folder, "all")}
    questions = read_questions("tabmcq", tabmcq_folder, "all")
    return {
        "tabmcq": [(question, tables[question.table_id or ""]) for question in questions],
        "tabfact": [(claim.question, claim.table) for claim in read_tabfact(folder)],
        "scitab": [(claim.question, claim.table) for claim in read_scitab(folder)],
    }


def measure_outcomes(folder: Path) -> Outcomes:
    encoder = MiniLm()
    variant = next(variant for variant in variants_of("ucret") if variant.name == "ucret")
    settings = Ucret(variant).settings
    outcomes: Outcomes = {}
    for benchmark, pairs in read_benchmarks(folder).items():
        tables = {question.table_id or "": table for question, table in pairs}
        questions = [to_question(question) for question, _ in pairs]
        selections = collapse_tables(questions, tables, settings, encoder)
        outcomes[benchmark] = {
            question.question_id: is_answered_rightly(question, evidence, table.caption)
            for (question, table), evidence in zip(pairs, selections, strict=True)
        }
    return outcomes


def compare_outcomes(before: Outcomes, after: Outcomes) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for benchmark, answers in after.items():
        ids = sorted(answers)
        middle = len(ids) // 2
        for half, half_ids in (("first", ids[:middle]), ("second", ids[middle:])):
            old = [float(before[benchmark][question_id]) for question_id in half_ids]
            new = [float(answers[question_id]) for question_id in half_ids]
            difference = paired_bootstrap(new, old)
            row: dict[str, object] = {"benchmark": benchmark, "half": half, "n": len(half_ids)}
            row["before"] = round(sum(old) / len(old), 4)
            row["after"] = round(sum(new) / len(new), 4)
            row["difference"] = round(difference.value, 4)
            row["interval"] = [round(difference.low, 4), round(difference.high, 4)]
            rows.append(row)
    return rows


def main() -> None:
    output, *before = map(Path, sys.argv[1:])
    outcomes = measure_outcomes(Path(os.environ["EVIDENCE_DEV_DATA"]))
    output.write_text(json.dumps(outcomes, indent=0), encoding="utf-8")
    for path in before:
        for row in compare_outcomes(json.loads(path.read_text(encoding="utf-8")), outcomes):
            print(json.dumps(row))


if __name__ == "__main__":
    main()
