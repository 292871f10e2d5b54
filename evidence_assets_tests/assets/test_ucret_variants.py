"""Every variant of UCRET and UCRET-JS that YAML declares, made once in a small world: cells, answers, scores, lineage.

Of the grids all evidence is made, and of each grid one variant answers, as what answers them is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl
import pytest

from evidence_assets.experiment.variants import variants_of
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world

PRESETS = ("ucret_main", "ucret_ablation", "ucret_js", "ucret_grids", "ucret_js_grids", "ucret_bridge")
CLAIMS, TABLES = "sample_claims", "sample_tables"
DECLARED = sorted(v.name for v in variants_of("ucret"))
GRIDS = {v.name for v in variants_of("ucret") if {"ucret_grids", "ucret_js_grids"} & set(v.presets)}
ANSWERED = sorted({*DECLARED} - GRIDS | {"ucret_k3", "ucret_js_eta20"})
ALSO_ASKED = ("ucret", "ucret_js", "ucret_js_without_explanations", "ucret_bridge")


def _keys(names: list[str] | tuple[str, ...], *tables: str) -> list[str]:
    return [f"{table}/table/{name}" for name in names for table in tables]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    lines = ["name: small", f"presets: [{', '.join(PRESETS)}]"]
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("ucret"), lines, patch) as world:
        world.make("raw/sample")
        world.make("corpus/sample/chunks", "corpus/sample/embeddings", partition="0")
        world.make("corpus/sample/index")
        for benchmark, selected, answered in ((CLAIMS, DECLARED, ANSWERED), (TABLES, ALSO_ASKED, ALSO_ASKED)):
            world.make("tables", partition=benchmark)
            world.make("questions/table", partition=f"{benchmark}|0")
            keys = [*_keys(selected, "evidence"), *_keys(answered, "chains", "predictions")]
            world.make(*keys, *_keys(ALSO_ASKED, "citations"), partition=f"{benchmark}|0")
        world.make(*_keys(ALSO_ASKED, "scores"), partition=CLAIMS)
        yield world


def test_what_is_declared_and_opted_in() -> None:
    grid = [
        f"ucret_theta{theta}_tau{tau}" for theta in (55, 60, 65) for tau in (20, 25, 30) if (theta, tau) != (60, 25)
    ]
    js = ["ucret_js_eta20", "ucret_js_eta40", "ucret_js_temperature02", "ucret_js_temperature05"]
    ablations = ["bidirectional", "jaccard_only", "keep_all", "without_explanations", "ucret_js_without_explanations"]
    main = ["ucret", "ucret_published", "ucret_js", "ucret_js_published", "ucret_bridge"]
    assert sorted(DECLARED) == sorted([*grid, *js, *ablations, *main, "ucret_k3", "ucret_k4"])


@pytest.mark.long
@pytest.mark.parametrize("name", DECLARED)
def test_every_variant_gives_cells_and_an_answer_for_each_claim(made: SmallWorld, name: str) -> None:
    evidence = made.rows("evidence", f"evidence/table/{name}")
    questions = made.rows("questions", "questions/table").filter(pl.col("benchmark") == CLAIMS)
    if name in ANSWERED:
        predictions = made.rows("predictions", f"predictions/table/{name}").filter(pl.col("benchmark") == CLAIMS)
        assert set(predictions["question_id"]) == set(questions["question_id"])
        assert "failed" not in set(predictions["status"])
    own = evidence.filter(pl.col("benchmark") == CLAIMS)
    assert set(own["question_id"]) == set(questions["question_id"])
    assert set(own["kind"]) == ({"column", "cell", "caption"} | ({"chunk"} if name == "ucret_bridge" else set()))


@pytest.mark.long
def test_settings_of_a_grid_reach_the_selection(made: SmallWorld) -> None:
    def rules(name: str) -> list[str]:
        return made.rows("evidence", f"evidence/table/{name}").sort("question_id", "locator")["why"].to_list()

    assert rules("ucret_theta65_tau30") != rules("ucret_theta55_tau20")
    assert rules("ucret_js_temperature02") != rules("ucret_js_published")


@pytest.mark.long
def test_without_explanations_no_chain_is_written_and_answers_rest_on_the_cells(made: SmallWorld) -> None:
    for name, with_chains in (
        ("without_explanations", "ucret_published"),
        ("ucret_js_without_explanations", "ucret_js_published"),
    ):
        assert made.rows("chains", f"chains/table/{name}").height == 0
        claims = pl.col("benchmark") == CLAIMS
        alone = made.rows("predictions", f"predictions/table/{name}").filter(claims).sort("question_id")
        beside = made.rows("predictions", f"predictions/table/{with_chains}").filter(claims).sort("question_id")
        # The extractive reasoner has no more to say for having said it at length.
        assert alone["answer"].to_list() == beside["answer"].to_list()
        assert not set(alone["prediction_id"]) & set(beside["prediction_id"])
        edges = made.rows("lineage_edges", f"predictions/table/{name}")
        assert {"evidence", "question"} == set(edges["parent_kind"])


@pytest.mark.long
def test_the_bridge_brings_passages_that_are_marked_as_outside(made: SmallWorld) -> None:
    rows = made.rows("evidence", "evidence/table/ucret_bridge")
    outside = rows.filter(pl.col("kind") == "chunk")
    assert outside.height and {json.loads(why)["rule"] for why in outside["why"]} == {"outside"}
    assert "outside" not in {json.loads(why)["column"] for why in rows.filter(pl.col("kind") == "cell")["why"]}
    cells = rows.filter(pl.col("kind") == "cell").group_by("question_id").agg(pl.col("rank").max().alias("last"))
    later = outside.join(cells, on="question_id")
    assert (later["rank"] > later["last"]).all()


@pytest.mark.long
@pytest.mark.parametrize("name", ALSO_ASKED)
def test_scores_are_made_of_the_answers(made: SmallWorld, name: str) -> None:
    scores = {row["metric"]: row for row in made.rows("scores", f"scores/table/{name}").to_dicts()}
    assert scores["accuracy"]["n"] > 0
    assert ("citations_verified_share" in scores) == ("without" not in name)
    assert {f"f1:{label}" for label in ("SUPPORTS", "REFUTES")} <= set(scores)
