"""How a step makes rows again: what is unchanged is taken over with its lineage, the rest is added.

Belongs here: the rule of reuse that every writer of rows shares. Rows may be millions, so they are kept typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from evidence_assets.experiment.step import Before, Made
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.rows import typed
from evidence_assets.lake.schemas import TABLES

BLOCK = 16_384
"""Rows that are typed together."""
TOGETHER = 4096
"""Tasks that who reasons is given at a time: many, as a language model answers many at once and its replies are kept each."""


class _Growing:
    """Rows of a table that come one by one and are kept typed, a block at a time."""

    def __init__(self, table: str, first: pl.DataFrame) -> None:
        self._table, self._new = table, list[dict[str, Any]]()
        schema = typed(table, []).schema
        self._typed = [first.select(schema.names).to_arrow().cast(schema)] if first.height else []
        self._seen = len(self._typed)

    def add(self, row: dict[str, Any]) -> None:
        self._new.append(row)
        if len(self._new) == BLOCK:
            self._typed.append(typed(self._table, self._new))
            self._new = []

    def fresh(self) -> pa.Table:
        """Rows that came since this was last asked."""
        if self._new:
            self._typed.append(typed(self._table, self._new))
            self._new = []
        seen, self._seen = self._seen, len(self._typed)
        return pa.concat_tables([*self._typed[seen:], typed(self._table, [])])

    def whole(self) -> pa.Table:
        return pa.concat_tables([*self._typed, typed(self._table, self._new)])


class RowWriter:
    """The rows of one partition of a table.

    A row whose ``input_hash`` is what it would be again is taken over, unless it failed.

    ``before``: What there is of the partition; its blocks hold rows while the others are made, so that a kill loses those
        of the last minute.
    ``inputs``: For each value of the column ``by`` (such as a question's id), the hash of all that decides its rows.
    """

    def __init__(self, table: str, before: Before | None, inputs: Mapping[str, str], by: str) -> None:
        rows, edges = (pl.DataFrame(typed(name, [])) for name in (table, "lineage_edges"))
        previous, lineage, self._blocks = before or Before(rows, edges)
        self._table, self._by, self._inputs = table, by, inputs
        row_id, self._kind = TABLES[table].row_id, TABLES[table].kind
        # Rows of a partition and of its blocks may be of one key: those stand that were made from what there is now.
        wanted = pl.Series([inputs.get(key) for key in previous[by].to_list()], dtype=pl.String)
        kept = previous.filter(pl.Series(previous["input_hash"].to_list(), dtype=pl.String) == wanted)
        if "status" in previous.columns:
            kept = kept.filter(pl.col("status") != "failed")
        settled = set(kept[by].to_list())
        self.reused = kept.height
        self.todo = [key for key in inputs if key not in settled]
        """The values of ``by`` whose rows have to be made, in the order of ``inputs``."""
        self._rows = _Growing(table, kept)
        self._lineage = _Growing("lineage_edges", lineage.filter(pl.col("child_id").is_in(kept[row_id].implode())))

    def add(self, row: dict[str, Any]) -> None:
        """Add a row, but for its ``input_hash``."""
        self._rows.add(row | {"input_hash": self._inputs[row[self._by]]})

    def link(
        self,
        row_id: str,
        relation: str,
        parent_kind: str,
        parent_id: str,
        version: str,
        rank: int | None = None,
        score: float | None = None,
    ) -> None:
        """Say what a row came from."""
        self._lineage.add(edge(self._kind, row_id, relation, parent_kind, parent_id, version, rank, score))

    def settle(self) -> None:
        """Say that all rows of a key are there: once in a while these are kept."""
        if self._blocks is not None and self._blocks.due():
            self._blocks.keep({self._table: self._rows.fresh(), "lineage_edges": self._lineage.fresh()})

    def finish(self, **metadata: Any) -> Made:
        """All rows, old and new, with the shares of their statuses where they have any."""
        rows = self._rows.whole()
        shares: dict[str, float] = {}
        if "status" in rows.column_names:
            statuses = rows.column("status").to_pylist()
            shares = {f"{s}_share": statuses.count(s) / len(statuses) for s in sorted(set(statuses))}
        return Made(rows, self._lineage.whole(), {**shares, **metadata}, self.reused)
