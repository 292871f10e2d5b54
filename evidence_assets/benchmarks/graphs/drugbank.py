"""DrugBank's open data: pairs of drugs that interact, in ids, and the open vocabulary that names them.

interactions
    Two tab-separated columns of DrugBank ids, as BioSNAP passes them on (ChCh-Miner).
vocabulary
    drugbank vocabulary.csv: id, accession numbers of old, common name and synonyms, with `` | `` between several.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evidence_assets.benchmarks.graphs.triples import TripleRecord
from evidence_assets.benchmarks.reading import Row, delimited, headed_rows
from evidence_assets.lake.errors import BadInput

RELATION = "interacts_with"
COLUMNS = ("DrugBank ID", "Accession Numbers", "Common name", "Synonyms")


def read(interactions: Path, vocabulary: Path) -> Iterator[TripleRecord]:
    """Interactions under the common names of both drugs."""
    named: dict[str, str] = {}
    for row in headed_rows(vocabulary, COLUMNS):
        for key in (*_several(row, "Accession Numbers"), row.text("DrugBank ID")):
            named[key] = row.text("Common name").strip()
    for line, fields in delimited(interactions, "\t", columns=2):
        for key, field in zip(fields, ("first drug", "second drug"), strict=True):
            if key.strip() not in named:
                raise BadInput(f"drug {key!r} is not in {vocabulary.name}", file=interactions, line=line, field=field)
        head, tail = (named[key.strip()] for key in fields)
        yield TripleRecord(head, RELATION, tail, line, "drug", "drug")


def synonyms(vocabulary: Path) -> Iterator[tuple[str, str]]:
    """(common name, synonym) of every drug that has both."""
    for row in headed_rows(vocabulary, COLUMNS):
        yield from ((row.text("Common name").strip(), synonym) for synonym in _several(row, "Synonyms"))


def _several(row: Row, field: str) -> list[str]:
    return [part.strip() for part in row.text(field, blank=True).split("|") if part.strip()]
