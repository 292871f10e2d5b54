"""Wikidata's JSON dump: an array with one entity a line, packed or not.

Ids stand for heads, relations and tails. Of a claim count its items, and its dates, amounts and texts as they are written;
what is deprecated, unknown or without a value does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.graphs.triples import Named, TripleRecord
from evidence_assets.benchmarks.reading import text_lines
from evidence_assets.lake.errors import BadInput


def read(file: Path) -> Iterator[TripleRecord]:
    return (item for item in statements(file) if isinstance(item, TripleRecord))


def statements(file: Path, language: str = "en") -> Iterator[TripleRecord | Named]:
    """Statements in ids, and what each item and property is called, in the order of the dump."""
    for line, text in text_lines(file, "a JSON dump"):
        text = text.strip().rstrip(",")
        if text in ("[", "]", ""):
            continue
        try:
            entity = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"is not valid JSON ({error})", file=file, line=line) from error
        own = _field(entity, "id", str, file, line)
        label = _field(entity, "labels", dict, file, line).get(language)
        if label is not None:
            yield Named(own, _field(label, "value", str, file, line))
        for relation, claims in _field(entity, "claims", dict, file, line).items():
            for claim in claims:
                if not isinstance(claim, dict) or not isinstance(claim.get("mainsnak"), dict):
                    raise BadInput("a claim without its main part", file=file, line=line, field=f"claims.{relation}")
                if claim.get("rank") != "deprecated" and claim["mainsnak"].get("snaktype") == "value":
                    tail = _said(claim["mainsnak"].get("datavalue"), file, line, f"claims.{relation}")
                    if tail:
                        yield TripleRecord(own, relation, tail, line)


def _said(value: Any, file: Path, line: int, field: str) -> str:
    """An item's id, or a literal as text; nothing for places on the globe and what a later dump may bring."""
    if not isinstance(value, dict) or "value" not in value:
        raise BadInput("a value without its kind or content", file=file, line=line, field=field)
    said = value["value"]
    match value.get("type"):
        case "wikibase-entityid" if isinstance(said, dict) and "id" in said:
            return str(said["id"])
        case "time" if isinstance(said, dict):
            return str(said.get("time", "")).lstrip("+").partition("T")[0].removesuffix("-00-00")
        case "quantity" if isinstance(said, dict):
            return str(said.get("amount", "")).lstrip("+")
        case "monolingualtext" if isinstance(said, dict):
            return str(said.get("text", ""))
        case "string":
            return str(said)
    return ""


def _field(entity: Any, name: str, kind: type[Any], file: Path, line: int) -> Any:
    found = entity.get(name) if isinstance(entity, dict) else None
    if found == [] and kind is dict:  # how the dump writes an empty object
        return {}
    if not isinstance(found, kind):
        raise BadInput(f"expected {'an object' if kind is dict else 'a text'}", file=file, line=line, field=name)
    return found
