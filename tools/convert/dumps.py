"""Dumps of Wikidata and Freebase: their statements in ids, and what each id is called, in the order of the dump."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evidence_assets.benchmarks.graphs.formats import TripleRecord
from evidence_assets.benchmarks.line_streams import delimited_rows, text_lines
from evidence_assets.lake.errors import BadInput

FREEBASE = "<http://rdf.freebase.com/ns/"
PASSED_OVER = ("type.", "common.", "freebase.", "key.", "base.ontologies.", "user.")
"""Beginnings of relations that say how things are filed, not how they are related."""
_TEXT = re.compile(r'(?P<quoted>".*")(?:@(?P<language>[\w-]+)|\^\^<[^<>]*>)?', re.DOTALL)
"""A literal of Freebase: a text of a language, or a value with or without its type."""
MAX_LITERAL = 200
"""Characters of a literal; longer texts describe their subject."""
ALIASES = "common.topic.alias"


class Named(NamedTuple):
    """What a dump calls one of its ids: its label, or one of its further names."""

    id: str
    name: str
    is_alias: bool = False


def wikidata(file: Path, language: str = "en") -> Iterator[TripleRecord | Named]:
    """Wikidata's JSON dump: an array with one entity a line, packed or not.

    Of a claim count its items, and its dates, amounts and texts as they are written; what is deprecated, unknown or
    without a value does not.
    """
    for line, text in text_lines(file, "a JSON dump"):
        text = text.strip().rstrip(",")
        if text in ("[", "]", ""):
            continue
        try:
            entity = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"is not valid JSON ({error})", file=file, line=line) from error
        entity_id = _field(entity, "id", str, file, line)
        label = _field(entity, "labels", dict, file, line).get(language)
        if label is not None:
            yield Named(entity_id, _field(label, "value", str, file, line))
        for alias in entity.get("aliases", {}).get(language, []) if isinstance(entity.get("aliases"), dict) else ():
            yield Named(entity_id, _field(alias, "value", str, file, line), is_alias=True)
        for relation, claims in _field(entity, "claims", dict, file, line).items():
            for claim in claims:
                if not isinstance(claim, dict) or not isinstance(claim.get("mainsnak"), dict):
                    raise BadInput("a claim without its main part", file=file, line=line, field=f"claims.{relation}")
                if claim.get("rank") != "deprecated" and claim["mainsnak"].get("snaktype") == "value":
                    tail = _object_text(claim["mainsnak"].get("datavalue"), file, line, f"claims.{relation}")
                    if tail:
                        yield TripleRecord(entity_id, relation, tail, line)


def _object_text(value: Any, file: Path, line: int, field: str) -> str:
    """An item's id, or a literal as text; nothing for places on the globe and what a later dump may bring."""
    if not isinstance(value, dict) or "value" not in value:
        raise BadInput("a value without its kind or content", file=file, line=line, field=field)
    content = value["value"]
    match value.get("type"):
        case "wikibase-entityid" if isinstance(content, dict) and "id" in content:
            return str(content["id"])
        case "time" if isinstance(content, dict):
            return str(content.get("time", "")).lstrip("+").partition("T")[0].removesuffix("-00-00")
        case "quantity" if isinstance(content, dict):
            return str(content.get("amount", "")).lstrip("+")
        case "monolingualtext" if isinstance(content, dict):
            return str(content.get("text", ""))
        case "string":
            return str(content)
    return ""


def _field(entity: Any, name: str, kind: type[Any], file: Path, line: int) -> Any:
    field_value = entity.get(name) if isinstance(entity, dict) else None
    if field_value == [] and kind is dict:  # how the dump writes an empty object
        return {}
    if not isinstance(field_value, kind):
        raise BadInput(f"expected {'an object' if kind is dict else 'a text'}", file=file, line=line, field=name)
    return field_value


def freebase(file: Path, language: str = "en") -> Iterator[TripleRecord | Named]:
    """Freebase's dump: N-Triples with tabs between, ``<http://rdf.freebase.com/ns/m.02mjmr> <…> <…> .``, packed or not.

    Statements of the dump about itself (types of terms, keys, pages) are outside that address and passed over. Dates,
    numbers and texts of the language are ends of triples, too, if they have at most `MAX_LITERAL` characters.
    """
    for line, fields in delimited_rows(file, "\t"):
        if len(fields) != 4 or fields[3].strip() != ".":
            raise BadInput("expected subject, predicate, object and a full stop, with tabs", file=file, line=line)
        subject, predicate, object_text, _ = fields
        for term, field in ((subject, "subject"), (predicate, "predicate")):
            if not (term.startswith("<") and term.endswith(">")):
                raise BadInput(f"{term[:60]!r} is no address (<http://…>)", file=file, line=line, field=field)
        if not (subject.startswith(FREEBASE) and predicate.startswith(FREEBASE)):
            continue
        subject_id, relation = subject[len(FREEBASE) : -1], predicate[len(FREEBASE) : -1]
        literal = _TEXT.fullmatch(object_text)
        if literal is None:
            if object_text.startswith(FREEBASE) and not relation.startswith(PASSED_OVER):
                yield TripleRecord(subject_id, relation, object_text[len(FREEBASE) : -1], line)
        elif relation in ("type.object.name", ALIASES):
            if literal["language"] == language:
                text = _unquoted(literal["quoted"], file, line)
                yield Named(subject_id, text, is_alias=relation == ALIASES)
        elif literal["language"] in (None, language) and not relation.startswith(PASSED_OVER):
            text = _unquoted(literal["quoted"], file, line).strip()
            if 0 < len(text) <= MAX_LITERAL:
                yield TripleRecord(subject_id, relation, text, line)


def _unquoted(quoted: str, file: Path, line: int) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError as error:
        raise BadInput(f"is no quoted text ({error})", file=file, line=line, field="object") from error


DUMPS = {"wikidata": wikidata, "freebase": freebase}
