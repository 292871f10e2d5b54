"""Every kind of bad question file, met by the asset that reads it: file, line and field are named, nothing is loaded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets import partitions
from evidence_assets.assets.questions import Questions
from evidence_assets.assets.resources import LakeIOManager, LakeResource
from evidence_assets.benchmarks import declared as benchmark
from evidence_assets.benchmarks.declared import Benchmark
from evidence_assets.benchmarks.info import datasets
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

CACHES = (benchmark.benchmarks, partitions.benchmark_partitions, partitions.question_partitions)
MEDMCQA = {"question": "Which?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": 1}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    yield Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)
    monkeypatch.undo()
    for cache in CACHES:
        cache.cache_clear()


def load(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, reader: str, split: str, files: dict[str, bytes]
) -> dg.ExecuteInProcessResult:
    """Materialize the questions of a benchmark with these files."""
    for name, content in files.items():
        path = lake.raw / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    made = Benchmark(name="mine", task="mcqa", reader=reader, path="mine", split=split)
    monkeypatch.setattr(benchmark, "declared", lambda folder=None: {"mine": made})
    for cache in CACHES:
        cache.cache_clear()
    (asset,) = Questions().build_defs(None).assets or []  # type: ignore[arg-type]
    assert isinstance(asset, dg.AssetsDefinition)
    resource = LakeResource(root=str(lake.root))
    return dg.materialize(
        [asset], partition_key="mine|0", resources={"lake": resource, "lake_io": LakeIOManager(lake=resource)}
    )


def lines(*rows: dict[str, object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(number: int, **changes: object) -> dict[str, object]:
    return {k: v for k, v in (MEDMCQA | {"id": f"m{number}"} | changes).items() if v is not ...}


GOOD = row(1)
PACKED = gzip.compress(lines(*(row(i, exp=f"Since {i * 7919}.") for i in range(4000))))
CSV = b"Which?,a,b,c,d,A\n"
BAD: list[tuple[str, str, str, dict[str, bytes], str]] = [
    (
        "one of several files missing", "mmlu_med", "test",
        {"anatomy_test.csv": CSV},
        "no file for MMLU, six biomedical subjects, split test: put test/clinical_knowledge_test.csv",
    ),
    ("a gold label out of range", "medmcqa", "dev", {"dev.json": lines(GOOD, row(2, cop=5))}, r"dev\.json:2: cop: 5 is no option"),
    ("an option missing", "medmcqa", "dev", {"dev.json": lines(GOOD, row(2, opc=...))}, r"dev\.json:2: opc: missing"),
    ("two encodings", "medmcqa", "dev", {"dev.json": lines(GOOD) + b'{"id": "caf\xe9"}\n'}, r"dev\.json:2: byte \d+ .*is not UTF-8"),
    ("a gzip cut short", "medmcqa", "dev", {"dev.json.gz": PACKED[:-900]}, r"dev\.json\.gz:\d+: the gzip data are cut short"),
    ("a gzip without its name", "medmcqa", "dev", {"dev.json": PACKED}, r"dev\.json:1?:? ?holds gzip data; name it \.gz"),
    ("a quote never closed", "mmlu_anatomy", "test", {"anatomy_test.csv": CSV + b'"Which?,a,b,c,d,A\n'}, r"anatomy_test\.csv:2: a quote opened in this row"),
    ("another format than its name", "medmcqa", "dev", {"dev.json": b"PAR1\x15\x04\x00"}, r"dev\.json:1: is a Parquet file"),
    ("no question at all", "headqa", "test", {"test_HEAD_EN.json": b'{"version": 1}'}, r"EN\.json: holds no question; wanted is HEAD-QA"),
    ("a web page in place of the file", "mmlu_anatomy", "test", {"anatomy_test.csv": b"<!DOCTYPE html><html>"}, r"anatomy_test\.csv:1: is an HTML page"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "split", "files", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_it_is_named_and_nothing_is_half_loaded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, reader: str, split: str, files: dict[str, bytes], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        load(lake, monkeypatch, reader, split, files)
    assert lake.files("questions") == []


def test_an_id_that_comes_twice_is_named_where_it_comes_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"dev\.json:3: source_id: 'm1' occurs twice; each id stands for one row of all files"
    ):
        load(lake, monkeypatch, "medmcqa", "dev", {"dev.json": lines(GOOD, row(2), GOOD)})
    assert lake.files("questions") == []


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + lines(GOOD, row(2)), lines(GOOD, row(2)).replace(b"\n", b"\r\n")], ids=["BOM", "CRLF"]
)
def test_a_byte_order_mark_and_line_ends_of_another_system_change_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    load(lake, monkeypatch, "medmcqa", "dev", {"dev.json": content})
    rows = lake.read("questions").sort("source_id").to_dicts()
    assert [(r["source_id"], r["text"], r["gold"]) for r in rows] == [("m1", "Which?", ["A"]), ("m2", "Which?", ["A"])]


@pytest.mark.parametrize("official", [2, 3])
def test_a_file_of_another_length_than_the_official_one_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, official: int
) -> None:
    info = replace(datasets()["medmcqa"], counts={"dev": official})
    monkeypatch.setitem(datasets(), "medmcqa", info)
    (event,) = load(
        lake, monkeypatch, "medmcqa", "dev", {"dev.json": lines(GOOD, row(2))}
    ).get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["in all shards"].value == 2
    note = metadata.get("official count")
    assert (note.value if note else "") == info.count_note("dev", 2)
    assert bool(note) == (official == 3)
