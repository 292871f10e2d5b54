"""The token store and its cache: right tokens for every text, none encoded twice, none of another encoder, a bounded
disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.retrieval import token_cache, token_store
from evidence_assets.retrieval.bm25 import hash_terms
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.maxsim import nearest_tokens
from evidence_assets.retrieval.token_cache import CachedTexts, TokenCache
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts, build_store, source_version
from evidence_assets.transport import TokenPool, find_nearest_texts, get_ground_cost
from evidence_assets_tests.retrieval import plain_bm25
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

TEXTS = ["Honey is sweet. Bees make honey.", "!?", "   ", "Rain falls on the plain", "Bees fly."]
MODEL = "pieces@1"


def write_store(
    folder: Path, encoder: PieceEncoder, texts: Sequence[str] = TEXTS, *, vectors: bool = True
) -> TokenStore:
    build_store(folder / "store", [texts], encoder, MODEL, "chunks", vectors=vectors)
    return TokenStore(folder / "store", expected=source_version("chunks", MODEL), cache=folder / "cache")


def read_tokens(cache: TokenCache, texts: Sequence[str]) -> CachedTexts:
    return cache.get(hash_texts(texts), lambda missing: [texts[i] for i in missing.tolist()])


def files(folder: Path) -> dict[str, str]:
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


@pytest.mark.parametrize("vectors", [True, False])
def test_every_row_is_the_token_at_its_span(tmp_path: Path, vectors: bool) -> None:
    encoder = PieceEncoder()
    store = write_store(tmp_path, encoder, vectors=vectors)
    assert len(store) == len(TEXTS)
    cached = read_tokens(store.tokens(encoder), TEXTS)
    assert store.meta.tokens == cached.lengths.sum()
    for i, (text, tokens) in enumerate(zip(TEXTS, PieceEncoder().encode_tokens(TEXTS), strict=True)):
        text_tokens = cached.tokens(i)
        if not text.strip():
            assert text_tokens.vectors.shape == (1, encoder.dimensions) and not text_tokens.vectors.any()
            assert text_tokens.terms.tolist() == hash_terms([""]).tolist()
            continue
        assert text_tokens.terms.tolist() == hash_terms(tokens.tokens).tolist()
        assert text_tokens.counts.tolist() == [Counter(tokens.tokens)[token] for token in tokens.tokens]
        assert (text_tokens.spans.tolist(), text_tokens.words.tolist()) == (
            tokens.offsets.tolist(),
            tokens.words.tolist(),
        )
        np.testing.assert_array_equal(text_tokens.vectors, tokens.vectors.astype(np.float16))
    assert read_tokens(store.tokens(encoder), []).lengths.tolist() == []


def test_statistics_and_weights_are_those_of_bm25_over_pieces(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    store = write_store(tmp_path, encoder)
    pieces = [list(text_tokens) or [""] for text_tokens in encoder.split_tokens(TEXTS)]
    terms = sorted({token for text in pieces for token in text})
    expected_frequencies = [sum(term in text for text in pieces) for term in terms]
    assert store.pieces.document_frequencies([*terms, "unknown"]).tolist() == [*expected_frequencies, 0]
    weighed = TokenTexts.from_cached(
        read_tokens(store.tokens(encoder), TEXTS), store.pieces, "text", encoder.dimensions
    )
    expected = [w for i in (3, 0) for w in plain_bm25.token_weights(pieces[i], pieces)]
    assert weighed.select([3, 0]).weights == pytest.approx(expected, abs=1e-12)


def test_unchanged_texts_are_reused_and_the_bytes_equal_a_fresh_build(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    write_store(tmp_path, encoder)
    encoder.encoded_texts.clear()
    texts = [TEXTS[3], "A new chunk.", TEXTS[0], TEXTS[2]]
    _, reused = build_store(tmp_path / "store", [texts[:1], texts[1:]], encoder, MODEL, "other")
    assert reused == 3 and encoder.encoded_texts == ["A new chunk."]
    build_store(tmp_path / "fresh", [texts], encoder, MODEL, "other")
    assert files(tmp_path / "store") == files(tmp_path / "fresh")
    assert build_store(tmp_path / "store", [texts], encoder, "pieces@2", "other")[1] == 0


def test_a_store_of_other_chunks_or_another_encoder_is_refused(tmp_path: Path) -> None:
    write_store(tmp_path, PieceEncoder())
    store, cache = tmp_path / "store", tmp_path / "cache"
    for expected in (source_version("others", MODEL), source_version("chunks", "pieces@2")):
        with pytest.raises(StaleInput, match="materialize it again"):
            TokenStore(store, expected=expected, cache=cache)
    with pytest.raises(StaleInput, match="is missing"):
        TokenStore(tmp_path / "absent", expected="x", cache=cache)
    meta = json.loads((store / "meta.json").read_text())
    (store / "meta.json").write_text(json.dumps({**meta, "version": "0"}))
    with pytest.raises(StaleInput, match="materialize it again"):
        TokenStore(store, expected=source_version("chunks", MODEL), cache=cache)


class Loud(PieceEncoder):
    """Gives vectors that float16 cannot hold."""

    def vector(self, piece: str) -> npt.NDArray[np.float32]:
        return super().vector(piece) * np.float32(1e6)


def test_invalid_vectors_are_rejected_and_the_old_store_stays(tmp_path: Path) -> None:
    write_store(tmp_path, PieceEncoder())
    before = files(tmp_path / "store")
    with pytest.raises(BadInput, match="pieces@1 returns a value that exceeds float16"):
        build_store(tmp_path / "store", [["unseen words"]], Loud(), MODEL, "other")
    silent: Any = object()
    with pytest.raises(AttributeError):
        build_store(tmp_path / "store", [["unseen words"]], silent, MODEL, "other")
    assert files(tmp_path / "store") == before


# The cache ---------------------------------------------------------------------------------------------------------


def cache_at(
    folder: Path,
    encoder: PieceEncoder,
    max_bytes: int = 1 << 30,
    model: str = MODEL,
    asset_folders: Sequence[Path] = (),
) -> TokenCache:
    folder.mkdir(exist_ok=True)
    return TokenCache(folder, encoder, model, bounded_folder=folder, max_bytes=max_bytes, asset_folders=asset_folders)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*TEXTS, "one", "two more", "three"]), max_size=9), max_size=5), st.data())
def test_each_text_is_encoded_once_in_any_order_of_requests(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[str]], data: st.DataObject
) -> None:
    folder, encoder, other = tmp_path_factory.mktemp("c"), PieceEncoder(), PieceEncoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_cache, "MAX_SEGMENT_TEXTS", data.draw(st.integers(1, 3)))
        caches = [cache_at(folder, encoder), cache_at(folder, encoder)]  # as two processes
        for texts in requests:
            cached = read_tokens(caches[data.draw(st.integers(0, 1))], texts)
            for i, tokens in enumerate(other.encode_tokens(texts)):
                expected = token_cache.TextTokens.of(tokens, other.dimensions)
                np.testing.assert_array_equal(cached.tokens(i).vectors, expected.vectors)
                np.testing.assert_array_equal(cached.tokens(i).terms, expected.terms)
    assert Counter(encoder.encoded_texts) == Counter(dict.fromkeys((t for texts in requests for t in texts), 1))


def test_the_disk_is_bounded_by_evicting_the_least_recently_used(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    size = sum(p.stat().st_size for p in [*_filled(cache_at(tmp_path / "one", encoder), ["Bees fly."])])
    cache = cache_at(tmp_path / "bounded", encoder, max_bytes=3 * size)
    for number, text in enumerate(("a", "b", "c")):
        for path in _filled(cache, [text]):
            os.utime(path, (number, number))
    tokens_of_a = read_tokens(cache, ["a"])  # used now, so that the oldest is another
    read_tokens(cache, ["d"])
    encoder.encoded_texts.clear()
    reopened = cache_at(tmp_path / "bounded", encoder, max_bytes=3 * size)
    read_tokens(reopened, ["a", "c", "d"])
    assert encoder.encoded_texts == []
    read_tokens(reopened, ["b"])
    assert encoder.encoded_texts == ["b"]
    assert sum(p.stat().st_size for p in (tmp_path / "bounded").glob("*.arrow")) <= 3 * size
    none = cache_at(tmp_path / "bounded", encoder, max_bytes=0)
    tokens_of_a_and_e = read_tokens(none, ["a", "e"])
    assert not list((tmp_path / "bounded").glob("*.arrow")), "nothing may stay, and what was asked for is there"
    for cached, index, text in ((tokens_of_a, 0, "a"), (tokens_of_a_and_e, 0, "a"), (tokens_of_a_and_e, 1, "e")):
        np.testing.assert_array_equal(cached.tokens(index).vectors[0], encoder.vector(text).astype(np.float16))


def _filled(cache: TokenCache, texts: Sequence[str]) -> list[Path]:
    return [
        segment.path for segment in read_tokens(cache, texts).segments if set(hash_texts(texts)) & set(segment.keys)
    ]


def test_the_error_names_a_truncated_segment_or_one_of_another_encoder(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    (path,) = _filled(cache_at(tmp_path / "c", encoder), TEXTS)
    with pytest.raises(StaleInput, match=rf"{path.name} has tokens of pieces@1, not of pieces@2: delete it"):
        cache_at(tmp_path / "c", encoder, model="pieces@2")
    all_texts = path.read_bytes()
    for size in (0, 100, len(all_texts) // 2, len(all_texts) - 8):
        path.write_bytes(all_texts[:size])
        with pytest.raises(StaleInput, match=rf"{path.name} is truncated or damaged.*delete it"):
            cache_at(tmp_path / "c", encoder)


SECOND_PROCESS = """
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from evidence_assets_tests.retrieval.test_token_store import *
token_cache.MAX_SEGMENT_TEXTS = 7
encoder = PieceEncoder()
cache = cache_at(Path(sys.argv[1]), encoder, max_bytes=int(sys.argv[3]))
print("ready", flush=True)
sys.stdin.readline()
rng = random.Random(int(sys.argv[4]))
for _ in range(20):
    texts = [f"word{n} other{n % 9}" for n in rng.sample(range(150), 30)]
    cached = read_tokens(cache, texts)
    for i, tokens in enumerate(PieceEncoder().encode_tokens(texts)):
        np.testing.assert_array_equal(cached.tokens(i).vectors, tokens.vectors.astype(np.float16))
