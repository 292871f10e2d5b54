"""Ways to spoil a file: its bytes, its encoding, its nesting, its sizes and numbers, its packing, its name, its
place."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yaml import YAMLError, safe_load

RAW = "\ue000"
"""Marks text that is written without quotes."""
LITERALS = (
    "NaN",
    "Infinity",
    "1e400",
    "-0",
    "9" * 5000,
    "0x1F",
    "2020-13-45",
    ".nan",
    "!!binary x",
    "*a",
    "&a [*a]",
    "<<",
)
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    3,
    2**63,
    1e308,
    "",
    " ",
    "x",
    "\t",
    "\n",
    "\0",
    "\ud800",
    "\u202e",
    "é" * 300,
    "A" * 200_000,
    "../../etc/passwd",
    "/",
    ".",
    "a\\b",
    "<HEAD>",
    "<TAIL>",
    "$x",
    "?x y",
    [],
    {},
    [[]],
    {"": ""},
    [None],
    ["a"] * 5000,
)
NAMES = ("a\nb", "a b", "ünï", "\udcff", "-x", "..x", "a'\"b", "%s{}", "x" * 240, "COM1", "a\\b", ".hidden", "[a]*?")
GZIPPED = b"\x1f\x8b"


def odd(chance: random.Random) -> Any:
    """A value that few expect."""
    if chance.random() < 0.3:
        return RAW + chance.choice(LITERALS) + RAW
    if chance.random() < 0.05:
        return RAW + "[" * 20_000 + "]" * 20_000 + RAW
    return copy.deepcopy(chance.choice(ODD))


def spoilt_value(value: Any, chance: random.Random) -> Any:
    """The value with one part of it gone, doubled or another."""
    if isinstance(value, dict | list) and value and chance.random() < 0.85:
        mutated = copy.copy(value)
        key = chance.choice(list(mutated)) if isinstance(mutated, dict) else chance.randrange(len(mutated))
        way = chance.random()
        if way < 0.15:
            del mutated[key]
        elif way < 0.25 and isinstance(mutated, dict):
            mutated[str(odd(chance))[:50]] = mutated[key]
        elif way < 0.3 and isinstance(mutated, list):
            mutated.append(mutated[key])
        else:
            mutated[key] = spoilt_value(mutated[key], chance)
        return mutated
    return odd(chance)


def _dumped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    parts = text.split(f'"{RAW}')
    return parts[0] + "".join(piece.replace(f'{RAW}"', "", 1) for piece in parts[1:])


def _structure(content: bytes, chance: random.Random, yaml: bool) -> bytes:
    """One value in JSON, JSON lines, YAML or a delimited line is another."""
    text = content.decode("utf-8", "surrogateescape")
    if yaml:
        return _dumped(spoilt_value(safe_load(text), chance)).encode("utf-8", "surrogatepass")
    lines = text.splitlines() or [""]
    index = chance.randrange(len(lines))
    try:
        document = json.loads(text)
        return _dumped(spoilt_value(document, chance)).encode("utf-8", "surrogatepass")
    except ValueError:
        pass
    try:
        lines[index] = _dumped(spoilt_value(json.loads(lines[index]), chance))
    except ValueError:
        mark = next((mark for mark in ("\t", ",", ";") if mark in lines[index]), " ")
        cells = lines[index].split(mark)
        cells[chance.randrange(len(cells))] = str(odd(chance)).replace(RAW, "")
        lines[index] = mark.join(cells)
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _bytes(content: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut, doubled, put in."""
    mutated = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 8))):
        index = chance.randrange(len(mutated) + 1)
        end = min(len(mutated), index + chance.choice((1, 4, 64, 4096)))
        way = chance.randrange(5)
        if way == 0:
            mutated[index:end] = b""
        elif way == 1:
            mutated[index:index] = bytes(mutated[index:end]) * chance.choice((1, 2, 100))
        elif way == 2:
            mutated[index:index] = chance.choice(
                (b"\0", b"\xff\xfe", b"\xc3", b'"', b"\r", b"\x85", b"\xe2\x80\xa8", b"[" * 9999, b"{")
            )
        elif way == 3:
            mutated[index:index] = chance.randbytes(chance.choice((1, 30)))
        elif mutated:
            mutated[index % len(mutated)] ^= 1 << chance.randrange(8)
    return bytes(mutated)


