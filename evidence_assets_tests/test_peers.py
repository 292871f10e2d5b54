"""The comparisons with other libraries (`make peers`) on tiny data; a library that is not installed is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.peers import graphs, retrieval, transport
from bench.peers.measuring import missing
from evidence_assets.models.vectors import unit_rows

NAMES = ["rain", "heavy rain", "flood", "river bank", "bank", "the"]
TEXT = "Heavy rains flood the river banks, and the bank of a lake."
EDGES = np.array([(0, 1), (1, 2), (0, 3), (3, 2), (2, 1), (2, 4), (4, 5), (5, 6), (6, 7), (8, 9)], np.int32)
PAIRS = [(0, 2), (0, 4), (5, 1), (0, 7), (0, 9)]
TEXTS = [f"w{number} of the {number % 3} kinds" for number in range(12)]
VECTORS = unit_rows(np.random.default_rng(0).random((12, retrieval.DIMENSIONS), np.float32))


def require(modules: Sequence[str]) -> None:
    if reason := missing(*modules):
        pytest.skip(reason)


def encode(texts: Sequence[str]) -> Any:
    return np.stack([VECTORS[TEXTS.index(text)] for text in texts])


@pytest.mark.parametrize("peer", retrieval.PEERS, ids=lambda peer: peer.name)
def test_a_retriever_finds_the_text_itself_first(peer: retrieval.Peer) -> None:
    require(peer.modules)
    tokens, offsets = VECTORS.astype(np.float16), np.arange(len(TEXTS) + 1)
    by_token = [SimpleNamespace(vectors=row[None]) for row in VECTORS]
    encoder: Any = SimpleNamespace(
        encode_sentences=encode, encode_tokens=lambda q: [by_token[TEXTS.index(t)] for t in q]
    )
    search = peer.build(retrieval.Texts(TEXTS, VECTORS, tokens, offsets), encoder)
    rankings = search(TEXTS)
    assert [ranking[0][0] for ranking in rankings] == list(range(len(TEXTS)))
    if peer.name in retrieval.EXACT_VECTORS:
        cosines = [sorted(row.tolist(), reverse=True) for row in VECTORS @ VECTORS.T]
        retrieval.assert_equal(rankings, [[(0, score) for score in row] for row in cosines])


@pytest.mark.parametrize("name", transport.PEERS)
def test_solvers_of_transport_agree_where_they_may(name: str) -> None:
    modules, solve = transport.PEERS[name]
    require(modules)
    rng = np.random.default_rng(0)
    costs, b = rng.random((4, 6, 9)), np.repeat([[1 / 8] * 8 + [0]], 4, 0)
    costs[:, :, 8] = 0
    exact = transport.pot_loop(costs, np.full(6, 1 / 6), b)
    error = np.abs(solve(costs, np.full(6, 1 / 6), b) / exact - 1).max()
    assert error < (1e-9 if "exact" in name else 0.2 if "0.01" in name else 2)


@pytest.mark.parametrize("name", graphs.PATHS)
def test_path_searches_agree(name: str) -> None:
    modules, build = graphs.PATHS[name]
    require(modules)
    first, *others = map(build(EDGES), PAIRS)
    assert first == {(0, 1, 2), (0, 3, 2)}
    assert [len(paths) for paths in others] == [2, 1, 0, 0]


@pytest.mark.parametrize("name", graphs.LINKERS)
def test_linkers_agree(name: str) -> None:
    modules, build = graphs.LINKERS[name]
    require(modules)
    assert [TEXT[start:end] for start, end in build(NAMES)(TEXT)] == ["Heavy rains", "flood", "river banks", "bank"]
