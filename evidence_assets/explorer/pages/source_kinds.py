"""What the sources of each kind are: their facts, the evidence that was taken from them, and related pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.evidence_view import (
    EvidenceView,
    Grid,
    build_grid,
    origins_by_cell,
    read_cell,
    texts_by_cell,
)
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.origins import corpus_file, list_files, read_harvested, read_seeds
from evidence_assets.explorer.pages import NotFound, link
from evidence_assets.lake.row_locations import id_condition

MAX_ROWS = 1_000
"""Maximum rows of evidence, edges, or chunks of a document, that a page reads; the page reports if there are more."""
KINDS = {
    "chunk": ("chunks", "chunk_id", "doc_id source char_start char_end asset"),
    "document": ("chunks", "doc_id", "doc_id source asset"),
    "table": ("tables", "table_id", "table_id benchmark n_rows"),
    "edge": ("kg_edges", "edge_id", "relation sources licences asset"),
    "node": ("kg_nodes", "node_id", "name aliases type source asset"),
    "triple": ("triples", "triple_id", "origin source licence model_id semantic fluency score rank agreement flags"),
    "seed": ("relation_seeds", "seed_id", "relation_id head tail prompt"),
}
"""Table, column of the id, and displayed columns of each kind of source that is a row."""
EDGES = f"""
    SELECT DISTINCT ON (e.edge_id) e.*, h.name AS head, t.name AS tail
    FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
    WHERE {{condition}} ORDER BY e.edge_id, e.asset, head, tail LIMIT {MAX_ROWS}
"""
NO_EVIDENCE = "false"
IN_FILE = """
    e.source_kind = 'chunk' AND e.source_id IN (SELECT chunk_id FROM chunks WHERE source = $source AND asset = $asset)
    OR e.source_kind = 'node' AND e.source_id IN (SELECT node_id FROM kg_nodes WHERE source = $file)
"""
IN_CELL = """
    e.source_kind = 'table' AND (e.source_id = $table AND e.locator = $locator OR (e.source_id, e.locator) IN (
        SELECT (table_id, o.locator) FROM (SELECT table_id, unnest(origins) AS o FROM tables)
        WHERE o.table_id = $table AND o.source_locator = $locator))
"""
"""Evidence of a cell, also as a cell of joined tables."""
FILE_DOCUMENTS = f"""
    SELECT doc_id, min(title) AS title, count(*) AS chunks FROM chunks
    WHERE source = $source AND asset = $asset GROUP BY doc_id ORDER BY doc_id LIMIT {MAX_ROWS}
"""
FILE_NODES = f"""
    SELECT node_id, min(name) AS name FROM kg_nodes WHERE source = $id GROUP BY node_id ORDER BY node_id
    LIMIT {MAX_ROWS}
"""
FILE_TRIPLES = """
    SELECT count(*) AS n FROM triples WHERE origin = 'import' AND regexp_replace(source, ':[0-9]+$', '') = $id
"""
FILE_EDGES = "list_contains(list_transform(e.sources, lambda s: regexp_replace(s, ':[0-9]+$', '')), $id)"
MODEL_TRIPLES = "list_has_any(e.triple_ids, (SELECT list(triple_id) FROM triples WHERE model_id = $id))"
WRITTEN = """
    SELECT (SELECT count(*) FROM all_answers WHERE model_id = $id) AS answers,
           (SELECT count(DISTINCT triple_id) FROM triples WHERE model_id = $id) AS triples
