"""Vectors of chunks: kept block by block, taken over by text, and one bad text costs no other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import FloatArray, NonFiniteVectors
from evidence_assets.retrieval import embedding
from evidence_assets.retrieval.embedding import embed


class Letters:
    """A vector a text, from its letters alone; remembers what it was asked."""

    model_id, revision, dimensions, max_tokens = "letters", "1", 26, 512

    def __init__(self, stops_at: str = "no such text", bad: str = "no such text") -> None:
        self.asked: list[str] = []
        self.stops_at, self.bad = stops_at, bad

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        if self.stops_at in texts:
            raise KeyboardInterrupt
        self.asked += texts
        counts = np.array([[text.count(chr(97 + i)) + 0.1 for i in range(26)] for text in texts], np.float32)
        vectors = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        wrong = [self.bad in text for text in texts]
        vectors[wrong] = np.nan
        if any(wrong):
            raise NonFiniteVectors("not numbers", vectors)
        return np.asarray(vectors, np.float32)


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


def made(
    encoder: Letters, previous: pl.DataFrame = NOTHING, kept: list[pa.Table] | None = None
) -> tuple[pa.Table, int]:
    blocks = [] if kept is None else kept
    return embed(chunks(), previous, encoder, "letters@1", lambda rows, last: blocks.append(rows))  # type: ignore[arg-type]


def test_vectors_are_half_precision_and_each_its_texts_own() -> None:
    table, reused = made(Letters())
    assert table["vector"].type == pa.list_(pa.float16()) and reused == 0
    for row, text in zip(table.to_pylist(), chunks()["text"], strict=True):
        assert np.array_equal(
            np.array(row["vector"], np.float16), Letters().encode_sentences([text])[0].astype(np.float16)
        )


def test_what_a_killed_step_kept_is_not_encoded_again() -> None:
    whole, _ = made(Letters())
    kept: list[pa.Table] = []
    with pytest.raises(KeyboardInterrupt):
        made(Letters(stops_at=chunks()["text"][9]), kept=kept)
    done = pl.from_arrow(pa.concat_tables(kept))
    assert isinstance(done, pl.DataFrame) and 0 < done.height < 40
    encoder = Letters()
    again, reused = made(encoder, done)
    assert again.equals(whole) and reused == done.height and len(encoder.asked) == 40 - reused


def test_one_text_without_numbers_is_named_and_costs_no_other() -> None:
    kept: list[pa.Table] = []
    with pytest.raises(BadInput, match=r"chunk 0017 of document 'd4' in notes\.jsonl. All other chunks are saved"):
        made(Letters(bad="text 17 "), kept=kept)
    assert sum(map(len, kept)) == 39
    encoder = Letters()
    done = pl.from_arrow(pa.concat_tables(kept))
    assert isinstance(done, pl.DataFrame)
    table, reused = made(encoder, done)
    assert reused == 39 and len(encoder.asked) == 1 and len(table) == 40
