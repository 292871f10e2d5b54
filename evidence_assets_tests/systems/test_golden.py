"""Golden outputs: the rows of a variant on the small sample change only together with the version of its system.

``UPDATE_GOLDEN=1 pytest evidence_assets_tests/systems/test_golden.py`` writes ``golden.json``: entries of new variants,
and those of systems whose version was raised. It does not write changed rows of the same version.
"""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from pydantic import BaseModel

from evidence_assets import systems
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets_tests.conftest import World

GOLDEN = Path(__file__).with_name("golden.json")
UPDATE_VARIABLE = "UPDATE_GOLDEN"
UPDATE = f"{UPDATE_VARIABLE}=1 .venv/bin/python -m pytest evidence_assets_tests/systems/test_golden.py"


class GoldenOutput(BaseModel):
    """The version of a system, and a hash of the rows of each of its default variants, by key."""

    version: str
    variants: dict[str, str]


def hash_rows(key: str, lake: Lake) -> str:
    """Hash of a variant's answers, harvested triples and counts of evidence by kind.

    Scores are excluded because their last digits differ between machines.
    """
    predictions = lake.read("predictions", f"predictions/{key}").sort("benchmark", "question_id")
    evidence = lake.read("evidence", f"evidence/{key}").group_by("benchmark", "kind").len()
    triples = lake.read("triples", f"{key}/harvest").sort("relation_id", "origin", "rank")
    return content_id(
        predictions.select("question_id", "answer", "status").rows(),
        evidence.sort(pl.all()).rows(),
        triples.select("relation_id", "origin", "head", "tail").rows(),
    )


def measure_output(system: str, lake: Lake) -> GoldenOutput:
    version = next(iter(systems.method_classes(system).values())).version
    keys = sorted(variant.key for variant in variants_of(system) if variant.is_loaded)
    return GoldenOutput(version=version, variants={key: hash_rows(key, lake) for key in keys})


def read_golden() -> dict[str, GoldenOutput]:
    entries = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return {system: GoldenOutput.model_validate(entry) for system, entry in entries.items()}


def find_changed_rows(system: str, actual: GoldenOutput, golden: GoldenOutput) -> list[str]:
    """Variants with other rows although the version of their system is the same."""
    if actual.version != golden.version:
        return []
    known_keys = actual.variants.keys() & golden.variants.keys()
    return [
        f"the rows of {key} changed: raise VERSION in evidence_assets/systems/{system}/__init__.py"
        for key in sorted(known_keys)
        if actual.variants[key] != golden.variants[key]
    ]


def find_outdated_entries(system: str, actual: GoldenOutput, golden: GoldenOutput) -> list[str]:
    """What the file lacks or has too much."""
    new_keys = sorted(actual.variants.keys() - golden.variants.keys())
    removed_keys = sorted(golden.variants.keys() - actual.variants.keys())
    problems = [f"new variant {key}: add its entry" for key in new_keys]
    problems += [f"{key} is not loaded by default any more: remove its entry" for key in removed_keys]
    if actual.version != golden.version:
        problems.append(f"{system} has version {actual.version}, not {golden.version}: update its entries")
    return problems


def write_golden(outputs: dict[str, GoldenOutput]) -> None:
    entries = {system: output.model_dump() for system, output in sorted(outputs.items())}
    GOLDEN.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


@pytest.mark.parametrize("system", systems.list_systems())
def test_changed_rows_have_a_changed_version(system: str, made_world: World) -> None:
    outputs = read_golden()
    actual = measure_output(system, Lake(made_world.root / "data_lake"))
    golden = outputs.get(system, GoldenOutput(version=actual.version, variants={}))
    changed = find_changed_rows(system, actual, golden)
    assert not changed, "\n".join(changed)
    if os.environ.get(UPDATE_VARIABLE):
        write_golden(outputs | {system: actual})
        return
    outdated = find_outdated_entries(system, actual, golden)
    assert not outdated, "\n".join([*outdated, f"This writes golden.json: {UPDATE}"])


BEFORE = GoldenOutput(version="1", variants={"table/a": "one", "table/b": "two"})


@pytest.mark.parametrize(
    ("actual", "changed", "outdated"),
    [
        (BEFORE, [], []),
        (
            GoldenOutput(version="1", variants={"table/a": "one", "table/b": "two", "table/c": "three"}),
            [],
            ["new variant table/c: add its entry"],
        ),
        (
            GoldenOutput(version="1", variants={"table/a": "other", "table/b": "two"}),
            ["the rows of table/a changed: raise VERSION in evidence_assets/systems/s/__init__.py"],
            [],
        ),
        (
            GoldenOutput(version="2", variants={"table/a": "other", "table/b": "two"}),
            [],
            ["s has version 2, not 1: update its entries"],
        ),
        (
            GoldenOutput(version="1", variants={"table/a": "one"}),
            [],
            ["table/b is not loaded by default any more: remove its entry"],
        ),
    ],
    ids=["equal", "new variant", "changed rows", "new version", "removed variant"],
)
def test_the_message_says_what_to_do(actual: GoldenOutput, changed: list[str], outdated: list[str]) -> None:
    assert find_changed_rows("s", actual, BEFORE) == changed
    assert find_outdated_entries("s", actual, BEFORE) == outdated