"""


@dataclass
class Source:
    """A source: ``condition`` on evidence ``e`` with its parameters, and edges from which evidence is derived."""

    title: str
    facts: list[dict[str, str]]
    condition: str = NO_EVIDENCE
    parameters: dict[str, Any] = field(default_factory=dict)
    edges: Sequence[Row] = ()
    related: list[tuple[str, str]] = field(default_factory=list)
    texts: list[tuple[str | None, str]] = field(default_factory=list)
    grid: Grid | None = None


def read_source(reader: LakeReader, kind: str, identifier: str) -> Source:
    """A source of the lake; raises NotFound if there is none."""
    if kind in _READERS:
        source = _READERS[kind](reader, identifier)
    elif kind in KINDS:
        source = _read_row(reader, kind, identifier)
    else:
        kinds = ", ".join(sorted({*KINDS, *_READERS}))
        raise NotFound(f"{kind!r} is not a kind of source. Choose one of {kinds}.")
    if source is None:
        raise NotFound(f"The lake has no {kind} {identifier!r}.")
    return source


def _read_edges(reader: LakeReader, condition: str, **parameters: Any) -> list[Row]:
    return reader.rows(EDGES.format(condition=condition), **parameters)


def _read_row(reader: LakeReader, kind: str, identifier: str) -> Source | None:
    """A source that is a row of a table, or a document, which is several."""
    table, column, names = KINDS[kind]
    order = "ordinal, asset, chunk_id" if table == "chunks" else "ALL"
    rows = reader.rows(f'SELECT * FROM "{table}" WHERE {column} = $id ORDER BY {order} LIMIT {MAX_ROWS}', id=identifier)
    if not rows:
        return None
    ids = [row["chunk_id"] for row in rows] if table == "chunks" else [identifier]
    condition, parameters = id_condition("e.source_id", ids)
    source = Source("", _list_facts(rows, names.split()), condition, dict(parameters), texts=_list_texts(rows))
    match kind:
        case "edge":
            source.edges = _read_edges(reader, "e.edge_id = $id", id=identifier)
        case "node":
            source.edges = _read_edges(reader, "$id IN (e.head_id, e.tail_id)", id=identifier)
        case "triple":
            source.edges = _read_edges(reader, "list_contains(e.triple_ids, $id)", id=identifier)
        case "seed":
            source.edges = _read_seed_edges(reader, rows[0])
        case "table":
            source.grid = build_grid(rows[0], [])
    source.title = _title(rows[0], source.edges)
    source.related = _related_pages(reader, kind, rows, source.edges)
    return source


def _read_seed_edges(reader: LakeReader, seed: Row) -> list[Row]:
    """Edges of the triples that prompts from a seed found."""
    pairs = read_harvested(reader, [seed["relation_id"]], "s.parent_id IN (SELECT unnest($ids))", [seed["seed_id"]])
    ids = [row["triple_id"] for row in pairs]
    return _read_edges(reader, "list_has_any(e.triple_ids, $ids)", ids=ids) if ids else []


def _read_file(reader: LakeReader, identifier: str) -> Source | None:
    """A file of a corpus, whose id begins with the corpus, or of a graph."""
    corpus, _, name = identifier.partition(":")
    chunks = {"asset": f"corpus/{corpus}/chunks", "source": name}
    documents = reader.rows(FILE_DOCUMENTS, **chunks)
    nodes = reader.rows(FILE_NODES, id=identifier)
    edges = _read_edges(reader, FILE_EDGES, id=identifier)
    [triples] = reader.rows(FILE_TRIPLES, id=identifier)
    if not (documents or nodes or edges or triples["n"]):
        return None
    n_chunks = sum(row["chunks"] for row in documents)
    numbers = {"documents": len(documents), "chunks": n_chunks, "nodes": len(nodes), "edges": len(edges)}
    facts = {"file": name if documents else identifier, "corpus": corpus if documents else ""}
    facts |= {kind: _format_count(number) for kind, number in numbers.items()}
    facts["triples"] = f"{triples['n']:,}" if triples["n"] else ""
    related = [(link("source", "document", row["doc_id"]), row["title"] or row["doc_id"]) for row in documents]
    related += _link_graph(nodes, edges)
    return Source(facts["file"], [facts], f"({IN_FILE})", {**chunks, "file": identifier}, edges, related)


def _link_graph(nodes: Sequence[Row], edges: Sequence[Row]) -> list[tuple[str, str]]:
    links = [(link("source", "node", row["node_id"]), row["name"]) for row in nodes]
    return links + [(link("source", "edge", edge["edge_id"]), _format_edge(edge)) for edge in edges]


def _format_count(number: int) -> str:
    """A number of rows, of which at most ``MAX_ROWS`` were read; empty for 0."""
    return f"{number:,} or more" if number >= MAX_ROWS else str(number or "")


def _read_cell(reader: LakeReader, identifier: str) -> Source | None:
    """A cell, a column or the caption of a table."""
    table_id, _, locator = identifier.rpartition(":")
    tables = reader.rows("SELECT * FROM tables WHERE table_id = $id ORDER BY ALL LIMIT 1", id=table_id)
    text = read_cell(tables[0], locator) if tables else None
    if text is None:
        return None
    table = tables[0]
    caption = table["caption"] or table_id
    cell = EvidenceView({"locator": locator, "text": text, "evidence_id": ""}, 1, True, None, ())
    return Source(
        f"{caption}, {locator}",
        [{"text": text, "place": locator, "table": table_id, "benchmark": table["benchmark"]}],
        IN_CELL,
        {"table": table_id, "locator": locator},
        related=[(link("source", "table", table_id), caption), *_link_cells(origins_by_cell(table).get(locator, ()))],
        grid=build_grid(table | {"texts": texts_by_cell(table)}, [cell]),
    )


def _link_cells(cells: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(link("source", "cell", f"{table}:{locator}"), f"{table}, {locator}") for table, locator in cells]


def _read_model(reader: LakeReader, identifier: str) -> Source | None:
    """A model that was trained in the lake, or that wrote its answers or triples."""
    rows = reader.rows(f"SELECT * FROM models WHERE model_id = $id ORDER BY ALL LIMIT {MAX_ROWS}", id=identifier)
    [written] = reader.rows(WRITTEN, id=identifier)
    if not (rows or any(written.values())):
        return None
    facts = _list_facts(rows, ["name", "revision", "task", "vocabulary", "sentences", "accuracy", "asset"])
    facts.append({name: str(number or "") for name, number in written.items()})
    related = []
    if written["answers"]:
        related.append((link("questions", model=identifier), f"all {written['answers']:,} answers that it wrote"))
    relations = reader.rows(
        "SELECT relation_id, count(DISTINCT triple_id) AS n FROM triples "
        f"WHERE model_id = $id AND relation_id IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT {MAX_ROWS}",
        id=identifier,
    )
    for row in relations:
        related.append((link("relation", row["relation_id"]), f"relation {row['relation_id']}: {row['n']:,} triples"))
    edges = _read_edges(reader, MODEL_TRIPLES, id=identifier) if written["triples"] else []
    return Source(identifier, facts, edges=edges, related=related)


_READERS: dict[str, Callable[[LakeReader, str], Source | None]] = {
    "file": _read_file,
    "cell": _read_cell,
    "model": _read_model,
}
"""Readers of the kinds of sources that are no rows, or are identified otherwise."""


def _list_facts(rows: Sequence[Row], names: Sequence[str]) -> list[dict[str, str]]:
    """The distinct values of these columns."""
    facts: list[dict[str, str]] = []
    for row in rows:
        fact = {name: _format_fact(row[name]) for name in names}
        if fact not in facts:
            facts.append(fact)
    return facts


def _list_texts(rows: Sequence[Row]) -> list[tuple[str | None, str]]:
    """The texts of chunks with their ids, or the document of a node."""
    if "chunk_id" in rows[0]:
        return [(row["chunk_id"], row["text"]) for row in rows]
    document = rows[0].get("document")
    return [(None, document)] if document else []


def _format_fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _title(row: Row, edges: Sequence[Row]) -> str:
    if "head_id" in row and edges:
        return _format_edge(edges[0])
    if "head" in row:
        return _format_edge({"relation": row["relation_id"]} | row)
    names = ("title", "doc_id", "caption", "table_id", "name", "relation")
    return str(next(row[name] for name in names if row.get(name)))


def _format_edge(row: Row) -> str:
    return f"{row['head']} — {row['relation']} → {row['tail']}"


def _related_pages(reader: LakeReader, kind: str, rows: Sequence[Row], edges: Sequence[Row]) -> list[tuple[str, str]]:
    """Addresses and titles of pages that a source links to."""
    row = rows[0]
    if kind == "chunk":
        return [(link("source", "document", row["doc_id"]), "the whole document"), *_link_files([corpus_file(row)])]
    if kind == "document":
        return _link_files(corpus_file(chunk) for chunk in rows)
    if kind == "edge":
        links = [(link("source", "node", edge[f"{end}_id"]), edge[end]) for edge in edges for end in ("head", "tail")]
        links += [(link("source", "triple", triple), f"triple {triple[:12]}") for triple in row["triple_ids"]]
        return links + _link_files(list_files(row["sources"]))
    links = [(link("source", "edge", edge["edge_id"]), _format_edge(edge)) for edge in edges]
    if relation := row.get("relation_id"):
        links.append((link("relation", relation), f"relation {relation}"))
    if kind == "triple":
        links += _link_origins(reader, rows)
    return links + _link_files(list_files(source.get("source") for source in rows))


def _link_origins(reader: LakeReader, triples: Sequence[Row]) -> list[tuple[str, str]]:
    """The models and seeds that a triple comes from."""
    models = dict.fromkeys(triple["model_id"] for triple in triples if triple["model_id"])
    seeds = read_seeds(reader, triples).get(triples[0]["triple_id"], [])
    return [
        *((link("source", "model", model), f"model {model}") for model in models),
        *((link("source", "seed", seed["seed_id"]), f"seed {seed['head']} → {seed['tail']}") for seed in seeds),
    ]


def _link_files(files: Iterable[str]) -> list[tuple[str, str]]:
    return [(link("source", "file", name), f"file {name}") for name in dict.fromkeys(files)]
