"""Registry of graph formats, and their readers, which stream triples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.json_streams import json_items
from evidence_assets.benchmarks.line_streams import Row, delimited_rows, headed_rows, shorten
from evidence_assets.lake.errors import BadInput

FREEBASE_PREFIX = "www.freebase.com/"
DRUGBANK_COLUMNS = ("DrugBank ID", "Accession Numbers", "Common name", "Synonyms")


class TripleRecord(NamedTuple):
    """One triple of a source and its line."""

    head: str
    relation: str
    tail: str
    line: int
    head_type: str | None = None
    tail_type: str | None = None


Triples = Iterator[TripleRecord]


def named_columns(file: Path, *names: str) -> Iterator[tuple[int, list[str]]]:
    """Read the stripped fields of a tab-separated file without a header; empty ones are errors."""
    for row in headed_rows(file, names, "\t", quoted=False, header=False):
        yield row.line or 0, row.stripped_texts(*names)


def read_tab_separated(file: Path) -> Triples:
    """Read head TAB relation TAB tail.

    Traps of the published file: it has no header; blank lines are skipped, empty cells are errors.
    """
    for line, (head, relation, tail) in named_columns(file, "head", "relation", "tail"):
        yield TripleRecord(head, relation, tail, line)


def read_umls(file: Path) -> Triples:
    """Read the UMLS Semantic Network.

    Traps of the published file: no header; node names have underscores for spaces.
    """
    for triple in read_tab_separated(file):
        yield triple._replace(head=triple.head.replace("_", " "), tail=triple.tail.replace("_", " "))


def read_simplequestions(file: Path) -> Triples:
    """Read the Freebase subsets of SimpleQuestions: subject, relation, and objects separated by spaces.

    Traps of the published file: ids are paths (``www.freebase.com/m/01cj3p``), shortened as in the questions
    (``m.01cj3p``); one row has several objects.
    """
    for line, (subject, relation, objects) in named_columns(file, "subject", "relation", "objects"):
        for object_id in objects.split():
            head, relation_name, tail = (shorten_freebase_id(name) for name in (subject, relation, object_id))
            yield TripleRecord(head, relation_name, tail, line)


def shorten_freebase_id(path: str) -> str:
    """Shorten ``www.freebase.com/m/01cj3p`` to ``m.01cj3p``."""
    return path.removeprefix(FREEBASE_PREFIX).strip("/").replace("/", ".")


def read_conceptnet_completion(file: Path) -> Triples:
    """Read the completion files of CN-100k: relation, head, tail and optionally 1 (true) or 0 (corrupted, left out).

    Traps of the published file: the relation comes first; only the dev and test files have labels.
    """
    for line, fields in delimited_rows(file, "\t"):
        row = Row(dict(zip(("relation", "head", "tail", "label"), fields, strict=False)), file, line)
        if len(fields) not in (3, 4):
            raise row.error(f"the row has {len(fields)} fields; expected relation, head, tail and optionally a label")
        if fields[3:] not in ([], ["0"], ["1"]):
            raise row.error(f"{fields[3]!r} is neither 0 nor 1", "label")
        if fields[3:] != ["0"]:
            head, relation, tail = row.stripped_texts("head", "relation", "tail")
            yield TripleRecord(head, relation, tail, line)


def read_conceptnet(file: Path) -> Triples:
    """Read ConceptNet's assertions with both ends in English: five columns, concepts as /c/<language>/<words>/…

    Traps of the published file: links to other resources (ExternalURL) are rows, and skipped; relations of DBpedia
    have a second prefix; concepts have underscores, percent escapes and suffixes such as /n.
    """
    for line, fields in delimited_rows(file, "\t", columns=5):
        relation = fields[1].removeprefix("/r/").removeprefix("dbpedia/")
        if relation in (fields[1], ""):
            message = f"{fields[1]!r} is not a relation URI (/r/Name)"
            raise BadInput(message, file=file, line=line, field="relation")
        if relation == "ExternalURL":
            continue
        head_language, head = _parse_concept(fields[2], file, line, "start")
        tail_language, tail = _parse_concept(fields[3], file, line, "end")
        if head_language == "en" == tail_language:
            yield TripleRecord(head, relation, tail, line)


def _parse_concept(uri: str, file: Path, line: int, field: str) -> tuple[str, str]:
    """Language and words of a concept URI."""
    segments = uri.split("/")
    words = unquote(segments[3]).replace("_", " ").strip() if len(segments) > 3 else ""
    if segments[:2] != ["", "c"] or not segments[2] or not words:
        raise BadInput(f"{uri!r} is not a concept URI (/c/language/words)", file=file, line=line, field=field)
    return segments[2], words


def read_primekg(file: Path) -> Triples:
    """Read PrimeKG's kg.csv with node names and types.

    Traps of the published file: undirected facts have a row per direction; names contain commas in quotes.
    """
    for row in headed_rows(file, ("relation", "x_type", "x_name", "y_type", "y_name")):
        head, relation, tail = row.stripped_texts("x_name", "relation", "y_name")
        kinds = row.text_or_none("x_type"), row.text_or_none("y_type")
        yield TripleRecord(head, relation, tail, row.line or 0, *kinds)


def read_hetionet(edges: Path, nodes: Path) -> Triples:
    """Read Hetionet's edges.sif with the names of nodes.tsv; the relation is the metaedge (CtD, …).

    Traps of the published file: quotes in names are not paired; the edges have ids only.
    """
    node_rows = headed_rows(nodes, ("id", "name", "kind"), "\t", quoted=False)
    nodes_by_id = {row.text("id"): row.stripped_texts("name", "kind") for row in node_rows}
    for row in headed_rows(edges, ("source", "metaedge", "target"), "\t", quoted=False):
        for field in ("source", "target"):
            if row.text(field) not in nodes_by_id:
                raise row.error(f"node {row.text(field)} is not in {nodes.name}", field)
        head, head_type = nodes_by_id[row.text("source")]
        tail, tail_type = nodes_by_id[row.text("target")]
        yield TripleRecord(head, row.text("metaedge").strip(), tail, row.line or 0, head_type, tail_type)


def read_drugbank(interactions: Path, vocabulary: Path) -> Triples:
    """Read interacting drugs of DrugBank's open data: two columns of ids (ChCh-Miner), with common names.

    Traps of the published file: no header; some ids are former accession numbers of a drug.
    """
    names_by_id: dict[str, str] = {}
    for row in headed_rows(vocabulary, DRUGBANK_COLUMNS):
        for key in (*_split_at_bars(row, "Accession Numbers"), row.text("DrugBank ID")):
            names_by_id[key] = row.text("Common name").strip()
    for line, keys in named_columns(interactions, "first drug", "second drug"):
        for key, field in zip(keys, ("first drug", "second drug"), strict=True):
            if key not in names_by_id:
                raise BadInput(f"drug {key!r} is not in {vocabulary.name}", file=interactions, line=line, field=field)
        head, tail = (names_by_id[key] for key in keys)
        yield TripleRecord(head, "interacts_with", tail, line, "drug", "drug")


def _drugbank_synonyms(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for row in headed_rows(files[1], DRUGBANK_COLUMNS):
        yield from ((row.text("Common name").strip(), synonym) for synonym in _split_at_bars(row, "Synonyms"))


def _split_at_bars(row: Row, field: str) -> list[str]:
    return [part.strip() for part in row.text(field, blank=True).split("|") if part.strip()]


def read_disease_database(file: Path, names: Path) -> Triples:
    """Read the Disease Database as published by QA-GNN, with the preferred names of its items.

    ddb_names.json: ``{name: [item, "1" for the preferred name of the item or "0" for a synonym]}``.
    ddb_relas.json: ``{row: [head item, tail item, relation code]}``.
    Traps of the published file: ids are strings or integers; an item may have two preferred names, of which the later
    applies.
    """
    names_by_item = {item: name for name, item, is_preferred in _read_disease_names(names) if is_preferred}
    relation_names = load_vocabulary().foreign_names("disease_database")
    for row, key, (head, tail, code) in _read_id_lists(file, 3):
        for item in (head, tail):
            if item not in names_by_item:
                raise row.error(f"item {item} has no preferred name in {names.name}", key)
        if code not in relation_names:
            raise row.error(f"unknown relation code {code}; available: {', '.join(relation_names)}", key)
        yield TripleRecord(names_by_item[head], relation_names[code], names_by_item[tail], row.line or 0)


def _disease_synonyms(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    entries = list(_read_disease_names(files[1]))
    names_by_item = {item: name for name, item, is_preferred in entries if is_preferred}
    return ((names_by_item[item], name) for name, item, preferred in entries if not preferred and item in names_by_item)


def _read_disease_names(file: Path) -> Iterator[tuple[str, str, bool]]:
    """Read name, item and whether the name is preferred; of two preferred names, the later one applies."""
    for row, name, (item, flag) in _read_id_lists(file, 2):
        if flag not in ("0", "1"):
            raise row.error(f"{flag!r} is neither 0 nor 1", name)
        if not name.strip():
            raise row.error("is empty; add a text", "name")
        yield name.strip(), item, flag == "1"


def _read_id_lists(file: Path, count: int) -> Iterator[tuple[Row, str, list[str]]]:
    """Read an object of lists of ``count`` strings or integers, as strings."""
    for line, key, value in json_items(file):
        row = Row({}, file, line)
        if not isinstance(value, list) or len(value) != count or not all(type(item) in (str, int) for item in value):
            raise row.error(f"{shorten(value)} is not a list of {count} ids", key)
        yield row, key, [str(item) for item in value]


@dataclass(frozen=True)
class GraphFormat:
    """One graph format: its files in order, the reader of triples, and that of (name, synonym) pairs.

    ``vocabulary``: Source name in ``relation_mapping.tsv`` that translates its relations; empty for none.
    """

    files: tuple[str, ...]
    read: Callable[..., Triples]
    vocabulary: str = ""
    synonyms: Callable[[Sequence[Path]], Iterator[tuple[str, str]]] = lambda files: iter(())


FORMATS: dict[str, GraphFormat] = {
    "tab_separated": GraphFormat(("triples",), read_tab_separated),
    "umls": GraphFormat(("triples",), read_umls, "umls"),
    "disease_database": GraphFormat(("relations", "names"), read_disease_database, synonyms=_disease_synonyms),
    "conceptnet": GraphFormat(("assertions",), read_conceptnet, "conceptnet"),
    "conceptnet_completion": GraphFormat(("triples",), read_conceptnet_completion, "conceptnet"),
    "primekg": GraphFormat(("kg.csv",), read_primekg, "primekg"),
    "simplequestions": GraphFormat(("facts",), read_simplequestions),
    "drugbank": GraphFormat(("interactions", "vocabulary"), read_drugbank, synonyms=_drugbank_synonyms),
    "hetionet": GraphFormat(("edges", "nodes"), read_hetionet, "hetionet"),
}


def find_format(name: str, files: Sequence[Path]) -> GraphFormat:
    """Look up a format and check the number of files."""
    if name not in FORMATS:
        raise BadInput(f"there is no graph format {name!r}; use one of {', '.join(FORMATS)}", field="format")
    expected = FORMATS[name].files
    if len(files) != len(expected):
        raise BadInput(
            f"the format {name} needs {len(expected)} files ({', '.join(expected)}), not {len(files)}", field="paths"
        )
    return FORMATS[name]
