"""Row names and shapes of irregular tables."""

from evidence_assets.reasoning.tables.table import TableView
from evidence_assets_tests.extractive.tables.solver_calls import answer_choice, verify_claim


def test_a_numeric_first_column_can_name_rows() -> None:
    view = TableView.of("", ["Batch size", "Throughput"], [["1", "46.7"], ["10", "125.2"], ["25", "129.7"]])
    assert view.row_headers == (0,)


def test_ragged_rows_are_padded_at_the_end() -> None:
    view = TableView.of("", ["a"], [["1", "2", "3"], [], ["4"]])
    assert view.width == 3
    assert [len(row) for row in view.grid] == [3, 3, 3, 3]
    assert view.grid[1][2].plain == "3"
    assert 2 not in view.body


def test_tables_without_rows_or_columns_have_an_empty_body() -> None:
    assert TableView.of("", ["a", "b"], []).body == ()
    empty = TableView.of("", [], [])
    assert (empty.width, empty.body) == (0, ())
    assert TableView.of("", [], [[], []]).width == 0


def test_digits_of_other_scripts_are_numbers() -> None:
    view = TableView.of("", ["City", "Gates"], [["Fez", "٣"], ["Oran", "५"]])
    assert verify_claim(view, "Fez has 3 gates.").answer == "SUPPORTS"
    assert verify_claim(view, "Oran has ٤ gates.", ("SUPPORTS", "REFUTES")).answer == "REFUTES"
    assert answer_choice(view, "How many gates does Oran have?", ["3", "4", "5"]).answer == "C"
