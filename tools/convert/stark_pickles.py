"""STaRK's dictionaries, which are pickles, as JSON, and its nodes as JSON lines: read as data, so that nothing is run.

Opening a pickle calls what it names. Here no name leads to anything, so that only plain data can be built.
"""

from __future__ import annotations

import json
import pickle  # nosec B403
from pathlib import Path
from typing import NoReturn

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput

FILES = {
    "node_info": "node_info.jsonl",
    "node_type_dict": "node_type_dict.json",
    "edge_type_dict": "edge_type_dict.json",
}
"""Written file of each pickle."""


def convert_folder(folder: Path) -> list[Path]:
    """Write each dictionary of a processed base beside its pickle; those that are there already are left."""
    written = []
    for name, converted in FILES.items():
        pickled, target = folder / f"{name}.pkl", folder / converted
        if pickled.is_file() and not target.is_file():
            to_json(pickled, target)
            written.append(target)
    if not written and not (folder / FILES["node_info"]).is_file():
        raise BadInput("holds no node_info.pkl; unpack STaRK's processed.zip here", file=folder)
    return written


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
    with replacing_file(target) as temporary, temporary.open("w", encoding="utf-8") as written:
        if target.suffix == ".jsonl":
            written.writelines(f"{json.dumps({'node': node, 'info': entries[node]})}\n" for node in sorted(entries))
        else:
            json.dump(entries, written)
    return len(entries)


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"it holds more than plain data ({module}.{name}), and opening it can run any program. Where you trust it, "
            "convert it with Python's own pickle and json"
        )
