"""Checks of users' files and addresses before they are opened; YAML errors give the file and line."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from evidence_assets.lake.errors import BadInput

T = TypeVar("T")
ADDRESS = re.compile(r"([a-z][a-z0-9]+):/+(.*)")
"""An address; one slash is enough, because ``Path`` merges slashes."""
SCHEMES = ("s3", "gs", "az", "abfs", "file")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 16 << 20
"""Maximum size of a file that is read into memory at once."""


def parse_address(location: str | Path) -> str:
    """The normalized address of a lake; empty for a local path."""
    match = ADDRESS.fullmatch(str(location))
    if match is None:
        return ""
    scheme, rest = match.groups()
    if scheme not in SCHEMES:
        names = ", ".join(f"{name}://" for name in SCHEMES)
        raise BadInput(f"{location} is not the address of a lake; use {names} or a local path")
    return f"{scheme}://{'/' if scheme == 'file' else ''}{rest.strip('/')}"


def lake_url(location: str | Path) -> str:
    """URL of the lake at a path or address, without credentials."""
    address = parse_address(location)
    if not address:
        return Path(location).absolute().as_uri()
    without_password = re.sub("://[^/@]*:.*@", "://", address)  # the container of `abfs://container@account` stays
    return without_password.partition("?")[0]


def is_file(path: Path) -> bool:
    """Whether a file exists; False for names that the file system rejects."""
    try:
        return path.is_file()
    except OSError:  # too long
        return False


def find_file_below(folder: Path, name: str) -> Path | None:
    """The file ``name`` in a folder; None if it does not exist or is outside the folder."""
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return folder / name if inside and is_file(folder / name) else None


def check_raw_name(name: str, field: str | None = None) -> str:
    """Return a path relative to the lake's ``raw`` folder; raises BadInput if it leaves the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise BadInput(f"{name!r} leads out of the lake's raw folder; link or copy the files into it", field=field)
    return name


def reject_outside_links(folder: Path) -> None:
    """Raise BadInput if a link in the folder leads elsewhere: the user did not submit its target."""
    inside = os.path.realpath(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
            raise BadInput(f"is a link that leads out of {folder}: copy the file into the folder", file=path)


def require_file(path: Path) -> None:
    """Raise BadInput for anything but a regular file: devices, pipes, folders, broken or circular links."""
    if not is_file(path):
        exists = path.exists() or path.is_symlink()
        raise BadInput("is no regular file: give a file" if exists else "there is no such file", file=path)


def read_declaration(path: Path) -> str:
    """The text of a small UTF-8 file."""
    require_file(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadInput(f"is larger than {MAX_BYTES >> 20} MB: split it", file=path)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"is not UTF-8 text ({error.reason} at byte {error.start}): save it as UTF-8"
        raise BadInput(problem, file=path, line=line) from error
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror}): check its name and permissions", file=path) from error


MAX_BRACKETS = 200
"""Brackets inside one another beyond which no unclosed one is searched for."""


def _find_unclosed_bracket(text: str) -> int | None:
    """Line of the innermost bracket that the text does not close before its first error."""
    lines = []
    with contextlib.suppress(yaml.YAMLError):
        for token in yaml.scan(text):
            if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
                lines.append(token.start_mark.line + 1)
                if len(lines) > MAX_BRACKETS:  # the scanner's time grows with the square of the depth
                    break
            elif lines and isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken):
                lines.pop()
    return lines[-1] if lines else None


def parse_yaml_file(path: Path, parse: Callable[[str, Any], T]) -> T:
    """Parse a YAML file with ``parse``, given its text and a loader; errors name the file and, if known, the line."""
    text = read_declaration(path)
    try:
        return parse(text, _LOADER)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "cannot be read"
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        # The parser notices a missing bracket only on a later line.
        opened = _find_unclosed_bracket(text)
        if opened is not None and opened != line:
            problem = f"the bracket that opens here is not closed ({problem} in line {line})"
            line = opened
        raise BadInput(f"is not valid YAML: {problem}", file=path, line=line) from error
    except (RecursionError, ValueError, TypeError, OverflowError, AttributeError) as error:
        # PyYAML's constructors raise these for deep nesting, invalid dates, and numbers with thousands of digits.
        raise BadInput(f"is not valid YAML: a value cannot be read ({error})", file=path) from error


def read_yaml_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    mapping = parse_yaml_file(path, yaml.load)
    if not isinstance(mapping, dict) or not all(isinstance(name, str) for name in mapping):
        raise BadInput("must be one YAML mapping whose keys are strings", file=path)
    return mapping
