"""Readers of JSON files: JSON lines, streamed, or the items of one array or object, whose text is kept in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from evidence_assets.benchmarks.line_streams import Row, read_text, shorten, text_lines
from evidence_assets.lake.errors import BadInput

_SPACE = re.compile(r"[ \t\r\n]*")
_CLOSING = {"[": "]", "{": "}"}
_JSON = json.JSONDecoder()
MAX_ERRORS = 10
Item = TypeVar("Item")


def _parse_value(text: str, position: int, path: Path, line: int) -> tuple[Any, int]:
    """Parse the JSON value at a position that is on ``line``; returns it with its end."""
    try:
        return _JSON.raw_decode(text, position)
    except json.JSONDecodeError as error:
        line += text.count("\n", position, error.pos)
        raise BadInput(f"not valid JSON: {error.msg} (column {error.colno})", file=path, line=line) from error
    except RecursionError as error:
        raise BadInput("the JSON is nested too deeply", file=path, line=line) from error
    except ValueError as error:  # a number with thousands of digits
        raise BadInput(f"the JSON cannot be parsed: {error}", file=path, line=line) from error


def jsonl_rows(path: Path) -> Iterator[Row]:
    """Read the objects of a JSON lines file; blank lines are skipped."""
    return (_parse_object(text, path, number) for number, text in _jsonl_texts(path))


def parse_jsonl(path: Path, parse: Callable[[Row], Item]) -> Iterator[Item]:
    """Parse each object of a JSON lines file; the error at the end is about up to ten lines."""
    errors: list[BadInput] = []
    for number, text in _jsonl_texts(path):
        try:
            yield parse(_parse_object(text, path, number))
        except BadInput as error:
            errors.append(error)
        if len(errors) == MAX_ERRORS:
            break
    raise_errors(errors)


def raise_errors(errors: Sequence[BadInput]) -> None:
    """Raise one error with the place of the first and the messages of up to ten, if there are any."""
    if errors:
        first, *rest = errors[:MAX_ERRORS]
        raise BadInput("\n".join([first.message, *map(str, rest)]), file=first.file, line=first.line, field=first.field)


def _jsonl_texts(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in text_lines(path, "JSON lines"):
        if number == 1 and line.lstrip().startswith("["):
            raise BadInput("is one JSON array; expected JSON lines, one object per line", file=path, line=1)
        if text := line.strip():
            yield number, text


def _parse_object(text: str, path: Path, number: int) -> Row:
    value, end = _parse_value(text, 0, path, number)
    if end < len(text):
        raise BadInput("not valid JSON: more text follows the object", file=path, line=number)
    if not isinstance(value, dict):
        raise BadInput(f"{shorten(value)} is not an object", file=path, line=number)
    return Row(value, path, number)


def json_items(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Read the items of one top-level JSON array or object: line, key (empty in an array), value.

    The file's text is in memory, at one to four bytes per character, and of the items one at a time.
    """
    cursor = _JsonCursor(path)
    closing = _CLOSING[cursor.take("[{")]
    separator = cursor.take(closing) if cursor.peek() == closing else ","
    while separator == ",":
        first_character = cursor.peek()
        line = cursor.line
        key = ""
        if closing == "}":
            if first_character != '"':
                raise BadInput("not valid JSON: expected a key in quotes", file=path, line=line)
            key = cursor.parse_value()
            cursor.take(":")
        yield line, key, cursor.parse_value()
        separator = cursor.take(f",{closing}")
    if cursor.peek():
        message = "more text follows the JSON value; JSON lines have one object per line"
        raise BadInput(message, file=path, line=cursor.line)


def json_rows(path: Path) -> Iterator[Row]:
    """Read the objects of one top-level JSON array."""
    for line, key, value in json_items(path):
        if key or not isinstance(value, dict):
            raise BadInput("expected an array of objects", file=path, line=line)
        yield Row(value, path, line)


def json_rows_at(path: Path, json_path: str) -> Iterator[tuple[str, Row]]:
    """Read the objects at a path such as ``exams.*.data.*``, each with the key matched by its first ``*``."""
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
    """A position in the JSON text of a file, and its line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._text = read_text(path, "JSON")
        self._position = 0
        self.line = 1

    def _move(self, position: int) -> None:
        self.line += self._text.count("\n", self._position, position)
        self._position = position

    def peek(self) -> str:
        """Skip white space and return the next character, or an empty string at the end."""
        space = _SPACE.match(self._text, self._position)
        assert space is not None
        self._move(space.end())
        return self._text[self._position : self._position + 1]

    def take(self, accepted: str) -> str:
        """Move past the next character, which must be one of these."""
        character = self.peek()
        if not character or character not in accepted:
            problem = f"not {character!r}" if character else "but the file ends"
            expected = " or ".join(accepted)
            raise BadInput(f"not valid JSON: expected {expected}, {problem}", file=self.path, line=self.line)
        self._move(self._position + 1)
        return character

    def parse_value(self) -> Any:
        self.peek()
        value, end = _parse_value(self._text, self._position, self.path, self.line)
        self._move(end)
        return value
