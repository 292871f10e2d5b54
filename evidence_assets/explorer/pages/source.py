"""Page of a source: its content, the evidence taken from it, and the answers that depend on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.drawing import build_grid
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, link
from evidence_assets.reasoning.tasks import CAPTION

MAX_ROWS = 1_000
"""Maximum rows of evidence, or chunks of a document, that a page reads; the page reports if there are more."""
FROM_EDGES = """evidence_id IN (SELECT child_id FROM lineage_edges WHERE child_kind = 'evidence'
    AND parent_kind = 'edge' AND parent_id IN (SELECT unnest($ids)))"""

_CELL_LOCATION = re.compile(rf"(?:r(?P<line>\d+))?c(?P<column>\d+)|{CAPTION}")


@dataclass
class SourceView:
    """A source, and the SQL condition of the evidence taken from it; empty for sources without evidence."""

    title: str
    facts: dict[str, Any]
    texts: list[Row] = field(default_factory=list)
    grid: Any = None
    links: list[tuple[str, str]] = field(default_factory=list)
    """Addresses and titles of related pages."""
    condition: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ("evidence",)


def source(reader: PageReader, query: Mapping[str, str], kind: str, identifier: str) -> Page:
    if kind not in _KINDS:
        raise NotFound(f"{kind!r} is not a kind of source. Choose one of {', '.join(_KINDS)}.")
    source_view = _KINDS[kind](reader, identifier)
    values: dict[str, Any] = {"kind": kind, "id": identifier, "source": source_view, "max_rows": MAX_ROWS}
    if source_view.condition:
        values |= _dependent_rows(reader, query, source_view)
    return Page("source.html", source_view.title, values)


def _dependent_rows(reader: PageReader, query: Mapping[str, str], source_view: SourceView) -> dict[str, Any]:
    evidence = reader.rows(
        'SELECT evidence_id, question_id, benchmark, selector, "option", rank, text, content_hash FROM evidence '
        f"WHERE {source_view.condition} LIMIT {MAX_ROWS + 1}",
        source_view.tables,
        **source_view.parameters,
    )
    has_more, evidence = len(evidence) > MAX_ROWS, sorted(evidence[:MAX_ROWS], key=_order)
    questions: dict[str, list[str]] = {}
    for row in sorted(evidence, key=lambda row: row["selector"]):
        questions.setdefault(row["selector"], []).append(row["question_id"])
    pager = Pager.of(query.get("page", ""), len(evidence))
    rows, dependent = evidence[pager.offset : pager.offset + PER_PAGE], _dependent_answers(reader, evidence)
    texts = reader.texts([row["question_id"] for row in (*rows, *dependent)])
    cited = reader.ids(
        "SELECT DISTINCT evidence_id FROM citations WHERE verdict = 'verified' AND evidence_id IN (SELECT "
        "unnest($ids))",
        ["citations"],
        ids=[row["evidence_id"] for row in rows],
    )
    return {
        "counts": {name: (len(ids), len(set(ids))) for name, ids in questions.items()},
        "has_more": has_more,
        "pager": pager,
        "rows": [
            row | {"question": texts.get(row["question_id"]), "cited": row["evidence_id"] in cited} for row in rows
        ],
        "dependent": [row | {"question": texts.get(row["question_id"])} for row in dependent],
    }


def _order(row: Row) -> tuple[Any, ...]:
    return row["rank"], row["benchmark"], row["question_id"], row["selector"], row["option"]


def _dependent_answers(reader: PageReader, evidence: list[Row]) -> list[Row]:
    """Answers that change without their citations, all of which are among these rows."""
    if not evidence:
        return []
    return reader.rows(
        """
        SELECT prediction_id, question_id, benchmark, replace(asset, 'counterfactuals/', '') AS variant,
               answer, without_cited
        FROM counterfactuals WHERE necessary AND len(cited) > 0 AND question_id IN (SELECT unnest($questions))
        AND list_has_all($facts, cited) ORDER BY ALL
        """,
        ["counterfactuals"],
        questions=sorted({r["question_id"] for r in evidence}),
        facts=sorted({r["content_hash"] for r in evidence}),
    )


def _from_chunks(ids: Sequence[str]) -> dict[str, Any]:
    """Condition of evidence from these chunks; constants let DuckDB skip files by their statistics."""
    names = {f"c{number:04d}": chunk for number, chunk in enumerate(ids)}
    return {"condition": f"source_id IN ({', '.join(f'${name}' for name in names)})", "parameters": names}


def _from_edges(ids: Sequence[str]) -> dict[str, Any]:
    """Condition of evidence that was derived from these edges."""
    return {"condition": FROM_EDGES, "parameters": {"ids": list(ids)}, "tables": ("evidence", "lineage_edges")}


def _read_row(reader: PageReader, table: str, column: str, identifier: str) -> Row:
    rows = reader.rows(f'SELECT * FROM "{table}" WHERE "{column}" = $id LIMIT 1', [table], id=identifier)
    return _require_rows(rows, table.rstrip("s"), identifier)[0]


def _require_rows(rows: list[Row], label: str, identifier: str) -> list[Row]:
    """The rows; raises NotFound if there are none."""
    if not rows:
        raise NotFound(f"The lake has no {label} {identifier!r}.")
    return rows


def _chunk(reader: PageReader, identifier: str) -> SourceView:
    row = _read_row(reader, "chunks", "chunk_id", identifier)
    return SourceView(
        row["title"] or row["doc_id"],
        {
            "document": row["doc_id"],
            "file": row["source"],
            "characters": f"{row['char_start']}–{row['char_end']}",
            "corpus": _owner(row),
        },
        texts=[{"head": "", "text": row["text"], "id": ""}],
        links=[(link("source", "document", row["doc_id"]), "the whole document")],
        condition="source_id = $id",
        parameters={"id": identifier},
    )


def _owner(row: Row) -> str:
    return str(row.get("asset", "")).removeprefix("corpus/").removesuffix("/chunks")


def _document(reader: PageReader, identifier: str) -> SourceView:
    sql = f"SELECT * FROM chunks WHERE doc_id = $id ORDER BY asset, ordinal LIMIT {MAX_ROWS}"
    rows = _require_rows(reader.rows(sql, ["chunks"], id=identifier), "document", identifier)
    return SourceView(
        rows[0]["title"] or identifier,
        {"document": identifier, "file": rows[0]["source"], "chunks": len(rows), "corpus": _owner(rows[0])},
        texts=[{"head": f"chunk {row['ordinal'] + 1}", "text": row["text"], "id": row["chunk_id"]} for row in rows],
        links=[(link("source", "file", rows[0]["source"]), "the whole file")],
        **_from_chunks([row["chunk_id"] for row in rows]),
    )


def _file(reader: PageReader, identifier: str) -> SourceView:
    documents = reader.rows(
        "SELECT doc_id, any_value(title) AS title, list(chunk_id) AS ids FROM chunks WHERE source = $id "
        f"GROUP BY doc_id ORDER BY doc_id LIMIT {MAX_ROWS}",
        ["chunks"],
        id=identifier,
    )
    sql = "SELECT count(*) AS n FROM triples WHERE source = $id OR starts_with(source, $id || ':')"
    [triples] = reader.rows(sql, ["triples"], id=identifier)
    if not triples["n"]:
        _require_rows(documents, "file", identifier)
    facts = {"file": identifier, "documents": len(documents), "imported triples": triples["n"]}
    if documents:
        links = [(link("source", "document", d["doc_id"]), d["title"] or d["doc_id"]) for d in documents[:PER_PAGE]]
        ids = [chunk for d in documents for chunk in d["ids"]][:MAX_ROWS]
        return SourceView(identifier, facts, links=links, **_from_chunks(ids))
    edges = reader.ids(
        "SELECT edge_id FROM kg_edges WHERE "
        f"len(list_filter(sources, s -> s = $id OR starts_with(s, $id || ':'))) > 0 LIMIT {MAX_ROWS}",
        ["kg_edges"],
        id=identifier,
    )
    return SourceView(identifier, facts, **_from_edges(edges))


def _table(reader: PageReader, identifier: str) -> SourceView:
    row = _read_row(reader, "tables", "table_id", identifier)
    return SourceView(
        row["caption"] or identifier,
        {"table": identifier, "benchmark": row["benchmark"], "rows": row["n_rows"], "columns": len(row["header"])},
        grid=build_grid(row, [], ()),
        condition="source_kind = 'table' AND source_id = $id",
        parameters={"id": identifier},
    )


def _cell(reader: PageReader, identifier: str) -> SourceView:
    """A cell, a column or the caption of a table."""
    table, _, locator = identifier.rpartition(":")
    row = _read_row(reader, "tables", "table_id", table)
    match = _CELL_LOCATION.fullmatch(locator)
    if match is None:
        raise NotFound(f"{identifier!r} is not a cell. Use TABLE:r<row>c<column>, TABLE:c<column> or TABLE:{CAPTION}.")
    line, column = match["line"], match["column"]
    locators = [locator] if line or not column else [f"r{i}{locator}" for i in range(row["n_rows"] + 1)]
    condition, parameters = "locator = $locator", dict[str, Any](id=table, locator=locator)
    if line:  # evidence that is a whole column has one line per cell
        condition = f"({condition} OR locator = $column AND string_split(\"text\", chr(10))[$line] <> '')"
        parameters |= {"column": f"c{column}", "line": int(line) + 1}
    return SourceView(
        f"{row['caption'] or table}, {locator}",
        {"table": table, "locator": locator},
        grid=build_grid(row, [{"locator": p, "evidence_id": locator} for p in locators], (locator,)),
        links=[(link("source", "table", table), "the whole table")],
        condition=f"source_kind = 'table' AND source_id = $id AND {condition}",
        parameters=parameters,
    )


def _edge(reader: PageReader, identifier: str) -> SourceView:
    row = _read_row(reader, "kg_edges", "edge_id", identifier)
    ends = [row["head_id"], row["tail_id"]]
    sql = "SELECT node_id, name FROM kg_nodes WHERE node_id IN (SELECT unnest($ids))"
    names = {node["node_id"]: node["name"] for node in reader.rows(sql, ["kg_nodes"], ids=ends)}
    head, tail = (str(names.get(end, end)) for end in ends)
    links = [(link("source", "node", end), name) for end, name in zip(ends, (head, tail), strict=True)]
    links += [(link("source", "triple", triple), f"triple {triple[:12]}") for triple in row["triple_ids"]]
    facts = {
        "head": head,
        "relation": row["relation"],
        "tail": tail,
        "sources": ", ".join(row["sources"]),
        "licence": ", ".join(row["licences"]),
    }
    return SourceView(f"{head} — {row['relation']} → {tail}", facts, links=links, **_from_edges([identifier]))


def _node(reader: PageReader, identifier: str) -> SourceView:
    row = _read_row(reader, "kg_nodes", "node_id", identifier)
    edges = reader.rows(
        """
        SELECT DISTINCT ON (e.edge_id) e.edge_id, e.relation, h.name AS head, t.name AS tail
        FROM kg_edges e JOIN kg_nodes h ON h.node_id = e.head_id JOIN kg_nodes t ON t.node_id = e.tail_id
        WHERE e.head_id = $id OR e.tail_id = $id ORDER BY e.edge_id LIMIT 200
        """,
        ["kg_edges", "kg_nodes"],
        id=identifier,
    )
    evidence = _from_edges([e["edge_id"] for e in edges])
    evidence["condition"] = f"({evidence['condition']} OR (source_kind = 'node' AND source_id = $id))"
    evidence["parameters"]["id"] = identifier
    return SourceView(
        row["name"],
        {"name": row["name"], "other names": ", ".join(row["aliases"]), "type": row["type"]},
        texts=[{"head": "", "text": row["document"], "id": ""}] if row["document"] else [],
        links=[(link("source", "edge", e["edge_id"]), f"{e['head']} — {e['relation']} → {e['tail']}") for e in edges],
        **evidence,
    )


def _triple(reader: PageReader, identifier: str) -> SourceView:
    sql = "SELECT DISTINCT ON (origin, source) * FROM triples WHERE triple_id = $id ORDER BY origin, source, asset"
    rows = _require_rows(reader.rows(sql, ["triples"], id=identifier), "triple", identifier)
    row = rows[0]
    edges = reader.ids("SELECT edge_id FROM kg_edges WHERE list_contains(triple_ids, $id)", ["kg_edges"], id=identifier)
    links = [(link("source", "edge", edge), f"edge {edge[:12]}") for edge in edges]
    facts: dict[str, Any] = {}
    for number, r in enumerate(rows, 1):
        scores = {name: r[name] for name in ("semantic", "fluency", "score", "rank", "agreement")}
        details = {"origin": r["origin"], "source": r["source"], "licence": r["licence"], "model": r["model_id"]}
        details |= {"flags": ", ".join(r["flags"])}
        details |= {name: f"{value:.4g}" for name, value in scores.items() if value is not None}
        facts |= {f"{name} ({number})" if len(rows) > 1 else name: value for name, value in details.items()}
    prompts = reader.rows(
        """
        SELECT DISTINCT p.text, p.weight FROM lineage_edges t
        JOIN lineage_edges c ON c.child_id = t.parent_id AND c.child_kind = 'candidate' AND c.parent_kind = 'prompt'
        JOIN prompts p ON p.prompt_id = c.parent_id
        WHERE t.child_id = $id AND t.child_kind = 'triple' AND t.parent_kind = 'candidate' ORDER BY p.weight
               DESC, p.text
        """,
        ["lineage_edges", "prompts"],
        id=identifier,
    )
    if prompts:
        facts["prompts"] = "; ".join(f"{p['text']} ({p['weight']:.3f})" for p in prompts)
    if row["relation_id"]:
        links.append((link("relation", row["relation_id"]), f"relation {row['relation_id']}"))
    return SourceView(f"{row['head']} — {row['relation']} → {row['tail']}", facts, links=links, **_from_edges(edges))


def _seed(reader: PageReader, identifier: str) -> SourceView:
    row = _read_row(reader, "relation_seeds", "seed_id", identifier)
    harvested = "FROM triples WHERE relation_id = $id"
    [count] = reader.rows(f"SELECT count(*) AS n {harvested}", ["triples"], id=row["relation_id"])
    edges = reader.ids(
        f"SELECT edge_id FROM kg_edges WHERE list_has_any(triple_ids, (SELECT list(triple_id) {harvested})) "
        f"LIMIT {MAX_ROWS}",
        ["kg_edges", "triples"],
        id=row["relation_id"],
    )
    facts = {"relation": row["relation_id"], "head": row["head"], "tail": row["tail"], "prompt": row["prompt"]}
    links = [(link("relation", row["relation_id"]), f"relation {row['relation_id']}")]
    title = f"seed: {row['head']}, {row['tail']}"
    return SourceView(title, facts | {"harvested triples": count["n"]}, links=links, **_from_edges(edges))


def _model(reader: PageReader, identifier: str) -> SourceView:
    models = reader.rows("SELECT * FROM models WHERE model_id = $id ORDER BY asset", ["models"], id=identifier)
    counts = reader.answers(
        "SELECT benchmark, variant, count(*) AS n FROM answers WHERE model_id = $id GROUP BY ALL ORDER BY ALL",
        id=identifier,
    )
    [triples] = reader.rows("SELECT count(*) AS n FROM triples WHERE model_id = $id", ["triples"], id=identifier)
    if not counts and not triples["n"]:
        _require_rows(models, "model", identifier)
    facts = {"model": identifier, "harvested triples": triples["n"], "answers": sum(row["n"] for row in counts)}
    facts |= {name: value for name, value in (models[0] if models else {}).items() if name not in facts | _ROW_COLUMNS}
    facts["assets"] = ", ".join(sorted({row["asset"] for row in models}))
    links = [
        (
            link("questions", benchmark=r["benchmark"], variant=r["variant"]),
            f"{r['variant']} on {r['benchmark']}: {r['n']:,} answers",
        )
        for r in counts
    ]
    return SourceView(identifier, facts, links=links)


_ROW_COLUMNS = dict.fromkeys(("model_id", "asset", "input_hash"))
_KINDS: dict[str, Callable[[PageReader, str], SourceView]] = {
    "chunk": _chunk,
    "document": _document,
    "file": _file,
    "table": _table,
    "cell": _cell,
    "edge": _edge,
    "node": _node,
    "triple": _triple,
    "seed": _seed,
    "model": _model,
}
