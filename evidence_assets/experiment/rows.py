"""How a step makes rows again: what is unchanged is taken over with its lineage, the rest is added.

Belongs here: the rule of reuse that every writer of rows shares. Rows may be millions, so they are kept typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from evidence_assets.experiment.step import Made
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.store import typed

BLOCK = 16_384
"""Rows that are typed together."""


class _Growing:
    """Rows of a table that come one by one and are kept typed, a block at a time."""

    def __init__(self, table: str, first: pl.DataFrame) -> None:
        self._table, self._new = table, list[dict[str, Any]]()
        schema = typed(table, []).schema
        self._typed = [first.select(schema.names).to_arrow().cast(schema)] if first.height else []

    def add(self, row: dict[str, Any]) -> None:
        self._new.append(row)
        if len(self._new) == BLOCK:
            self._typed.append(typed(self._table, self._new))
            self._new = []

    def whole(self) -> pa.Table:
        return pa.concat_tables([*self._typed, typed(self._table, self._new)])


class RowWriter:
    """The rows of one partition of a table.

    A row whose ``input_hash`` is what it would be again is taken over, unless it failed.

    Parameters
    ----------
    previous, lineage
        The rows that the partition has now, and their lineage.
    inputs
        For each value of the column ``by`` (such as a question's id), the hash of all that decides its rows.
    kind, row_id
        What a row is called in the lineage, and the column that holds its id.
    """

    def __init__(
        self,
        table: str,
        previous: pl.DataFrame,
        lineage: pl.DataFrame,
        inputs: Mapping[str, str],
        *,
        kind: str,
        row_id: str,
        by: str,
    ) -> None:
        self._kind, self._row_id, self._by, self._inputs = kind, row_id, by, inputs
        failed: set[str] = set()
        if "status" in previous.columns:
            failed = set(previous.filter(pl.col("status") == "failed")[by].to_list())
        hashes = dict(zip(previous[by].to_list(), previous["input_hash"].to_list(), strict=True))
        settled = {key for key, hash_ in inputs.items() if hashes.get(key) == hash_ and key not in failed}
        kept = previous.filter(pl.col(by).is_in(list(settled)))
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

    def finish(self, **metadata: Any) -> Made:
        """All rows, old and new, with the shares of their statuses where they have any."""
        rows = self._rows.whole()
        shares: dict[str, float] = {}
        if "status" in rows.column_names:
            statuses = rows.column("status").to_pylist()
            shares = {f"{s}_share": statuses.count(s) / len(statuses) for s in sorted(set(statuses))}
        return Made(rows, self._lineage.whole(), {**shares, **metadata}, self.reused)
