"""A cache of completions, and recorded completions that replace a model.

The cache is one SQLite file that processes may share. Its key is a hash of model, parameters and prompt, so no request
is paid twice. A remote lake also stores each completion as an object, ``cache/completions/<key>.json``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from evidence_assets.lake.atomic import mirror_of, replacing_file
from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.lake.mirror import fetch_path
from evidence_assets.models.protocols import Completion, Request


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
        self._db.commit()
        self._shared = folder / "completions" if mirror_of(folder) is not None else None

    def get(self, key: str) -> Completion | None:
        with self._lock:
            row = self._db.execute("SELECT value FROM completions WHERE key = ?", (key,)).fetchone()
        if row is None and self._shared is not None and (path := fetch_path(self._shared / f"{key}.json")).exists():
            row = (path.read_text(encoding="utf-8"),)
            self._insert(key, row[0])
        return None if row is None else Completion(**json.loads(row[0]))

    def put(self, key: str, completion: Completion) -> None:
        value = json.dumps(asdict(completion), sort_keys=True)
        if self._shared is not None:
            with replacing_file(self._shared / f"{key}.json") as temporary:
                temporary.write_text(value, encoding="utf-8")
        self._insert(key, value)

    def _insert(self, key: str, value: str) -> None:
        with self._lock, self._db:
            self._db.execute("INSERT OR REPLACE INTO completions VALUES (?, ?)", (key, value))

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM completions").fetchone()[0])


class ReplayGenerator:
    """Replays completions recorded in the ``*.jsonl`` files of a folder.

    Each line is an object with the fields of :class:`Request` and of :class:`Completion`.
    """

    def __init__(self, folder: str | Path, *, model_id: str = "replay") -> None:
        self._folder = Path(folder)
        files = sorted(self._folder.glob("*.jsonl"))
        if not files:
            raise ModelUnavailable(f"no recording in {self._folder}. Put its *.jsonl files there")
        self.model_id = model_id
        self.revision = content_id([(path.name, file_id(path)) for path in files])[:12]
        self.parameters: dict[str, object] = {}
        self._replies: dict[Request, Completion] = {}
        for path in files:
            with path.open(encoding="utf-8") as stream:
                for number, line in enumerate(stream, start=1):
                    if line.strip():
                        self._add_line(path, number, line)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The recorded completions, in the order of the requests."""
        missing_requests = [request for request in requests if request not in self._replies]
        if missing_requests:
            raise ModelUnavailable(
                f"the recording in {self._folder} has no answer to {len(missing_requests)} of {len(requests)} "
                f"requests, first to the one that begins {missing_requests[0].user[:60]!r}. Record them with a model, "
                f"or use the prompts and the data of the recording"
            )
        return [self._replies[request] for request in requests]

    def _add_line(self, path: Path, number: int, line: str) -> None:
        try:
            row = json.loads(line)
            row["choices"] = tuple(row.get("choices", ()))
            request = Request(**{field.name: row[field.name] for field in fields(Request) if field.name in row})
            completion = Completion(**{field.name: row[field.name] for field in fields(Completion)})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(f"not a recorded request and completion ({error})", file=path, line=number) from error
        self._replies[request] = completion
