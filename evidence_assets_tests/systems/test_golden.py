"""Golden outputs: the output of a system on the small sample changes only together with its version."""

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
    """Hash of a system's answers, harvested triples and counts of evidence by kind, over its default variants.

    Scores are excluded because their last digits differ between machines.
    """
    rows: list[object] = []
    for key in sorted(v.key for v in variants_of(system) if v.is_loaded):
        predictions = lake.read("predictions", f"predictions/{key}").sort("benchmark", "question_id")
        rows.append((key, predictions.select("question_id", "answer", "status").rows()))
        evidence = lake.read("evidence", f"evidence/{key}").group_by("benchmark", "kind").len()
        rows.append((key, evidence.sort(pl.all()).rows()))
        triples = lake.read("triples", f"{key}/harvest").sort("relation_id", "origin", "rank")
        rows.append((key, triples.select("relation_id", "origin", "head", "tail").rows()))
    return content_id(rows)


@pytest.mark.parametrize("system", systems.list_systems())
def test_a_changed_output_has_a_changed_version(system: str, made_world: World) -> None:
    expected = json.loads(GOLDEN.read_text(encoding="utf-8")).get(system)
    actual = {
        "version": next(iter(systems.method_classes(system).values())).version,
        "output": hash_output(system, Lake(made_world.root / "data_lake")),
    }
    assert actual == expected, "for changed rows, raise VERSION of the package; then put this into golden.json"
