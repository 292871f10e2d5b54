"""Tables that do not read from the top down: sideways ones, glossaries, and names that are abbreviated."""

from __future__ import annotations

import pytest

from evidence_assets.reasoning.tables import TableView, answer_choice, verify_claim
from evidence_assets.reasoning.tables.view import TableAnswer

# Attributes down the side, one thing a column.
SIDEWAYS = TableView.of(
    "phones", "", ["", "Alpha", "Bravo", "Delta"],
    [["Weight (g)", "152", "187", "204"], ["Share", "41%", "33%", "26%"], ["Price (EUR)", "799", "1049", "949"]],
)  # fmt: skip
UPRIGHT = TableView.of(
    "phones", "", ["", "Weight (g)", "Share", "Price (EUR)"],
    [["Alpha", "152", "41%", "799"], ["Bravo", "187", "33%", "1049"], ["Delta", "204", "26%", "949"]],
)  # fmt: skip
GLOSSARY = TableView.of(
    "terms", "", ["PI-RADS", "Prostate imaging reporting and data system"],
    [["TZ", "Transition zone of the gland"], ["PZ", "Peripheral zone"], ["DWI", "Diffusion weighted imaging"]],
)  # fmt: skip
ZONES = TableView.of(
    "zones", "Volumes by zone; TZ: transition zone, PZ: peripheral zone.", ["Zone", "Volume (ml)"],
    [["TZ", "31"], ["PZ", "24"], ["CZ", "9"]],
)  # fmt: skip
LABELS = ("A", "B", "C")


def _assert_quotes(view: TableView, answer: TableAnswer) -> None:
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
        ("Delta is the heaviest.", "SUPPORTS"), ("Bravo is heavier than Delta.", "REFUTES"),
        ("Alpha weighs 152 g.", "SUPPORTS"), ("The price of Bravo is 949 EUR.", "REFUTES"),
        ("Two of them weigh more than 160 g.", "SUPPORTS"), ("Alpha was launched in Asia.", "NOT ENOUGH INFORMATION"),
    ],
)  # fmt: skip
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


def test_the_first_entry_of_a_glossary_is_no_header() -> None:
    assert GLOSSARY.shape.glossary and GLOSSARY.shape.header_rows == ()
    headed = TableView.of("t", "", ["Term", "Meaning"], [["TZ", "Transition zone"], ["PZ", "Peripheral zone"]])
    assert headed.shape.header_rows == (0,)


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("TZ stands for the transition zone of the gland.", "SUPPORTS"),
        ("TZ is short for the peripheral zone.", "REFUTES"),
        ("DWI is diffusion weighted imaging.", "SUPPORTS"),
        ("PI-RADS is a prostate imaging reporting and data system.", "SUPPORTS"),
        ("DWI does not stand for diffusion weighted imaging.", "REFUTES"),
        ("PI-RADS has a high diagnostic value in transition zone cancer.", "NOT ENOUGH INFORMATION"),
        ("DWI was invented in Germany.", "NOT ENOUGH INFORMATION"),
    ],
)
def test_claims_about_a_glossary(claim: str, label: str) -> None:
    answer = verify_claim(GLOSSARY, claim)
    assert answer.answer == label
    _assert_quotes(GLOSSARY, answer)


def test_questions_about_a_glossary() -> None:
    meanings = ["Peripheral zone", "Transition zone of the gland", "Diffusion weighted imaging"]
    assert answer_choice(GLOSSARY, "What does TZ stand for?", LABELS, meanings).answer == "B"
    assert answer_choice(GLOSSARY, "What is short for peripheral zone?", LABELS, ["TZ", "DWI", "PZ"]).answer == "C"


def test_long_forms_in_a_claim_meet_the_short_forms_that_the_table_defines() -> None:
    assert verify_claim(ZONES, "The transition zone is larger than the peripheral zone.").answer != "REFUTES"
    assert verify_claim(ZONES, "The volume of the transition zone is 31 ml.").answer == "SUPPORTS"
    assert verify_claim(ZONES, "The volume of the peripheral zone is 31 ml.").answer == "REFUTES"
    undefined = TableView.of("zones", "", ZONES.shape.labels, [["TZ", "31"], ["PZ", "24"], ["CZ", "9"]])
    assert verify_claim(undefined, "The volume of the peripheral zone is 31 ml.").answer != "REFUTES"
    answer = answer_choice(ZONES, "What is the volume of the transition zone?", LABELS, ["9", "24", "31"])
    assert answer.answer == "C"


def test_short_forms_in_a_claim_meet_the_long_forms_of_the_table() -> None:
    view = TableView.of("m", "", ["Method", "Recall"], [["Linear regression", "60.1"], ["Random forest", "70.2"]])
    assert verify_claim(view, "A random forest (RF) beats linear regression (LR); RF has a recall of 70.2.").answer
    glossed = view.in_own_words("A random forest (RF) wins: RF has 70.2.")
    assert glossed == "A random forest (random forest) wins: random forest has 70.2."


def test_digits_of_other_scripts_are_numbers() -> None:
    view = TableView.of("t", "", ["City", "Gates"], [["Fez", "٣"], ["Oran", "५"]])
    assert verify_claim(view, "Fez has 3 gates.").answer == "SUPPORTS"
    assert verify_claim(view, "Oran has ٤ gates.").answer == "REFUTES"
    assert answer_choice(view, "How many gates does Oran have?", LABELS, ["3", "4", "5"]).answer == "C"
