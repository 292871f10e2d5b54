"""A corpus as its assets make it: what a killed step had encoded is there for the next, and shards take
turns on cards.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.experiment import corpus_building
from evidence_assets.lake.errors import DiskFull
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import ModelSettings
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import open_corpus


def test_a_disk_that_fills_while_the_index_is_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("Bees buzz.")
    lake = Lake.create(tmp_path / "lake", question_shards=1, corpus_shards=1)
    corpus_building.build_corpus(lake, "c", group_files(tmp_path / "raw"), lambda said: None, "on_demand")
    folder = lake.index_folder("corpus/c/index")
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def full(*arguments: object) -> None:
        raise RuntimeError("Error in write: No space left on device")  # as FAISS says it

    monkeypatch.setattr(vector_index.faiss(), "write_index", full)
    with pytest.raises(DiskFull, match=r"no space left to write .*corpus\.c\.index.* run again"):
        corpus_building.build_index(lake, "c")
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert open_corpus(lake, "c").texts([0]) == ["Bees buzz."]


def test_shards_take_turns_on_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ModelSettings(name="m")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert corpus_building.assign_gpu(settings, 5) == settings
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert [corpus_building.assign_gpu(settings, shard).device for shard in (0, 5, 63)] == [
        "cuda:0",
        "cuda:1",
        "cuda:3",
    ]
    named = ModelSettings(name="m", device="cpu")
    assert corpus_building.assign_gpu(named, 5) == named
