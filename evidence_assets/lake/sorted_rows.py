"""Sorts tables on disk that may not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.lake.atomic import raise_if_disk_full
from evidence_assets.lake.errors import SchemaMismatch
from evidence_assets.lake.rows import SortedRows, prepare_rows
from evidence_assets.lake.schemas import TABLES

SORT_MEMORY = "2GB"
"""Rows in memory during a sort; the others are in the folder."""
ROWS_PER_BLOCK = 1 << 18
NUMBER = "file_row_number"


def sort_on_disk(frames: Iterable[pl.DataFrame], by: Sequence[str], folder: Path) -> Iterator[pl.DataFrame]:
    """All rows of these frames in ascending order of these columns, in blocks; equal rows keep their order.

    Rows with the same value in the first column are in the same block.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unsorted, writer = folder / "unsorted.parquet", None
    try:
        for frame in frames:
            rows = frame.to_arrow()
            writer = writer or pq.ParquetWriter(unsorted, rows.schema)
            writer.write_table(rows)
        if writer is None:
            return
        writer.close()
        with duckdb.connect(config={"memory_limit": SORT_MEMORY, "temp_directory": str(folder)}) as connection:
            numbered = connection.read_parquet(str(unsorted), file_row_number=True)
            ordered = numbered.order(", ".join((*by, NUMBER))).project(f"* EXCLUDE {NUMBER}")
            rest = pl.DataFrame()
            for batch in ordered.to_arrow_reader(ROWS_PER_BLOCK):
                block = pl.concat([rest, pl.DataFrame(batch)], how="diagonal")
                is_last = block[by[0]] == block[by[0]][-1]  # the next batch may have more of its rows
                rest = block.filter(is_last)
                if len(rest) < len(block):
                    yield block.filter(~is_last)
            if len(rest):
                yield rest
    except (OSError, duckdb.Error) as error:
        raise_if_disk_full(error, folder)
        raise


def store_sorted(table: str, blocks: Iterable[pl.DataFrame | pa.Table], folder: Path) -> SortedRows:
    """Validate blocks of rows that ascend by the table's key, and keep them in a file.

    Raises SchemaMismatch as `prepare_rows` does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = TABLES[table]
    last: dict[str, Any] = {}
    path = folder / f"{table}.arrow"
    with pa.ipc.new_file(path, schema.arrow) as writer:
        for block in filter(len, blocks):
            rows = prepare_rows(table, block)
            keys = rows.select(schema.key)
            [first], before = keys.slice(0, 1).to_pylist(), last
            if tuple(before.values()) >= tuple(first.values()):
                raise SchemaMismatch(f"table {table}: the row {first} is after {before}")
            [last] = keys.slice(rows.num_rows - 1).to_pylist()
            writer.write_table(rows)
    return SortedRows(pa.ipc.open_file(pa.memory_map(str(path))).read_all())
