"""The rule of reuse that every writer of rows shares: unchanged rows are reused with their lineage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.schemas import TABLES

ROWS_PER_TYPED_BLOCK = 16_384
TASKS_PER_BATCH = 4096
"""Tasks that a reasoner is given at a time: many, as a language model answers many at once and each reply is cached."""


class _TypedRows:
    """Rows of a table that come one by one and are kept typed, a block at a time."""

    def __init__(self, table: str, first: pl.DataFrame) -> None:
        self._table, self._new = table, list[dict[str, Any]]()
        schema = build_table(table, []).schema
        self._typed = [first.select(schema.names).to_arrow().cast(schema)] if first.height else []
        self._seen = len(self._typed)

    def add(self, row: dict[str, Any]) -> None:
        self._new.append(row)
        if len(self._new) == ROWS_PER_TYPED_BLOCK:
            self._type_new()

    def _type_new(self) -> None:
        if self._new:
            self._typed.append(build_table(self._table, self._new))
            self._new = []

    def unseen(self) -> pa.Table:
        """Rows that came since the last call."""
        self._type_new()
        seen, self._seen = self._seen, len(self._typed)
        return pa.concat_tables([*self._typed[seen:], build_table(self._table, [])])

    def all(self) -> pa.Table:
        return pa.concat_tables([*self._typed, build_table(self._table, self._new)])


class RowWriter:
    """The rows of one partition of a table.

    A row whose ``input_hash`` is what it would be again is reused, unless it failed.

    ``before``: What the partition holds; its blocks keep rows while others are made, so that a kill loses those of the
        last minute.
    ``inputs``: For each value of the column ``by`` (such as a question's id), the hash of all that decides its rows.
    """

    def __init__(self, table: str, before: PreviousOutput | None, inputs: Mapping[str, str], by: str) -> None:
        rows, edges = (pl.DataFrame(build_table(name, [])) for name in (table, "lineage_edges"))
        previous, lineage, self._blocks = before or PreviousOutput(rows, edges)
        self._table, self._by, self._inputs, self._schema = table, by, inputs, TABLES[table]
        # Rows of a partition and of its blocks may have the same key: those made from the present inputs are kept.
        wanted = pl.Series([inputs.get(key) for key in previous[by].to_list()], dtype=pl.String)
        kept = previous.filter(pl.Series(previous["input_hash"].to_list(), dtype=pl.String) == wanted)
        if "status" in previous.columns:
            kept = kept.filter(pl.col("status") != "failed")
        settled = set(kept[by].to_list())
        self.reused = kept.height
        self.todo = [key for key in inputs if key not in settled]
        """The values of ``by`` whose rows have to be made, in the order of ``inputs``."""
        self._rows = _TypedRows(table, kept)
        reused_ids = kept[self._schema.row_id]
        self._lineage = _TypedRows("lineage_edges", lineage.filter(pl.col("child_id").is_in(reused_ids.implode())))

    def add(self, *sources: object, **columns: Any) -> None:
        """Add a row: each declared column as stated, else from the first source that has it, else empty.

        A source is a mapping or an object with attributes; the writer adds ``input_hash``.
        """
        row = dict(columns)
        for name in self._schema.names:
            for source in sources:
                if name in row:
                    break
                if isinstance(source, Mapping):
                    row.update({name: source[name]} if name in source else {})
                elif hasattr(source, name):
                    row[name] = getattr(source, name)
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
        """Record what a row came from."""
        self._lineage.add(edge(self._schema.kind, row_id, relation, parent_kind, parent_id, version, rank, score))

    def checkpoint(self) -> None:
        """Mark a key complete; checkpoint if due."""
        if self._blocks is not None and self._blocks.is_due():
            self._blocks.store({self._table: self._rows.unseen(), "lineage_edges": self._lineage.unseen()})

    def finish(self, **metadata: Any) -> StageOutput:
        """All rows, old and new, with the shares of their statuses where they have any."""
        rows = self._rows.all()
        shares: dict[str, float] = {}
        if "status" in rows.column_names:
            statuses = rows.column("status").to_pylist()
            shares = {f"{s}_share": statuses.count(s) / len(statuses) for s in sorted(set(statuses))}
        return StageOutput(rows, self._lineage.all(), {**shares, **metadata}, self.reused)
