"""STaRK's dictionaries, which are pickles, as JSON: read as data, so that nothing in them is run.

Opening a pickle calls what it names. Here no name leads to anything, so that only plain data can be built.
"""

from __future__ import annotations

import json
import pickle  # nosec B403
from pathlib import Path
from typing import NoReturn

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput

NAMES = ("node_info", "node_type_dict", "edge_type_dict")


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
        for number, (key, value) in enumerate(entries.items()):
            written.write(f"{',' if number else '{'}\n{json.dumps(str(key))}: {json.dumps(value)}")
        written.write("\n}\n" if entries else "{\n}\n")
    return len(entries)


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"it holds more than plain data ({module}.{name}), and opening it can run any program. Where you trust it, "
            "convert it with Python's own pickle and json"
        )
