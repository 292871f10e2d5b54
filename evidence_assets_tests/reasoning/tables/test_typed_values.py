"""A table's values in one form: what cells write differently, and totals of columns that can be added."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.reasoning.tables.cells import parse_cell
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tables.typed_values import format_value, list_values


def values_of(header: list[str], *rows: list[str]) -> list[str]:
    return list(list_values(TableView.of("", header, rows)))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1.2 million people", "1200000 people"),
        ("1,450", "1450"),
        ("> 20 %", ">20%"),
        ("3-5 mm", "about 4 mm"),
        ("± 0.1", "±0.1"),
        ("Mar 1229", "1229-03-01"),
        ("425", "425"),
    ],
)
def test_a_value_is_written_plainly(text: str, plain: str) -> None:
    assert format_value(parse_cell(text).values[0]) == plain


def test_only_values_in_another_form_are_listed_with_their_cells() -> None:
    assert values_of(["Lake", "Depth", "Volume"], ["Como", "425", "22.5 thousand"], ["Garda", "> 346", "n/a"]) == [
        "[r1c2] 22.5 thousand = 22500",
        "[r2c1] > 346 = >346",
    ]


@given(st.lists(st.integers(0, 999), min_size=2, max_size=8))
def test_the_sum_and_the_extremes_of_a_column_are_exact(numbers: list[int]) -> None:
    (line,) = values_of(["City", "Cost"], *([f"city {chr(97 + i)}", str(n)] for i, n in enumerate(numbers)))
    match = re.fullmatch(r"\[c1\] Cost: (\d+) rows, sum (\S+), minimum (\S+), maximum (\S+)", line)
    assert match is not None
    assert [Fraction(s) for s in match.groups()] == [len(numbers), sum(numbers), min(numbers), max(numbers)]


def test_a_row_of_totals_is_not_added() -> None:
    lines = values_of(["City", "Cost"], ["Turku", "10"], ["Oulu", "30"], ["Total", "40"], ["Average", "20"])
    assert lines == ["[c1] Cost: 2 rows, sum 40, minimum 10, maximum 30"]


@pytest.mark.parametrize("cells", [["10%", "20%"], ["> 5", "7"], ["5", "about six"], ["2019", "2020"]])
def test_shares_bounds_texts_and_years_are_not_added(cells: list[str]) -> None:
    assert not [line for line in values_of(["City", "Value"], *(["a b", c] for c in cells)) if "sum" in line]
