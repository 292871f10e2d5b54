"""Where lineage ends: the files, documents, cells, seeds and models behind evidence and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from evidence_assets.explorer.answer_view import AnswerView
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.evidence_view import EvidenceView
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import link
from evidence_assets.lake.catalogue import scan_sql
from evidence_assets.lake.lineage import DERIVED

MAX_ORIGINS = 8
"""Maximum origins of each kind that an answer lists."""
HARVESTED = """
    WITH edges AS (
        SELECT DISTINCT child_kind, child_id, parent_kind, parent_id FROM {lineage} WHERE relation = '{derived}'
    )
    SELECT DISTINCT t.child_id AS triple_id, s.parent_id AS seed_id
    FROM edges t
    JOIN edges c ON c.child_kind = 'candidate' AND c.child_id = t.parent_id AND c.parent_kind = 'prompt'
    JOIN edges s ON s.child_kind = 'prompt' AND s.child_id = c.parent_id AND s.parent_kind = 'seed'
    WHERE t.child_kind = 'triple' AND t.parent_kind = 'candidate' AND {condition}
    ORDER BY ALL
"""
"""Harvested triples and the seeds of the prompts that found them."""
HARVEST_TABLES = ("prompts", "candidate_tuples", "triples")
"""Tables of harvests, each with its lineage."""
TRIPLES_OF_EDGES = """
    SELECT e.edge_id, t.triple_id, t.asset, t.relation_id
    FROM (SELECT DISTINCT edge_id, unnest(triple_ids) AS triple_id FROM kg_edges
          WHERE edge_id IN (SELECT unnest($ids))) e
    JOIN triples t USING (triple_id) WHERE t.relation_id IS NOT NULL ORDER BY ALL
"""


def harvest_lineage(reader: LakeReader, relations: Iterable[str]) -> str:
    """SQL of the lineage of these relations' prompts, candidates and triples; no other files are opened."""
    assets = sorted({asset for table, asset in reader.lake.assets() if table in HARVEST_TABLES})
    paths = [reader.lake.path("lineage_edges", *names) for names in product(assets, sorted(set(relations)))]
    return scan_sql("lineage_edges", [path for path in paths if path.exists()])


def read_harvested(reader: LakeReader, relations: Iterable[str], condition: str, ids: Sequence[str]) -> list[Row]:
    """Pairs of a triple's and a seed's id in the harvests of these relations, that meet a condition on ``$ids``."""
    lineage = harvest_lineage(reader, relations)
    return reader.rows(HARVESTED.format(lineage=lineage, derived=DERIVED, condition=condition), ids=ids)


def read_seeds(reader: LakeReader, triples: Sequence[Row]) -> dict[str, list[Row]]:
    """The seeds behind harvested triples, by triple."""
    harvested = [row for row in triples if row["relation_id"] is not None]
    if not harvested:
        return {}
    ids = sorted({row["triple_id"] for row in harvested})
    relations = (row["relation_id"] for row in harvested)
    pairs = read_harvested(reader, relations, "t.child_id IN (SELECT unnest($ids))", ids)
    seeds = {
        row["seed_id"]: row
        for row in reader.rows(
            "SELECT seed_id, head, tail FROM relation_seeds WHERE seed_id IN (SELECT unnest($ids)) ORDER BY ALL",
            ids=sorted({row["seed_id"] for row in pairs}),
        )
    }
    by_triple: dict[str, list[Row]] = {}
    for row in pairs:
        if row["seed_id"] in seeds:
            by_triple.setdefault(row["triple_id"], []).append(seeds[row["seed_id"]])
    return by_triple


def read_edge_seeds(reader: LakeReader, edge_ids: Sequence[str]) -> dict[str, list[Row]]:
    """The seeds behind edges of a graph, by edge."""
    triples = reader.rows(TRIPLES_OF_EDGES, ids=edge_ids) if edge_ids else []
    by_triple = read_seeds(reader, triples)
    by_edge: dict[str, list[Row]] = {}
    for row in triples:
        by_edge.setdefault(row["edge_id"], []).extend(by_triple.get(row["triple_id"], []))
    return by_edge


def list_files(sources: Iterable[str | None]) -> list[str]:
    """Ids of the files that rows of a graph name as sources, without lines; a harvest is no file.

    >>> list_files(["a/graph.tsv:12", "a/graph.tsv:13", "knowledge/kbloom/harvest", None])
    ['a/graph.tsv']
    """
    files = (re.sub(r":\d+$", "", source) for source in sources if source and not source.startswith("knowledge/"))
    return list(dict.fromkeys(files))


def corpus_file(chunk: Row) -> str:
    """Id of the file of a chunk, as in lineage: its corpus and its source."""
    corpus = str(chunk["asset"]).removeprefix("corpus/").removesuffix("/chunks")
    return f"{corpus}:{chunk['source']}"


def edges_of(item: EvidenceView) -> list[str]:
    """Ids of the edges that evidence is derived from."""
    if item.row["source_kind"] != "edge":
        return []
    return list(dict.fromkeys([edge.edge_id for edge in item.walk] or [item.row["source_id"]]))


def list_origins(
    answer: AnswerView, seeds: Mapping[str, Sequence[Row]]
) -> dict[str, tuple[list[tuple[str, str]], int]]:
    """Pages of the origins of an answer by kind, those of used evidence first, and how many more there are.

    ``seeds``: Seeds by edge.
    """
    model = answer.prediction["model_id"]
    texts_by_kind: dict[str, dict[str, str]] = {"model": {model: model}}
    for item in sorted(answer.items, key=lambda item: not item.is_used):
        for kind, identifier, text in _origins_of(item, seeds):
            texts_by_kind.setdefault(kind, {}).setdefault(identifier, text)
    origins = {}
    for kind, texts in sorted(texts_by_kind.items()):
        links = [(link("source", kind, identifier), text) for identifier, text in texts.items() if identifier]
        if links:
            origins[kind] = (links[:MAX_ORIGINS], len(links[MAX_ORIGINS:]))
    return origins


def _origins_of(item: EvidenceView, seeds: Mapping[str, Sequence[Row]]) -> list[tuple[str, str, str]]:
    """Kind, id and text of the origins of a row of evidence whose source is in the lake."""
    source = item.source
    if source is None:
        return []
    if item.row["source_kind"] == "chunk":
        return [("document", source["doc_id"], source["title"]), ("file", corpus_file(source), source["source"])]
    if item.row["source_kind"] == "table":
        if item.origin_cells:
            return [("cell", f"{table}:{cell}", f"{table}, {cell}") for table, cell in item.origin_cells]
        cell = f"{item.row['source_id']}:{item.row['locator']}"
        return [("cell", cell, f"{source['title']}, {item.row['locator']}")] if item.row["locator"] else []
    sources = [name for edge in item.walk for name in edge.sources] or source["sources"]
    edge_seeds = [seed for edge_id in edges_of(item) for seed in seeds.get(edge_id, ())]
    return [("file", name, name) for name in list_files(sources)] + [
        ("seed", seed["seed_id"], f"{seed['head']} → {seed['tail']}") for seed in edge_seeds
    ]
