"""The token store and its cache: right tokens for every text, none encoded twice, none of another encoder, a bounded
disk.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.retrieval import token_cache, token_store
from evidence_assets.retrieval.bm25 import TokenWeighting, hash_terms
from evidence_assets.retrieval.corpus_files import hash_texts
from evidence_assets.retrieval.maxsim import nearest_tokens
from evidence_assets.retrieval.token_cache import CachedText, TokenCache
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts, build_store, source_version
from evidence_assets.transport import find_nearest_texts, get_ground_cost
from evidence_assets_tests.retrieval import plain_bm25
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

TEXTS = ["Honey is sweet. Bees make honey.", "!?", "   ", "Rain falls on the plain", "Bees fly."]
MODEL = "pieces@1"


def write_store(folder: Path, encoder: PieceEncoder, texts: Sequence[str] = TEXTS) -> TokenStore:
    build_store(folder / "store", [texts[:1], texts[1:]], encoder, MODEL, "chunks")
    return TokenStore(folder / "store", expected=source_version("chunks", MODEL), cache=folder / "cache")


def read_tokens(cache: TokenCache, texts: Sequence[str]) -> list[CachedText]:
    return cache.get(hash_texts(texts), lambda missing: [texts[i] for i in missing.tolist()])


def vectors_of(cached: CachedText) -> npt.NDArray[np.float16]:
    return np.asarray(cached.segment.vectors[cached.rows])


def weigh(store: TokenStore, members: list[list[CachedText]], weighting: TokenWeighting = "text") -> TokenTexts:
    return TokenTexts(members, store.pieces, weighting, PieceEncoder().dimensions, WeakKeyDictionary())


def test_every_row_is_the_token_at_its_span(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    store = write_store(tmp_path, encoder)
    assert store.meta.chunks == len(TEXTS)
    all_cached = read_tokens(store.tokens(encoder), TEXTS)
    assert store.meta.tokens == sum(map(len, all_cached))
    for text, cached, tokens in zip(TEXTS, all_cached, PieceEncoder().encode_tokens(TEXTS), strict=True):
        segment, rows = cached.segment, cached.rows
        terms = segment.terms[segment.codes[rows]].tolist()
        if not text.strip():
            assert vectors_of(cached).shape == (1, encoder.dimensions) and not vectors_of(cached).any()
            assert terms == hash_terms([""]).tolist()
            continue
        assert terms == hash_terms(tokens.tokens).tolist()
        assert segment.counts[rows].tolist() == [Counter(tokens.tokens)[token] for token in tokens.tokens]
        assert cached.spans.tolist() == tokens.offsets.tolist()
        np.testing.assert_array_equal(vectors_of(cached), tokens.vectors.astype(np.float16))
    assert read_tokens(store.tokens(encoder), []) == []


def test_statistics_and_weights_are_those_of_bm25_over_pieces(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    store = write_store(tmp_path, encoder)
    pieces = [list(text_tokens) or [""] for text_tokens in encoder.split_tokens(TEXTS)]
    terms = sorted({token for text in pieces for token in text})
    expected_frequencies = [sum(term in text for text in pieces) for term in terms]
    assert store.pieces.document_frequencies([*terms, "unknown"]).tolist() == [*expected_frequencies, 0]
    weighed = weigh(store, [[cached] for cached in read_tokens(store.tokens(encoder), TEXTS)])
    expected = [w for i in (3, 0) for w in plain_bm25.token_weights(pieces[i], pieces)]
    assert weighed.select([3, 0]).weights == pytest.approx(expected, abs=1e-12)


def test_a_store_of_other_chunks_or_another_encoder_is_refused(tmp_path: Path) -> None:
    write_store(tmp_path, PieceEncoder())
    store, cache = tmp_path / "store", tmp_path / "cache"
    for expected in (source_version("others", MODEL), source_version("chunks", "pieces@2")):
        with pytest.raises(StaleInput, match="materialize it again"):
            TokenStore(store, expected=expected, cache=cache)
    with pytest.raises(StaleInput, match="is missing"):
        TokenStore(tmp_path / "absent", expected="x", cache=cache)


def test_vectors_that_exceed_float16_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PieceEncoder, "vector", lambda self, piece: np.full(self.dimensions, 1e6, np.float32))
    with pytest.raises(BadInput, match="pieces@1 returns a value that exceeds float16"):
        read_tokens(cache_at(tmp_path, PieceEncoder()), ["unseen words"])


# The cache ---------------------------------------------------------------------------------------------------------


def cache_at(folder: Path, encoder: PieceEncoder, max_bytes: int = 1 << 30) -> TokenCache:
    return TokenCache(folder, encoder, max_bytes=max_bytes)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*TEXTS, "one", "two more", "three"]), max_size=9), max_size=5), st.data())
def test_each_text_is_encoded_once_in_any_order_of_requests(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[str]], data: st.DataObject
) -> None:
    folder, encoder, other = tmp_path_factory.mktemp("c"), PieceEncoder(), PieceEncoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_cache, "TEXTS_PER_SEGMENT", data.draw(st.integers(1, 3)))
        caches = [cache_at(folder, encoder), cache_at(folder, encoder)]  # as two processes
        for texts in requests:
            cached = read_tokens(caches[data.draw(st.integers(0, 1))], texts)
            for text, tokens in zip(cached, other.encode_tokens(texts), strict=True):
                expected = tokens.vectors.astype(np.float16) if len(tokens.tokens) else [[0.0] * other.dimensions]
                np.testing.assert_array_equal(vectors_of(text), expected)
    assert Counter(encoder.encoded_texts) == Counter(dict.fromkeys((t for texts in requests for t in texts), 1))


def test_texts_of_equally_many_tokens_are_encoded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "TEXTS_PER_SEGMENT", 2)
    encoder = PieceEncoder()
    cached = read_tokens(cache_at(tmp_path, encoder), ["one", "two more bees", "six", "now three bees"])
    assert encoder.encoded_texts == ["one", "six", "two more bees", "now three bees"]
    assert [len(text) for text in cached] == encoder.count_tokens(["one", "two more bees", "six", "now three bees"])


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
    assert sum(p.stat().st_size for p in (tmp_path / "bounded").rglob("*.arrow")) <= 3 * size
    none = cache_at(tmp_path / "bounded", encoder, max_bytes=0)
    tokens_of_a_and_e = read_tokens(none, ["a", "e"])
    none.add([b"f" * 16], encoder.encode_tokens(["f"]))
    assert not list((tmp_path / "bounded").rglob("*.arrow")), "nothing may stay, and what was asked for is there"
    for cached, text in zip([*tokens_of_a, *tokens_of_a_and_e], "aae", strict=True):
        np.testing.assert_array_equal(vectors_of(cached)[0], encoder.vector(text).astype(np.float16))


class WatchingEncoder(PieceEncoder):
    """Records the size of a cache's files at each call."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.sizes: list[int] = []

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self.sizes.append(sum(path.stat().st_size for path in self._folder.rglob("*.arrow")))
        return super().encode_tokens(texts)


