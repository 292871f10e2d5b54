"""Checkpoints of an unfinished partition, from which a killed or failed step resumes.

A block has the rows computed since the previous block, with their lineage. A complete partition replaces its blocks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import polars as pl

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.mirror import fetch_folder
from evidence_assets.lake.rows import Rows, prepare_rows, read_rows, version_of, write_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

BLOCK_SECONDS = 60.0
"""Seconds between checkpoints: the most work that a kill can lose."""
LINEAGE = "lineage_edges"


class Blocks:
    """The blocks of one asset's partition."""

    def __init__(self, lake: Lake, asset: str, partition: str = "") -> None:
        self._folder = fetch_folder(lake.blocks_folder(asset, partition))
        self._last = time.monotonic()

    def is_due(self) -> bool:
        return time.monotonic() - self._last >= BLOCK_SECONDS

    def store(self, tables: Mapping[str, Rows]) -> None:
        """Write a block, its lineage first, so that every stored row has its lineage."""
        prepared = {table: prepare_rows(table, rows) for table, rows in tables.items()}
        number = len(list(self._folder.glob("*.parquet")))
        name = f"{number:08d}-" + "".join(version_of(rows)[:8] for rows in prepared.values())
        for table in sorted(prepared, key=lambda table: table != LINEAGE):
            with replacing_file(self._folder / f"{name}.{table}.parquet") as temporary:
                write_rows(table, prepared[table], temporary)
        self._last = time.monotonic()

    def merge_into(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """A partition's rows with those of its blocks; of rows with the same id, the latest."""
        files = sorted(self._folder.glob(f"*.{table}.parquet"))
        if not files:
            return rows
        frames = [rows, *(pl.DataFrame(read_rows(path, TABLES[table].arrow)) for path in files)]
        numbered_frames = [frame.with_columns(block=pl.lit(number)) for number, frame in enumerate(frames)]
        id_column = "child_id" if table == LINEAGE else TABLES[table].row_id
        is_latest = pl.col("block") == pl.col("block").max().over(id_column)
        return pl.concat(numbered_frames, how="diagonal").filter(is_latest).drop("block").select(rows.columns)
