"""A cache of completions.

It is one SQLite file that processes may share. Its key is a hash of model, parameters and prompt, so no request
is paid twice. A remote lake also stores each completion as an object, ``cache/completions/<key>.json``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import asdict
from pathlib import Path

from evidence_assets.lake.atomic import mirror_of, replacing_file
from evidence_assets.lake.mirror import fetch_path
from evidence_assets.models.protocols import Completion


class CompletionCache:
    """Completions by key; threads and processes may share one file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(folder / "completions.sqlite", timeout=60, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        # Do not wait for the disk at every reply: a killed process loses no reply, a power cut the last few.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        self._shared = folder / "completions" if mirror_of(folder) is not None else None

    def get(self, key: str) -> Completion | None:
        with self._lock:
            row = self._db.execute("SELECT value FROM completions WHERE key = ?", (key,)).fetchone()
        if row is None and self._shared is not None and (path := fetch_path(self._shared / f"{key}.json")).exists():
            row = (path.read_text(encoding="utf-8"),)
            self._insert(key, row[0])
        return None if row is None else _decode(row[0])

    def put(self, key: str, completion: Completion) -> None:
        value = json.dumps(asdict(completion), sort_keys=True)
        if self._shared is not None:
            with replacing_file(self._shared / f"{key}.json") as temporary:
                temporary.write_text(value, encoding="utf-8")
        self._insert(key, value)

    def _insert(self, key: str, value: str) -> None:
        with self._lock, self._db:
            self._db.execute("INSERT OR REPLACE INTO completions VALUES (?, ?)", (key, value))


def _decode(value: str) -> Completion:
    fields = json.loads(value)
    return Completion(**fields | {"choice_log_probs": tuple(fields.get("choice_log_probs", ()))})
