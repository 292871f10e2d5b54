"""Freebase's dump: N-Triples with tabs between, ``<http://rdf.freebase.com/ns/m.02mjmr> <…> <…> .``, packed or not.

Ids stand for heads and tails, as ``m.02mjmr``, and relations as ``people.person.place_of_birth``. Statements of the dump
about itself (types of terms, keys, pages) lie outside of that address and are passed over, as are texts that are no names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import Named, TripleRecord
from evidence_assets.benchmarks.reading import delimited
from evidence_assets.lake.errors import BadInput

ADDRESS = "<http://rdf.freebase.com/ns/"
NAME = "type.object.name"
PASSED_OVER = ("type.", "common.", "freebase.", "key.", "base.ontologies.", "user.")
"""Beginnings of relations that say how things are filed, not how they are related."""
_NAME = re.compile(r'(?P<quoted>".*")@(?P<language>[\w-]+)', re.DOTALL)


def read(file: Path) -> Iterator[TripleRecord]:
    return (item for item in statements(file) if isinstance(item, TripleRecord))


def statements(file: Path, language: str = "en") -> Iterator[TripleRecord | Named]:
    """Statements in ids, and what each topic is called, in the order of the dump."""
    for line, fields in delimited(file, "\t"):
        if len(fields) != 4 or fields[3].strip() != ".":
            raise BadInput("expected subject, predicate, object and a full stop, with tabs", file=file, line=line)
        subject, predicate, said, _ = fields
        for part, field in ((subject, "subject"), (predicate, "predicate")):
            if not (part.startswith("<") and part.endswith(">")):
                raise BadInput(f"{part[:60]!r} is no address (<http://…>)", file=file, line=line, field=field)
        if not (subject.startswith(ADDRESS) and predicate.startswith(ADDRESS)):
            continue
        own, relation = subject[len(ADDRESS) : -1], predicate[len(ADDRESS) : -1]
        if relation == NAME and (found := _NAME.fullmatch(said)) and found["language"] == language:
            yield Named(own, _unquoted(found["quoted"], file, line))
        elif said.startswith(ADDRESS) and not relation.startswith(PASSED_OVER):
            yield TripleRecord(own, relation, said[len(ADDRESS) : -1], line)


def _unquoted(quoted: str, file: Path, line: int) -> str:
    try:
        return str(json.loads(quoted, strict=False))
    except ValueError as error:
        raise BadInput(f"is no quoted text ({error})", file=file, line=line, field="object") from error
