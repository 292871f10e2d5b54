"""Pools larger than the cache of tokens: each chunk is encoded once, disk and memory are bounded, evidence is equal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets import profiles
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval import token_cache
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts, build_store, source_version
from evidence_assets.systems.uscrake import chunk_ranking
from evidence_assets.systems.uscrake import passages as passages_module
from evidence_assets.systems.uscrake.chunk_ranking import BestChunks
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction
from evidence_assets.systems.uscrake.passages import EncodedPassages, Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport import DevicePool, TokenPool, get_ground_cost
from evidence_assets_tests.retrieval.written import written_corpus
from evidence_assets_tests.systems.uscrake.small_pages import reasons_of
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder
from evidence_assets_tests.transport.random_texts import distance

WORDS = ["bee", "honey", "hive", "salt", "sea", "fish", "rain", "plain", "sugar", "nectar", "blossom", "water"]
N_CHUNKS = 300
QUESTION = Question("q", "b", "mcqa", "Which food do bees make?", ("honey of blossom", "salt of the sea", "rain"))
GROUP_BYTES = 1_200_000
"""A seventh of the chunks' token vectors, which are 8 MB; ..."""
MAX_BYTES = 600_000
"""... the cache on disk has half of that."""


class WideEncoder(PieceEncoder):
    """Vectors of 256 dimensions; records what is on disk at each call."""

    dimensions = 256
    vector = cache(PieceEncoder.vector)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.file_bytes: list[int] = []
        self.deleted_bytes: list[int] = []

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        self.record()
        return super().token_layers(texts, layers)

    def record(self) -> None:
        """Sizes of the cache's files, and of deleted files that are still mapped, as the kernel lists them."""
        sizes = [path.stat().st_size for path in self._folder.rglob("*.arrow")]
        self.file_bytes.append(sum(sizes))
        mappings = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        deleted = {m[5]: m[0].split("-") for m in mappings if m[-1] == "(deleted)" and str(self._folder) in m[5]}
        self.deleted_bytes.append(sum(int(end, 16) - int(start, 16) for start, end in deleted.values()))


