"""Slots and words of prompts, and the vocabulary of entities."""

import doctest
from collections.abc import Sequence
from importlib import import_module
from pkgutil import walk_packages

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets import graphs, reasoning, retrieval, systems, text, transport
from evidence_assets.text.chunking import split_chunks
from evidence_assets.text.negation import asks_for_exception
from evidence_assets.text.prompt_text import (
    as_sentence,
    entity_word_positions,
    fill_prompt,
    find_slot_error,
    is_word,
    prompt_words,
    same_prompt_key,
)
from evidence_assets.text.sentences import sentence_spans


def test_slots_are_filled_once_and_their_errors_name_them() -> None:
    assert fill_prompt("<TAIL> holds <HEAD>", "a <TAIL> b", "c") == "c holds a <TAIL> b"
    assert "no <TAIL>" in find_slot_error("<HEAD> is in") and "no <HEAD>" in find_slot_error("is in <TAIL>")
    assert "<HEAD> 2 times" in find_slot_error("<HEAD> and <HEAD> in <TAIL>")
    assert find_slot_error("<HEAD> is in <TAIL>") == ""


def test_entity_words_exclude_non_entities() -> None:
    vocabulary = "sea ##ing [unused3] 42 7th seven The a x Capital well-known é Öl .".split()  # noqa: SIM905
    words = entity_word_positions(vocabulary, ["<HEAD> is the capital of <TAIL>"])
    assert [vocabulary[position] for position in words] == ["sea", "well-known", "Öl"]


def test_words_and_sentences() -> None:
    assert prompt_words("<HEAD>, is part-of <TAIL>!") == ["is", "part-of"]
    assert same_prompt_key("<HEAD> is <TAIL>") != same_prompt_key("<TAIL> is <HEAD>")
    assert as_sentence(" x is y ") == "x is y." and as_sentence("Is x?") == "Is x?"
    assert not is_word("") and not is_word("a b") and is_word("o'clock")


# Chunking: no text is lost, no chunk is too long, sentences stay complete


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
        ("It is 3.5 km long. It ends.", ["It is 3.5 km long.", "It ends."]),
        ("See e.g. Smith et al. 1990 for more. Done.", ["See e.g. Smith et al. 1990 for more.", "Done."]),
        ("J. S. Bach wrote it! Why? Nobody knows.", ["J. S. Bach wrote it!", "Why?", "Nobody knows."]),
        ("It opens at 7 p.m. The owner is Ann.", ["It opens at 7 p.m.", "The owner is Ann."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("1. Mix it.\n2. Bake it\n- for an hour", ["1. Mix it.", "2. Bake it", "- for an hour"]),
        ("Heading\n\nA paragraph.", ["Heading", "A paragraph."]),
        ("東京は大きい。人が多い。", ["東京は大きい。", "人が多い。"]),
    ],
)
def test_sentences_end_neither_at_abbreviations_nor_at_decimals(text: str, expected: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text)] == expected


# Questions that ask for the exception, and questions with other negations


EXCEPTIONS = [
    "Which of these is NOT a fish?",
    "All of these but one can fly. Which is the exception?",
    "Each of the following is a symptom of flu except one. Which?",
    "Which of the following does not cause anemia?",
    "A boy has had a fever for two days. Which of these is least appropriate now?",
    "Which of the following statements about insulin is incorrect?",
    "Not true about the femoral nerve is:",
    "False statement about collagen is?",
    "Which of these is least likely to live in a desert?",
    "Which finding is LEAST consistent with pneumonia?",
    "What is the least typical symptom of a cold?",
    "Which tool would be least useful for measuring rain?",
    "Which material is least suitable for a roof?",
    "Which source is least relevant to this report?",
    "All of these planets have moons EXCEPT",
    "Every one of these is a mineral except for:",
    "The following are mammals, excepting one:",
    "Which of these isn't a source of vitamin C?",
    "What doesn't dissolve in water?",
    "Which metals are not attracted by a magnet?",
    "Which of these was never a planet?",
    "Which gas has not been found on Mars?",
    "Which crop would not grow in a cold valley?",
    "Which animals don't lay eggs?",
    "Which of the statements about glaciers is not true?",
    "Which of these sentences are false?",
    "Incorrect about the liver is:",
    "After the rain, which of these will not evaporate?",
    "If a plant gets no light, which process does not take place?",
    "Which is not an insect but is often called one?",
]
OTHERS = [
    "",
    "What notable knot is this?",
    "He does not smoke and is not overweight. What is the diagnosis?",
    "What is the likely cause in a man who does not respond to steroids?",
    "A patient who is not pregnant takes warfarin. Which drug interacts with it?",
    "At least one of these is a metal. Which?",
    "Which finding should stop a doctor from ordering penicillin?",
    "Which drug should not be given to her?",
    "Which fuel gives the least amount of pollution?",
    "Which way to travel causes the LEAST amount of pollution?",
    "What flies but doesn't have wings?",
    "What rocks but does not roll?",
    "Which animal has wings and does not fly?",
    "Which planet has the least mass?",
    "Which of these materials is the least dense?",
    "What do people like least about winter?",
    "Where does it rain the least?",
    "Which city has at least two rivers?",
    "What is the least common multiple of four and six?",
    "Which plant needs the least water?",
    "Last but not least, which of these is a mammal?",
    "If a lamp is not plugged in, what will it be?",
    "If all friends but one arrive, except for the host, what is needed?",
    "When ice does not melt, which temperature is it?",
    "Although she was not hungry, what did she eat?",
    "Which animal, which does not hibernate, stores nuts?",
    "What has keys yet does not open locks?",
    "Which tree whose leaves do not fall is a conifer?",
    "Which organ works while the body does not move?",
    "Why do cats not swim?",
]


@pytest.mark.parametrize("question", [*EXCEPTIONS, *OTHERS])
def test_questions_that_ask_for_the_exception_are_told_from_others(question: str) -> None:
    assert asks_for_exception(question) == (question in EXCEPTIONS)


# The examples in docstrings pass


MODULES = [
    module.name
    for package in (graphs, reasoning, retrieval, systems, text, transport)
    for module in walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_pass(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
