"""The token store: right rows for every chunk, vectors taken over, and no store that is older than its corpus."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.retrieval.bm25 import CorpusStatistics
from evidence_assets.retrieval.token_store import Counts, TokenStore, build, build_statistics, source_version
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

TEXTS = ["Honey is sweet. Bees make honey.", "!?", "   ", "Rain falls on the plain", "Bees fly."]
IDS = [f"c{i}" for i in range(len(TEXTS))]


def made(folder: Path, encoder: PieceEncoder, texts: Sequence[str] = TEXTS, ids: Sequence[str] = IDS) -> TokenStore:
    build(folder, ids, texts, encoder, "pieces@1")
    return TokenStore(folder, expected=source_version(ids, "pieces@1"))


def test_every_row_is_the_token_that_its_span_says(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    store = made(tmp_path / "store", encoder)
    assert len(store) == len(TEXTS)
    for i, (text, tokens) in enumerate(zip(TEXTS, encoder.tokens(TEXTS), strict=True)):
        rows = store.rows_of(i)
        if not text.strip():
            continue
        assert store.pieces_of(i) == list(tokens.tokens)
        assert store.spans[rows].tolist() == tokens.offsets.tolist()
        assert store.words[rows].tolist() == tokens.words.tolist()
        np.testing.assert_array_equal(store.vectors[rows], tokens.vectors.astype(np.float16))
        assert [text[a:b].lower() for a, b in store.spans[rows]] == [t.removeprefix("##") for t in tokens.tokens]


def test_a_chunk_without_tokens_keeps_one_row_that_is_far_from_everything(tmp_path: Path) -> None:
    store = made(tmp_path / "store", PieceEncoder())
    rows = store.rows_of(2)
    assert rows.stop - rows.start == 1
    assert not store.vectors[rows].any()
    assert store.pieces_of(2) == [""]


def test_statistics_and_weights_are_those_of_bm25_over_the_pieces(tmp_path: Path) -> None:
    store = made(tmp_path / "store", PieceEncoder())
    texts = [store.pieces_of(i) for i in range(len(store))]
    expected = CorpusStatistics.from_texts(texts)
    assert store.statistics == expected
    for i, text in enumerate(texts):
        np.testing.assert_array_equal(store.weights[store.rows_of(i)], expected.token_weights(text, "printed"))


def test_words_and_sums_over_the_corpus_are_counted_too(tmp_path: Path) -> None:
    store = made(tmp_path / "store", PieceEncoder())
    pieces = [store.pieces_of(i) for i in range(len(store))]
    assert store.counts.totals == pytest.approx(Counts.of(lambda: pieces).totals)
    words = [re.findall(r"\w+|[^\w\s]", text.lower()) for text in TEXTS]
    assert store.word_counts.statistics == CorpusStatistics.from_texts(words)
    assert store.word_counts.totals == pytest.approx(Counts.of(lambda: words).totals)
    readings: tuple[Literal["corpus", "idf"], ...] = ("corpus", "idf")
    for reading in readings:
        other = store.weighted(reading)
        for i, text in enumerate(pieces):
            expected = np.array([store.counts.value(piece, reading) for piece in text])
            np.testing.assert_allclose(other.weights[other.rows_of(i)], expected)
            np.testing.assert_allclose(other.token_weights(text), expected)
    np.testing.assert_array_equal(store.token_weights(pieces[0]), store.weights[store.rows_of(0)])


def test_gather_gives_the_chunks_in_the_order_asked(tmp_path: Path) -> None:
    store = made(tmp_path / "store", PieceEncoder())
    pool, rows = store.gather([4, 0])
    assert len(pool) == 2
    assert [store.vocabulary[p] for p in store.pieces[rows]] == store.pieces_of(4) + store.pieces_of(0)
    np.testing.assert_array_equal(pool.vectors, store.vectors[rows])
    none, _ = store.gather([])
    assert len(none) == 0


def test_unchanged_texts_are_not_encoded_again_and_the_bytes_are_those_of_a_fresh_build(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    build(tmp_path / "store", IDS, TEXTS, encoder, "pieces@1")
    encoder.asked.clear()
    texts = [TEXTS[3], "A new chunk.", TEXTS[0], TEXTS[2]]
    ids = ["d0", "d1", "d2", "d3"]
    _, reused = build(tmp_path / "store", ids, texts, encoder, "pieces@1")
    assert reused == 3
    assert encoder.asked == ["A new chunk."]
    build(tmp_path / "fresh", ids, texts, encoder, "pieces@1")
    assert contents(tmp_path / "store") == contents(tmp_path / "fresh")
    _, reused = build(tmp_path / "store", ids, texts, encoder, "pieces@2")
    assert reused == 0


def contents(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_a_store_of_other_chunks_or_another_encoder_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "store", PieceEncoder())
    for expected in (source_version(IDS[:-1], "pieces@1"), source_version(IDS, "pieces@2")):
        with pytest.raises(StaleInput, match="materialize it again"):
            TokenStore(tmp_path / "store", expected=expected)
    with pytest.raises(StaleInput, match="no token store"):
        TokenStore(tmp_path / "absent", expected="x")
    meta = json.loads((tmp_path / "store" / "meta.json").read_text())
    (tmp_path / "store" / "meta.json").write_text(json.dumps({**meta, "version": "0"}))
    with pytest.raises(StaleInput, match="materialize it again"):
        TokenStore(tmp_path / "store", expected=source_version(IDS, "pieces@1"))


def test_an_empty_corpus_has_an_empty_store(tmp_path: Path) -> None:
    store = made(tmp_path / "store", PieceEncoder(), [], [])
    assert len(store) == 0
    assert store.statistics.texts == 0


class Loud(PieceEncoder):
    """Gives vectors that float16 cannot hold."""

    def vector(self, piece: str) -> npt.NDArray[np.float32]:
        return super().vector(piece) * np.float32(1e6)


class Miscounting(PieceEncoder):
    """Counts one token too many."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [n + 1 for n in super().count_tokens(texts)]

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return super().tokens(texts)