def test_the_disk_is_bounded_while_one_request_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "TEXTS_PER_SEGMENT", 2)
    encoder = WatchingEncoder(tmp_path)
    texts = [f"{number} bees fly" for number in range(30)]
    (path,) = _filled(cache_at(tmp_path, encoder), texts[:1])
    max_bytes = 4 * path.stat().st_size
    cached = read_tokens(cache_at(tmp_path, encoder, max_bytes), texts)
    assert len(encoder.sizes) == 16 and max(encoder.sizes) <= max_bytes
    assert len(set(tmp_path.rglob("*.arrow"))) > 1
    for text, tokens in zip(cached, PieceEncoder().encode_tokens(texts), strict=True):
        np.testing.assert_array_equal(vectors_of(text), tokens.vectors.astype(np.float16))
        np.testing.assert_array_equal(vectors_of(text.copy()), tokens.vectors.astype(np.float16))


def _filled(cache: TokenCache, texts: Sequence[str]) -> set[Path]:
    return {cached.segment.path for cached in read_tokens(cache, texts)}


def test_the_error_names_a_truncated_segment(tmp_path: Path) -> None:
    encoder = PieceEncoder()
    (path,) = _filled(cache_at(tmp_path / "c", encoder), TEXTS)
    all_texts = path.read_bytes()
    for size in (0, 100, len(all_texts) // 2, len(all_texts) - 8):
        path.write_bytes(all_texts[:size])
        with pytest.raises(StaleInput, match=rf"{path.name} is truncated or damaged.*delete it"):
            cache_at(tmp_path / "c", encoder)


# Vectors on a card -------------------------------------------------------------------------------------------------


class CardEncoder(PieceEncoder):
    """As an encoder on a card, keeps the vectors of tokens there; the card is the CPU."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return [replace(t, on_device=torch.from_numpy(t.vectors).half()) for t in super().encode_tokens(texts)]


@pytest.mark.parametrize("weighting", ["text", "idf"])
def test_texts_that_were_just_encoded_are_on_the_card_with_the_others(
    tmp_path: Path, weighting: TokenWeighting
) -> None:
    store = write_store(tmp_path, PieceEncoder())
    earlier = read_tokens(store.tokens(PieceEncoder()), TEXTS[:2])
    assert weigh(store, [earlier]).on_device is None
    cache = cache_at(tmp_path / "card", CardEncoder())
    encoded = read_tokens(cache, TEXTS)
    members = [[earlier[0], encoded[3]], [encoded[1]], [encoded[0]]]
    pool = weigh(store, members, weighting).on_device
    assert pool is not None and len(pool) == 3
    on_card, on_host = pool.select([2, 0, 1]), weigh(store, members, weighting).select([2, 0, 1])
    for name in ("vectors", "offsets", "weights"):
        np.testing.assert_array_equal(getattr(on_card, name), getattr(on_host, name))
    dropped = [encoded[0].copy(), *read_tokens(cache, TEXTS)]
    assert all(cached.on_device is None for cached in dropped), "only who has just had a text encoded keeps its vectors"


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
    each = weigh(store, [[cached] for cached in read_tokens(store.tokens(encoder), texts)], "idf")
    all_texts = each.select(range(len(texts)))
    vectors = [tokens.vectors for tokens in encoder.encode_tokens(texts[:2])]
    measures = [get_ground_cost(cost).measure(text_tokens, np.ones(len(text_tokens))) for text_tokens in vectors]
    expected = find_nearest_texts(measures, all_texts, k, cost)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_store, "TOKENS_PER_TILE", tile)
        tiles = [pool for pool, _ in each.parts(np.arange(len(texts)))]
        nearest_texts = find_nearest_texts(measures, each, k, cost)
        nearest = nearest_tokens(vectors[0], each)
    assert len(tiles) > 1 or tile >= len(all_texts.vectors)
    for one, other in zip(nearest_texts, expected, strict=True):
        assert one.indices.tolist() == other.indices.tolist() and one.distances.tolist() == other.distances.tolist()
    np.testing.assert_allclose(nearest, nearest_tokens(vectors[0], all_texts), atol=1e-6)
