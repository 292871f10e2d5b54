"""Stages of a benchmark, each in a process of its own on one folder: seconds, own memory, disk."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.measuring import Used, disk, in_new_process, measured
from evidence_assets.lake.rows import PreparedRows, Rows, prepare_rows
from evidence_assets.lake.store import Lake

Stage = Callable[[Lake, Path, argparse.Namespace], Any]


def keep(lake: Lake, table: str, asset: str, rows: Rows, partition: str = "", lineage: Rows | None = None) -> int:
    """Write rows as an asset does: prepared, hashed, and put into the lake."""
    rows = PreparedRows(prepare_rows(table, rows))  # frees the unprepared rows
    lineage_tables = {} if lineage is None else {"lineage_edges": lineage}
    lake.write(asset, partition, {table: rows, **lineage_tables})
    return len(rows)


def measure_stage(stage: Stage, folder: Path, shards: int, options: argparse.Namespace) -> tuple[Any, Used, int]:
    """What a stage reports and used, and the bytes that it added to the lake of the folder."""
    lake = Lake.create(folder / "lake", question_shards=1, corpus_shards=shards)
    before = disk(lake.root)
    report, used = measured(stage, lake, folder / "files", options)
    return report, used, disk(lake.root) - before


def run(
    parser: argparse.ArgumentParser,
    stages: Mapping[str, Stage],
    write: Callable[[Path, argparse.Namespace], None],
    shards: int = 1,
) -> None:
    """Make the files, then every stage, and print what each took."""
    parser.add_argument("--folder", type=Path, help="Where all is kept; a temporary folder where none is named.")
    parser.add_argument("--stages", nargs="+", default=list(stages), choices=stages)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "files").is_dir():
            write(folder / "files", options)
        print(f"{disk(folder / 'files') / 2**20:,.0f} MiB of files\n")
        print("| stage | s | own memory, MiB | with files, MiB | disk, MiB | |\n|---|---|---|---|---|---|", flush=True)
        for name in options.stages:
            report, used, size = in_new_process(measure_stage, stages[name], folder, shards, options)
            print(
                f"| {name} | {used.wall:.1f} | {used.peak:,.0f} | {used.with_files:,.0f} | {size / 2**20:,.0f} | "
                f"{report} |",
                flush=True,
            )
