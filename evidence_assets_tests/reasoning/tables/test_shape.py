"""Headers, row names and sections of irregular tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import Chain, EvidenceItem, ExplainOption
from evidence_assets_tests.reasoning.tables.solver_calls import answer_choice, verify_claim


def test_one_header_row_and_a_column_of_names() -> None:
    view = TableView.of("t", "", ["Model", "EM", "F1"], [["A", "1.0", "2.0"], ["B", "3.0", "4.0"]])
    assert view.header_rows == (0,)
    assert view.row_headers == (0,)
    assert view.body == (1, 2)


def test_a_header_can_have_two_rows() -> None:
    rows = [["[EMPTY]", "EM", "F1", "EM"], ["MQAN", "31.8", "75.4", "10.9"], ["BIDAF", "70.4", "79.8", "28.3"]]
    view = TableView.of("t", "", ["[EMPTY]", "in SQuAD", "in SQuAD", "out"], rows)
    assert view.header_rows == (0, 1)
    assert view.labels == ("", "in SQuAD EM", "in SQuAD F1", "out EM")


def test_a_table_can_lack_a_header() -> None:
    rows = [["True cues", "2674"], ["False cues", "247"], ["Average length", "2.9"]]
    view = TableView.of("t", "", ["Total cues", "2921"], rows)
    assert view.header_rows == ()
    assert view.body == (0, 1, 2, 3)


def test_sections_are_not_part_of_the_body() -> None:
    rows = [["Baselines"] * 3, ["A", "1.5", "2.5"], ["Ours"] * 3, ["B", "3.5", "4.5"]]
    view = TableView.of("t", "", ["Model", "X", "Y"], rows)
    assert view.sections == (1, 3)
    assert view.body == (2, 4)


def test_a_numeric_first_column_can_name_rows() -> None:
    view = TableView.of("t", "", ["Batch size", "Throughput"], [["1", "46.7"], ["10", "125.2"], ["25", "129.7"]])
    assert view.row_headers == (0,)


def test_a_table_with_one_record_per_column_is_transposed() -> None:
    rows = [["Rating", "2.52", "2.27", "1.66"], ["Share", "70%", "33%", "7%"], ["Count", "1500", "1200", "1100"]]
    sideways = TableView.of("t", "", ["", "Ours", "Refresh", "Ext"], rows)
    assert sideways.upright.is_transposed
    assert sideways.upright.labels == ("", "Rating", "Share", "Count")
    assert sideways.upright.upright is sideways.upright
    upright = [["A", "70%", "1500"], ["B", "33%", "1200"], ["C", "7%", "1100"]]
    view = TableView.of("t", "", ["Model", "Share", "Count"], upright)
    assert view.upright is view


def test_ragged_rows_are_padded_at_the_end() -> None:
    view = TableView.of("t", "", ["a"], [["1", "2", "3"], [], ["4"]])
    assert view.width == 3
    assert [len(row) for row in view.grid] == [3, 3, 3, 3]
    assert view.grid[1][2].plain == "3"
    assert 2 not in view.body


def test_tables_without_rows_or_columns_have_an_empty_body() -> None:
    assert TableView.of("t", "", ["a", "b"], []).body == ()
    empty = TableView.of("t", "", [], [])
    assert (empty.width, empty.body) == (0, ())
    assert TableView.of("t", "", [], [[], []]).width == 0


_TEXT = st.text(alphabet="ab1. %[]<>", max_size=4)


@given(st.lists(_TEXT, max_size=5), st.lists(st.lists(_TEXT, max_size=5), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_table_has_a_shape(header: list[str], rows: list[list[str]]) -> None:
    view = TableView.of("t", "", header, rows)
    assert len(view.grid) == len(rows) + 1
    assert all(len(row) == view.width for row in view.grid)
    assert not set(view.body) & (set(view.header_rows) | set(view.sections))


# Sideways tables, and digits of other scripts


# One record per column.
SIDEWAYS = TableView.of(
    "phones",
    "",
    ["", "Alpha", "Bravo", "Delta"],
    [["Weight (g)", "152", "187", "204"], ["Share", "41%", "33%", "26%"], ["Price (EUR)", "799", "1049", "949"]],
)
UPRIGHT = TableView.of(
    "phones",
    "",
    ["", "Weight (g)", "Share", "Price (EUR)"],
    [["Alpha", "152", "41%", "799"], ["Bravo", "187", "33%", "1049"], ["Delta", "204", "26%", "949"]],
)
LABELS = ("A", "B", "C")


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("Delta is the heaviest.", "SUPPORTS"),
        ("Bravo is heavier than Delta.", "REFUTES"),
        ("Alpha weighs 152 g.", "SUPPORTS"),
        ("The price of Bravo is 949 EUR.", "REFUTES"),
        ("Two of them weigh more than 160 g.", "SUPPORTS"),
        ("Alpha was launched in Asia.", "NOT ENOUGH INFORMATION"),
    ],
)
def test_claims_about_a_sideways_table_have_the_labels_of_an_upright_one(claim: str, label: str) -> None:
    assert verify_claim(SIDEWAYS.upright, claim).answer == label == verify_claim(UPRIGHT, claim).answer


def test_answers_from_a_sideways_table_cite_its_cells_as_given() -> None:
    cells = [
        EvidenceItem(f"r{i}c{j}", "cell", "phones", f"r{i}c{j}", cell.text)
        for i, row in enumerate(SIDEWAYS.grid)
        for j, cell in enumerate(row)
        if cell.text
    ]
    task = ExplainOption("What is the price of Delta?", "B", "949", tuple(cells), "table_qa")
    (chain,) = TableSolver().explain([task])
    assert isinstance(chain, Chain)
    assert chain.steps[0].text.startswith("Column 3 ")
    assert chain.steps[-1].cited[-1] == "r3c3" and chain.steps[-1].quoted[-1] == "949"
    assert {citation.verdict for citation in check_citations(chain, cells)} == {"verified"}


def test_digits_of_other_scripts_are_numbers() -> None:
    view = TableView.of("t", "", ["City", "Gates"], [["Fez", "٣"], ["Oran", "५"]])
    assert verify_claim(view, "Fez has 3 gates.").answer == "SUPPORTS"
    assert verify_claim(view, "Oran has ٤ gates.", ("SUPPORTS", "REFUTES")).answer == "REFUTES"
    assert answer_choice(view, "How many gates does Oran have?", LABELS, ["3", "4", "5"]).answer == "C"
