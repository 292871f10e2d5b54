"""Values in cells: which texts are parsed to which values, and that the text is kept."""

import math
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.reasoning.tables.cells import parse_cell


def _values(text: str) -> list[tuple[str, float, str]]:
    return [(v.kind, v.value, v.unit) for v in parse_cell(text).values]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("535,544 children 161 children hospitalised", [("number", 535544, "children"), ("number", 161, "children")]),
        ("64 (53.3%)", [("number", 64, ""), ("percentage", 53.3, "%")]),
        ("$1,200.50", [("number", 1200.5, "")]),
        ("−2.67", [("number", -2.67, "")]),
        ("1.5e-3", [("number", 0.0015, "")]),
        ("3,14", [("number", 3.14, "")]),
        ("€1.299,00", [("number", 1299, "")]),
        ("17:06", [("number", 17.1, "")]),
        ("9:00–17:30", [("range", 13.25, "")]),
        ("1:30:36 h", [("number", 1.51, "h")]),
        ("5:30 pm", [("number", 17.5, "pm")]),
        ("12:15 AM", [("number", 0.25, "AM")]),
        ("3:1 and 7:99", [("number", 3, ""), ("number", 1, ""), ("number", 7, ""), ("number", 99, "")]),
        ("1\u202f234\u202f567", [("number", 1234567, "")]),
        ("41.4M", [("number", 41.4e6, "")]),
        ("54.8/55.5/53.2", [("number", 54.8, ""), ("number", 55.5, ""), ("number", 53.2, "")]),
        ("[BOLD] 0.7553", [("number", 0.7553, "")]),
        ("<b>12</b> %", [("percentage", 12, "%")]),
        ("٣٫١٤", [("number", 3.14, "")]),
        ("ROUGE-1", []),
        ("", []),
        ("–", []),
        ("5 mg/dL", [("number", 5, "mg/dL")]),
    ],
)
def test_values_are_parsed_with_kind_and_unit(text: str, expected: list[tuple[str, float, str]]) -> None:
    assert _values(text) == [(kind, pytest.approx(value), unit) for kind, value, unit in expected]


def test_ranges_and_intervals_are_parsed() -> None:
    assert _values("8-14 days") == [("range", 11, "days")]
    assert _values("10–20%") == [("range", 15, "%")]
    assert _values("0.50 (95% CI 0.1-4.5)") == [("number", 0.5, ""), ("range", (0.1 + 4.5) / 2, "")]
    assert _values("87 - 3.2") == [("number", 87, "")]


@pytest.mark.parametrize("text", ["76.5 (± 2.7)", "76.5+/-2.7", "76.5 (SD: 2.7)"])
def test_spreads_are_separate_values(text: str) -> None:
    assert [(v.kind, v.value) for v in parse_cell(text).values] == [("number", 76.5), ("spread", 2.7)]
    assert [(v.kind, v.value) for v in parse_cell("(0.075)").values] == [("spread", 0.075)]


def test_stars_and_p_values_are_not_part_of_a_value() -> None:
    assert [v.value for v in parse_cell("0.215*** 0.1* 4.8∗ 7").values] == [0.215, 0.1, 4.8, 7]
    for text in ("p < .001", "P<0.001", "p-value of 0.001"):
        assert parse_cell(text).values == ()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2019-03-05", date(2019, 3, 5)),
        ("March 5, 2019", date(2019, 3, 5)),
        ("11/1982", date(1982, 11, 1)),
        ("05/03/2019", date(2019, 3, 5)),
        ("5.3.2019", date(2019, 3, 5)),
        ("03/25/2019", date(2019, 3, 25)),
        ("Black et al. (1997)", date(1997, 1, 1)),
    ],
)
def test_dates_are_parsed_to_days(text: str, day: date) -> None:
    assert [(v.kind, v.value) for v in parse_cell(text).values] == [("date", day.toordinal())]


@pytest.mark.parametrize("text", ["9" * 400, "1e400", "1e308K", "5 - 1e400", "5 ± 1e400", "p = 1e400"])
def test_a_number_beyond_the_float_range_is_not_parsed(text: str) -> None:
    cell = parse_cell(text)
    assert cell.text == text
    assert all(math.isfinite(v.value) for v in cell.values)
    assert all(v.value <= 400 for v in cell.values)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("2.8 million", 2_800_000, ""),
        ("2.3 million people", 2_300_000, "people"),
        ("£10m", 10_000_000, ""),
        ("10 m", 10, "m"),
        ("5 millionaires", 5, "millionaires"),
        ("3 BN layers", 3, "BN"),
    ],
)
def test_scale_words_multiply_the_number(text: str, value: float, unit: str) -> None:
    assert [(v.value, v.unit) for v in parse_cell(text).values] == [(value, unit)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 234 567", [1_234_567]),
        ("10 000,5", [10_000.5]),
        ("10 000–20 000", [15_000]),
        ("10 200 30", [10, 200, 30]),
        ("10<br>200", [10, 200]),
        ("5 100%", [5, 100]),
        ("2018 2019", [2018, 2019]),
        ("Group 1 200 patients", [1, 200]),
    ],
)
def test_thousands_separators_are_distinguished_from_lists(text: str, values: list[float]) -> None:
    assert [v.value for v in parse_cell(text).values] == values


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_cells_keep_their_text_and_values_have_valid_offsets(text: str) -> None:
    cell = parse_cell(text)
    assert cell.text == text
    end = 0
    for value in cell.values:
        assert end <= value.start < value.end <= len(cell.plain)
        end = value.start


@pytest.mark.parametrize("unit", ["1,234 ", "<b", "1 ", "1-", "12 (3) ", "march ", "p ", ",123", "1.234."])
def test_a_cell_of_100_kb_is_parsed(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    cell = parse_cell(text)
    assert cell.text == text
    if unit == "1,234 ":
        assert len(cell.values) == 16_666
