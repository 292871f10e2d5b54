"""Page of a K-Bloom relation: its seeds, its weighted prompts, and its scored triples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.layers import Box, Curve, Drawing, draw_layers
from evidence_assets.explorer.origins import harvest_lineage
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, Query, link
from evidence_assets.lake.lineage import DERIVED

MAX_PER_COLUMN = 8
"""Maximum number of boxes in a column."""
TRIPLES = f"""
    WITH harvested AS (
        SELECT DISTINCT ON (origin, triple_id) * FROM triples WHERE relation_id = $id
        ORDER BY origin, triple_id, asset
    )
    SELECT harvested.*,
           (SELECT min(edge_id) FROM kg_edges WHERE list_contains(triple_ids, harvested.triple_id)) AS edge_id,
           EXISTS (SELECT 1 FROM triples t WHERE t.origin = 'import' AND lower(t.head) = lower(harvested.head)
                   AND lower(t.tail) = lower(harvested.tail) AND t.relation = harvested.relation) AS is_imported
    FROM harvested ORDER BY origin DESC, rank, triple_id LIMIT {PER_PAGE} OFFSET $offset
"""
ORIGINS = """
    WITH edges AS (
        SELECT DISTINCT child_kind, child_id, parent_kind, parent_id FROM {lineage} WHERE relation = '{derived}'
    )
    SELECT t.child_id AS triple_id, c.*, p.parent_id AS prompt_id, s.parent_id AS seed_id
    FROM edges t
    JOIN (SELECT DISTINCT candidate_id, head, tail, probability_rank FROM candidate_tuples
          WHERE starts_with(variant, $origin)) c ON c.candidate_id = t.parent_id AND t.parent_kind = 'candidate'
    LEFT JOIN edges p ON p.child_id = c.candidate_id AND p.child_kind = 'candidate' AND p.parent_kind = 'prompt'
    LEFT JOIN edges s ON s.child_id = p.parent_id AND s.child_kind = 'prompt' AND s.parent_kind = 'seed'
    WHERE t.child_kind = 'triple' AND t.child_id IN (SELECT unnest($ids))
    ORDER BY list_position($ids, triple_id), candidate_id, prompt_id, seed_id
"""
"""Tuples, prompts and seeds behind harvested triples; a baseline may have found the same triples."""


def relation(reader: LakeReader, query: Query, name: str) -> Page:
    seeds = reader.rows("SELECT * FROM relation_seeds WHERE relation_id = $id ORDER BY position", id=name)
    if not seeds:
        raise NotFound(f"The lake has no relation {name!r}.")
    prompts = reader.rows(
        "SELECT * FROM prompts WHERE relation_id = $id ORDER BY kept DESC, variant DESC, weight DESC, prompt_id",
        id=name,
    )
    [count] = reader.rows(
        "SELECT count(DISTINCT origin || triple_id) AS n FROM triples WHERE relation_id = $id", id=name
    )
    pager = Pager.of(query.get("page", ""), count["n"])
    triples = reader.rows(TRIPLES, id=name, offset=pager.offset)
    graph = draw_relation(reader, name, seeds, prompts, triples) if pager.number == 1 and triples else None
    values = {"name": name, "seeds": seeds, "prompts": prompts, "triples": triples, "pager": pager, "graph": graph}
    return Page("relation.html", f"Relation {name}", values)


def draw_relation(
    reader: LakeReader, relation: str, seeds: Sequence[Row], prompts: Sequence[Row], triples: Sequence[Row]
) -> Drawing:
    """The best triples of the first harvest, and the tuples, prompts and seeds behind them.

    ``triples``: Harvested triples of the relation, best first.
    """
    origin = triples[0]["origin"]
    best = [row for row in triples if row["origin"] == origin][:MAX_PER_COLUMN]
    rows = _read_origins(reader, relation, best)
    prompt_ids = {row["prompt_id"] for row in rows}
    used_prompts = [row for row in prompts if row["prompt_id"] in prompt_ids]
    columns = {
        "seed_id": {row["seed_id"]: _format_pair(row) for row in seeds},
        "prompt_id": {row["prompt_id"]: f"{row['text']} ({row['weight']:.2f})" for row in used_prompts},
        "candidate_id": {row["candidate_id"]: "{head}, {tail} (rank {probability_rank})".format(**row) for row in rows},
        "triple_id": {row["triple_id"]: _format_pair(row) for row in best},
    }
    boxes = _build_boxes(columns.values())
    curves = {Curve(row[start], row[end]): None for row in rows for start, end in pairwise(columns)}
    return draw_layers(
        f"Seeds, prompts, tuples and triples of {relation}",
        f"The best triples of {origin} with their scores, their tuples with ranks by likelihood, the prompts with "
        f"their weights, and the seeds; at most {MAX_PER_COLUMN} of each are drawn.",
        ("Seeds", "Prompts", "Tuples", "Triples"),
        boxes,
        list(curves),
    )


def _build_boxes(columns: Iterable[Mapping[str, str]]) -> list[Box]:
    """At most MAX_PER_COLUMN boxes of each column; seeds and triples link to their pages."""
    boxes = []
    for column, (kind, texts) in enumerate(zip(("seed", "", "", "triple"), columns, strict=True)):
        for key, text in islice(texts.items(), MAX_PER_COLUMN):
            address = link("source", kind, key) if kind else ""
            boxes.append(Box(key, column, text, address, "used" if kind == "triple" else ""))
    return boxes


def _read_origins(reader: LakeReader, relation: str, triples: Sequence[Row]) -> list[Row]:
    """The tuples, prompts and seeds behind triples of one harvest."""
    lineage = harvest_lineage(reader, [relation])
    sql = ORIGINS.format(lineage=lineage, derived=DERIVED)
    return reader.rows(sql, origin=triples[0]["origin"], ids=[row["triple_id"] for row in triples])


def _format_pair(row: Row) -> str:
    """Head and tail of a seed or triple, with the score of a triple."""
    score = row.get("score")
    return f"{row['head']} → {row['tail']}" + ("" if score is None else f" ({score:.3g})")
