"""Chunking: no text is lost, no chunk is too long, sentences stay complete."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.text.chunking import split_chunks
from evidence_assets.text.sentences import sentence_spans


def words(texts: Sequence[str]) -> list[int]:
    """A non-additive tokenizer: long words have several tokens, and each text has one extra token."""
    return [1 + sum(1 + len(word) // 10 for word in text.split()) for text in texts]


@given(st.text(alphabet='ab C.!?\n"é。', max_size=400), st.integers(3, 30))
def test_every_character_is_in_exactly_one_chunk_within_the_limit(text: str, limit: int) -> None:
    result = split_chunks(text, words, limit)
    covered = [i for chunk in result for a, b in chunk.sentences for i in range(a, b)]
    assert len(covered) == len(set(covered))
    assert {i for i, c in enumerate(text) if not c.isspace()} <= set(covered)
    for chunk in result:
        assert words([text[chunk.start : chunk.end]]) == [chunk.n_tokens]
        assert chunk.n_tokens <= limit
        assert chunk.start == chunk.sentences[0][0] and chunk.end == chunk.sentences[-1][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   \n", []),
        ("One line", ["One line"]),
        ("It is 3.5 km long. It ends.", ["It is 3.5 km long.", "It ends."]),
        ("See e.g. Smith et al. 1990 for more. Done.", ["See e.g. Smith et al. 1990 for more.", "Done."]),
        ("J. S. Bach wrote it! Why? Nobody knows.", ["J. S. Bach wrote it!", "Why?", "Nobody knows."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("Heading\n\nA paragraph.", ["Heading", "A paragraph."]),
        ("東京は大きい。人が多い。", ["東京は大きい。", "人が多い。"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text)] == expected


def test_a_page_of_dots_takes_linear_time() -> None:
    text = "." * 2_000_000 + "x"
    assert sentence_spans(text) == [(0, len(text))]
