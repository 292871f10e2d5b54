"""The files of a corpus: every chunk where its shard put it, found by id, and no file that is damaged."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.retrieval import corpus_files
from evidence_assets.retrieval.corpus_files import SCHEMA, CorpusFiles, Shard, hash_texts, write_corpus_files
from evidence_assets.text.words import stems

Row = dict[str, object]


def row(chunk_id: str) -> Row:
    return {
        "chunk_id": chunk_id,
        "doc_id": f"d{chunk_id}",
        "title": None if chunk_id == "b" else f"Page {chunk_id}",
        "text": f"Text of {chunk_id}. And more.",
        "sentence_offsets": [{"start": 0, "end": 9}, {"start": 10, "end": 19}],
    }


def shard(ids: Sequence[str], size: int = 2) -> Shard:
    """Rows in blocks of a size, with vectors in blocks of another."""
    rows = [row(i) for i in ids]
    batches = [pa.RecordBatch.from_pylist(rows[a : a + size], SCHEMA) for a in range(0, len(rows), size)]
    vectors = np.arange(len(ids) * 3, dtype=np.float32).reshape(-1, 3) / 7
    return Shard(batches, [vectors[a : a + size + 1] for a in range(0, len(ids), size + 1)])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.text(min_size=1, max_size=3), max_size=9), max_size=4), st.data())
def test_chunks_are_ordered_by_shard_and_found_by_position_and_by_id(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    parts = [sorted(set(part).difference(*shards[:n])) for n, part in enumerate(shards)]  # an id is in one shard
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_files, "CHUNKS_PER_BATCH", 4)
        expected = [i for part in parts for i in part]
        write_corpus_files(folder, (shard(part) for part in parts))
        corpus = CorpusFiles(folder)
        positions = data.draw(st.lists(st.sampled_from(range(len(expected))), max_size=12)) if expected else []
        rows = [row(expected[p]) for p in positions]
        assert len(corpus) == len(expected) and corpus.ids(positions) == [r["chunk_id"] for r in rows]
        assert corpus.texts(positions) == [r["text"] for r in rows]
        assert corpus.titles(positions) == [r["title"] or "" for r in rows]
        assert corpus.sentences(positions) == [[(0, 9), (10, 19)] for _ in rows]
        assert corpus.find([*expected, "no such id"]).tolist() == [*range(len(expected)), -1]
        lengths = [len(part) for part in parts]
        rows_of = [np.arange(n * 3).reshape(-1, 3) / 7 for n in lengths]
        if expected:
            np.testing.assert_array_equal(corpus.vectors, np.concatenate(rows_of).astype(np.float16))
        with pytest.raises(IndexError, match="positions run from 0"):
            corpus.texts([len(expected)])


def test_stems_of_titles_and_texts_are_indexed_without_stop_words(tmp_path: Path) -> None:
    write_corpus_files(tmp_path, [shard(["a", "b"]), shard(["cats"])])
    corpus = CorpusFiles(tmp_path)
    assert corpus.word_index().top_k(stems("Which cat?"), 3)[0].tolist() == [2]
    assert corpus.word_index().document_frequencies(["text", "page", "and", "of"]).tolist() == [3, 2, 0, 0]
    assert corpus.text_keys([2, 0]).tolist() == hash_texts(["Text of cats. And more.", "Text of a. And more."]).tolist()


@pytest.mark.parametrize(
    "name", ["chunks.arrow", "id_keys.npy", "id_places.npy", "text_keys.npy", "corpus.json", "vectors.npy"]
)
def test_the_error_names_a_truncated_or_missing_file(tmp_path: Path, name: str) -> None:
    write_corpus_files(tmp_path, [shard([f"{i:04d}" for i in range(200)])])
    path = tmp_path / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StaleInput, match=f"{name} is truncated or damaged.*materialize"):
        _ = CorpusFiles(tmp_path).vectors
    path.unlink()
    with pytest.raises(StaleInput, match=f"{name} is missing.*materialize"):
        _ = CorpusFiles(tmp_path).vectors


def test_vectors_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    for number, bad in enumerate((np.nan, 1e6)):
        (folder := tmp_path / str(number)).mkdir()
        loud = Shard(shard(["a"]).chunks, [np.full((1, 3), bad)])
        with pytest.raises(BadInput, match="exceeds float16"):
            write_corpus_files(folder, [loud])
