"""The completion cache: what a generative model replied, under the hash of model, parameters and prompt.

A crash or a backfill never pays twice. One SQLite file: safe to share between processes and to kill. Of a lake that is kept
elsewhere it is this machine's part; there each completion is an object, ``cache/completions/<key>.json``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import asdict
from pathlib import Path

from evidence_assets.lake.fetching import mirror_of
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
        self._mirror = mirror_of(folder)
        self._below = "" if self._mirror is None else self._mirror.name(folder / "completions")

    def get(self, key: str) -> Completion | None:
        with self._lock:
            row = self._db.execute("SELECT value FROM completions WHERE key = ?", (key,)).fetchone()
        if row is None and self._mirror is not None:
            stored = self._mirror.store.get(f"{self._below}/{key}.json")
            if stored is not None:
                row = (stored.decode(),)
                self._keep(key, row[0])
        return None if row is None else Completion(**json.loads(row[0]))

    def put(self, key: str, completion: Completion) -> None:
        value = json.dumps(asdict(completion), sort_keys=True)
        if self._mirror is not None:
            self._mirror.store.put(f"{self._below}/{key}.json", value.encode())
        self._keep(key, value)

    def _keep(self, key: str, value: str) -> None:
        with self._lock, self._db:
            self._db.execute("INSERT OR REPLACE INTO completions VALUES (?, ?)", (key, value))

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM completions").fetchone()[0])

    def close(self) -> None:
        self._db.close()
