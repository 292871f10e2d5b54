"""Three tab-separated columns without a header: head, relation and tail; so are UMLS and Freebase's subsets passed around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord, filled
from evidence_assets.benchmarks.reading import delimited

ADDRESS = "www.freebase.com/"


def read(file: Path) -> Iterator[TripleRecord]:
    """Triples of a file of head TAB relation TAB tail."""
    for line, fields in delimited(file, "\t", columns=3):
        head, relation, tail = map(filled, fields, [file] * 3, [line] * 3, ("head", "relation", "tail"))
        yield TripleRecord(head, relation, tail, line)


def umls(file: Path) -> Iterator[TripleRecord]:
    """The UMLS Semantic Network, whose names join words by underscores; relation names stay as they are."""
    for record in read(file):
        yield record._replace(head=record.head.replace("_", " "), tail=record.tail.replace("_", " "))


def simplequestions(file: Path) -> Iterator[TripleRecord]:
    """Freebase subsets as SimpleQuestions ships them: all objects of a subject and relation, with spaces between them.

    Ids stand with their address (``www.freebase.com/m/01cj3p``) and are shortened as in the questions (``m.01cj3p``).
    """
    for line, fields in delimited(file, "\t", columns=3):
        head, kind, objects = map(filled, fields, [file] * 3, [line] * 3, ("subject", "relation", "objects"))
        for each in objects.split():
            yield TripleRecord(_short(head), _short(kind), _short(each), line)


def _short(name: str) -> str:
    return name.removeprefix(ADDRESS).strip("/").replace("/", ".")
