"""Streaming readers of lines and rows in constant memory; JSON: :mod:`json_streams`."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import require_file
from evidence_assets.text.spelling import closest_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

# A cell may be a whole document; the csv module's limit is 128 kB.
csv.field_size_limit(1 << 24)
GZIP_MAGIC = b"\x1f\x8b"
BUFFER_BYTES = 1 << 16
SIGNATURES = {
    rb"PAR1\x15": "a Parquet file",
    rb"PK\x03\x04": "a zip archive or an Excel workbook",
    rb"%PDF-": "a PDF",
    rb"\xff\xfe|\xfe\xff": "UTF-16 text",
    rb"version https://git-lfs": "a Git LFS pointer and not the file itself",
    rb"\s*(?i:<!doctype html|<html)": "an HTML page, as a failed download leaves it",
}


MAX_EXPANSION = 200
"""Times its size that gzip data may expand to; text expands to about ten times."""
UNCHECKED_BYTES = 1 << 20
"""Expanded bytes below which the expansion is not checked."""


class _GzipStream(io.RawIOBase):
    """Unpacks gzip data; raises BadInput if they expand to far more than their size, as hostile files do."""

    def __init__(self, packed: IO[bytes], path: Path) -> None:
        self._packed = packed
        self._unpacked = gzip.GzipFile(fileobj=packed)
        self._path = path
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        count = self._unpacked.readinto(buffer)
        self._size += count
        if self._size > max(UNCHECKED_BYTES, MAX_EXPANSION * self._packed.tell()):
            message = (
                f"the gzip data expand to more than {MAX_EXPANSION} times their size: unpack the file and check it"
            )
            raise BadInput(message, file=self._path)
        return count


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path``; gzip data are unpacked, whatever the file's name."""
    require_file(path)
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            yield io.BufferedReader(_GzipStream(raw, path), BUFFER_BYTES) if is_packed else raw
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", file=path) from error