def _reencode(content: bytes, chance: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    encoding = chance.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7", "utf-8-sig", "cp500"))
    return text.encode(encoding, "replace")


def _lines(content: bytes, chance: random.Random) -> bytes:
    """Lines doubled, gone, in another order, with other ends."""
    lines = content.splitlines(keepends=True) or [b""]
    index = chance.randrange(len(lines))
    way = chance.randrange(5)
    if way == 0:
        lines.insert(index, lines[index])
    elif way == 1:
        del lines[index]
    elif way == 2:
        chance.shuffle(lines)
    elif way == 3:
        return content.replace(b"\n", chance.choice((b"\r", b"\r\n", b"\n\n", b"\x0b", b"\x1e")))
    else:
        lines = lines * chance.choice((2, 300))
    return b"".join(lines)


def _packed(path: Path, content: bytes, chance: random.Random) -> None:
    """Packed: rightly, cut short, damaged, under a wrong name, or so that it expands a thousandfold."""
    way = chance.randrange(6)
    if way == 0:
        content = content + chance.choice((b" ", b"\n", b"a")) * 30_000_000
    elif way == 1:
        content = content * max(1, 10_000_000 // (len(content) + 1))
    packed = bytearray(gzip.compress(content, 6))
    if way == 2:
        del packed[chance.randrange(len(packed)) :]
    elif way == 3:
        packed[chance.randrange(len(packed))] ^= 0xFF
    elif way == 4:
        packed = packed * 2
    if chance.random() < 0.8:
        path.unlink()
        path = path.with_name(path.name + ".gz")
    path.write_bytes(packed)


def _place(path: Path, content: bytes, chance: random.Random) -> None:
    """Something else in its place: a link to nowhere, to itself, to a device, a folder, a pipe, a name, nothing."""
    path.unlink()
    way = chance.randrange(8)
    if way == 0:
        path.symlink_to("nowhere")
    elif way == 1:
        path.symlink_to(path.name)
    elif way == 2:
        path.symlink_to(chance.choice(("/dev/zero", "/dev/null", "/proc/self/mem", "/proc/self/cmdline")))
    elif way == 3:
        path.mkdir()
    elif way == 4:
        os.mkfifo(path)
    elif way == 5:
        path.with_name(chance.choice(NAMES) + "".join(path.suffixes)).write_bytes(content)
    elif way == 6:
        path.write_bytes(b"")


def spoil(path: Path, chance: random.Random) -> str:
    """Spoil a file in some way; which."""
    content = path.read_bytes()
    yaml = path.suffix in (".yaml", ".yml")
    ways: dict[str, Callable[[], bytes | None]] = {
        "structure": lambda: _structure(content, chance, yaml),
        "bytes": lambda: _bytes(content, chance),
        "encoding": lambda: _reencode(content, chance),
        "lines": lambda: _lines(content, chance),
        "cut": lambda: content[: chance.randrange(len(content) + 1)],
        "packed": lambda: _packed(path, content, chance),
        "place": lambda: _place(path, content, chance),
    }
    text = b"\0" not in content and not content.startswith((GZIPPED, b"PAR1", b"PK"))
    weights = (8 if text else 0, 6, 2, 3, 2, 2, 2)
    (way,) = chance.choices(list(ways), weights)
    try:
        mutated = ways[way]()
    except (ValueError, YAMLError, RecursionError):  # what was spoilt before cannot be parsed any more
        mutated = _bytes(content, chance)
    if mutated is not None:
        path.write_bytes(mutated)
    return way
