"""UCRET's first stage as a selector: the collapsed table is the evidence of the whole question.

Each kept column is one row of evidence, and so is each cell in rows that bear on an option; no cell is in two of them.
Belongs here too: the bridge to evidence outside the table, which lies beside the cells and is marked as such.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.selection import Asked, Parent, Pick, Progress, Selector
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.ucret import VERSION
from evidence_assets.systems.ucret.settings import UcretSettings
from evidence_assets.systems.ucret.system import TableEvidence, TableQuestion, collapsed_tables


class CollapsedTable:
    """The columns and cells that a UCRET variant keeps, each with the rules that kept it."""

    def __init__(
        self, name: str, tables: Mapping[str, tuple[Table, str]], settings: UcretSettings, encoder: Encoder
    ) -> None:
        self.name, self._tables, self._settings, self._encoder = name, tables, settings, encoder
        hashes = sorted(version for _, version in tables.values())
        self.version = content_id(VERSION, asdict(settings), hashes, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterator[list[Pick]]:
        known = [q for q in questions if q.table_id in self._tables]
        asked = [
            TableQuestion(q.question_id, q.text, q.table_id, () if q.task == "verification" else q.options)
            for q in known
        ]
        tables = {name: table for name, (table, _) in self._tables.items()}
        found = collapsed_tables(asked, tables, self._settings, self._encoder)
        for done, question in enumerate(questions, 1):
            if question.table_id in self._tables:
                parents = (Parent("table", question.table_id, self._tables[question.table_id][1]),)
                yield list(_picks(next(found), parents))
            else:
                yield []
            if progress is not None:
                progress(done, len(questions))


def _picks(evidence: TableEvidence, parents: tuple[Parent, ...]) -> Iterator[Pick]:
    for kept in evidence.columns.kept:
        if text := evidence.column_text(kept.line):
            yield Pick("", "column", parents, f"c{kept.line}", text, kept.score, _why(column=kept.rule))
    for cell in filter(evidence.alone, evidence.cells):
        row_rule = cell.row_rule if evidence.bearing is None else evidence.bearing[cell.place[0]]
        why = _why(column=cell.column_rule, row=row_rule)
        yield Pick("", "cell", parents, cell.locator, cell.text, cell.score, why)


@lru_cache(maxsize=64)
def _why(**rules: str) -> str:
    return json.dumps(rules)


class BridgedTable:
    """The cells that a UCRET variant keeps, and behind them what another selector finds outside the table.

    Outside evidence keeps its own kind (chunk, triple …), so that it is never taken for a cell, and its ``why`` says
    ``outside``. It is looked for once a question, by the claim, or by the question with all of its options.

    ``outside``: Finds the evidence; None where the benchmark names nothing to look in, so that the cells stand alone.
    """

    def __init__(self, cells: CollapsedTable, outside: Selector | None) -> None:
        self.name, self._cells, self._outside = cells.name, cells, outside
        self.version = content_id("bridge", cells.version, outside.version if outside else "")

    @property
    def notes(self) -> dict[str, str]:
        """What the asset's metadata says of it."""
        return {} if self._outside else {"no_bridge": "the benchmark names no corpus: there are cells only"}

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> Iterator[list[Pick]]:
        cells = self._cells.select(questions, progress)
        whole = [replace(q, text=_whole(q), options=()) for q in questions]
        beside = self._outside.select(whole) if self._outside is not None else ([] for _ in whole)
        for picks, found in zip(cells, beside, strict=True):
            yield picks + [replace(pick, why=json.dumps({"rule": "outside"})) for pick in found]


def _whole(question: Asked) -> str:
    """What is looked for: a claim as it stands, a question with its options."""
    return question.text if question.task == "verification" else " ".join([question.text, *question.options])
