"""Headers, row names and sections, on tables of every odd shape."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.reasoning.tables.table import TableView


def test_one_header_row_and_a_column_of_names() -> None:
    shape = TableView.of("t", "", ["Model", "EM", "F1"], [["A", "1.0", "2.0"], ["B", "3.0", "4.0"]])
    assert shape.header_rows == (0,)
    assert shape.row_headers == (0,)
    assert shape.body == (1, 2)


def test_header_over_two_rows() -> None:
    rows = [["[EMPTY]", "EM", "F1", "EM"], ["MQAN", "31.8", "75.4", "10.9"], ["BIDAF", "70.4", "79.8", "28.3"]]
    shape = TableView.of("t", "", ["[EMPTY]", "in SQuAD", "in SQuAD", "out"], rows)
    assert shape.header_rows == (0, 1)
    assert shape.labels == ("", "in SQuAD EM", "in SQuAD F1", "out EM")


def test_no_header_at_all() -> None:
    rows = [["True cues", "2674"], ["False cues", "247"], ["Average length", "2.9"]]
    shape = TableView.of("t", "", ["Total cues", "2921"], rows)
    assert shape.header_rows == ()
    assert shape.body == (0, 1, 2, 3)


def test_sections_name_the_rows_below() -> None:
    rows = [["Baselines"] * 3, ["A", "1.5", "2.5"], ["Ours"] * 3, ["B", "3.5", "4.5"]]
    shape = TableView.of("t", "", ["Model", "X", "Y"], rows)
    assert shape.sections == (1, 3)
    assert shape.body == (2, 4)


def test_sizes_name_rows() -> None:
    shape = TableView.of("t", "", ["Batch size", "Throughput"], [["1", "46.7"], ["10", "125.2"], ["25", "129.7"]])
    assert shape.row_headers == (0,)


def test_a_table_with_one_record_per_column_is_transposed() -> None:
    rows = [["Rating", "2.52", "2.27", "1.66"], ["Share", "70%", "33%", "7%"], ["Count", "1500", "1200", "1100"]]
    sideways = TableView.of("t", "", ["", "Ours", "Refresh", "Ext"], rows)
    assert sideways.upright.is_transposed
    assert sideways.upright.labels == ("", "Rating", "Share", "Count")
    assert sideways.upright.upright is sideways.upright
    upright = [["A", "70%", "1500"], ["B", "33%", "1200"], ["C", "7%", "1100"]]
    view = TableView.of("t", "", ["Model", "Share", "Count"], upright)
    assert view.upright is view


def test_ragged_rows_keep_their_cells_in_place() -> None:
    shape = TableView.of("t", "", ["a"], [["1", "2", "3"], [], ["4"]])
    assert shape.width == 3
    assert [len(row) for row in shape.grid] == [3, 3, 3, 3]
    assert shape.grid[1][2].plain == "3"
    assert 2 not in shape.body


def test_no_rows_and_no_columns() -> None:
    assert TableView.of("t", "", ["a", "b"], []).body == ()
    empty = TableView.of("t", "", [], [])
    assert (empty.width, empty.body) == (0, ())
    assert TableView.of("t", "", [], [[], []]).width == 0


_TEXT = st.text(alphabet="ab1. %[]<>", max_size=4)


@given(st.lists(_TEXT, max_size=5), st.lists(st.lists(_TEXT, max_size=5), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_table_has_a_shape(header: list[str], rows: list[list[str]]) -> None:
    shape = TableView.of("t", "", header, rows)
    assert len(shape.grid) == len(rows) + 1
    assert all(len(row) == shape.width for row in shape.grid)
    assert not set(shape.body) & (set(shape.header_rows) | set(shape.sections))
