"""Two tiny language models answer the same questions, each in separate assets."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from evidence_assets.lake import connect
from evidence_assets.lake.lineage import trace
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.models.tiny import make_causal

VARIANT, PARTITION = "table/without_explanations", "sample_claims|0"
TABLES = ("chains", "predictions", "citations")
FIRST, SECOND = VARIANT, f"{VARIANT}/tiny_b"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    folder = tmp_path_factory.mktemp("two")
    generators = ", ".join(
        f"tiny_{letter}: {{backend: transformers, name: '{make_causal(folder / letter, seed)}'}}"
        for letter, seed in (("a", 1), ("b", 5))
    )
    lines = ["name: two", "presets: [ucret_ablation]", f"generators: {{{generators}}}"]
    with small_world(folder / "world", lines) as small:
        small.make("raw/sample")
        small.make("questions/table", partition=PARTITION)
        small.make("tables", partition=PARTITION.partition("|")[0])
        small.make(f"evidence/{VARIANT}", partition=PARTITION)
        small.make(*(f"{table}/{FIRST}" for table in TABLES), partition=PARTITION)
        yield small


def test_the_second_model_overwrites_nothing_of_the_first(world: SmallWorld) -> None:
    before = world.lake.path("predictions", f"predictions/{FIRST}", PARTITION).read_bytes()
    world.make(*(f"{table}/{SECOND}" for table in TABLES), partition=PARTITION)
    assert world.lake.path("predictions", f"predictions/{FIRST}", PARTITION).read_bytes() == before
    first, second = (world.rows("predictions", f"predictions/{place}") for place in (FIRST, SECOND))
    assert set(first["question_id"]) == set(second["question_id"])
    assert not set(first["prediction_id"]) & set(second["prediction_id"])
    models = {row["model_id"] for row in world.rows("models", f"predictions/{SECOND}").to_dicts()}
    assert set(second["model_id"]) == models and models != set(first["model_id"])


def test_every_row_has_its_model_revision_cost_and_stop_reason(world: SmallWorld) -> None:
    rows = world.rows("predictions", f"predictions/{FIRST}").filter(pl.col("status") != "failed")
    assert rows.height and set(rows["finish_reason"]) == {"stop"}
    assert (rows["tokens_in"] > 100).all() and (rows["tokens_out"] > 0).all()
    with connect(world.lake.root) as connection:
        edges = {(node.kind, node.relation) for node in trace(connection, rows["prediction_id"][0]).next}
    assert ("model", "was_generated_by") in edges
