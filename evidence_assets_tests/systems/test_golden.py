"""Each system's output on the small sample: another output without another version is a mistake, or a
version to raise.
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from evidence_assets import systems
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World

GOLDEN = Path(__file__).with_name("golden.json")


def hash_output(system: str, lake: Lake) -> str:
    """What the default variants of a system answer, and how many pieces of evidence of each kind they answer from.

    Scores are left out, whose last digits differ between machines.
    """
    rows: list[object] = []
    for place in sorted(v.key for v in variants_of(system) if v.is_loaded):
        predictions = lake.read("predictions", f"predictions/{place}").sort("benchmark", "question_id")
        rows.append((place, predictions.select("question_id", "answer", "status").rows()))
        evidence = lake.read("evidence", f"evidence/{place}").group_by("benchmark", "kind").len()
        rows.append((place, evidence.sort(pl.all()).rows()))
        triples = lake.read("triples", f"{place}/harvest").sort("relation_id", "origin", "rank")
        rows.append((place, triples.select("relation_id", "origin", "head", "tail").rows()))
    return content_id(rows)


@pytest.mark.parametrize("system", systems.list_systems())
def test_another_output_has_another_version(system: str, made_world: World) -> None:
    stated = json.loads(GOLDEN.read_text(encoding="utf-8"))[system]
    now = {"version": systems.load(system).version, "output": hash_output(system, Lake(made_world.root / "data_lake"))}
    assert now == stated, "raise VERSION in the system's package if the change is meant, and state both here"
