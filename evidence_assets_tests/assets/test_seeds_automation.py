"""Seed files and what follows from them, proved by ticking the real sensors over real runs.

The sensors are evaluated by the function that the code server answers the daemon with; what they ask for is queued as
runs and executed. Nothing is stubbed: the model is the sample's own, trained for a few hundred steps.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from evidence_assets.assets import seeds
from evidence_assets_tests.assets.automation_world import COLLECTION, RELATIONS, House, write_seed
from evidence_assets_tests.conftest import REPOSITORY, SMALL_PROFILE

PROFILE = SMALL_PROFILE.replace("n: 20,", "n: 12, sample_relations: [],")
QUESTIONS = "sample_mcqa|0"
SEEDS, HARVEST = "knowledge/seeds", "knowledge/kbloom/harvest"
GRAPH = [("knowledge/sample/edges", None), ("knowledge/sample/nodes", None)]
MERGED = [(COLLECTION, None), ("knowledge/kbloom/commonsense", None), ("scores/knowledge/kbloom", None)]


def environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(root / "data_lake"))
    monkeypatch.setenv("DAGSTER_HOME", str(root / "dagster_home"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(root / "small.yaml"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose three relations were harvested at the sensors' request, and whose questions are answered."""
    root = tmp_path_factory.mktemp("house")
    (root / "dagster_home").mkdir()
    (root / "dagster_home" / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
    (root / "small.yaml").write_text(PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        environment(root, patch)
        for name, (prompt, pairs) in RELATIONS.items():
            write_seed(root / "data_lake", name, prompt, pairs)
        house = House.open(root, questions=True)
        house.make("raw/sample")
        house.make("corpus/sample/chunks", "corpus/sample/embeddings", partition="0")
        house.make("corpus/sample/index", "models/masked_lm", "raw/seeds", "knowledge/sample/triples")
        house.make("questions/mcqa", partition=QUESTIONS)
        asked = house.settle()
        assert asked == [[(SEEDS, name) for name in sorted(RELATIONS)], [(HARVEST, name) for name in sorted(RELATIONS)]]
        house.make(*(name for name, _ in [*MERGED, *GRAPH]), "knowledge/sample/csr")
        names = ["evidence", "chains", "predictions", "citations"]
        house.make(*(f"{name}/mcqa/by_relation" for name in names), partition=QUESTIONS)
        house.make("scores/mcqa/by_relation", partition="sample_mcqa")
        assert house.settle() == []
        house.instance.dispose()
    return root


@pytest.fixture
def copy(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the lake and of its instance that a test may change."""
    shutil.copytree(built, tmp_path / "house")
    environment(tmp_path / "house", monkeypatch)
    return tmp_path / "house"


@pytest.fixture
def house(copy: Path) -> House:
    return House.open(copy)


def test_one_edit_asks_for_one_relation_then_for_what_stands_on_it_each_once(copy: Path) -> None:
    house = House.open(copy, questions=True)
    house.seed("leads_to", [["epilepsy", "tuberculosis"]], prompt="<HEAD> can respond well to <TAIL>")
    assert house.tick() == [(SEEDS, "leads_to")]
    assert house.stale() == set()
    house.work()
    assert house.stale() == {(HARVEST, "leads_to"), *MERGED}, "of the relations, only the edited one is stale"
    asked = house.settle()
    by_relation = "mcqa/by_relation"
    assert asked == [
        [(HARVEST, "leads_to")],
        MERGED,
        [
            *((f"{table}/{by_relation}", QUESTIONS) for table in ("chains", "citations", "evidence")),
            *GRAPH,
            (f"predictions/{by_relation}", QUESTIONS),
        ],
        [("knowledge/sample/csr", None), (f"scores/{by_relation}", "sample_mcqa")],
    ]
    assert house.stale() == set()
    chains = house.last_metadata(f"chains/{by_relation}", QUESTIONS)
    assert chains["rows_reused"] > 0 and chains["rows_computed"] > 0, "only questions whose evidence changed"
    evidence = house.lake.read("evidence", f"evidence/{by_relation}")
    touched = evidence.filter(pl.col("text").str.contains(" leads_to "))["question_id"].unique()
    made = house.lake.read("chains", f"chains/{by_relation}")
    assert chains["rows_computed"] == made.filter(pl.col("question_id").is_in(touched.to_list())).height


def test_the_same_content_with_another_time_or_layout_asks_for_nothing(house: House) -> None:
    path = house.seed("leads_to")
    os.utime(path, (1, 1))
    assert house.tick() == []
    path.write_text("# a remark\n" + path.read_text().replace("collection: biomedical", "collection:   biomedical"))
    assert house.tick() == []


@pytest.mark.long
def test_a_new_file_becomes_a_partition_and_is_merged_once(house: House) -> None:
    before = house.runs(COLLECTION)
    house.seed("brings", [["febuxostat", "gout"]])
    asked = house.settle(MERGED)
    assert asked[0] == [(SEEDS, "brings"), ("raw/seeds", None)]
    assert asked[1:] == [[(HARVEST, "brings")], MERGED]
    assert house.partitions() == {*RELATIONS, "brings"}
    assert house.runs(COLLECTION) == before + 1
    assert house.triples(COLLECTION, "brings") == house.triples(HARVEST, "brings") != []


@pytest.mark.long
def test_a_deleted_file_takes_its_partition_and_its_triples_along_and_may_come_back(house: House) -> None:
    there = house.triples(HARVEST, "leads_to")
    assert there
    path = house.seed("leads_to")
    path.unlink()
    assert house.settle(MERGED) == [[("raw/seeds", None)], MERGED]
    assert house.partitions() == set(RELATIONS) - {"leads_to"}
    assert not [key for key in house.stale() if "leads_to" in key], "nothing is left that could be stale"
    house.make("knowledge/sample/edges")
    assert "leads_to" not in set(house.lake.read("kg_edges", "knowledge/sample/edges")["relation"])
    for table in ("relation_seeds", "prompts", "candidate_tuples", "triples"):
        assert "leads_to" not in set(
            house.lake.read(table).get_column("relation" if table == "triples" else "relation_id")
        )
    house.seed("leads_to")
    asked = house.settle(MERGED)
    assert asked == [[(SEEDS, "leads_to"), ("raw/seeds", None)], [(HARVEST, "leads_to")], MERGED]
    assert house.triples(COLLECTION, "leads_to") == there


@pytest.mark.long
def test_what_changed_while_no_daemon_ran_is_found_by_one_that_knows_nothing(house: House) -> None:
    house.seed("leads_to", [["epilepsy", "tuberculosis"]])
    house.seed("leads_to", [["epilepsy", "hiv"]])
    house.seed("may_treat", [["colchicine", "gout"]])
    later = House.open(house.root)
    assert later.tick() == [(SEEDS, "leads_to"), (SEEDS, "may_treat")]
    later.work()
    latest = House.open(house.root)
    assert latest.settle(MERGED) == [[(HARVEST, "leads_to"), (HARVEST, "may_treat")], MERGED]


def test_a_bad_file_fails_its_check_by_file_line_and_field_and_the_others_go_on(house: House) -> None:
    there = house.triples(HARVEST, "leads_to")
    house.seed("leads_to", prompt="<HEAD> can lead to nothing")
    house.seed("may_treat", [["colchicine", "gout"]])
    (house.root / "data_lake/raw/seeds/broken.yaml").write_text("id: broken\npairs: [[a, '']]\n")
    asked = house.settle(MERGED)
    assert asked[0] == [(SEEDS, "may_treat"), ("raw/seeds", None)]
    assert asked[1][0] == (HARVEST, "may_treat")
    passed, wrong = house.check("seed_files", "raw/seeds")
    assert not passed
    assert "leads_to.yaml:3: prompt: the prompt has no <TAIL>" in wrong
    assert "broken.yaml:1: collection: is missing" in wrong
    assert "broken" not in house.partitions(), "a file that was never good is no partition"
    assert house.triples(HARVEST, "leads_to") == there, "one that was keeps what it had"
    house.seed("leads_to")
    (house.root / "data_lake/raw/seeds/broken.yaml").unlink()
    assert ("raw/seeds", None) in house.tick()
    house.work()
    assert house.check("seed_files", "raw/seeds") == (True, "nothing")


def test_weights_that_are_no_numbers_fail_the_relation(house: House) -> None:
    from safetensors.torch import load_file, save_file

    weights = house.lake.index_folder("models/masked_lm") / "model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor * float("nan") for name, tensor in tensors.items()}, weights, metadata={"format": "pt"})
    there = house.triples(HARVEST, "leads_to")
    events = house.make(HARVEST, partition="leads_to", succeeds=False)
    [failure] = [event for event in events if event.is_step_failure]
    assert "sample-masked-lm yields NaN" in failure.step_failure_data.error_display_string
    assert house.triples(HARVEST, "leads_to") == there


def test_the_sample_is_put_in_place_once_and_a_lake_holds_so_many_relations(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = house.root / "with_sample.yaml"
    profile.write_text(SMALL_PROFILE.replace("n: 20,", "n: 20, sample_relations: [may_treat, may_cause],"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(profile))
    rendered = house.lake.raw / "sample/seeds"
    (rendered / "may_cause.yaml").write_text(house.seed("may_cause", [["hiv", "aids"]]).read_text())
    (house.lake.raw / "seeds/may_cause.yaml").unlink()
    own = (house.lake.raw / "seeds/may_treat.yaml").read_text()
    assert set(seeds.read_seeds(house.lake).relations) == {*RELATIONS, "may_cause"}
    assert (house.lake.raw / "seeds/may_treat.yaml").read_text() == own, "a file of the user's is never replaced"
    (house.lake.raw / "seeds/may_cause.yaml").unlink()
    assert set(seeds.read_seeds(house.lake).relations) == set(RELATIONS), "what was deleted stays deleted"
    monkeypatch.setattr(seeds, "MOST", 2)
    found = seeds.read_seeds(house.lake)
    assert len(found.relations) == 2 and "at most 2 relations" in str(found.errors[0])
