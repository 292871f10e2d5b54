"""BM25 against plain loops written from the formula: weights to the last digits, rankings as float32 tells scores
apart.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import StaleInput
from evidence_assets.retrieval.bm25 import TermIndex, TermIndexWriter, score_texts
from evidence_assets_tests.retrieval import plain_bm25

Texts = list[list[str]]
TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), max_size=15)
QUERY = st.lists(st.sampled_from("abcdefgz"), max_size=6)


def build_index(folder: Path, texts: Texts, at_once: int = 100, *, postings: bool = True) -> TermIndex:
    writer = TermIndexWriter(folder / "index", postings=postings)
    for start in range(0, len(texts), at_once):
        writer.add(texts[start : start + at_once])
    writer.finish()
    return TermIndex(folder / "index")


@settings(max_examples=40, deadline=None)
@given(TEXTS, QUERY, st.integers(1, 5))
def test_an_index_on_disk_weighs_and_ranks_as_the_formula_says(
    tmp_path_factory: pytest.TempPathFactory, texts: Texts, query: list[str], at_once: int
) -> None:
    index = build_index(tmp_path_factory.mktemp("i"), texts, at_once)
    assert (index.texts, index.tokens) == (len(texts), sum(map(len, texts)))
    assert index.document_frequencies(query).tolist() == [sum(token in text for text in texts) for token in query]
    if not index.tokens:
        assert index.top_k(query, 3)[0].tolist() == []
        return
    for text in (query, *texts):
        assert index.token_weights(text) == pytest.approx(plain_bm25.token_weights(text, texts), abs=1e-12)
    rarity = [plain_bm25.idf(token, texts) for token in query]
    summed = [idf * plain_bm25.total(token, texts) for idf, token in zip(rarity, query, strict=True)]
    assert index.corpus_weights(query, "corpus") == pytest.approx(summed, abs=1e-12)
    assert index.token_weights(query, "corpus").tolist() == index.corpus_weights(query, "corpus").tolist()
    assert index.corpus_weights(query, "idf") == pytest.approx(
        [plain_bm25.idf(t, texts, "plus_one") for t in query], abs=1e-12
    )
    expected = np.array(plain_bm25.scores(query, texts))
    np.testing.assert_allclose(score_texts(texts, [query])[0], expected, rtol=1e-5, atol=1e-6)
    for k in (3, len(texts) + 1):
        positions, scores = index.top_k(query, k)
        assert len(set(positions.tolist())) == len(positions) == min(k, (expected > 0).sum())
        np.testing.assert_allclose(scores, np.sort(expected)[::-1][: len(positions)], rtol=1e-5)
        np.testing.assert_allclose(expected[positions], scores, rtol=1e-5)


def test_equal_scores_are_ordered_by_position(tmp_path: Path) -> None:
    texts = [["a", "b"] if i % 3 else ["c", "b"] for i in range(60)]
    positions, scores = build_index(tmp_path, texts).top_k(["b", "a"], 30)
    assert positions.tolist() == [i for i in range(60) if i % 3][:30]
    assert len(set(scores.tolist())) == 1


def test_the_same_texts_give_the_same_bytes(tmp_path: Path) -> None:
    texts = [[f"w{i % 7}", f"w{i % 11}"] for i in range(40)]
    for name, at_once in (("x", 100), ("y", 3)):
        build_index(tmp_path / name, texts, at_once)
    files = sorted(path.name for path in (tmp_path / "x" / "index").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "y" / "index").iterdir())
    for name in files:
        assert (tmp_path / "x" / "index" / name).read_bytes() == (tmp_path / "y" / "index" / name).read_bytes()


def test_without_postings_there_are_frequencies_but_no_search(tmp_path: Path) -> None:
    index = build_index(tmp_path, [["a", "b"], ["a"]], postings=False)
    assert index.document_frequencies(["a", "b", "c"]).tolist() == [2, 1, 0]
    with pytest.raises(StaleInput, match="is missing"):
        index.top_k(["a"], 1)


@pytest.mark.parametrize("name", ["keys", "indices.csc.index"])
def test_files_that_are_cut_are_refused(tmp_path: Path, name: str) -> None:
    build_index(tmp_path, [["common", f"rare {number}"] for number in range(50)])
    file = tmp_path / "index" / f"{name}.npy"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(StaleInput, match=r"index.* is truncated or damaged"):
        TermIndex(tmp_path / "index").top_k(["common"], 1)