def test_what_cannot_be_stored_is_refused_and_the_old_store_stays(tmp_path: Path) -> None:
    made(tmp_path / "store", PieceEncoder())
    before = contents(tmp_path / "store")
    with pytest.raises(BadInput, match="float16"):
        build(tmp_path / "store", ["x"], ["unseen words"], Loud(), "pieces@1")
    with pytest.raises(BadInput, match="counts 3 tokens in chunk x but gives 2"):
        build(tmp_path / "store", ["x"], ["unseen words"], Miscounting(), "pieces@1")
    assert contents(tmp_path / "store") == before


def test_statistics_alone_are_those_of_the_whole_store_and_encode_some_chunks_as_it_would(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    whole = made(tmp_path / "whole", encoder)
    encoder.asked.clear()
    build_statistics(tmp_path / "lean", IDS, TEXTS, encoder, "pieces@1", encoder.dimensions)
    lean = TokenStore(tmp_path / "lean", expected=source_version(IDS, "pieces@1"))
    assert not encoder.asked and not lean.meta.vectors
    assert (
        lean.counts == whole.counts and lean.word_counts == whole.word_counts and lean.meta.tokens == whole.meta.tokens
    )
    some = lean.encode(tmp_path / "some", [IDS[4], IDS[0]], [TEXTS[4], TEXTS[0]], encoder)
    assert encoder.asked == [TEXTS[4], TEXTS[0]] and some.statistics == whole.statistics
    for here, there in ((0, 4), (1, 0)):
        a, b = some.rows_of(here), whole.rows_of(there)
        np.testing.assert_array_equal(some.vectors[a], whole.vectors[b])
        np.testing.assert_array_equal(some.weights[a], whole.weights[b])
        assert some.pieces_of(here) == whole.pieces_of(there)
    build(tmp_path / "lean", IDS, TEXTS, encoder, "pieces@1")  # takes nothing over from statistics
    assert contents(tmp_path / "lean") == contents(tmp_path / "whole")
