"""The one place where each table's columns are declared, with a sentence on each; a module a group of tables.

The store refuses rows that do not fit; asset checks, Dagster's column schemas and the documentation are made from
what stands here. A method that needs another column adds it here and nowhere else.
"""

from __future__ import annotations

from evidence_assets.lake.schemas import answers, corpus, knowledge, ledger, questions
from evidence_assets.lake.schemas.columns import Column, TableSchema

_ALL = [*corpus.TABLES, *knowledge.TABLES, *questions.TABLES, *answers.TABLES, *ledger.TABLES]

TABLES: dict[str, TableSchema] = {table.name: table for table in _ALL}
KINDS: dict[str, TableSchema] = {table.kind: table for table in _ALL}

__all__ = ["KINDS", "TABLES", "Column", "TableSchema"]
