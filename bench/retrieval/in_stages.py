"""Stages of a benchmark, each in a process of its own on one folder: seconds, own memory, disk."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.measuring import disk
from bench.retrieval.scale import measure
from evidence_assets.lake.rows import PreparedRows, Rows, prepare_rows
from evidence_assets.lake.store import Lake

Stage = Callable[[Lake, Path, argparse.Namespace], Any]


def keep(lake: Lake, table: str, asset: str, rows: Rows, partition: str = "", lineage: Rows | None = None) -> int:
    """Write rows as an asset does: prepared, hashed, and put into the lake."""
    rows = PreparedRows(prepare_rows(table, rows))  # frees the unprepared rows
    lineage_tables = {} if lineage is None else {"lineage_edges": lineage}
    lake.write(asset, partition, {table: rows, **lineage_tables})
    return len(rows)


def run(
    module: str,
    parser: argparse.ArgumentParser,
    stages: Mapping[str, Stage],
    write: Callable[[Path, argparse.Namespace], None],
    shards: int = 1,
) -> None:
    """Make the files, then every stage, and print what each took; within such a process, one stage."""
    parser.add_argument("--folder", type=Path, help="Where all is kept; a temporary folder where none is named.")
    parser.add_argument("--stages", nargs="+", default=list(stages), choices=stages)
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        lake = Lake.create(options.folder / "lake", question_shards=1, corpus_shards=shards)
        results: dict[str, Any] = {}
        before = disk(lake.root)
        with measure(results):
            report = stages[options.stage](lake, options.folder / "files", options)
        print(json.dumps({**results, "disk": disk(lake.root) - before, "told": report}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "files").is_dir():
            write(folder / "files", options)
        print(f"{disk(folder / 'files') / 2**20:,.0f} MiB of files\n")
        print("| stage | s | own memory, MiB | with files, MiB | disk, MiB | |\n|---|---|---|---|---|---|", flush=True)
        for name in options.stages:
            command = [sys.executable, "-m", module, *sys.argv[1:], "--folder", str(folder), "--stage", name]
            process = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
            if process.returncode:
                raise SystemExit(f"stage {name} ended with {process.returncode}:\n{process.stderr[-3000:]}")
            row = json.loads(process.stdout.splitlines()[-1])
            print(
                f"| {name} | {row['seconds']:.1f} | {row['own']:,.0f} | {row['with files']:,.0f} | "
                f"{row['disk'] / 2**20:,.0f} | {row['told']} |",
                flush=True,
            )
