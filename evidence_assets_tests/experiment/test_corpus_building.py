"""Building a corpus: a full disk leaves the old index; the tokens of a small corpus are cached."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.experiment import corpus_building
from evidence_assets.lake.errors import DiskFull
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder
from evidence_assets.profiles import load
from evidence_assets.reproduction.presets import PRESETS_VARIABLE
from evidence_assets.retrieval import index_building, vector_index
from evidence_assets.retrieval.corpus import open_corpus
from evidence_assets.retrieval.token_cache import TokenCache, token_cache_folder


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


def test_an_index_is_tuned_for_the_largest_pool_of_a_loaded_variant(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("Bees buzz.")
    corpus_building.build_corpus(lake, "c", group_files(tmp_path / "raw"), lambda text: None)
    neighbours: list[int] = []

    def record(folder: Path, write: Any = index_building.write_index, **settings: Any) -> Any:
        neighbours.append(settings["neighbours"])
        return write(folder, **settings)

    monkeypatch.setattr(index_building, "write_index", record)
    for presets in ("", "uscrake_sweeps"):
        monkeypatch.setenv(PRESETS_VARIABLE, presets)
        corpus_building.build_index(lake, "c")
    assert neighbours == [load().retrieval.R, 20_000], "that of the profile, and of mcqa/uscrake_r20000"


def test_the_tokens_of_a_small_corpus_are_cached(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name, text in {"a": "Bees buzz.", "b": "A river flows near the cell."}.items():
        (tmp_path / "raw" / f"{name}.txt").write_text(text)
    corpus_building.build_corpus(lake, "c", group_files(tmp_path / "raw"), lambda text: None)
    encoder, corpus = get_encoder(load().token_encoder), open_corpus(lake, "c")
    cache = TokenCache(token_cache_folder(lake, "c"), encoder, max_bytes=1 << 30)
    cached = cache.get(corpus.text_keys([0, 1]), lambda positions: pytest.fail("a text is encoded again"))
    for text, tokens in zip(corpus.texts([0, 1]), cached, strict=True):
        vectors = encoder.encode_tokens([text])[0].vectors.astype(np.float16)
        assert np.array_equal(tokens.segment.vectors[tokens.rows], vectors)
