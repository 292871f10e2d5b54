"""Files and places that users name: opened only where they are files, YAML read with its line in every error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from evidence_assets.lake.errors import BadInput

T = TypeVar("T")
ADDRESS = re.compile(r"([a-z][a-z0-9]+):/+(.*)")
"""An address, or what is left of one where a path has merged its slashes."""
SCHEMES = ("s3", "gs", "az", "abfs", "file")
MAX_BYTES = 16 << 20
"""Bytes of a text that is read as a whole; larger files are read by lines, or are no declaration."""


def parse_address(place: str | Path) -> str:
    """The address that a text or path is; empty where it is a local path."""
    match = ADDRESS.fullmatch(str(place))
    if match is None:
        return ""
    scheme, rest = match.groups()
    if scheme not in SCHEMES:
        names = ", ".join(f"{name}://" for name in SCHEMES)
        raise BadInput(f"{place} is no address of a lake: {names} or a local path")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{rest.strip('/')}"


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that no file can have is none."""
    try:
        return path.is_file()
    except OSError:  # too long
        return False


def find_file_below(folder: Path, name: str) -> Path | None:
    """The file that another file names; None where there is none, or where the name leads out of the folder."""
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return folder / name if inside and is_file(folder / name) else None


def check_raw_name(name: str, field: str | None = None) -> str:
    """The place that a declaration names below the lake's ``raw``; refused where it leads out of it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise BadInput(f"{name!r} leads out of the lake's raw folder; link or copy the files into it", field=field)
    return name


def reject_outside_links(folder: Path) -> None:
    """Refuse a folder in which a link leads out of it: what lies elsewhere was not given."""
    inside = os.path.realpath(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
            raise BadInput(f"is a link that leads out of {folder}: put the file itself there", file=path)


def require_file(path: Path) -> None:
    """Refuse what would be read for ever, or not at all: devices, pipes, folders, links to nowhere or to themselves."""
    if path.is_file():
        return
    if path.is_dir():
        raise BadInput("cannot be opened (Is a directory)", file=path)
    if path.is_symlink():
        raise BadInput("is a link that leads to no file", file=path)
    raise BadInput("is a device or a pipe and no file" if path.exists() else "there is no such file", file=path)


def read_declaration(path: Path) -> str:
    """A whole text of the size that people write."""
    require_file(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadInput(f"is larger than {MAX_BYTES >> 20} MB", file=path)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(f"is not UTF-8 text ({error.reason} at byte {error.start})", file=path, line=line) from error
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror})", file=path) from error


def parse_yaml_file(path: Path, parse: Callable[[str], T]) -> T:
    """What ``parse`` makes of a YAML file; whatever it cannot read is named by file and, where it is known, line."""
    text = read_declaration(path)
    try:
        return parse(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be read"
        line = mark.line + 1 if mark is not None else None
        raise BadInput(f"is not valid YAML: {problem}", file=path, line=line) from error
    except RecursionError as error:
        raise BadInput("is not valid YAML: nested too deeply", file=path) from error
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        # dates that are none, numbers of thousands of digits: what PyYAML's own constructors stumble over
        raise BadInput(f"is not valid YAML: a value cannot be read ({error})", file=path) from error


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """A YAML file that holds one mapping."""
    stated = parse_yaml_file(path, yaml.safe_load)
    if not isinstance(stated, dict) or not all(isinstance(name, str) for name in stated):
        raise BadInput("must be one YAML mapping whose keys are texts", file=path)
    return stated
