"""Every kind of system asked again without what its answers rest on, by one line of YAML: rows, lineage, scores."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

from evidence_assets.assets.system import variant_defs
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.conftest import World

VARIANTS = {v.place: v.model_copy(update={"counterfactual": True}) for v in variants()}
"""Some are asked again in the default graph as well, here all of them."""
ASKED_AGAIN = [
    ("mcqa/ugat", "sample_graph"),
    ("mcqa/ugat_published", "sample_graph"),
    ("mcqa/uscrake", "sample_mcqa"),
    ("table/ucret", "sample_claims"),
    ("table/ucret", "sample_tables"),
    ("search/fourstepfocus", "sample_skb"),
    ("graph/kg_graph", "sample_kgqa"),
]


@pytest.fixture(scope="module")
def lake(made_world: World, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The materialized world with counterfactuals of every kind of variant, and the scores made of them."""
    root = tmp_path_factory.mktemp("again") / "data_lake"
    shutil.copytree(made_world.root / "data_lake", root)
    lake = Lake(root)
    for place, benchmark in ASKED_AGAIN:
        for table, partition in (("counterfactuals", f"{benchmark}|0"), ("scores", benchmark)):
            materialize(lake, variant_defs(VARIANTS[place]), f"{table}/{place}", partition_key=partition)
    return lake


@pytest.mark.long
@pytest.mark.parametrize(("place", "benchmark"), ASKED_AGAIN)
def test_every_answer_is_asked_again_and_what_comes_of_it_is_scored(lake: Lake, place: str, benchmark: str) -> None:
    partition = f"{benchmark}|0"
    rows = lake.read("counterfactuals", f"counterfactuals/{place}", partition)
    predictions = lake.read("predictions", f"predictions/{place}", partition)
    answered = predictions.filter((pl.col("status") == "answered") & pl.col("answer").is_not_null())
    assert set(rows["prediction_id"]) == set(answered["prediction_id"])
    evidence = lake.read("evidence", f"evidence/{place}", partition)
    known = dict(evidence.group_by("question_id").agg("content_hash").iter_rows())
    for row in rows.to_dicts():
        assert set(row["needed"]) <= set(row["cited"]) <= set(known.get(row["question_id"], []))
        assert (row["necessary"] is None) == (row["without_cited"] is None) == (not row["cited"])
        if row["cited"]:
            assert row["necessary"] == (row["without_cited"] != row["answer"])
            assert row["sufficient"] == (row["only_cited"] == row["answer"])
    scores = lake.read("scores", f"scores/{place}", benchmark)
    value = dict(zip(scores["metric"], scores["value"], strict=True))
    for metric, column in (("evidence_necessity", "necessary"), ("evidence_sufficiency", "sufficient")):
        told = rows[column].drop_nulls()
        assert value[metric] == (pytest.approx(told.cast(pl.Float64).mean()) if len(told) else None)


def test_answers_that_cite_nothing_are_not_asked_again() -> None:
    with pytest.raises(BadInput, match="explains nothing and so cites nothing"):
        variant_defs(VARIANTS["mcqa/uscrake_no_chains"])
