"""Seed files and what follows from them, proved by ticking the real sensors over real runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evidence_assets_tests.conftest import REPOSITORY
from evidence_assets_tests.defs.house import COLLECTION, RELATIONS, House, write_seed

PROFILE = """
extends: embedded
name: small
sample: small
harvesting: {training_steps: 60, n: 12, prompts: 2, sample_relations: []}
"""
QUESTIONS = "sample_mcqa|0"
HARVEST = "knowledge/kbloom/harvest"


def environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(root / "data_lake"))
    monkeypatch.setenv("DAGSTER_HOME", str(root / "dagster_home"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(root / "small.yaml"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose three relations were harvested because the sensors asked for it, and whose questions are answered."""
    root = tmp_path_factory.mktemp("house")
    (root / "dagster_home").mkdir()
    (root / "dagster_home" / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
    (root / "small.yaml").write_text(PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        environment(root, patch)
        for name, (prompt, pairs) in RELATIONS.items():
            write_seed(root / "data_lake", name, prompt, pairs)
        house = House.open(root)
        house.make("raw/sample")
        house.make("corpus/sample/chunks", partition="0")
        house.make("models/masked_lm", "raw/seeds")
        house.make("questions/mcqa", partition=QUESTIONS)
        asked = house.settle()
        assert {asset for tick in asked for asset in tick} >= {(HARVEST, name) for name in RELATIONS}
        house.make("knowledge/kbloom/biomedical", "knowledge/kbloom/commonsense", "scores/knowledge/kbloom")
        names = ["evidence", "chains", "predictions", "citations"]
        house.make(*(f"{name}/mcqa/by_relation" for name in names), partition=QUESTIONS)
        house.make("scores/mcqa/by_relation", partition="sample_mcqa")
        assert house.settle() == []
        house.instance.dispose()
    return root


@pytest.fixture
def house(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A copy of the lake and its instance that a test may change."""
    shutil.copytree(built, tmp_path / "house")
    environment(tmp_path / "house", monkeypatch)
    return House.open(tmp_path / "house")


def test_one_edit_asks_for_one_relation_then_for_what_stands_on_it(house: House) -> None:
    house.seed("leads_to", [["epilepsy", "tuberculosis"]])
    asked = house.settle()
    assert asked[0] == [("knowledge/seeds", "leads_to")]
    assert asked[1] == [(HARVEST, "leads_to")]
    assert asked[2] == [(COLLECTION, None), ("knowledge/kbloom/commonsense", None), ("scores/knowledge/kbloom", None)]
    print(asked)
