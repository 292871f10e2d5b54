"""Paths as evidence in the small world: every path is in the graph."""

from itertools import pairwise

import pytest

from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets_tests.conftest import World

PARTITION = "sample_graph|0"


@pytest.fixture(scope="module")
def lake(made_world: World) -> Lake:
    return Lake(made_world.root / "data_lake")


@pytest.mark.parametrize("variant", ("ugat", "ugat_published"))
def test_paths_follow_edges_of_the_graph_and_name_their_ends(lake: Lake, variant: str) -> None:
    rows = lake.read("evidence", f"evidence/mcqa/{variant}", PARTITION)
    assert rows.height and set(rows["kind"]) == {"path"}
    names = dict(lake.read("kg_nodes", "knowledge/sample/nodes").select("node_id", "name").iter_rows())
    edges = {row["edge_id"]: row for row in lake.read("kg_edges", "knowledge/sample/edges").iter_rows(named=True)}
    for locator, text in rows.select("locator", "text").iter_rows():
        walk = [(edges[edge]["head_id"], edges[edge]["tail_id"]) for edge, _ in parse_path_locator(locator)]
        assert all({*first} & {*second} for first, second in pairwise(walk)), "consecutive edges share a node"
        assert all(names[node].casefold() in text.casefold() for ends in walk for node in ends)
