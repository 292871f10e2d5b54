"""BM25 against a plain loop written from the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.retrieval.bm25 import BM25Index, Idf

TEXTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12), min_size=1, max_size=15)


def plain_weight(token: str, text: list[str], texts: list[list[str]], form: Idf) -> float:
    n = sum(token in t for t in texts)
    average = sum(map(len, texts)) / len(texts)
    odds = (len(texts) - n + 0.5) / (n + 0.5)
    idf = math.log(1 + odds) if form == "plus_one" else max(0.0, math.log(odds))
    f = text.count(token)
    return idf * f * 2.2 / (f + 1.2 * (0.25 + 0.75 * len(text) / average)) if f else 0.0


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(st.sampled_from("abcdefgz"), max_size=6), st.sampled_from(["printed", "plus_one"]))
def test_index_and_weights_equal_the_plain_loop(texts: list[list[str]], query: list[str], form: Idf) -> None:
    index = BM25Index(texts, form)
    expected = [sum(plain_weight(token, text, texts, form) for token in query) for text in texts]
    assert index.scores(query) == pytest.approx(expected, abs=1e-12)
    positions, scores = index.top_k(query, 3)
    rounded = index.scores(query)
    assert positions.tolist() == sorted(range(len(texts)), key=lambda i: (-rounded[i], i))[:3]
    assert scores.tolist() == rounded[positions].tolist()
    statistics = BM25Index(texts).statistics
    for text in texts:
        made = statistics.token_weights(text, form)
        assert made == pytest.approx([plain_weight(token, text, texts, form) for token in text], abs=1e-12)
        assert (made >= 0).all()


def test_printed_idf_is_clipped_where_it_would_be_negative() -> None:
    statistics = BM25Index([["the", "cat"], ["the"], ["the", "dog"]]).statistics
    assert statistics.idf("the") == 0.0
    assert statistics.idf("cat") == pytest.approx(math.log(2.5 / 1.5))
    assert statistics.idf("the", "plus_one") == pytest.approx(math.log(1 + 0.5 / 3.5))
    assert statistics.idf("unseen") == pytest.approx(math.log(7))


def test_empty_corpora_texts_and_queries_have_a_defined_result() -> None:
    nothing = BM25Index([]).statistics
    assert (nothing.texts, nothing.average_length) == (0, 0.0)
    assert nothing.token_weights(["a"]).tolist() == [0.0]
    index = BM25Index([[], ["a"], ["b"], ["c"]])
    assert index.scores(["a"])[0] == 0 < index.scores(["a"])[1]
    assert index.top_k([], 9)[0].tolist() == [0, 1, 2, 3]
    assert BM25Index([]).top_k(["a"], 2)[0].tolist() == []
    with pytest.raises(ValueError, match="at least one"):
        index.top_k(["a"], 0)
    with pytest.raises(ValueError, match="unknown"):
        nothing.idf("a", "other")  # type: ignore[arg-type]
    assert np.all(BM25Index([["a"], ["a"]]).scores(["a"]) == 0)
