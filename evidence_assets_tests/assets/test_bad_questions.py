"""Bad question files: the asset reports file, line and field and stores nothing."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from evidence_assets.assets.benchmark import Questions
from evidence_assets.benchmarks import declared_benchmarks as benchmark
from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.benchmarks.official.contract import write_files

MEDMCQA = {"question": "Which?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": 1}


def load(lake: Lake, other_settings: pytest.MonkeyPatch, content: bytes) -> dg.ExecuteInProcessResult:
    """Materialize the questions of a benchmark with this file."""
    write_files(lake.raw / "mine", {"dev.json": content})
    declared_benchmark = Benchmark(name="mine", task="mcqa", reader="medmcqa", path="mine", split="dev")
    other_settings.setattr(benchmark, "all_benchmarks", lambda folder=None: {"mine": declared_benchmark})
    definitions = Questions().build_defs(dg.ComponentTree.for_test().load_context)
    return materialize(lake, definitions, "questions/mcqa", partition_key="mine|0")


def lines(*rows: dict[str, object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(number: int, **changes: object) -> dict[str, object]:
    return MEDMCQA | {"id": f"m{number}"} | changes


GOOD = row(1)


def test_a_bad_file_is_reported_and_nothing_is_stored(lake: Lake, other_settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"dev\.json:3: source_id: 'm1' occurs twice; an id must be unique across all files"
    ):
        load(lake, other_settings, lines(GOOD, row(2), GOOD))
    assert lake.files("questions") == []


@pytest.mark.parametrize("official", [2, 3])
def test_an_unofficial_number_of_questions_is_reported(
    lake: Lake, other_settings: pytest.MonkeyPatch, official: int
) -> None:
    info = load_datasets()["medmcqa"].model_copy(update={"counts": {"dev": official}})
    other_settings.setitem(load_datasets(), "medmcqa", info)
    (event,) = load(lake, other_settings, lines(GOOD, row(2))).get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["in all shards"].value == 2
    note = metadata.get("official count")
    assert (note.value if note else "") == info.count_note("dev", 2)
    assert bool(note) == (official == 3)
