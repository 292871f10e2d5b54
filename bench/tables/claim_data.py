"""Claims of SCITAB and TabFact in halves: the first for fitting and choices, the second for reported figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.benchmarks.records import QuestionRecord, Table


@dataclass(frozen=True)
class Claim:
    """A claim with its table."""

    question: QuestionRecord
    table: Table
    is_first_half: bool


def read_scitab(folder: Path) -> list[Claim]:
    """Claims of SCITAB, halved in file order."""
    pairs = list(read_pairs("scitab", folder / "scitab", "test"))
    return [Claim(question, table, 2 * k < len(pairs)) for k, (question, table) in enumerate(pairs)]


def read_tabfact(folder: Path) -> list[Claim]:
    """Statements of TabFact, halved by table in file order."""
    pairs = list(read_pairs("tabfact", folder / "tabfact", "test"))
    tables = list(dict.fromkeys(table.table_id for _, table in pairs))
    first = frozenset(tables[: len(tables) // 2])
    return [Claim(question, table, table.table_id in first) for question, table in pairs]
