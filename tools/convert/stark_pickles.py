"""STaRK's dictionaries, which are pickles, as JSON, and its nodes as JSON lines: read as data, so that nothing is run.

Opening a pickle calls what it names. Here two names lead to readers of numpy's texts, as AMAZON's names of brands,
categories and colours are, and all others to an error, so that only plain data can be built.
"""

from __future__ import annotations

import json
import pickle  # nosec B403
import re
from pathlib import Path

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput

FILES = {
    "node_info": "node_info.jsonl",
    "node_type_dict": "node_type_dict.json",
    "edge_type_dict": "edge_type_dict.json",
}
"""Written file of each pickle."""
MEMORY_RATIOS = (2.5, 8)
"""Peak memory of a dictionary, which is read whole, as a multiple of its pickle: measured for products with ten reviews
each, and for nodes of two short numpy texts."""


def convert_folder(folder: Path) -> list[Path]:
    """Write each dictionary of a processed base beside its pickle; those that are there already are left."""
    written = []
    for pickled, target in pending_files(folder):
        to_json(pickled, target)
        written.append(target)
    if not written and not (folder / FILES["node_info"]).is_file():
        raise BadInput("holds no node_info.pkl; unpack STaRK's processed.zip here", file=folder)
    return written


def pending_files(folder: Path) -> list[tuple[Path, Path]]:
    """The pickles of a processed base that are not converted yet, each with its target."""
    pairs = [(folder / f"{name}.pkl", folder / converted) for name, converted in FILES.items()]
    return [(pickled, target) for pickled, target in pairs if pickled.is_file() and not target.is_file()]


def describe_memory(folder: Path) -> str:
    """The memory that the conversion of the largest pickle takes; empty without one."""
    sizes = {pickled.name: pickled.stat().st_size / 1e9 for pickled, _ in pending_files(folder)}
    if not sizes:
        return ""
    name = max(sizes, key=sizes.__getitem__)
    low, high = (ratio * sizes[name] for ratio in MEMORY_RATIOS)
    return f"{name} has {sizes[name]:.1f} GB and is read whole: that takes {low:.1f} to {high:.1f} GB of memory"


def to_json(pickled: Path, target: Path) -> int:
    """Write the dictionary of a pickle as JSON, or as JSON lines of ``node`` and ``info`` in order; say how many."""
    try:
        with pickled.open("rb") as file:
            entries = _PlainData(file).load()
    except (
        pickle.UnpicklingError,
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
        EOFError,
        OverflowError,
    ) as error:
        raise BadInput(f"is no whole pickle of a dictionary ({error})", file=pickled) from error
    if not isinstance(entries, dict):
        raise BadInput("holds something else than one dictionary", file=pickled)
    try:
        with replacing_file(target) as temporary, temporary.open("w", encoding="utf-8") as written:
            if target.suffix == ".jsonl":
                written.writelines(f"{json.dumps({'node': node, 'info': entries[node]})}\n" for node in sorted(entries))
            else:
                json.dump(entries, written)
    except TypeError as error:
        message = f"holds something else than texts, numbers, lists and dictionaries ({error})"
        raise BadInput(message, file=pickled) from error
    return len(entries)


class _TextType:
    """The data type of one numpy text, such as ``U5``, with its byte order."""

    __slots__ = ("byte_order",)

    def __init__(self) -> None:
        self.byte_order = "<"

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] not in ("<", ">"):
            raise pickle.UnpicklingError(f"the byte order of a numpy text is {state[1]!r}; expected < or >")
        self.byte_order = str(state[1])


class _ReadTextType:
    """Stands for ``numpy.dtype``: an instance without attributes, since a pickle can set those of a function."""

    __slots__ = ()

    def __call__(self, code: str, *options: bool) -> _TextType:
        if not re.fullmatch(r"[<>=]?U\d+", code):
            raise pickle.UnpicklingError(f"it holds numpy values of the type {code}, not only texts")
        return _TextType()


class _ReadText:
    """Stands for numpy's function that makes a scalar of a type and bytes."""

    __slots__ = ()

    def __call__(self, text_type: _TextType, content: bytes) -> str:
        if not isinstance(text_type, _TextType) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("it holds a numpy value that is no text")
        encoding = "utf-32-le" if text_type.byte_order == "<" else "utf-32-be"
        return content.decode(encoding).rstrip("\0")


_NUMPY_NAMES: dict[tuple[str, str], _ReadTextType | _ReadText] = {
    ("numpy", "dtype"): _ReadTextType(),
    ("numpy.core.multiarray", "scalar"): _ReadText(),
    ("numpy._core.multiarray", "scalar"): _ReadText(),
}
"""What the names of a ``numpy.str_`` lead to; numpy 2 has another name for its core."""


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _ReadTextType | _ReadText:
        reader = _NUMPY_NAMES.get((module, name))
        if reader is None:
            raise pickle.UnpicklingError(
                f"it holds more than plain data ({module}.{name}), and opening it can run any program. Where you trust "
                "it, convert it with Python's own pickle and json"
            )
        return reader
