"""Real claims about tables in halves: the first to fit and choose on, the second to report on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evidence_assets.benchmarks.official.tables import tabfact_tables
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.benchmarks.records import QuestionRecord, Table


@dataclass(frozen=True)
class Claim:
    """A claim with its table."""

    question: QuestionRecord
    table: Table
    first_half: bool


def scitab_claims(folder: Path) -> list[Claim]:
    """SCITAB, halved in file order."""
    pairs = list(read_pairs("scitab", [folder / "scitab" / "sci_tab.json"], "all"))
    return [Claim(question, table, 2 * k < len(pairs)) for k, (question, table) in enumerate(pairs)]


def tabfact_claims(folder: Path) -> list[Claim]:
    """TabFact, halved by table in file order."""
    folder = folder / "tabfact"
    pairs = list(
        read_pairs("tabfact", [folder / "tokenized_data" / "test_examples.json", tabfact_tables(folder)], "test")
    )
    tables = list(dict.fromkeys(table.table_id for _, table in pairs))
    first = frozenset(tables[: len(tables) // 2])
    return [Claim(question, table, table.table_id in first) for question, table in pairs]
