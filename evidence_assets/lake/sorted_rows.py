"""Sorts tables on disk that may not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.rows import PreparedRows, prepare_rows
from evidence_assets.lake.schemas import TABLES

SORT_MEMORY = "2GB"
"""Memory of a sort; rows beyond it are in its folder."""
MAX_SORT_THREADS = 8
"""Maximum threads of a sort; with 32, rows in use by all threads exceeded its memory."""
ROWS_PER_BLOCK = 1 << 18
ROW_NUMBER = "file_row_number"
"""DuckDB's name for the position of a row in a Parquet file."""


def sort_on_disk(frames: Iterable[pl.DataFrame], by: Sequence[str], folder: Path) -> Iterator[pl.DataFrame]:
    """All rows of these frames in ascending order of these columns, in blocks; equal rows keep their order.

    Rows with the same value in the first column are in the same block.
    """
    unsorted = folder / "unsorted.parquet"
    if not _write_frames(frames, unsorted):
        return
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": SORT_MEMORY,
        "threads": min(os.cpu_count() or 1, MAX_SORT_THREADS),
        "temp_directory": str(folder),
        "max_temp_directory_size": "1000TB",  # so that a full disk is reported by the system
    }
    with duckdb.connect(config=config) as connection:
        numbered = connection.read_parquet(str(unsorted), file_row_number=True)
        ordered = numbered.order(", ".join((*by, ROW_NUMBER))).project(f"* EXCLUDE {ROW_NUMBER}")
        yield from _join_equal_rows(ordered.to_arrow_reader(ROWS_PER_BLOCK), by[0])
    unsorted.unlink()


def _write_frames(frames: Iterable[pl.DataFrame], path: Path) -> bool:
    """Write frames to one Parquet file; False if there are none."""
    writer: pq.ParquetWriter | None = None
    for frame in frames:
        rows = frame.to_arrow()
        writer = writer or pq.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    if writer is None:
        return False
    writer.close()
    return True


def _join_equal_rows(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[pl.DataFrame]:
    """Sorted rows in blocks, such that rows with the same value in a column are in the same block."""
    rest = pl.DataFrame()
    for batch in batches:
        block = pl.concat([rest, pl.DataFrame(batch)], how="diagonal")
        is_last = block[column] == block[column][-1]  # the next batch may have more of its rows
        rest = block.filter(is_last)
        if len(rest) < len(block):
            yield block.filter(~is_last)
    if len(rest):
        yield rest


def store_sorted(table: str, blocks: Iterable[pl.DataFrame | pa.Table], folder: Path) -> PreparedRows:
    """Validate blocks of rows that ascend by the table's key, and keep them in a file.

    Raises SchemaMismatch as `prepare_rows` does.
    """
    schema = TABLES[table]
    last: dict[str, Any] = {}
    path = folder / f"{table}.arrow"
    with pa.ipc.new_file(path, schema.arrow) as writer:
        for block in filter(len, blocks):
            rows = prepare_rows(table, block)
            keys = rows.select(schema.key)
            [first] = keys.slice(0, 1).to_pylist()
            if tuple(last.values()) >= tuple(first.values()):
                raise SchemaMismatch(f"table {table}: the row {first} is after {last}")
            [last] = keys.slice(rows.num_rows - 1).to_pylist()
            writer.write_table(rows)
    return PreparedRows(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
