"""Page of a K-Bloom relation: its seeds, its weighted prompts, and its scored triples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.layers import Box, Curve, Layers, draw_layers
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager, link
from evidence_assets.lake.catalogue import scan_sql
from evidence_assets.lake.lineage import DERIVED

MAX_PER_COLUMN = 8
"""Maximum number of boxes in a column."""
PARENTS = """
    SELECT DISTINCT child_id, parent_id FROM {lineage}
    WHERE relation = $relation AND child_kind = $child AND parent_kind = $parent
          AND child_id IN (SELECT unnest($ids)) ORDER BY ALL
"""


def relation(reader: PageReader, query: Mapping[str, str], name: str) -> Page:
    seeds = reader.rows(
        "SELECT * FROM relation_seeds WHERE relation_id = $id ORDER BY position", ["relation_seeds"], id=name
    )
    if not seeds:
        raise NotFound(f"The lake has no relation {name!r}.")
    prompts = reader.rows(
        "SELECT * FROM prompts WHERE relation_id = $id ORDER BY kept DESC, variant DESC, weight DESC, prompt_id",
        ["prompts"],
        id=name,
    )
    [count] = reader.rows(
        "SELECT count(DISTINCT origin || triple_id) AS n FROM triples WHERE relation_id = $id", ["triples"], id=name
    )
    pager = Pager.of(query.get("page", ""), count["n"])
    triples = reader.rows(
        f"""
        WITH harvested AS (SELECT DISTINCT ON (origin, triple_id) * FROM triples WHERE relation_id = $id ORDER BY
               origin, triple_id, asset)
        SELECT harvested.*,
               (SELECT any_value(edge_id) FROM kg_edges WHERE list_contains(triple_ids, harvested.triple_id))
               AS edge_id,
               EXISTS (SELECT 1 FROM triples t WHERE t.origin = 'import' AND lower(t.head) = lower(harvested.head)
                       AND lower(t.tail) = lower(harvested.tail) AND t.relation = harvested.relation) AS is_imported
        FROM harvested ORDER BY origin DESC, rank, triple_id LIMIT {PER_PAGE} OFFSET {pager.offset}
        """,
        ["triples", "kg_edges"],
        id=name,
    )
    graph = draw_relation(reader, name, seeds, prompts, triples) if pager.number == 1 else None
    values = {"name": name, "seeds": seeds, "prompts": prompts, "triples": triples, "pager": pager, "graph": graph}
    return Page("relation.html", f"Relation {name}", values)


def draw_relation(
    reader: PageReader, relation: str, seeds: Sequence[Row], prompts: Sequence[Row], triples: Sequence[Row]
) -> Layers | None:
    """The best triples of the first harvest, and the tuples, prompts and seeds behind them; None if there are none.

    ``triples``: Harvested triples of the relation, best first.
    """
    if not triples:
        return None
    origin = triples[0]["origin"]
    best = {row["triple_id"]: row for row in [row for row in triples if row["origin"] == origin][:MAX_PER_COLUMN]}
    lineage = _lineage(reader, relation, sorted({row["asset"] for row in prompts}))
    tuple_curves = _read_parents(reader, lineage, "triple", "candidate", best)
    candidates = {
        row["candidate_id"]: row
        for row in _read_candidates(reader, [parent for _, parent in tuple_curves])
        if row["variant"].startswith(origin)  # a baseline may have found the same triple
    }
    prompt_curves = _read_parents(reader, lineage, "candidate", "prompt", candidates)
    prompt_rows = {row["prompt_id"]: row for row in prompts}
    linked_prompts = {parent: prompt_rows[parent] for _, parent in prompt_curves if parent in prompt_rows}
    seed_curves = _read_parents(reader, lineage, "prompt", "seed", linked_prompts)
    columns = (
        [
            Box(row["seed_id"], 0, f"{row['head']} → {row['tail']}", link("source", "seed", row["seed_id"]))
            for row in seeds
        ],
        [Box(key, 1, f"{row['text']} ({row['weight']:.2f})") for key, row in linked_prompts.items()],
        [
            Box(key, 2, f"{row['head']}, {row['tail']} (rank {row['probability_rank']})")
            for key, row in candidates.items()
        ],
        [
            Box(key, 3, f"{row['head']} → {row['tail']}{_score(row)}", link("source", "triple", key), "used")
            for key, row in best.items()
        ],
    )
    boxes = [box for column in columns for box in column[:MAX_PER_COLUMN]]
    curves = [Curve(parent, child) for child, parent in (*seed_curves, *prompt_curves, *tuple_curves)]
    return draw_layers(
        f"Seeds, prompts, tuples and triples of {relation}",
        f"The best triples of {origin} with their scores, their tuples with ranks by likelihood, the prompts with "
        f"their weights, and the seeds; at most {MAX_PER_COLUMN} of each are drawn.",
        ("Seeds", "Prompts", "Tuples", "Triples"),
        boxes,
        curves,
    )


def _score(row: Row) -> str:
    return "" if row["score"] is None else f" ({row['score']:.3g})"


def _lineage(reader: PageReader, relation: str, assets: Sequence[str]) -> str:
    """SQL subquery that selects the lineage of the relation's harvests; other files of the lake are not opened."""
    lake = reader.lake_reader.lake
    paths = [lake.path("lineage_edges", asset, relation) for asset in assets]
    return scan_sql("lineage_edges", [path for path in paths if path.exists()])


def _read_parents(
    reader: PageReader, lineage: str, child: str, parent: str, ids: Mapping[str, Row]
) -> list[tuple[str, str]]:
    """Pairs of these rows and the rows that they were derived from, in the order of ``ids``."""
    rows = reader.rows(
        PARENTS.format(lineage=lineage), (), relation=DERIVED, child=child, parent=parent, ids=sorted(ids)
    )
    places = {identifier: place for place, identifier in enumerate(ids)}
    return sorted(((row["child_id"], row["parent_id"]) for row in rows), key=lambda pair: (places[pair[0]], pair[1]))


def _read_candidates(reader: PageReader, ids: Sequence[str]) -> list[Row]:
    """These tuples, in the order of ``ids``."""
    rows = reader.rows(
        "SELECT DISTINCT ON (candidate_id) * FROM candidate_tuples WHERE candidate_id IN (SELECT unnest($ids)) "
        "ORDER BY candidate_id",
        ["candidate_tuples"],
        ids=sorted(set(ids)),
    )
    places = {identifier: place for place, identifier in reversed(list(enumerate(ids)))}
    return sorted(rows, key=lambda row: places[row["candidate_id"]])
