"""BM25 on disk against BM25 in memory, bit by bit, however the texts came and whatever waited on the disk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import StaleInput
from evidence_assets.retrieval import term_index
from evidence_assets.retrieval.bm25 import BM25Index, Idf, term_weight
from evidence_assets.retrieval.term_index import TermIndex, TermIndexWriter

Texts = list[list[str]]
TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), max_size=15)


def index_of(folder: Path, texts: Texts, at_once: int = 100, *, postings: bool = True) -> TermIndex:
    writer = TermIndexWriter(folder / "index", postings=postings)
    for start in range(0, len(texts), at_once):
        writer.add(texts[start : start + at_once])
    writer.finish()
    return TermIndex(folder / "index")


def total(token: str, texts: Texts) -> float:
    """The frequencies of a token, saturated, added one after another."""
    average, summed = sum(map(len, texts)) / max(1, len(texts)), 0.0
    for text in texts:
        if f := Counter(text)[token]:
            summed += term_weight(1.0, f, len(text), average)
    return summed


def assert_best(made: TermIndex, reference: BM25Index, query: list[str], form: Idf, k: int) -> None:
    expected = reference.scores(query)
    positions, scores = made.top_k(query, k, form)
    best = sorted(np.flatnonzero(expected > 0).tolist(), key=lambda i: (-expected[i], i))[:k]
    assert positions.tolist() == best and scores.tolist() == expected[best].tolist()


@pytest.mark.parametrize(("tile", "looked_up"), [(1 << 20, 1), (1 << 20, 20), (300, 1), (300, 20), (7, 1)])
def test_the_best_of_many_texts_are_those_of_looking_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tile: int, looked_up: int
) -> None:
    monkeypatch.setattr(term_index, "TILE", tile)
    monkeypatch.setattr(term_index, "LOOKED_UP", looked_up)
    rng = np.random.default_rng(0)
    # Words as frequent as words are, so that the rare ones decide and the frequent ones are left for later.
    texts = [[f"w{i}" for i in (rng.zipf(1.3, rng.integers(0, 30)) % 500).tolist()] for _ in range(800)]
    made = index_of(tmp_path, texts)
    forms: tuple[Idf, ...] = ("printed", "plus_one")
    for form in forms:
        reference = BM25Index(texts, form)
        for _ in range(8):
            query = [f"w{i}" for i in (rng.zipf(1.2, 12) % 500).tolist()]
            for k in (2, 60):
                assert_best(made, reference, query, form, k)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(st.sampled_from("abcdefgz"), max_size=6), st.integers(1, 5), st.sampled_from([1, 9, 1 << 20]))
def test_what_lies_on_disk_is_what_the_index_in_memory_says(
    tmp_path_factory: pytest.TempPathFactory, texts: Texts, query: list[str], at_once: int, spill: int
) -> None:
    forms: tuple[Idf, ...] = ("printed", "plus_one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_index, "SPILL", spill)
        patch.setattr(term_index, "PARTS", 256)
        made = index_of(tmp_path_factory.mktemp("i"), texts, at_once)
    for form in forms:
        reference = BM25Index(texts, form)
        assert_best(made, reference, query, form, 3)
        assert_best(made, reference, query, form, len(texts) + 1)
        assert made.idf(query, form).tolist() == [reference.statistics.idf(token, form) for token in query]
    statistics = BM25Index(texts).statistics
    assert (made.texts, made.average) == (len(texts), statistics.average_length)
    assert made.token_weights(query).tolist() == statistics.token_weights(query).tolist()
    assert made.values(query, "idf").tolist() == [statistics.idf(token, "plus_one") for token in query]
    summed = [statistics.idf(token) * total(token, texts) for token in query]
    assert made.values(query, "corpus").tolist() == made.token_weights(query, "corpus").tolist() == summed
    assert made.holding(query).tolist() == [sum(token in text for text in texts) for token in query]


def test_without_postings_it_says_how_rare_terms_are_and_finds_nothing(tmp_path: Path) -> None:
    texts = [["a", "b"], ["a"]]
    made = index_of(tmp_path, texts, postings=False)
    assert made.holding(["a", "b", "c"]).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="keeps no postings"):
        made.top_k(["a"], 1)


@pytest.mark.parametrize("name", ["rows", "spread"])
def test_files_that_are_cut_or_of_another_index_are_named(tmp_path: Path, name: str) -> None:
    for folder, texts in (("x", 50), ("y", 51)):
        index_of(tmp_path / folder, [["common", f"rare {number}"] for number in range(texts)])
    file = tmp_path / "x" / "index" / f"{name}.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StaleInput, match=rf"{name}\.npy is cut short or damaged"):
        TermIndex(tmp_path / "x" / "index")
    file.write_bytes((tmp_path / "y" / "index" / f"{name}.npy").read_bytes())
    with pytest.raises(StaleInput, match="do not belong together"):
        TermIndex(tmp_path / "x" / "index")
    with pytest.raises(ValueError, match="at least one"):
        TermIndex(tmp_path / "y" / "index").top_k(["a"], 0)


def test_nothing_that_waited_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_index, "SPILL", 1)
    index_of(tmp_path, [["a"], ["b"]], 1)
    assert not list((tmp_path / "index").glob("*.tmp"))
