"""Reading evidence as statements."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.reasoning.extractive import asked_kind, statements
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.sentences import sentence_spans


def read(text: str, kind: str = "chunk") -> list[tuple[str, str, bool]]:
    return [(s.text, s.quote, s.denies) for s in statements(EvidenceItem("e", kind, "d", "0", text))]


@given(st.text(alphabet="Ab .!?\n\t\"'é你0", max_size=60))
def test_sentences_cover_the_text_in_order(text: str) -> None:
    spans = sentence_spans(text)
    assert all(a < b and text[a:b] == text[a:b].strip() for a, b in spans)
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())


@given(st.text(max_size=80))
def test_every_quotation_is_verbatim(text: str) -> None:
    for statement in statements(EvidenceItem("e", "chunk", "d", "0", text)):
        assert statement.quote in text and statement.text in statement.quote


def test_clauses_are_told_apart_and_quote_their_sentence() -> None:
    sentence = "Aspirin may treat pain, whereas insulin may treat diabetes."
    assert read(sentence) == [
        ("Aspirin may treat pain", sentence, False),
        ("whereas insulin may treat diabetes.", sentence, False),
    ]


def test_pronoun_takes_the_sentence_before_along() -> None:
    assert read("Metformin is a drug. It lowers glucose.")[1][0] == "Metformin is a drug. It lowers glucose."


@pytest.mark.parametrize(
    ("text", "negative"),
    [
        ("X is not used for Y.", True),
        ("X isn't Y.", True),
        ("X is no remedy for Y.", True),
        ("X cannot do Y", True),
        ("X may treat Y.", False),
        ("Notable knots.", False),
    ],
)
def test_denials(text: str, negative: bool) -> None:
    assert [each[2] for each in read(text)] == [negative]


def test_kind_of_the_answer_is_told_from_the_topic() -> None:
    assert asked_kind("Which illness is metformin meant to help with?") == {"ill"}
    assert asked_kind("Name the capital of France.") == frozenset()
