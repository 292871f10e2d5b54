"""The vocabulary is complete, and amounts are matched as numbers."""

import re

import pytest

from evidence_assets.extractive.tables.questions import rate_match
from evidence_assets.reasoning.tables.lexicon import find_degree_words, load_adjectives, load_lexicon, pattern


def test_every_lexicon_pattern_compiles_and_every_adjective_has_degrees() -> None:
    entries = load_lexicon()
    patterns = [name for name, entry in entries.items() if isinstance(entry, list) and isinstance(entry[0], str)]
    assert patterns
    for name in patterns:
        assert isinstance(pattern(name), re.Pattern)
        assert not pattern(name).fullmatch("")
    for adjective, (direction, _) in load_adjectives().items():
        assert [d.direction for d in find_degree_words(f"It is the most {adjective} one.")][:1] == [direction]


# Match of an option and a cell: words, amounts and bounds


@pytest.mark.parametrize(
    ("option", "cell", "match"),
    [
        ("12Kg", "12", 1.0),
        ("nine", "9", 1.0),
        ("1,021 m", "1021 m", 1.0),
        ("about 8 kg", "8 kg", 1.0),
        ("7", "5; 7", 1.0),
        ("9 days", "7 days", 0.0),
        ("2 kilograms", "12 kilograms", 0.0),
        ("1 kilogram", "less than 1", 0.5),
        ("less than 1 kilogram", "less than 1", 1.0),
        ("less than 2", "less than 1", 0.0),
    ],
)
def test_amounts_are_compared_as_numbers_with_their_bounds(option: str, cell: str, match: float) -> None:
    assert rate_match(option, cell) == match


@pytest.mark.parametrize(
    ("option", "cell"),
    [
        ("10 (2)", "10 (3)"),
        ("5 A", "5 kg"),
        ("5 hundred", "5"),
        ("1990s", "1990"),
        ("3D", "3"),
        ("3rd", "3"),
        ("3.1", "3.14"),
    ],
)
def test_similar_amounts_do_not_match_fully(option: str, cell: str) -> None:
    assert rate_match(option, cell) < 1.0
