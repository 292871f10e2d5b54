"""Slots and words of prompts, and the vocabulary of entities."""

from __future__ import annotations

import pytest

from evidence_assets.text.prompt_text import (
    as_sentence,
    entity_word_positions,
    fill_prompt,
    find_slot_error,
    is_word,
    prompt_words,
    same_prompt_key,
)


def test_filling_never_mistakes_an_entity_for_a_slot() -> None:
    assert fill_prompt("<TAIL> holds <HEAD>", "a <TAIL> b", "c") == "c holds a <TAIL> b"


@pytest.mark.parametrize(
    ("prompt", "fault"),
    [
        ("<HEAD> is in", "no <TAIL>"),
        ("is in <TAIL>", "no <HEAD>"),
        ("<HEAD> and <HEAD> in <TAIL>", "<HEAD> 2 times"),
        ("<HEAD> is in <TAIL>", ""),
    ],
)
def test_a_slot_error_names_the_slot(prompt: str, fault: str) -> None:
    assert fault in find_slot_error(prompt)
    assert bool(find_slot_error(prompt)) == bool(fault)


def test_entity_words_exclude_non_entities() -> None:
    vocabulary = "sea ##ing [unused3] 42 7th seven The a x Capital well-known é Öl .".split()  # noqa: SIM905
    words = entity_word_positions(vocabulary, ["<HEAD> is the capital of <TAIL>"])
    assert [vocabulary[position] for position in words] == ["sea", "well-known", "Öl"]


def test_words_and_sentences() -> None:
    assert prompt_words("<HEAD>, is part-of <TAIL>!") == ["is", "part-of"]
    assert same_prompt_key("<HEAD> is <TAIL>") != same_prompt_key("<TAIL> is <HEAD>")
    assert as_sentence(" x is y ") == "x is y." and as_sentence("Is x?") == "Is x?"
    assert not is_word("") and not is_word("a b") and is_word("o'clock")
