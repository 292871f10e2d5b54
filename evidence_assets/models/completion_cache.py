"""The completion cache: what a generative model replied, under the hash of model, parameters and prompt.

A crash or a backfill never pays twice. One SQLite file: safe to share between processes and to kill.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import asdict
from pathlib import Path

from evidence_assets.models.protocols import Completion


class CompletionCache:
    """Completions by key; threads and processes may share one file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(folder / "completions.sqlite", timeout=60, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        # No wait for the disk at every reply: a killed process loses none, a power cut at most the last few.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        self._db.commit()

    def get(self, key: str) -> Completion | None:
        with self._lock:
            row = self._db.execute("SELECT value FROM completions WHERE key = ?", (key,)).fetchone()
        return None if row is None else Completion(**json.loads(row[0]))

    def put(self, key: str, completion: Completion) -> None:
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO completions VALUES (?, ?)",
                (key, json.dumps(asdict(completion), sort_keys=True)),
            )

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM completions").fetchone()[0])

    def close(self) -> None:
        self._db.close()
