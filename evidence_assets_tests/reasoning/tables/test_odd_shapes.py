"""Sideways tables, and digits of other scripts."""

from __future__ import annotations

import pytest

from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import Chain, EvidenceItem, ExplainOption
from evidence_assets_tests.reasoning.tables.solver_calls import answer_choice, verify_claim

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
