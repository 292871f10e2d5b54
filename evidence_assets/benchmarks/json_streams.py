"""Streaming readers of JSON files: JSON lines, or the items of one large array or object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.line_streams import BLOCK_BYTES, Row, shorten, text_lines
from evidence_assets.lake.errors import BadInput


class _DuplicateKey(ValueError):
    """A JSON object contains a key twice; the parser would silently use the last one."""


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return members


_JSON = json.JSONDecoder(object_pairs_hook=_refuse_duplicate_keys)


def _json_error(error: Exception, path: Path, line: int) -> BadInput:
    """Convert an error of the JSON parser, for the value that begins on ``line``."""
    if isinstance(error, json.JSONDecodeError):
        return BadInput(f"not valid JSON: {error.msg} (column {error.colno})", file=path, line=line)
    if isinstance(error, _DuplicateKey):
        return BadInput("occurs twice in the same object; remove one", file=path, line=line, field=str(error))
    if isinstance(error, RecursionError):
        return BadInput("the JSON is nested too deeply", file=path, line=line)
    return BadInput(f"the JSON cannot be parsed: {error}", file=path, line=line)  # a number with thousands of digits


def jsonl_rows(path: Path) -> Iterator[Row]:
    """Read the objects of a JSON lines file; blank lines are skipped."""
    for number, line in text_lines(path, "JSON lines"):
        if not line or line.isspace():
            continue
        if number == 1 and line.lstrip().startswith("["):
            raise BadInput("is one JSON array; expected JSON lines, one object per line", file=path, line=1)
        if number == 1 and line.strip() == "{":
            raise BadInput("is one JSON object over many lines; expected one object per line", file=path, line=1)
        try:
            value = _JSON.decode(line)
        except (ValueError, RecursionError) as error:
            raise _json_error(error, path, number) from error
        if not isinstance(value, dict):
            raise BadInput(f"{shorten(value)} is not an object", file=path, line=number)
        yield Row(value, path, number)


def json_items(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Read the items of one top-level JSON array or object: line, key (empty in an array), value.

    The parser holds one item in memory (at least a line and a block), never the file.
    """
    cursor = _JsonCursor(path)
    opening = cursor.peek()
    if opening not in ("[", "{"):
        raise BadInput("is empty" if not opening else "expected a JSON array or object", file=path, line=cursor.line)
    closing = "]" if opening == "[" else "}"
    cursor.advance(1)
    if cursor.peek() != closing:
        while True:
            key = ""
            line = cursor.current_line()
            if opening == "{":
                key = cursor.parse_value()
                if not isinstance(key, str) or cursor.peek() != ":":
                    raise BadInput("expected a key and a colon", file=path, line=cursor.current_line())
                cursor.advance(1)
            yield line, key, cursor.parse_value()
            next_character = cursor.peek()
            if next_character == closing:
                break
            if next_character != ",":
                problem = (
                    "the file ends in the middle"
                    if not next_character
                    else f"expected a comma or {closing}, not {next_character!r}"
                )
                raise BadInput(f"not valid JSON: {problem}", file=path, line=cursor.current_line())
            cursor.advance(1)
            if cursor.peek() == closing:
                raise BadInput(f"not valid JSON: a comma before {closing}", file=path, line=cursor.current_line())
    cursor.advance(1)
    if cursor.peek():
        raise BadInput(
            "more text follows the JSON value; JSON lines have one object per line",
            file=path,
            line=cursor.current_line(),
        )


def json_rows(path: Path) -> Iterator[Row]:
    """Read the objects of one top-level JSON array."""
    for line, key, value in json_items(path):
        if key or not isinstance(value, dict):
            raise BadInput("expected an array of objects", file=path, line=line)
        yield Row(value, path, line)


def json_rows_at(path: Path, json_path: str) -> Iterator[tuple[str, Row]]:
    """Read the objects at a path such as ``exams.*.data.*``, each with the key matched by its first ``*``.

    The file is streamed by the items of its outermost level; a duplicate key there is an error.
    """
    first, *inner = json_path.split(".")
    keys: set[str] = set()
    for line, key, value in json_items(path):
        if first not in ("*", key):
            continue
        if not key:
            raise BadInput("expected an object of objects", file=path, line=line)
        if key in keys:
            raise BadInput("this key occurs twice; remove one", file=path, line=line, field=key)
        keys.add(key)
        yield from _rows_below(Row({key: value}, path, line), key, inner, key if first == "*" else "")
    if first != "*" and not keys:
        raise BadInput("this key is missing", file=path, field=first)


def _rows_below(row: Row, field: str, inner: list[str], key: str) -> Iterator[tuple[str, Row]]:
    if not inner:
        yield key, row.row(field)
    elif inner == ["*"] and isinstance(row.get(field), list):
        yield from ((key, item) for item in row.rows(field))
    else:
        holder = row.row(field)
        for name in holder.values if inner[0] == "*" else inner[:1]:
            yield from _rows_below(holder, name, inner[1:], key or (name if inner[0] == "*" else ""))


class _JsonCursor:
    """A cursor in a stream of JSON text that reads only as far as the next value needs."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 1
        self._lines = text_lines(path, "JSON")
        self._buffer, self._position, self._line_position, self._is_at_end, self._last_line = "", 0, 0, False, 1

    def _read_more(self) -> bool:
        """At least double the buffer, so that a long value is parsed few times; False at the end of the file."""
        remaining, new_lines = max(BLOCK_BYTES, len(self._buffer)), []
        while remaining > 0 and not self._is_at_end:
            entry = next(self._lines, None)
            if entry is None:
                self._is_at_end = True
            else:
                self._last_line = entry[0]
                new_lines.append(entry[1] + "\n")
                remaining -= len(new_lines[-1])
        self._line_at(self._position)
        self._buffer, self._position, self._line_position = self._buffer[self._position :] + "".join(new_lines), 0, 0
        return bool(new_lines)

    def _line_at(self, position: int) -> int:
        """Line number at a position of the buffer, counted from the previous position."""
        self.line += self._buffer.count("\n", self._line_position, position)
        self._line_position = position
        return min(self.line, self._last_line)

    def current_line(self) -> int:
        """Number of the line at the cursor."""
        self.peek()
        return self._line_at(self._position)

    def peek(self) -> str:
        """Return the next character that is not white space, or an empty string at the end."""
        while True:
            while self._position < len(self._buffer) and self._buffer[self._position] in " \t\r\n":
                self._position += 1
            if self._position < len(self._buffer):
                return self._buffer[self._position]
            if not self._read_more():
                return ""

    def advance(self, count: int) -> None:
        self._position += count

    def parse_value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _JSON.raw_decode(self._buffer, self._position)
            except json.JSONDecodeError as error:
                # The buffer has whole lines and no JSON token spans two, so only further lines can be missing.
                if self._read_more():
                    continue
                raise BadInput(f"not valid JSON: {error.msg}", file=self.path, line=self._line_at(error.pos)) from error
            except (ValueError, RecursionError) as error:
                raise _json_error(error, self.path, self.current_line()) from error
            self._position = end
            return value
