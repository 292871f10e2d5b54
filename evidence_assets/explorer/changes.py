"""Changes of the last run: answers, triples and scores that it added, changed or removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evidence_assets.lake.catalogue import scan_sql

KINDS = ("predictions", "knowledge", "scores")
"""First parts of the asset keys whose history is compared; that of evidence and chains is too large for a page."""
CHANGES = """
    CREATE OR REPLACE TABLE changes AS
    SELECT split_part(asset, '/', 1) AS kind, asset, row_id,
           CASE WHEN kind = 'predictions' THEN split_part(partition, '|', 1) ELSE '' END AS benchmark,
           CASE WHEN old.run_id IS NULL THEN 'added' WHEN new.run_id IS NULL THEN 'removed' ELSE 'changed' END
           AS change,
           old.answer AS answer_before, old.status AS status_before
    FROM {old} old FULL JOIN {new} new USING (asset, partition, row_id)
    WHERE old.content_hash IS DISTINCT FROM new.content_hash
"""
Stamps = Mapping[Path, tuple[int, int]]
"""Modification time in ns and size of files."""


class LastRun(NamedTuple):
    """Times of the last run in seconds."""

    start: float
    end: float


def find_last_run(history: Stamps, predictions: Stamps) -> LastRun | None:
    """The last run that wrote history, with the questions asked since; None without history and predictions."""
    times = {path: stamp[0] / 1e9 for path, stamp in (*history.items(), *predictions.items())}
    last = max(history, key=lambda path: times[path], default=None)
    run_times = [times[path] for path in times if last is None or path.parent == last.parent]
    return LastRun(min(run_times), max(times.values())) if times else None


def changes_sql(history: Stamps, start: float) -> str:
    """SQL of the table ``changes``: each partition that was written since ``start``, against its version before."""
    old: dict[str, Path] = {}
    new: dict[str, Path] = {}
    for path, (time, _) in sorted(history.items(), key=lambda item: (item[1], item[0])):
        if path.name.startswith(KINDS):
            (new if time / 1e9 >= start else old)[path.name] = path
    old_files = sorted(old[name] for name in new if name in old)
    return CHANGES.format(old=scan_sql("history", old_files), new=scan_sql("history", sorted(new.values())))