class CardEncoder(WideEncoder):
    """As an encoder on a card, keeps the vectors of tokens there, and records their bytes; the card is the CPU."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._references: list[ReferenceType[torch.Tensor]] = []
        self.card_bytes: list[int] = []

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        tokens = [replace(t, on_device=torch.from_numpy(t.vectors).half()) for t in super().encode_tokens(texts)]
        self._references += [ref(t.on_device) for t in tokens if t.on_device is not None]
        self.record_card()
        return tokens

    def record_card(self) -> None:
        self.card_bytes.append(
            sum(vectors.nbytes for reference in self._references if (vectors := reference()) is not None)
        )


@cache
def texts_of_chunks() -> tuple[str, ...]:
    rng = np.random.default_rng(7)
    sentences = [[f"{' '.join(rng.choice(WORDS, 5))}." for _ in range(rng.integers(1, 18))] for _ in range(N_CHUNKS)]
    return tuple(f"{i} {' '.join(chunk)}" for i, chunk in enumerate(sentences))


@cache
def vectors_of_chunks() -> npt.NDArray[np.float32]:
    return PieceEncoder().encode_sentences(texts_of_chunks())


def open_passages(
    folder: Path, max_bytes: int, make_encoder: type[WideEncoder] = WideEncoder
) -> tuple[Passages, WideEncoder]:
    encoder = make_encoder(folder / "cache")
    texts = list(texts_of_chunks())
    names = [f"c{i:04d}" for i in range(N_CHUNKS)]
    titles = [f"page {WORDS[i % 5]}" for i in range(N_CHUNKS)]
    corpus = written_corpus(folder / "index", names, texts, titles, vectors_of_chunks())
    build_store(folder / "store", [texts], encoder, "pieces@1", "chunks")
    expected = source_version("chunks", "pieces@1")
    store = TokenStore(folder / "store", expected=expected, cache=folder / "cache", max_bytes=max_bytes)
    return Passages(corpus, store), encoder


def select(passages: Passages, encoder: WideEncoder, **settings: Any) -> list[SelectedEvidence]:
    uscrake = UscrakeSettings(**{"R": 200, "k": 7, "parts": "chunks", **settings})
    selector = UscrakeSelector(uscrake, passages, PieceEncoder(), encoder, LateInteraction(encoder))
    (evidence,) = selector.select([QUESTION])
    return evidence


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages_module, "GROUP_BYTES", GROUP_BYTES)
    monkeypatch.setattr(token_cache, "TEXTS_PER_SEGMENT", 8)


def test_the_published_profile_takes_at_most_twenty_gigabytes_of_disk() -> None:
    cache_bytes = profiles.load("paper").retrieval.token_cache_bytes
    assert cache_bytes + 1.1 * passages_module.GROUP_BYTES <= 20e9, "with what is ranked at a time"


@pytest.mark.parametrize("cost", ["jsd", "cosine", "moverscore", "fusion"])
@pytest.mark.usefixtures("small_groups")
def test_a_chunk_is_encoded_once_within_bounds_of_disk_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: str
) -> None:
    loaded_bytes: list[int] = []

    def record_select(texts: TokenTexts, numbers: Any, select: Any = TokenTexts.select) -> TokenPool:
        pool: TokenPool = select(texts, numbers)
        loaded_bytes.append(pool.vectors.nbytes)
        return pool

    monkeypatch.setattr(TokenTexts, "select", record_select)
    monkeypatch.setattr(chunk_ranking, "MAX_TRANSPORTED", 20)
    passages, encoder = open_passages(tmp_path, MAX_BYTES)
    evidence = select(passages, encoder, cost=cost)
    encoder.record()
    chunks = Counter(text for text in encoder.encoded_texts if text in set(texts_of_chunks()))
    dimensions = encoder.dimensions * (3 if cost == "moverscore" else 1)
    vectors = 2 * dimensions * sum(encoder.count_tokens(list(chunks)))
    print(
        f"\n{cost}: {len(chunks)} chunks of {vectors:,} B encoded {sum(chunks.values())} times in "
        f"{len(encoder.file_bytes) - 1} calls; peak files {max(encoder.file_bytes):,} B (limit {MAX_BYTES:,}), "
        f"mapped without a file {max(encoder.deleted_bytes):,} B (group {GROUP_BYTES:,}), "
        f"loaded at a time {max(loaded_bytes):,} B"
    )
    assert evidence and len(chunks) > 200 and vectors > 5 * GROUP_BYTES
    assert set(chunks.values()) == {1}
    assert max(encoder.file_bytes) <= MAX_BYTES, "others are evicted before the next segment is encoded"
    assert max(encoder.deleted_bytes) <= 1.3 * GROUP_BYTES, "vectors, and the other arrays of their tokens"
    assert encoder.deleted_bytes[-1] == 0
    assert max(loaded_bytes) <= 1.1 * GROUP_BYTES, "a group, with titles"


@pytest.mark.parametrize(("grain", "titles"), [("chunk", False), ("sentence", True)])
@pytest.mark.parametrize("cost", ["jsd", "euclidean", "moverscore", "fusion", "maxsim", "embedding"])
def test_groups_have_the_evidence_of_the_whole_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: str, grain: str, titles: bool
) -> None:
    settings = {"cost": cost, "grain": "chunk" if cost == "embedding" else grain, "titles": titles}
    whole = select(*open_passages(tmp_path / "whole", 1 << 30), **settings)
    monkeypatch.setattr(passages_module, "GROUP_BYTES", GROUP_BYTES)
    assert select(*open_passages(tmp_path / "groups", 0), **settings) == whole


@pytest.mark.parametrize(("cost", "titles"), [("jsd", True), ("euclidean", False), ("moverscore", False)])
def test_a_card_ranks_a_group_at_a_time_with_the_evidence_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: str, titles: bool
) -> None:
    on_host = select(*open_passages(tmp_path / "host", 1 << 30), cost=cost, titles=titles)
    sizes: list[int] = []

    def record_pool(pool: DevicePool, *arguments: Any, init: Any = DevicePool.__init__) -> None:
        init(pool, *arguments)
        sizes.append(len(pool))

    monkeypatch.setattr(DevicePool, "__init__", record_pool)
    monkeypatch.setattr(passages_module, "GROUP_BYTES", GROUP_BYTES)
    monkeypatch.setattr(token_cache, "TEXTS_PER_SEGMENT", 8)
    passages, encoder = open_passages(tmp_path / "card", MAX_BYTES, CardEncoder)
    assert isinstance(encoder, CardEncoder)
    assert select(passages, encoder, cost=cost, titles=titles) == on_host
    encoder.record_card()
    print(f"\n{cost}: {len(sizes)} pools on the card, at most {max(encoder.card_bytes, default=0):,} B of vectors")
    if cost == "moverscore":  # its vectors are computed on the host
        assert not sizes
    else:
        assert sum(sizes) == len(QUESTION.options) * 200, "every chunk of every option's pool is ranked there"
        assert 0.5 * GROUP_BYTES < max(encoder.card_bytes) <= 1.1 * GROUP_BYTES, "a group, with titles"
    assert encoder.card_bytes[-1] == 0


@pytest.mark.usefixtures("small_groups")
def test_the_best_of_groups_are_those_of_solving_every_chunk(tmp_path: Path) -> None:
    passages, encoder = open_passages(tmp_path, MAX_BYTES)
    evidence = select(passages, encoder, cost="jsd", grain="chunk", titles=False, R=N_CHUNKS)
    encoded = EncodedPassages(passages.corpus, passages.store, encoder)
    texts = encoded.texts(np.arange(N_CHUNKS))
    for label, option in QUESTION.hypotheses:
        (tokens,) = encoder.encode_tokens([QUESTION.query(option)])
        query = get_ground_cost("jsd").measure(tokens.vectors, encoded.token_weights(tokens.tokens))
        distances: npt.NDArray[np.float64] = np.array(
            [distance(query, texts.measure(i, "jsd"), "jsd") for i in range(N_CHUNKS)]
        )
        rows = sorted((row for row in evidence if row.option == label), key=lambda row: reasons_of(row)["chunk_rank"])
        nearest = np.argsort(distances, kind="stable")[:7].tolist()
        assert [row.parents[0].id for row in rows] == [f"c{i:04d}" for i in nearest]
        assert [-row.score for row in rows] == pytest.approx(distances[nearest].tolist(), abs=1e-9)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(1, 6), st.integers(1, 4), st.randoms())
def test_equal_scores_are_kept_in_the_order_of_the_corpus(scores: list[int], k: int, parts: int, random: Any) -> None:
    chunks = list(range(len(scores)))
    random.shuffle(chunks)
    best = BestChunks(np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 0), np.float32), [])
    for part in map(np.sort, np.array_split(chunks, parts)):
        part_scores = np.array(scores, np.float64)[part]
        best = best.merge(BestChunks(part, part_scores, np.zeros((0, len(part)), np.float32), [[]] * len(part)), k)
    assert best.chunks.tolist() == sorted(sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k])
    assert best.scores.tolist() == [scores[i] for i in best.chunks.tolist()]
