"""Errors that users see. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path


class BadInput(ValueError):
    """Invalid input, reported as ``file:line: field: message``."""

    def __init__(
        self, message: str, *, file: str | Path | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        location = "" if file is None else str(file)
        if line is not None:
            location += f":{line}" if location else f"line {line}"
        super().__init__(": ".join(part for part in (location, field, message) if part))
        self.message = message
        self.file = file
        self.line = line
        self.field = field


class DiskFull(OSError):
    """The disk or a quota is full; existing files are unchanged."""


class SchemaMismatch(ValueError):
    """Rows do not match the declared schema of their table."""


class StaleInput(RuntimeError):
    """An artifact is older than its inputs, such as an index older than its vectors."""


class LakeVersionError(RuntimeError):
    """The lake has a different format version than this program reads."""


class ModelUnavailable(RuntimeError):
    """A model, its weights or its server is unavailable. The step fails; a retry resumes it."""


class TemporarilyUnavailable(ModelUnavailable):
    """A retry may succeed: the server is down, or the GPU has no free memory."""


class StoreUnavailable(TemporarilyUnavailable):
    """The lake's object store is unreachable or replies with an error; its objects are unchanged."""


class UnusableReply(ValueError):
    """A model's reply does not answer the task; the row fails with this reason."""
