"""UCRET's first stage as a selector: the cells of the collapsed table are the evidence of the whole question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from evidence_assets.datasets.records import Table
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.systems.selection import Asked, Parent, Pick, Progress
from evidence_assets.systems.ucret import TableQuestion, Variant, select_evidence


class CollapsedTable:
    """The cells that a UCRET variant keeps, each with the rule that kept its column and row."""

    def __init__(self, name: str, tables: Mapping[str, tuple[Table, str]], variant: Variant, encoder: Encoder) -> None:
        self.name, self._tables, self._variant, self._encoder = name, tables, variant, encoder
        hashes = sorted(version for _, version in tables.values())
        self.version = content_id(variant.version, hashes, encoder.model_id, encoder.revision)

    def select(self, questions: Sequence[Asked], progress: Progress | None = None) -> list[list[Pick]]:
        known = [i for i, q in enumerate(questions) if q.table_id in self._tables]
        asked = [
            TableQuestion(q.question_id, q.text, q.table_id, () if q.task == "verification" else q.options)
            for q in (questions[i] for i in known)
        ]
        made: list[list[Pick]] = [[] for _ in questions]
        tables = {name: table for name, (table, _) in self._tables.items()}
        for i, found in zip(known, select_evidence(asked, tables, self._variant, self._encoder), strict=True):
            table_id = questions[i].table_id
            parents = (Parent("table", table_id, self._tables[table_id][1]),)
            for cell in found.cells:
                why = json.dumps({"column": cell.column_rule, "row": cell.row_rule})
                made[i].append(Pick("", "cell", parents, cell.locator, cell.text, cell.score, why))
        return made
