"""Clean-up and tokens shared by the table methods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.reasoning.tables.text import content_stems, latin_digits, plain_text, stem, token_set, tokens


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("[BOLD] 76.41", "76.41"),
        ("<italic>F</italic>1", "F1"),
        ("a<br/>b", "a b"),
        ('<span class="x">y</span>', "y"),
        ("[EMPTY]", ""),
        ("[MASK] <unk> p<0.05 and >3", "[MASK] <unk> p<0.05 and >3"),
        ("A &amp; B", "A & B"),
        ("  a \n b\t", "a b"),
    ],
)
def test_plain_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain


def test_tokens_fold_case_digits_and_width() -> None:
    assert tokens("Ｐrice: １２３ 3.5% don't CMOW-R") == ["price", "123", "3.5", "don't", "cmow", "r"]
    assert token_set(["a b", "B"]) == {"a", "b"}


@given(st.text(max_size=60))
def test_latin_digits_keep_offsets(text: str) -> None:
    assert len(latin_digits(text)) == len(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [("vaporizing", "vaporization"), ("stars", "star"), ("bodies", "body"), ("melted", "melting"), ("one", "1")],
)
def test_inflections_meet(left: str, right: str) -> None:
    assert stem(left) == stem(right)


@given(st.from_regex(r"[a-z]{1,12}", fullmatch=True))
def test_a_stem_is_never_empty(word: str) -> None:
    assert stem(word)


def test_content_words_only() -> None:
    assert content_stems("Which of the stars is the largest?") == ["star", stem("largest")]
