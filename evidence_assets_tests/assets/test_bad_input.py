"""Bad raw input: the assets report file, line and field."""

import json
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.benchmark import Questions
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.raw_files import raw_asset, raw_assets
from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks import declared_benchmarks
from evidence_assets.benchmarks.dataset_info import load_datasets
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, RawInput
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets.small_worlds import materialize
from evidence_assets_tests.benchmarks.official.contract import write_files


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("EVIDENCE_LAKE", str(tmp_path / "data_lake"))
    return LakeResource(root=str(tmp_path / "data_lake")).open()


def chunk(lake: Lake) -> dg.ExecuteInProcessResult:
    """Materialize the chunks of the corpus ``mine``."""
    definitions = dg.build_defs_for_component(Corpus(name="mine", folder="mine"))
    return materialize(lake, definitions, "corpus/mine/chunks", partition_key="0")


def write_raw(lake: Lake, name: str, content: bytes) -> Path:
    return write_files(lake.root / "raw" / "mine", {name: content}) / name


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_an_unreadable_corpus_is_reported_with_its_location(lake: Lake) -> None:
    write_raw(lake, "a.jsonl", line(doc_id="1", text="One.") + line(doc_id="1", text="Two."))
    with pytest.raises(BadInput, match=r"a\.jsonl:2.*doc_id"):
        chunk(lake)
    assert lake.files("chunks") == [], "no partial rows"


def test_a_corpus_of_a_dataset_without_passages_fails_to_load() -> None:
    with pytest.raises(BadInput, match=r"has no passages; datasets with passages: .*hotpotqa"):
        dg.build_defs_for_component(Corpus(name="mine", folder="mine", documents="csqa"))
    with pytest.raises(BadInput, match="did you mean 'hotpotqa'"):
        dg.build_defs_for_component(Corpus(name="mine", folder="mine", documents="hotpot"))


# Questions


MEDMCQA = {"question": "Which?", "opa": "a", "opb": "b", "opc": "c", "opd": "d", "cop": 1}


def load_questions(lake: Lake, other_settings: pytest.MonkeyPatch, content: bytes) -> dg.ExecuteInProcessResult:
    """Materialize the questions of a benchmark with this file."""
    write_files(lake.root / "raw" / "mine", {"dev.json": content})
    declared_benchmark = Benchmark(name="mine", task="mcqa", reader="medmcqa", path="mine", split="dev")
    other_settings.setattr(declared_benchmarks, "all_benchmarks", lambda folder=None: {"mine": declared_benchmark})
    definitions = Questions().build_defs(dg.ComponentTree.for_test().load_context)
    return materialize(lake, definitions, "questions/mcqa", partition_key="mine|0")


def medmcqa(*numbers: int) -> bytes:
    return b"".join(line(id=f"m{number}", **MEDMCQA) for number in numbers)


def test_a_bad_file_is_reported_and_nothing_is_stored(lake: Lake, other_settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BadInput, match=r"dev\.json:3: source_id: 'm1' occurs twice; an id must be unique across all files"
    ):
        load_questions(lake, other_settings, medmcqa(1, 2, 1))
    assert lake.files("questions") == []


@pytest.mark.parametrize("official", [2, 3])
def test_an_unofficial_number_of_questions_is_reported(
    lake: Lake, other_settings: pytest.MonkeyPatch, official: int
) -> None:
    info = load_datasets()["medmcqa"].model_copy(update={"counts": {"dev": official}})
    other_settings.setitem(load_datasets(), "medmcqa", info)
    (event,) = load_questions(lake, other_settings, medmcqa(1, 2)).get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    assert metadata["in all shards"].value == 2
    note = metadata.get("official count")
    assert (note.value if note else "") == info.count_note("dev", 2)
    assert bool(note) == (official == 3)


# Raw files


def test_the_error_for_missing_files_describes_their_contents(lake: Lake) -> None:
    asset = raw_asset("raw/corpora/texts", ["texts"], "texts, one a line")
    with pytest.raises(BadInput, match=r"does not exist: .*texts, one a line"):
        dg.materialize([asset], resources={"lake": LakeResource(root=str(lake.root))})


@pytest.mark.parametrize("name", ["/etc/passwd", "../elsewhere", "mine/../../elsewhere"])
def test_a_declaration_does_not_lead_out_of_the_raw_folder(name: str) -> None:
    with pytest.raises(BadInput, match="leads out of the lake's raw folder"):
        raw_assets(RawInput(), "raw/benchmarks/mine", [name])
    with pytest.raises(BadInput, match="leads out"):
        raw_assets(RawInput(source="raw/sample"), "raw/benchmarks/mine", [name])
