"""The errors a user meets: each a sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path


class BadInput(ValueError):
    """A raw input that cannot be read as what it should be, shown as ``file:line: field: message``."""

    def __init__(
        self, message: str, *, file: str | Path | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        place = "" if file is None else str(file)
        if line is not None:
            place += f":{line}" if place else f"line {line}"
        super().__init__(": ".join(part for part in (place, field, message) if part))
        self.message, self.file, self.line, self.field = message, file, line, field


class DiskFull(OSError):
    """The disk is full, or a quota is; what was there before is unchanged."""


class SchemaMismatch(ValueError):
    """Rows that do not fit the declared schema of their table."""


class StaleInput(RuntimeError):
    """Something built from inputs that have changed since, such as an index older than its vectors."""


class LakeVersionError(RuntimeError):
    """A lake written by another format version than this program reads."""


class ModelUnavailable(RuntimeError):
    """A model, its weights or its server cannot be used; the step fails and a retry resumes."""


class TemporarilyUnavailable(ModelUnavailable):
    """What cannot be used now but may be soon: a server is down, or a card's memory is taken."""


class StoreUnavailable(TemporarilyUnavailable):
    """The object store of the lake cannot be reached, or does not answer as it should; what was there is unchanged."""


class UnusableReply(ValueError):
    """A model replied, but not with what the task asks for; ends as a ``failed`` row with this reason."""
