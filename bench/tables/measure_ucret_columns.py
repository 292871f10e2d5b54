"""Measure which questions and claims the extractive solver answers rightly from the columns of `ucret`.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.measure_ucret_columns OUTPUT [BEFORE]

Writes a JSON object with the outcome of each question by set and id to OUTPUT. With the outcomes BEFORE a change, it
writes the accuracy before and after, and the paired 95 % interval of the difference, to the result file
``ucret_columns``. Rules may be fitted on the first half of TabMCQ, by sorted ids; claims keep all columns. The plain
tables are the five sets of `bench.tables.measure_plain`, without claims, with the options that ``evidence ask
--table`` gives.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.minilm import MiniLm
from bench.result_files import RESULTS, write_results
from bench.tables import measure_plain
from bench.tables.answering import answer_from_evidence, is_answered_rightly
from bench.tables.claim_data import read_scitab, read_tabfact
from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.ad_hoc_questions import parse_table, table_options
from evidence_assets.experiment.question_rows import hide_gold
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.experiment.variants import variants_of
from evidence_assets.extractive.tables.open_questions import is_statement
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.ucret.system import Ucret, collapse_tables

Outcomes = dict[str, dict[str, bool]]
PLAIN = "plain tables"


def read_benchmarks(folder: Path) -> dict[str, list[tuple[QuestionRecord, Table]]]:
    tabmcq_folder = folder / "tabmcq"
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", tabmcq_folder, "all")}
    questions = read_questions("tabmcq", tabmcq_folder, "all")
    return {
        "TabMCQ": [(question, tables[question.table_id or ""]) for question in questions],
        "TabFact": [(claim.question, claim.table) for claim in read_tabfact(folder)],
        "SCITAB": [(claim.question, claim.table) for claim in read_scitab(folder)],
    }


def measure_outcomes(folder: Path) -> Outcomes:
    encoder = MiniLm()
    variant = next(variant for variant in variants_of("ucret") if variant.name == "ucret")
    settings = Ucret(variant).settings
    outcomes: Outcomes = {}
    for benchmark, pairs in read_benchmarks(folder).items():
        tables = {question.table_id or "": table for question, table in pairs}
        questions = [hide_gold(question) for question, _ in pairs]
        selections = collapse_tables(questions, tables, settings, encoder)
        outcomes[benchmark] = {
            question.question_id: is_answered_rightly(question, evidence, table.caption)
            for (question, table), evidence in zip(pairs, selections, strict=True)
        }
    outcomes[PLAIN] = {}
    for question, table, answers in read_plain_questions():
        [evidence] = collapse_tables([hide_gold(question)], {table.table_id: table}, settings, encoder)
        choice = answer_from_evidence(question, evidence, table.caption)
        cells = [question.options[question.labels.index(label)] for label in choice.supported]
        is_right = measure_plain.is_among(cells, answers) if choice.status != "insufficient" else not answers
        outcomes[PLAIN][question.question_id] = is_right
    return outcomes


def read_plain_questions() -> Iterator[tuple[QuestionRecord, Table, list[list[str]]]]:
    """Questions that are not for yes or no, with their tables and the alternative answers."""
    for file in sorted(measure_plain.FOLDER.glob("*/cases.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            case = json.loads(line)
            if "label" in case or is_statement(case["text"]):
                continue
            table = measure_plain.read_table(file.with_name(f"{case['table']}.csv"))
            source_id = f"{file.parent.name}-{number:04}"
            try:
                options = tuple(table_options(parse_table(table), case["text"]))
            except BadInput:  # a table without options has no answer, whatever is selected
                continue
            yield (
                QuestionRecord(PLAIN, source_id, "all", "table_qa", case["text"], options, table_id=table.table_id),
                table,
                case["answers"],
            )


def compare_outcomes(before: Outcomes, after: Outcomes) -> Iterator[list[str]]:
    """Rows with the name of a set, its size, the shares of right answers and their difference, in per cent."""
    for benchmark, answers in after.items():
        ids = sorted(answers)
        middle = len(ids) // 2
        halves = {f"{benchmark}, 1st half": ids[:middle], f"{benchmark}, 2nd half": ids[middle:]}
        for name, group in (halves if benchmark == "TabMCQ" else {benchmark: ids}).items():
            old = [100.0 * before[benchmark][question_id] for question_id in group]
            new = [100.0 * answers[question_id] for question_id in group]
            shares = [f"{sum(outcomes) / len(outcomes):.1f}" for outcomes in (old, new)]
            difference = paired_bootstrap(new, old)
            change = f"{difference.value:+.1f} [{difference.low:+.1f}, {difference.high:+.1f}]"
            yield [name, str(len(group)), *shares, change]


def main() -> None:
    output, *before = map(Path, sys.argv[1:])
    outcomes = measure_outcomes(Path(os.environ["EVIDENCE_DEV_DATA"]))
    output.write_text(json.dumps(outcomes, indent=0), encoding="utf-8")
    for path in before:
        rows = list(compare_outcomes(json.loads(path.read_text(encoding="utf-8")), outcomes))
        columns = ("set", "n", "before", "after", "difference, %")
        write_results(RESULTS / "ucret_columns.json", columns, rows, "python -m bench.tables.measure_ucret_columns")


if __name__ == "__main__":
    main()
