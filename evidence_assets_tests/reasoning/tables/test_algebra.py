"""Operations equal plain computations and cite the cells that prove their outcome."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.reasoning.tables import operations
from evidence_assets.reasoning.tables.cells import parse_values
from evidence_assets.reasoning.tables.lexicon import find_degree_words, load_adjectives, load_lexicon, pattern
from evidence_assets.reasoning.tables.operations import Outcome
from evidence_assets.reasoning.tables.questions import rate_match
from evidence_assets.reasoning.tables.table import CellLocation, TableView
from evidence_assets.reasoning.tables.text_analysis import Condition, analyze_text

TENTHS = st.integers(-999, 999).map(lambda n: f"{n / 10:.1f}")
ROWS = st.lists(st.tuples(TENTHS, st.sampled_from(["red", "blue"])), min_size=2, max_size=8)


def _view(rows: list[tuple[str, str]]) -> TableView:
    return TableView.of("t", "", ["Name", "Size", "Colour"], [[f"n{k}", *row] for k, row in enumerate(rows)])


def _exact(rows: list[tuple[str, str]]) -> list[Fraction]:
    return [Fraction(size) for size, _ in rows]


@given(ROWS, st.sampled_from([1, -1]), st.integers(1, 3))
def test_extremes_equal_sorted_values(rows: list[tuple[str, str]], direction: int, rank: int) -> None:
    sizes = _exact(rows)
    distinct_sizes = sorted(set(sizes), reverse=direction > 0)
    outcome = operations.find_extreme(_view(rows), 1, range(1, len(rows) + 1), direction, rank)
    assert (outcome is None) == (rank > len(distinct_sizes))
    if outcome is not None:
        assert set(outcome.rows) == {k for k, size in enumerate(sizes, 1) if size == distinct_sizes[rank - 1]}
        assert set(outcome.cells) == {(k, 1) for k in range(1, len(rows) + 1)}, "all cells prove an extreme"


@given(ROWS, st.sampled_from([1, -1]))
def test_counts_equal_filtered_rows(rows: list[tuple[str, str]], direction: int) -> None:
    sizes, analysis = _exact(rows), analyze_text(_view(rows), "")
    (bound,) = parse_values(f"{'over' if direction > 0 else 'under'} {rows[0][0]}")
    beyond = operations.count_rows(analysis, [Condition(1, number=bound)], [(1, 1)])
    assert set(beyond.rows) == {k for k, s in enumerate(sizes, 1) if direction * (s - sizes[0]) > 0}
    assert beyond.cells[0] == (1, 1) and beyond.number == len(beyond.rows)
    reds = operations.count_rows(analysis, [Condition(2, frozenset({"red"}))])
    assert reds.number == sum(colour == "red" for _, colour in rows) == len(reds.rows)


@given(ROWS)
def test_a_trend_equals_the_signs_of_its_steps(rows: list[tuple[str, str]]) -> None:
    steps = [b > a for a, b in pairwise(_exact(rows))]
    numbered = [[f"n{k}", size, str(k)] for k, (size, _) in enumerate(rows)]
    outcome = operations.measure_trend(
        TableView.of("t", "", ["Name", "Size", "Place"], numbered), 1, 2, range(1, len(rows) + 1)
    )
    assert outcome is not None and outcome.number == sum(steps) / len(steps)
    assert (outcome.pattern == (1,)) == all(b >= a for a, b in pairwise(_exact(rows))) or outcome.pattern == (0,)


LAKES = [["Como", "425", "Italy"], ["Garda", "346", "Italy"], ["Thun", "217", "Switzerland"], ["Iseo", "", "Italy"]]
VIEW = TableView.of("l", "", ["Lake", "Depth (m)", "Country"], LAKES)
NAME, DEEP = frozenset({(1, 0)}), frozenset({(1, 1)})


@pytest.mark.parametrize(
    ("outcome", "number", "cells"),
    [
        (operations.relate_cells(VIEW, "difference", (1, 1), (2, 1)), 79.0, {(1, 1), (2, 1)}),
        (operations.relate_cells(VIEW, "difference", (1, 1), (4, 1)), None, set()),
        (operations.relate_cells(VIEW, "ratio", (1, 1), (3, 1)), 425 / 217, {(1, 1), (3, 1)}),
        (operations.compare_cells(VIEW, [((1, 1), (2, 1), 1), ((2, 1), (3, 1), -1)]), 0.5, {(1, 1), (2, 1), (3, 1)}),
        (operations.compare_cells(VIEW, [((1, 1), (4, 1), 1)]), None, set()),
        (operations.find_joint_row(VIEW, [(0, NAME), (1, DEEP)]), 1.0, {(1, 0), (1, 1)}),
        (operations.find_joint_row(VIEW, [(0, NAME), (2, frozenset({(3, 2)}))]), 0.0, {(1, 0), (1, 2), (3, 0), (3, 2)}),
        (operations.find_joint_row(VIEW, [(0, frozenset({(4, 0)})), (1, DEEP)]), None, set()),
    ],
)
def test_outcomes_have_a_value_and_cite_the_cells_that_prove_it(
    outcome: Outcome | None, number: float | None, cells: set[CellLocation]
) -> None:
    assert (outcome and outcome.number) == number
    assert set(outcome.cells if outcome else ()) == cells


def test_every_lexicon_pattern_compiles_and_every_adjective_has_degrees() -> None:
    entries = load_lexicon()
    patterns = [name for name, entry in entries.items() if isinstance(entry, list) and isinstance(entry[0], str)]
    assert len(patterns) >= 20
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
        ("12 kilograms", "12", 1.0),
        ("nine", "9", 1.0),
        ("1,021 m", "1021 m", 1.0),
        ("5.0", "5", 1.0),
        ("about 8 kg", "8 kg", 1.0),
        ("7", "5; 7", 1.0),
        ("9 days", "7 days", 0.0),
        ("2 kilograms", "12 kilograms", 0.0),
        ("75Kg", "12", 0.0),
        ("1 kilogram", "less than 1", 0.5),
        ("less than 1 kilogram", "less than 1", 1.0),
        ("over 1", "less than 1", 0.5),
        ("less than 2", "less than 1", 0.0),
    ],
)
def test_amounts_are_compared_as_numbers_with_their_bounds(option: str, cell: str, match: float) -> None:
    assert rate_match(option, cell) == match


def test_amounts_in_different_units_are_compared_by_their_words() -> None:
    assert 0.0 < rate_match("5 miles", "5 feet") < 1.0


@pytest.mark.parametrize(
    ("option", "cell"),
    [
        ("10 (2)", "10 (3)"),
        ("10 ± 2", "10 ± 3"),
        ("5 A", "5 kg"),
        ("5 hundred", "5"),
        ("1990s", "1990"),
        ("1A", "1"),
        ("3D", "3"),
        ("20s", "20"),
        ("3rd", "3"),
        ("3.1", "3.14"),
    ],
)
def test_similar_amounts_do_not_match_fully(option: str, cell: str) -> None:
    assert rate_match(option, cell) < 1.0
