"""Paths as evidence in the small world: every path is in the graph."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from evidence_assets import systems
from evidence_assets.experiment.scores import graph_stages
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import variants_of
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


def test_a_graph_that_misleads_has_no_weight_and_the_scores_report_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = next(v for v in variants_of("ugat") if v.key == "mcqa/ugat").model_copy(update={"checks_graph": True})
    stages = {stage.table: stage for stage in build_stages(systems.load("ugat"), variant)}

    def run(table: str, partition: str) -> pl.DataFrame:
        return pl.DataFrame(stages[table].run(StageContext(lake, table, f"{table}/checked", partition)).rows)

    for signal, weight in ((0.5, 1.0), (0.4, 0.0)):
        monkeypatch.setattr(graph_stages, "development_signal", lambda questions, evidence, value=signal: value)
        scores = dict(run("scores", "sample_graph").select("metric", "value").iter_rows())
        assert (scores["graph_weight"], scores["graph_development_signal"]) == (weight, signal)
        assert (run("chains", PARTITION)["support"] > 0).any() == bool(weight)
