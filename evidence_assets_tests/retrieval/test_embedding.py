"""Embedding of chunks: saved block by block, and reused by text."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from evidence_assets.models.protocols import FloatArray
from evidence_assets.retrieval import embedding
from evidence_assets.retrieval.embedding import VectorCache, embed, hash_inputs


class Letters:
    """An encoder that computes a vector from a text's letters, and records the encoded texts."""

    dimensions = 26

    def __init__(self, stops_at: str = "no such text") -> None:
        self.encoded_texts: list[str] = []
        self.stops_at = stops_at

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        if self.stops_at in texts:
            raise KeyboardInterrupt
        self.encoded_texts += texts
        counts = np.array([[text.count(chr(97 + i)) + 0.1 for i in range(26)] for text in texts], np.float32)
        return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), np.float32)


def chunks(count: int = 40) -> pl.DataFrame:
    texts = [f"text {i} " + "word " * (i % 9) for i in range(count)]
    return pl.DataFrame(
        {
            "chunk_id": [f"{i:04d}" for i in range(count)],
            "doc_id": [f"d{i // 4}" for i in range(count)],
            "text": texts,
            "n_tokens": [len(text.split()) for text in texts],
            "source": ["notes.jsonl"] * count,
        }
    )


NOTHING = pl.DataFrame(schema={"chunk_id": pl.String, "vector": pl.List(pl.Float32), "input_hash": pl.String})


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CHUNKS_PER_CALL", 8)


def embed_chunks(
    encoder: Letters, previous: pl.DataFrame = NOTHING, saved: list[pa.Table] | None = None
) -> tuple[pa.Table, int]:
    blocks = [] if saved is None else saved
    return embed(
        chunks(), previous, encoder.encode_sentences, "letters@1", encoder.dimensions, blocks.append, lambda *_: None
    )


def test_vectors_are_half_precision_and_match_their_texts() -> None:
    table, reused = embed_chunks(Letters())
    assert table["vector"].type == pa.list_(pa.float16()) and reused == 0
    for row, text in zip(table.to_pylist(), chunks()["text"], strict=True):
        assert np.array_equal(
            np.array(row["vector"], np.float16), Letters().encode_sentences([text])[0].astype(np.float16)
        )


def test_vectors_that_a_killed_step_saved_are_reused() -> None:
    all_rows, _ = embed_chunks(Letters())
    saved: list[pa.Table] = []
    with pytest.raises(KeyboardInterrupt):
        embed_chunks(Letters(stops_at=chunks()["text"][9]), saved=saved)
    previous = pl.from_arrow(pa.concat_tables(saved))
    assert isinstance(previous, pl.DataFrame) and 0 < previous.height < 40
    encoder = Letters()
    rerun, reused = embed_chunks(encoder, previous)
    assert rerun.equals(all_rows) and reused == previous.height and len(encoder.encoded_texts) == 40 - reused


def test_vectors_of_another_length_are_computed_again() -> None:
    hashes = hash_inputs(["a", "b"], "served")
    cache = VectorCache(hashes, np.ones((2, 3), np.float16))
    assert cache.copy_known(hashes, np.zeros((2, 3), np.float16)).tolist() == []
    assert cache.copy_known(hashes, np.zeros((2, 4), np.float16)).tolist() == [0, 1]
