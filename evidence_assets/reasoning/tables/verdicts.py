"""What checks of a claim share: which words it says besides, whether it denies, and the verdict of an outcome.

What belongs here: the words of a claim that are neither names nor numbers nor operations, its denial, the conditions
that it sets. The operations themselves are carried out in `checks` and `quantified`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.reasoning.tables import degrees as vocabulary
from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.degrees import Degree
from evidence_assets.reasoning.tables.mentions import Condition, Reading
from evidence_assets.reasoning.tables.text import STOP_WORDS, stem
from evidence_assets.reasoning.tables.workings import Outcome

VERSION = "1"

# Words of claims about tables that say nothing of the matter itself.
_FRAME_LIST = """
    value values entry entries row rows column columns table tables cell list listed lists show shows shown read reads
    stand stands give gives given record recorded figure figures item items exactly only just least most number name
    named named under amount one ones sort sorted order ordered rank ranked lie lies differ difference time times every
    equal equals same twice double doubled triple half third much many total altogether rise rises fall falls grow grows no not never only alone most half majority minority
    sit sits situated located up down there except apart besides true false untrue wrong incorrect case say together both compared comparison
"""
_FRAME = frozenset(stem(word) for word in _FRAME_LIST.split())


def further_words(reading: Reading) -> frozenset[str]:
    """Content words that are neither the table's nor words of degree, operation or frame."""
    words = workings.words_of_degree(reading)
    degree_spans = [(word.start, word.end) for word in words]
    # "The most expensive bridge": the noun behind a superlative says what the rows are, not what is said of them.
    nouns = [re.match(r"\s+\w+", reading.text[word.end :]) for word in words if word.kind == "superlative"]
    ends = [word.end for word in words if word.kind == "superlative"]
    degree_spans += [(end, end + noun.end()) for end, noun in zip(ends, nouns, strict=True) if noun]
    named = [(m.start, m.end) for m in reading.mentions] + [(n.start, n.end) for n in reading.numbers] + degree_spans
    return frozenset(
        word.stem
        for word in reading.words
        if word.raw not in STOP_WORDS
        and word.stem not in _FRAME
        and not vocabulary.is_pointer(word.raw)
        and not any(start <= word.start < end for start, end in named)
    )


def denied(reading: Reading) -> bool:
    """Whether a claim denies what it says; "not as deep as" is a comparison and denies nothing."""
    degrees = workings.words_of_degree(reading)
    return any(
        not reading.masked(match.start()) and not any(word.start <= match.start() < word.end for word in degrees)
        for match in vocabulary.NOT.finditer(reading.text)
    )


def verdict(outcome: Outcome, holds: bool, reading: Reading) -> Outcome:
    """The outcome with its verdict, turned round where the claim denies what was checked."""
    if not denied(reading):
        return replace(outcome, holds=holds)
    return replace(outcome, holds=not holds, text=f"{outcome.text} The claim denies this.")


def conditions_of(reading: Reading, words: Sequence[Degree], without: CellValue | None = None) -> list[Condition]:
    """What a claim demands of rows, in the order in which it says so."""
    numbers = [number for number in reading.numbers if number is not without]
    numeric = [workings.numeric_condition(reading, number, words) for number in numbers]
    return sorted([*reading.conditions, *filter(None, numeric)], key=lambda condition: condition.at)
