"""Row writers: rows with unchanged inputs are reused with their lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import polars as pl
import pyarrow as pa

from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.lineage import edge
from evidence_assets.lake.rows import build_table
from evidence_assets.lake.schemas import TABLES

LINEAGE = "lineage_edges"
TASKS_PER_BATCH = 4096
"""Tasks per call of a reasoner. Large, because language models batch requests and replies are cached."""


Item = TypeVar("Item")


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Consecutive parts of a sequence with ``size`` items each; the last may have fewer."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class RowWriter:
    """Writes the rows of one partition of a table.

    Reuses rows whose ``input_hash`` is unchanged, unless they failed.

    ``previous``: Stored rows and checkpoints of the partition; checkpoints limit the loss of a killed run to a minute.
    ``input_hashes``: By value of the column ``by`` (such as a question's id), the hash of everything that determines
        its rows.
    """

    def __init__(self, table: str, previous: PreviousOutput | None, input_hashes: Mapping[str, str], by: str) -> None:
        rows, edges = (pl.DataFrame(build_table(name, [])) for name in (table, LINEAGE))
        stored_rows, lineage, self._blocks = previous or PreviousOutput(rows, edges)
        self._table = table
        self._by = by
        self._input_hashes = input_hashes
        self._schema = TABLES[table]
        reusable = self._select_reusable(stored_rows)
        reused_keys = set(reusable[by].to_list())
        self.reused = reusable.height
        self.todo = [key for key in input_hashes if key not in reused_keys]
        """Values of ``by`` whose rows must be computed, in the order of ``input_hashes``."""
        reused_ids = reusable[self._schema.row_id]
        reused_edges = lineage.filter(pl.col("child_id").is_in(reused_ids.implode()))
        self._new: dict[str, list[dict[str, object]]] = {table: [], LINEAGE: []}
        self._stored: dict[str, list[pa.Table]] = {}
        """Reused rows, and those before a checkpoint, as Arrow arrays."""
        for name, frame in ((table, reusable), (LINEAGE, reused_edges)):
            schema = build_table(name, []).schema
            self._stored[name] = [frame.select(schema.names).to_arrow().cast(schema)]

    def _select_reusable(self, stored_rows: pl.DataFrame) -> pl.DataFrame:
        """Stored rows with the current input hash, unless they failed; stored rows and checkpoints may share a key."""
        current = pl.Series([self._input_hashes.get(key) for key in stored_rows[self._by].to_list()], dtype=pl.String)
        reusable = stored_rows.filter(pl.Series(stored_rows["input_hash"].to_list(), dtype=pl.String) == current)
        return reusable.filter(pl.col("status") != "failed") if "status" in stored_rows.columns else reusable

    def add(self, *sources: object, **columns: object) -> None:
        """Add a row: each column from ``columns``, else from the first source that has it, else null.

        A source is a mapping or an object with attributes. The writer adds ``input_hash``.
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
        self._new[self._table].append(row | {"input_hash": self._input_hashes[str(row[self._by])]})

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
        """Add a lineage edge of a row."""
        self._new[LINEAGE].append(
            edge(self._schema.kind, row_id, relation, parent_kind, parent_id, version, rank, score)
        )

    def checkpoint(self) -> None:
        """Mark a key complete; checkpoint if due."""
        if self._blocks is not None and self._blocks.is_due():
            self._blocks.store(self._convert_new())

    def _convert_new(self) -> dict[str, pa.Table]:
        """Convert the rows added since the last call to Arrow, by table."""
        blocks = {table: build_table(table, rows) for table, rows in self._new.items()}
        for table, block in blocks.items():
            self._stored[table].append(block)
            self._new[table] = []
        return blocks

    def finish(self, **metadata: object) -> StageOutput:
        """All rows, reused and new, with the share of each status as metadata."""
        self._convert_new()
        rows, lineage = (pa.concat_tables(self._stored[table]) for table in (self._table, LINEAGE))
        shares: dict[str, float] = {}
        if "status" in rows.column_names:
            statuses = rows.column("status").to_pylist()
            shares = {f"{s}_share": statuses.count(s) / len(statuses) for s in sorted(set(statuses))}
        return StageOutput(rows, lineage, {**shares, **metadata}, self.reused)
