"""Page of a K-Bloom relation: its seeds, its weighted prompts, and its scored triples."""

from __future__ import annotations

from collections.abc import Mapping

from evidence_assets.explorer.lake_reader import PageReader
from evidence_assets.explorer.pages import PER_PAGE, NotFound, Page, Pager
from evidence_assets.explorer.relation_graph import draw_relation


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
