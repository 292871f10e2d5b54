"""Building a corpus: a full disk leaves the old index."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.experiment import corpus_building
from evidence_assets.lake.errors import DiskFull
from evidence_assets.lake.store import Lake
from evidence_assets.retrieval import vector_index
from evidence_assets.retrieval.corpus import open_corpus


def test_a_full_disk_leaves_the_old_index(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("Bees buzz.")
    corpus_building.build_corpus(lake, "c", group_files(tmp_path / "raw"), lambda text: None)
    folder = lake.index_folder("corpus/c/index")
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def full(*arguments: object) -> None:
        raise RuntimeError("Error in write: No space left on device")  # the message of FAISS

    monkeypatch.setattr(vector_index.faiss(), "write_index", full)
    with pytest.raises(DiskFull, match=r"no space left to write .*corpus\.c\.index.* run again"):
        corpus_building.build_index(lake, "c")
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert open_corpus(lake, "c").texts([0]) == ["Bees buzz."]
