"""Tables that do not read from the top down, and digits of other scripts."""

from __future__ import annotations

import pytest

from evidence_assets.reasoning.tables.table import TableView
from evidence_assets_tests.reasoning.tables.solver_calls import Told, answer_choice, verify_claim

# Attributes down the side, one thing a column.
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


def _assert_quotes(view: TableView, answer: Told) -> None:
    for chain in answer.chains:
        for step in chain.steps:
            assert [view.cell(place).plain for place in step.cells] == list(step.quoted)


def test_a_sideways_table_is_turned_and_an_upright_one_is_not() -> None:
    assert SIDEWAYS.shape.sideways and SIDEWAYS.upright.turned
    assert SIDEWAYS.upright.shape.labels == UPRIGHT.shape.labels
    assert UPRIGHT.upright is UPRIGHT
    assert SIDEWAYS.upright.upright is SIDEWAYS.upright


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
def test_claims_about_a_sideways_table_are_judged_as_about_an_upright_one(claim: str, label: str) -> None:
    answer = verify_claim(SIDEWAYS, claim)
    assert answer.answer == label == verify_claim(UPRIGHT, claim).answer
    _assert_quotes(SIDEWAYS, answer)


def test_questions_about_a_sideways_table_cite_its_cells_where_they_stand() -> None:
    answer = answer_choice(SIDEWAYS, "What is the price of Delta?", LABELS, ["799", "949", "1049"])
    assert (answer.answer, answer.status) == ("B", "answered")
    _assert_quotes(SIDEWAYS, answer)
    chain = answer.chain("B")
    assert chain is not None and (3, 3) in {place for step in chain.steps for place in step.cells}
    assert chain.steps[0].text.startswith("Column 3 ")
    heaviest = answer_choice(SIDEWAYS, "Which one is heaviest?", LABELS, ["Alpha", "Bravo", "Delta"])
    assert heaviest.answer == "C"


def test_digits_of_other_scripts_are_numbers() -> None:
    view = TableView.of("t", "", ["City", "Gates"], [["Fez", "٣"], ["Oran", "५"]])
    assert verify_claim(view, "Fez has 3 gates.").answer == "SUPPORTS"
    assert verify_claim(view, "Oran has ٤ gates.", ("SUPPORTS", "REFUTES")).answer == "REFUTES"
    assert answer_choice(view, "How many gates does Oran have?", LABELS, ["3", "4", "5"]).answer == "C"
