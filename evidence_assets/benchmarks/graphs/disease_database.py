"""The Disease Database as QA-GNN passes it on: ddb_names.json and ddb_relas.json.

ddb_names.json
    {name: [item, "1" for the preferred name of the item or "0" for a synonym]}
ddb_relas.json
    {row: [head item, tail item, relation code]}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.graphs.triples import TripleRecord, filled
from evidence_assets.benchmarks.reading import shown
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.lake.errors import BadInput

RELATION_CODES = {
    "0": "belongs_to_the_category_of",
    "1": "is_a_category",
    "2": "may_cause",
    "3": "is_a_subtype_of",
    "4": "is_a_risk_factor_of",
    "6": "is_associated_with",
    "10": "may_contraindicate",
    "12": "interacts_with",
    "16": "belongs_to_the_drug_family_of",
    "17": "belongs_to_drug_super-family",
    "18": "is_a_vector_for",
    "20": "may_be_allelic_with",
    "26": "see_also",
    "30": "is_an_ingredient_of",
    "233": "may_treat",
}


def read(relations: Path, names: Path) -> Iterator[TripleRecord]:
    """Triples under the preferred names of their items."""
    preferred = {item: name for name, item, first in _names(names) if first}
    for line, key, value in json_items(relations):
        head, tail, code = _texts(value, 3, relations, line, key)
        for item in (head, tail):
            if item not in preferred:
                raise BadInput(
                    f"item {item} has no preferred name in {names.name}", file=relations, line=line, field=key
                )
        if code not in RELATION_CODES:
            raise BadInput(
                f"relation code {code} is unknown; known are {', '.join(RELATION_CODES)}",
                file=relations,
                line=line,
                field=key,
            )
        yield TripleRecord(preferred[head], RELATION_CODES[code], preferred[tail], line)


def synonyms(names: Path) -> Iterator[tuple[str, str]]:
    """(preferred name, synonym) of every item that has both."""
    entries = list(_names(names))
    preferred = {item: name for name, item, first in entries if first}
    for name, item, first in entries:
        if not first and item in preferred:
            yield preferred[item], name


def _names(file: Path) -> Iterator[tuple[str, str, bool]]:
    """Name, item, whether it is the item's preferred name; of two preferred names the later one counts."""
    for line, key, value in json_items(file):
        item, flag = _texts(value, 2, file, line, key)
        if flag not in ("0", "1"):
            raise BadInput(f"{flag!r} is neither 0 nor 1", file=file, line=line, field=key)
        yield filled(key, file, line, "name"), item, flag == "1"


def _texts(value: Any, count: int, file: Path, line: int, field: str) -> tuple[str, ...]:
    """A list of `count` strings or whole numbers, as strings."""
    if (
        not isinstance(value, list)
        or len(value) != count
        or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in value)
    ):
        raise BadInput(f"{shown(value)} is not a list of {count} ids", file=file, line=line, field=field)
    return tuple(str(part) for part in value)
