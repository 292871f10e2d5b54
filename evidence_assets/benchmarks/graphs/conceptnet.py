"""ConceptNet: the full assertions (five columns, concepts as /c/<language>/<words>/…), and the completion files of CN-100k:
relation, head, tail and perhaps 1 for true or 0 for corrupted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from evidence_assets.benchmarks.graphs.triples import TripleRecord, filled
from evidence_assets.benchmarks.reading import delimited
from evidence_assets.lake.errors import BadInput


def assertions(file: Path, language: str = "en") -> Iterator[TripleRecord]:
    """Assertions whose two ends are both in `language`; links to other resources (ExternalURL) are no triples."""
    for line, fields in delimited(file, "\t", columns=5):
        relation = fields[1].removeprefix("/r/").removeprefix("dbpedia/")
        if relation == fields[1]:
            raise BadInput(f"{fields[1]!r} is no relation URI (/r/Name)", file=file, line=line, field="relation")
        if relation == "ExternalURL":
            continue
        (head_language, head), (tail_language, tail) = (
            _concept(fields[column], file, line, field) for column, field in ((2, "start"), (3, "end"))
        )
        if head_language == language == tail_language:
            yield TripleRecord(head, filled(relation, file, line, "relation"), tail, line)


def _concept(uri: str, file: Path, line: int, field: str) -> tuple[str, str]:
    """Language and words of a concept URI."""
    parts = uri.split("/")
    if len(parts) < 4 or parts[:2] != ["", "c"] or not parts[2]:
        raise BadInput(f"{uri!r} is no concept URI (/c/language/words)", file=file, line=line, field=field)
    return parts[2], filled(unquote(parts[3]).replace("_", " "), file, line, field)


def completion(file: Path) -> Iterator[TripleRecord]:
    """Triples of a completion file; `label` is set where the file has the fourth column."""
    for line, fields in delimited(file, "\t"):
        if len(fields) not in (3, 4):
            raise BadInput(
                f"{len(fields)} fields, expected relation, head, tail and perhaps a label", file=file, line=line
            )
        label = None
        if len(fields) == 4:
            if fields[3] not in ("0", "1"):
                raise BadInput(f"{fields[3]!r} is neither 0 nor 1", file=file, line=line, field="label")
            label = fields[3] == "1"
        relation, head, tail = (
            filled(value, file, line, field) for value, field in zip(fields, ("relation", "head", "tail"), strict=False)
        )
        yield TripleRecord(head, relation, tail, line, label=label)