def text_lines(path: Path, expected: str = "UTF-8 text") -> Iterator[tuple[int, str]]:
    """Read lines of a UTF-8 file, numbered from 1, without line ends (``\\n``, ``\\r\\n``) and byte order mark."""
    number = 0
    with open_bytes(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                if number == 1:
                    _refuse_other_formats(path, raw, expected)
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                yield number, _decode(path, number, raw.removesuffix(b"\n").removesuffix(b"\r"))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"the gzip data are truncated or damaged ({error}); download the file again"
            raise BadInput(message, file=path, line=number + 1) from error


def _refuse_other_formats(path: Path, head: bytes, expected: str) -> None:
    start = head[:64].removeprefix(b"\xef\xbb\xbf")
    for signature, name in SIGNATURES.items():
        if re.match(signature, start):
            raise BadInput(f"is {name}; expected {expected}", file=path, line=1)


def _decode(path: Path, number: int, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        position = error.start + 1
        byte = raw[error.start]
        message = f"byte {position} of the line (0x{byte:02x}) is not UTF-8; convert the file to UTF-8"
        raise BadInput(message, file=path, line=number) from error
    if "\0" in text:
        raise BadInput("contains a NUL byte; the file is binary, UTF-16 or damaged", file=path, line=number)
    return text


def read_text(path: Path, expected: str = "UTF-8 text") -> str:
    """Read the file as one text with ``\\n`` line ends."""
    return "\n".join(line for _, line in text_lines(path, expected))


@dataclass(frozen=True)
class Row:
    """One record with its file and line; accessors check the types of fields.

    ``prefix`` is the path of a nested record within its line (``question.choices[1]``).
    """

    values: dict[str, Any]
    file: Path
    line: int | None = None
    prefix: str = ""

    def error(self, message: str, field: str | None = None) -> BadInput:
        """Build the error for this record or one of its fields."""
        return BadInput(message, file=self.file, line=self.line, field=self._path(field) or None)

    def check_field_names(self, fields: Sequence[str], synonyms: Mapping[str, str] | None = None) -> None:
        """Reject fields that are not in ``fields``; otherwise a misspelt optional field would be ignored.

        ``synonyms`` maps names that other formats use to fields, for the hint.
        """
        unknown = [field for field in self.values if field not in fields]
        if unknown:
            near = [(synonyms or {}).get(field.casefold()) or closest_name(field, fields) for field in unknown]
            others = ", ".join(f"{field!r} to {name!r}" for field, name in zip(unknown, near, strict=True) if name)
            suggestion = f". Rename {others}." if others else "."
            raise self.error(f"unknown field{suggestion} Available fields: {', '.join(fields)}", unknown[0])

    def _path(self, field: str | None) -> str:
        return ".".join(part for part in (self.prefix, field) if part)

    def get(self, field: str) -> Any:
        """Value of any type; a missing field is an error, null is not."""
        if field not in self.values:
            raise self.error(f"missing; the record has {', '.join(self.values) or 'no fields'}", field)
        return self.values[field]

    def text(self, field: str, *, blank: bool = False) -> str:
        """A string, by default not blank."""
        return self._text(self.get(field), field, blank)

    def stripped_texts(self, *fields: str) -> list[str]:
        """Strings without white space around them, not blank."""
        return [self.text(field).strip() for field in fields]

    def text_or_none(self, field: str) -> str | None:
        """A string, or None if the field is missing, null or blank."""
        value = self.values.get(field)
        if value is None:
            return None
        text = self._text(value, field, True)
        return text if text.strip() else None

    def label(self, field: str) -> str:
        """A string or integer, as a string; official files write ids either way."""
        value = self.get(field)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(field)

    def number(self, field: str) -> int:
        """An integer, or a string that contains one."""
        value = self.get(field)
        if isinstance(value, str) and len(value) < 20 and value.strip().lstrip("-").isdecimal():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(f"{shorten(value)} is not an integer", field)
        return value

    def list(self, field: str, *, optional: bool = False) -> Sequence[Any]:
        """A list; an optional one is empty if the field is missing or null."""
        if optional and self.values.get(field) is None:
            return []
        value = self.get(field)
        if not isinstance(value, list):
            raise self.error(f"{shorten(value)} is not a list", field)
        return value

    def texts(self, field: str, *, blank: bool = False, optional: bool = False) -> tuple[str, ...]:
        items = self.list(field, optional=optional)
        return tuple(self._text(item, f"{field}[{i}]", blank) for i, item in enumerate(items))

    def row(self, field: str) -> Row:
        return self._row(self.get(field), field)

    def rows(self, field: str, *, optional: bool = False) -> tuple[Row, ...]:
        items = self.list(field, optional=optional)
        return tuple(self._row(item, f"{field}[{i}]") for i, item in enumerate(items))

    def _row(self, value: Any, field: str) -> Row:
        if not isinstance(value, dict):
            raise self.error(f"{shorten(value)} is not an object", field)
        return Row(value, self.file, self.line, self._path(field))

    def _text(self, value: Any, field: str, blank: bool) -> str:
        if not isinstance(value, str):
            raise self.error(f"{shorten(value)} is not a string", field)
        if not (blank or value.strip()):
            raise self.error("is empty; add a text", field)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                message = f"character {error.start + 1} is half of a surrogate pair; remove it"
                raise self.error(message, field) from error
        return value


def shorten(value: Any) -> str:
    """Shorten a value for an error message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def delimited_rows(
    path: Path, delimiter: str, *, columns: int | None = None, quoted: bool = False, blank: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a delimited file with the line on which each begins.

    ``columns``: Required number of fields. ``quoted``: Whether a field in double quotes may contain delimiters and line
    ends. ``blank``: Whether blank lines are rows.
    """
    lines = text_lines(path, "delimited text")
    plain = ((number, line.split(delimiter) if line else []) for number, line in lines)
    for number, fields in _quoted_rows(path, delimiter, lines) if quoted else plain:
        if not fields and not blank:
            continue
        if columns is not None and len(fields) != columns:
            raise BadInput(f"the row has {len(fields)} fields; expected {columns}", file=path, line=number)
        yield number, fields


def _quoted_rows(path: Path, delimiter: str, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter, strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        message = f"not a well-formed row ({error}); a quote inside a quoted field is written twice"
        if "unexpected end of data" in str(error) or "field limit" in str(error):
            message = "a quote is opened in this row and never closed"
        raise BadInput(message, file=path, line=start) from error


def headed_rows(
    path: Path, columns: Sequence[str], delimiter: str = ",", *, quoted: bool = True, header: bool = True
) -> Iterator[Row]:
    """Read rows by column name. The first row is the header and must have ``columns``; without one, they are all."""
    rows = delimited_rows(path, delimiter, quoted=quoted)
    names = next(rows, (1, []))[1] if header else list(columns)
    missing = [name for name in columns if name not in names]
    if missing:
        available = ", ".join(names) if len(names) < 20 else f"{len(names)} columns"
        message = f"the header has no such column; it has {available or 'no columns'}"
        raise BadInput(message, file=path, line=1, field=missing[0])
    if len(set(names)) < len(names):
        raise BadInput("the header has a column twice; rename one", file=path, line=1)
    for number, fields in rows:
        if len(fields) != len(names):
            raise BadInput(f"the row has {len(fields)} fields; expected {len(names)}", file=path, line=number)
        yield Row(dict(zip(names, fields, strict=True)), path, number)
