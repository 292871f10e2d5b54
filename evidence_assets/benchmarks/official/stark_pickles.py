"""STaRK's dictionaries, which are pickles, as JSON: read as data, entry by entry, so that nothing in them is run.

Opening a pickle runs what it says. Here its operations are looked at one by one; any that does not build plain data ends
with a sentence. Entries are written when they are whole, and only what a first pass saw referred to again is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from pickletools import genops  # nosec B403: it lists the operations of a pickle and runs none
from typing import IO, Any

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput

NAMES = ("node_info", "node_type_dict", "edge_type_dict")
_PLAIN = {
    "NONE": None, "NEWTRUE": True, "NEWFALSE": False,
}  # fmt: skip
_SAID = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "BINFLOAT",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "INT",
        "LONG",
        "FLOAT",
        "UNICODE",
    ]
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUT, _GET = frozenset(("BINPUT", "LONG_BINPUT", "PUT")), frozenset(("BINGET", "LONG_BINGET", "GET"))


def convert_folder(folder: Path) -> list[Path]:
    """Write each dictionary of a processed base beside its pickle as JSON; those that are there already are left."""
    written = []
    for name in NAMES:
        pickled, target = folder / f"{name}.pkl", folder / f"{name}.json"
        if pickled.is_file() and not target.is_file():
            to_json(pickled, target)
            written.append(target)
    if not written and not (folder / f"{NAMES[0]}.json").is_file():
        raise BadInput(f"holds no {NAMES[0]}.pkl; unpack STaRK's processed.zip here", file=folder)
    return written


def to_json(pickled: Path, target: Path) -> int:
    """Write the dictionary of a pickle as a JSON object, an entry a line; say how many."""
    try:
        with pickled.open("rb") as file:
            shared = {int(said) for operation, said, _ in genops(file) if operation.name in _GET and said is not None}
        with (
            pickled.open("rb") as file,
            replacing_file(target) as temporary,
            temporary.open("w", encoding="utf-8") as written,
        ):
            return _Entries(pickled, shared, written).follow(file)
    except (ValueError, IndexError, KeyError, AttributeError, TypeError, EOFError) as error:
        raise BadInput(f"is no whole pickle of a dictionary ({error})", file=pickled) from error


class _Root:
    """Stands for the outermost dictionary."""


class _Entries:
    def __init__(self, path: Path, shared: set[int], written: IO[str]) -> None:
        self._path, self._shared, self._written = path, shared, written
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._puts = self._count = 0

    def follow(self, file: IO[bytes]) -> int:
        """Go through the operations, and write each entry of the outermost dictionary when it is whole."""
        self._written.write("{")
        for operation, said, place in genops(file):
            self._do(operation.name, said, place)
        if len(self._stack) != 1 or not isinstance(self._stack[0], _Root):
            raise BadInput("holds something else than one dictionary", file=self._path)
        self._written.write("\n}\n")
        return self._count

    def _do(self, name: str, said: Any, place: int | None) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME", "STOP"):
            return
        if name in _SAID:
            stack.append(said)
        elif name in _PLAIN:
            stack.append(_PLAIN[name])
        elif name == "EMPTY_DICT":
            stack.append({} if stack else _Root())
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name in _TUPLES:
            size = _TUPLES[name]
            stack[len(stack) - size :] = [stack[len(stack) - size :]]
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name == "TUPLE":
            stack.append(self._after_mark())
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else self._after_mark()
            stack[-1].extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(-2), stack.pop()] if name == "SETITEM" else self._after_mark()
            self._set(dict(zip(items[0::2], items[1::2], strict=True)))
        elif name == "MEMOIZE" or name in _PUT:
            number = self._puts if name == "MEMOIZE" else int(said)
            self._puts += 1
            if number in self._shared:
                self._memo[number] = stack[-1]
        elif name in _GET:
            stack.append(self._memo[int(said)])
        else:
            raise BadInput(
                f"holds more than plain data (operation {name} at byte {place}), and opening it can run any program. Where "
                "you trust it, convert it with Python's own pickle and json",
                file=self._path,
            )

    def _after_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _set(self, entries: dict[Any, Any]) -> None:
        if not isinstance(self._stack[-1], _Root):
            self._stack[-1].update(entries)
            return
        for key, value in entries.items():
            self._written.write("," if self._count else "")
            self._written.write(f"\n{json.dumps(str(key))}: {json.dumps(value)}")
            self._count += 1