"""


def test_two_processes_can_fill_one_cache(tmp_path: Path) -> None:
    root, limit = str(Path(__file__).parents[2]), 60_000
    at_work = [
        subprocess.Popen(
            [sys.executable, "-c", SECOND_PROCESS, str(tmp_path), root, str(limit), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for process in at_work:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in at_work:  # both at once
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in at_work:
        _, wrong = process.communicate(timeout=120)
        assert process.returncode == 0, wrong
    assert all(path.suffix == ".arrow" for path in tmp_path.iterdir())
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit


# Tiles -------------------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(["cosine", "jsd", "euclidean"]), st.integers(1, 9)
)
def test_the_exact_best_of_tiles_are_those_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, tile: int, cost: str, k: int
) -> None:
    rng, encoder = np.random.default_rng(seed), PieceEncoder()
    names = "abcdefghijklmnopqrstuvwxyz"
    texts = [" ".join(rng.choice(list(names), rng.integers(1, 9))) for _ in range(30)]
    store = write_store(tmp_path_factory.mktemp("s"), encoder, texts)
    each = TokenTexts.from_cached(read_tokens(store.tokens(encoder), texts), store.pieces, "idf", encoder.dimensions)
    all_texts = each.select(range(len(texts)))
    vectors = [tokens.vectors for tokens in encoder.encode_tokens(texts[:2])]
    measures = [get_ground_cost(cost).measure(text_tokens, np.ones(len(text_tokens))) for text_tokens in vectors]
    expected = find_nearest_texts(measures, all_texts, k, cost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_store, "TOKENS_PER_TILE", tile)
        tiles = list(each.tiles())
        nearest_texts = find_nearest_texts(measures, each, k, cost)
        nearest = nearest_tokens(vectors[0], each)
    assert len(tiles) > 1 or tile >= len(all_texts.vectors)
    concatenated = [np.concatenate([getattr(p, name) for _, p in tiles]) for name in ("vectors", "weights")]
    np.testing.assert_array_equal(concatenated[0], all_texts.vectors)
    np.testing.assert_array_equal(concatenated[1], all_texts.weights)
    for one, other in zip(nearest_texts, expected, strict=True):
        assert one.indices.tolist() == other.indices.tolist() and one.distances.tolist() == other.distances.tolist()
    np.testing.assert_allclose(nearest, nearest_tokens(vectors[0], all_texts), atol=1e-6)


def test_a_text_can_concatenate_several_cached_texts(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    store = write_store(tmp_path, encoder)
    cached = read_tokens(store.tokens(encoder), TEXTS).concatenate(read_tokens(store.tokens(encoder), ["Title"]))
    texts = TokenTexts(cached, store.pieces, "text", encoder.dimensions, np.array([5, 0, 3]), np.array([0, 2, 3]))
    pool = texts.select([0, 1])
    assert isinstance(pool, TokenPool) and len(texts) == 2
    expected = [*cached.tokens(5).vectors, *cached.tokens(0).vectors, *cached.tokens(3).vectors]
    np.testing.assert_array_equal(pool.vectors, np.array(expected))
    assert (
        pool.offsets.tolist() == np.cumsum([0, 1 + len(cached.tokens(0).words), len(cached.tokens(3).words)]).tolist()
    )
