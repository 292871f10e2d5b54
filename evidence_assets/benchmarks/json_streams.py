"""Streams of JSON objects out of raw files: JSON lines, or the items of one large array or object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.line_streams import BLOCK_BYTES, Row, shorten, text_lines
from evidence_assets.lake.errors import BadInput


class _DuplicateKey(ValueError):
    """A JSON object names a key twice; the parser would silently keep the last."""


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return members


_JSON = json.JSONDecoder(object_pairs_hook=_refuse_duplicate_keys)


def _json_error(error: Exception, path: Path, line: int) -> BadInput:
    """The error to raise about an error of the JSON parser in the value that begins on ``line``."""
    if isinstance(error, json.JSONDecodeError):
        return BadInput(f"not valid JSON: {error.msg} (column {error.colno})", file=path, line=line)
    if isinstance(error, _DuplicateKey):
        return BadInput("the same object has this key twice", file=path, line=line, field=str(error))
    if isinstance(error, RecursionError):
        return BadInput("JSON nested too deeply", file=path, line=line)
    return BadInput(f"not usable JSON: {error}", file=path, line=line)  # a number with thousands of digits


def jsonl_rows(path: Path) -> Iterator[Row]:
    """The objects of a JSON lines file; blank lines hold none."""
    for number, line in text_lines(path, "JSON lines"):
        if not line or line.isspace():
            continue
        if number == 1 and line.lstrip().startswith("["):
            raise BadInput("is one JSON array, expected JSON lines: one object a line", file=path, line=1)
        if number == 1 and line.strip() == "{":
            raise BadInput("is one JSON object over many lines, expected one object a line", file=path, line=1)
        try:
            value = _JSON.decode(line)
        except (ValueError, RecursionError) as error:
            raise _json_error(error, path, number) from error
        if not isinstance(value, dict):
            raise BadInput(f"{shorten(value)} is not an object", file=path, line=number)
        yield Row(value, path, number)


def json_items(path: Path) -> Iterator[tuple[int, str, Any]]:
    """The items of one top-level JSON array or object: line, key (empty in an array), value.

    The file is parsed item by item, so that memory holds an item (at least a line, at least a block), not the file.
    """
    cursor = _JsonCursor(path)
    opening = cursor.peek()
    if opening not in ("[", "{"):
        raise BadInput("is empty" if not opening else "expected a JSON array or object", file=path, line=cursor.line)
    closing = "]" if opening == "[" else "}"
    cursor.take(1)
    if cursor.peek() != closing:
        while True:
            key = ""
            line = cursor.here()
            if opening == "{":
                key = cursor.value()
                if not isinstance(key, str) or cursor.peek() != ":":
                    raise BadInput("expected a key and a colon", file=path, line=cursor.here())
                cursor.take(1)
            yield line, key, cursor.value()
            following = cursor.peek()
            if following == closing:
                break
            if following != ",":
                what = "ends in the middle" if not following else f"expected , or {closing} and not {following!r}"
                raise BadInput(f"not valid JSON: {what}", file=path, line=cursor.here())
            cursor.take(1)
            if cursor.peek() == closing:
                raise BadInput(f"not valid JSON: a comma before {closing}", file=path, line=cursor.here())
    cursor.take(1)
    if cursor.peek():
        raise BadInput(
            "more text follows the JSON value: is this JSON lines (one object a line)?", file=path, line=cursor.here()
        )


def json_rows(path: Path) -> Iterator[Row]:
    """The objects of one top-level JSON array."""
    for line, key, value in json_items(path):
        if key or not isinstance(value, dict):
            raise BadInput("expected an array of objects", file=path, line=line)
        yield Row(value, path, line)


def json_rows_at(path: Path, place: str) -> Iterator[tuple[str, Row]]:
    """The objects at a place of one JSON object, such as ``exams.*.data.*``, each with the key of its first ``*``.

    The file is read item by item of its outermost level, where no key may come twice.
    """
    first, *inner = place.split(".")
    seen: set[str] = set()
    for line, key, value in json_items(path):
        if first not in ("*", key):
            continue
        if not key:
            raise BadInput("expected an object of objects", file=path, line=line)
        if key in seen:
            raise BadInput("this key comes twice", file=path, line=line, field=key)
        seen.add(key)
        yield from _rows_below(Row({key: value}, path, line), key, inner, key if first == "*" else "")
    if first != "*" and not seen:
        raise BadInput("the file lacks this key", file=path, field=first)


def _rows_below(row: Row, field: str, inner: list[str], key: str) -> Iterator[tuple[str, Row]]:
    if not inner:
        yield key, row.row(field)
    elif inner == ["*"] and isinstance(row.get(field), list):
        yield from ((key, each) for each in row.rows(field))
    else:
        holder = row.row(field)
        for name in holder.values if inner[0] == "*" else inner[:1]:
            yield from _rows_below(holder, name, inner[1:], key or (name if inner[0] == "*" else ""))


class _JsonCursor:
    """A place in a stream of JSON text that reads on as far as the next value needs."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 1
        self._lines = text_lines(path, "JSON")
        self._buffer, self._at, self._counted, self._ended, self._last = "", 0, 0, False, 1

    def _more(self) -> bool:
        """Append at least as much as is held already (so that a long value is not parsed often); False at the end."""
        wanted, parts = max(BLOCK_BYTES, len(self._buffer)), []
        while wanted > 0 and not self._ended:
            entry = next(self._lines, None)
            if entry is None:
                self._ended = True
            else:
                self._last = entry[0]
                parts.append(entry[1] + "\n")
                wanted -= len(parts[-1])
        self._line_at(self._at)
        self._buffer, self._at, self._counted = self._buffer[self._at :] + "".join(parts), 0, 0
        return bool(parts)

    def _line_at(self, place: int) -> int:
        """Number of the line at a place of the buffer, counted on from the last place asked for."""
        self.line += self._buffer.count("\n", self._counted, place)
        self._counted = place
        return min(self.line, self._last)

    def here(self) -> int:
        """Number of the line at the cursor."""
        self.peek()
        return self._line_at(self._at)

    def peek(self) -> str:
        """The next character that is no space, or nothing at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def take(self, count: int) -> None:
        self._at += count

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _JSON.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                # Only whole lines are held and no JSON token spans two, so more lines are all that can be missing.
                if self._more():
                    continue
                raise BadInput(f"not valid JSON: {error.msg}", file=self.path, line=self._line_at(error.pos)) from error
            except (ValueError, RecursionError) as error:
                raise _json_error(error, self.path, self.here()) from error
            self._at = end
            return value
