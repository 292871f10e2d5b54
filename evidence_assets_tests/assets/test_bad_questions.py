"""Bad question files: the asset reports file, line and field and stores nothing."""

from __future__ import annotations

import gzip
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


def load(
    lake: Lake, other_settings: pytest.MonkeyPatch, reader: str, split: str, files: dict[str, bytes]
) -> dg.ExecuteInProcessResult:
    """Materialize the questions of a benchmark with these files."""
    write_files(lake.raw / "mine", files)
    declared_benchmark = Benchmark(name="mine", task="mcqa", reader=reader, path="mine", split=split)
    other_settings.setattr(benchmark, "all_benchmarks", lambda folder=None: {"mine": declared_benchmark})
    definitions = Questions().build_defs(dg.ComponentTree.for_test().load_context)
    return materialize(lake, definitions, "questions/mcqa", partition_key="mine|0")


def lines(*rows: dict[str, object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(number: int, **changes: object) -> dict[str, object]:
    return MEDMCQA | {"id": f"m{number}"} | changes


GOOD = row(1)
PACKED = gzip.compress(lines(*(row(i, exp=f"Since {i * 7919}.") for i in range(4000))))
BAD: list[tuple[str, str, str, dict[str, bytes], str]] = [
    (
        "a duplicate id",
        "medmcqa",
        "dev",
        {"dev.json": lines(GOOD, row(2), GOOD)},
        r"dev\.json:3: source_id: 'm1' occurs twice; an id must be unique across all files",
    ),
    (
        "a gzip cut short",
        "medmcqa",
        "dev",
        {"dev.json.gz": PACKED[:-900]},
        r"dev\.json\.gz:\d+: the gzip data are truncated",
    ),
]


@pytest.mark.parametrize(
    ("reader", "split", "files", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_a_bad_file_is_reported_and_nothing_is_stored(
    lake: Lake, other_settings: pytest.MonkeyPatch, reader: str, split: str, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        load(lake, other_settings, reader, split, files)
    assert lake.files("questions") == []


@pytest.mark.parametrize("official", [2, 3])
def test_an_unofficial_number_of_questions_is_reported(
    lake: Lake, other_settings: pytest.MonkeyPatch, official: int
) -> None:
    info = load_datasets()["medmcqa"].model_copy(update={"counts": {"dev": official}})
    other_settings.setitem(load_datasets(), "medmcqa", info)
    (event,) = load(
        lake, other_settings, "medmcqa", "dev", {"dev.json": lines(GOOD, row(2))}
    ).get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["in all shards"].value == 2
    note = metadata.get("official count")
    assert (note.value if note else "") == info.count_note("dev", 2)
    assert bool(note) == (official == 3)
