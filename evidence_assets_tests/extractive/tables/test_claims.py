"""Claims about small tables: operations, labels and negation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.extractive.tables.claims import (
    REFUTES,
    SUPPORTS,
    ClaimCheck,
    ClaimWeights,
    is_settled,
    label_probabilities,
)
from evidence_assets.extractive.tables.text_analysis import analyze_text
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION
from evidence_assets_tests.extractive.tables.solver_calls import verify_claim

SCORES = TableView.of(
    "F1 scores",
    ["Model", "Precision", "Recall", "Error rate"],
    [["Alpha", "71.0", "60.5", "9.0"], ["Beta", "74.8", "62.0", "7.0"], ["Gamma", "70.0", "55.0", "12.0"]],
)


@pytest.mark.parametrize(
    ("claim", "label", "operation"),
    [
        ("Alpha has a precision of 71.0.", "SUPPORTS", "look_up"),
        ("Alpha has a precision of 73.0.", "REFUTES", "look_up"),
        ("Beta has a better precision than Alpha.", "SUPPORTS", "comparison"),
        ("Alpha has a better precision than Beta.", "REFUTES", "comparison"),
        ("Beta has the best precision.", "SUPPORTS", "superlative"),
        ("Gamma has the lowest recall.", "SUPPORTS", "superlative"),
        ("Beta improves precision over Alpha by 3.8 points.", "SUPPORTS", "difference"),
        ("Beta has the best error rate.", "SUPPORTS", "superlative"),
        ("Alpha has a better error rate than Beta.", "REFUTES", "comparison"),
        ("There are 2 models with a precision over 70.", "SUPPORTS", "count"),
        ("The error rate of Gamma is 71.4% higher than that of Beta.", "SUPPORTS", "difference"),
    ],
)
def test_claims_are_verified_by_their_operation(claim: str, label: str, operation: str) -> None:
    answer = verify_claim(SCORES, claim, ("SUPPORTS", "REFUTES"))
    assert answer.answer == label
    assert operation in {step.operation for step in answer.chain(label).steps}


def test_a_refuted_claim_names_the_closest_rows() -> None:
    steps = verify_claim(SCORES, "Alpha has a precision of 73.0.", ("SUPPORTS", "REFUTES")).chain("REFUTES").steps
    assert steps[-1].text == "No row has all 2 names and numbers of the claim; rows such as Alpha have the most, 1."


SALES = TableView.of(
    "",
    ["Region", "Quarter", "Units", "Manager"],
    [
        ["North", "Q1 2023", "1,200", "A. Berg"],
        ["East", "Q1 2023", "400", "J. Novak"],
        ["North", "Q2 2023", "1,150", "A. Berg"],
        ["East", "Q2 2023", "520", "J. Novak"],
    ],
)
STAFF = TableView.of(
    "",
    ["Name", "Team", "Start date", "Salary"],
    [
        ["Eva Horn", "Sales", "2016-05-23", "57500"],
        ["Dov Katz", "Sales", "2020-11-02", "52000"],
        ["Bo Chen", "Support", "2021-07-15", "61500"],
    ],
)
FILMS = TableView.of(
    "",
    ["Film", "Day", "Runs (min)", "Ticket", "Licence paid", "First scr.", "Left"],
    [
        ["Ferro", "Fri 6 June", "124", "€9", "yes", "03/2019", "4"],
        ["Lantern", "Fri 6 June", "97", "€7", "no", "05/2021", "n/a"],
        ["Moth", "Sat 7 June", "110", "€8", "no", "", "-3"],
    ],
)


@pytest.mark.parametrize(
    ("table", "claim", "label"),
    [
        (FILMS, "Ferro is longer than two hours.", "SUPPORTS"),  # minutes
        (FILMS, "Ferro is longer than 3 hours.", "REFUTES"),
        (FILMS, "Ferro costs more than Lantern.", "SUPPORTS"),  # by the currency
        (FILMS, "Lantern was screened before Ferro.", "REFUTES"),  # "scr."
        (FILMS, "There are more films on Friday than on Saturday.", "SUPPORTS"),
        (FILMS, "On average a film runs for more than 105 minutes.", "SUPPORTS"),
        (FILMS, "Two films are unpaid.", "SUPPORTS"),
        (FILMS, "Only one film has a negative number left.", "SUPPORTS"),
        (STAFF, "Eva Horn started in 2016.", "SUPPORTS"),
        (STAFF, "Eva Horn started in 2020.", "REFUTES"),
        (SALES, "North sold more units than East in Q1 2023.", "SUPPORTS"),
        (SALES, "North had more units in Q2 2023 than in Q1 2023.", "REFUTES"),
        (SCORES, "Alpha does not outperform Beta in precision.", "SUPPORTS"),
        (SCORES, "Beta does not outperform Alpha in precision.", "REFUTES"),
        (SCORES, "The precision of Alpha is not 71.0.", "REFUTES"),
    ],
)
def test_dates_negations_and_rows_with_two_names(table: TableView, claim: str, label: str) -> None:
    answer = verify_claim(table, claim)
    assert (answer.answer, answer.status) == (label, "answered")


def test_a_cell_without_a_value_decides_nothing() -> None:
    assert verify_claim(FILMS, "Lantern has less than 3 left.").status == "insufficient"


def test_a_settled_claim_is_answered_and_an_unmeasured_one_is_not() -> None:
    lakes = TableView.of("", ["Lake", "Country", "Depth (m)"], [["Como", "Italy", "425"], ["Orta", "Italy", "143"]])
    settled_answer = verify_claim(lakes, "Como is deeper than Orta.")
    assert (settled_answer.answer, settled_answer.status) == ("SUPPORTS", "answered")
    unmeasured_answer = verify_claim(lakes, "Como draws more tourists than Orta.")
    assert (unmeasured_answer.answer, unmeasured_answer.status) == ("NOT ENOUGH INFORMATION", "insufficient")


def test_not_enough_information_is_chosen_only_if_offered() -> None:
    claim = "The mechanism alleviates the imbalance of the two tasks."
    forced = verify_claim(SCORES, claim, ("SUPPORTS", "REFUTES"))
    assert forced.answer in {"SUPPORTS", "REFUTES"} and (forced.status, forced.supported) == ("insufficient", ())
    assert set(forced.choice.weights) == {"SUPPORTS", "REFUTES"}


@pytest.mark.parametrize(
    "claim",
    [
        "The mechanism alleviates the imbalance of the two tasks.",
        "Delta was trained on parliamentary debates in nine languages.",
    ],
)
def test_unrelated_claims_have_not_enough_information(claim: str) -> None:
    answer = verify_claim(SCORES, claim)
    assert (answer.answer, answer.status) == ("NOT ENOUGH INFORMATION", "insufficient")
    assert answer.chain("NOT ENOUGH INFORMATION").support > 0


def test_a_longer_name_hides_the_shorter_one() -> None:
    view = TableView.of("", ["Model", "Acc"], [["PRKGC", "52.6"], ["PRKGC+NS", "53.6"]])
    assert list(analyze_text(view, "The PRKGC+NS model works well.").rows) == [2]
    assert set(analyze_text(view, "PRKGC+NS beats PRKGC.").rows) == {1, 2}


_CELL = st.sampled_from(["Alpha", "Beta", "71.0", "3.8 (0.2)", "", "[BOLD] 9", "12%", "x" * 30])
_CLAIM = st.lists(
    st.sampled_from(["Alpha", "Beta", "better", "than", "not", "71.0", "best", "all", "increases", "x"]), max_size=8
)


@given(st.lists(st.lists(_CELL, max_size=4), max_size=5), _CLAIM)
@settings(max_examples=60, deadline=None)
def test_any_table_and_claim_give_one_label(rows: list[list[str]], claim: list[str]) -> None:
    view = TableView.of("", rows[0] if rows else [], rows[1:])
    answer = verify_claim(view, " ".join(claim))
    assert sum(chain.support for chain in answer.chains) == pytest.approx(1.0)
    assert max(answer.chains, key=lambda chain: chain.support).hypothesis == answer.answer
    weights, forced = answer.choice.weights, verify_claim(view, " ".join(claim), ("SUPPORTS", "REFUTES"))
    assert forced.answer == max(forced.choice.weights, key=lambda label: forced.choice.weights[label])
    odds = {label: weights[label] - weights["REFUTES"] for label in forced.choice.weights}
    assert odds == pytest.approx({k: w - forced.choice.weights["REFUTES"] for k, w in forced.choice.weights.items()})


@pytest.mark.parametrize("settled_as", [None, True, False])
@given(st.floats(-9, 9), st.floats(-9, 9))
def test_probabilities_show_whether_a_claim_is_settled(settled_as: bool | None, value: float, weight: float) -> None:
    weights = ClaimWeights({"intercept": weight, "negation": weight}, {}, 0.85)
    probabilities = label_probabilities(ClaimCheck({"negation": value}, {}, settled_as), weights)
    assert sum(probabilities) == pytest.approx(1.0)
    support = dict(zip((SUPPORTS, REFUTES, NOT_ENOUGH_INFORMATION), probabilities, strict=True))
    for labels in (support, {label: support[label] for label in (SUPPORTS, REFUTES)}):
        assert is_settled(labels) == (settled_as is not None)
    if settled_as is not None:
        assert max(support, key=lambda label: support[label]) == (SUPPORTS if settled_as else REFUTES)


def test_an_empty_cell_is_not_replaced_by_another_cell() -> None:
    view = TableView.of("", ["City", "Population", "Area"], [["Rome", "", "12"], ["Oslo", "5", "7"]])
    for claim in ("The population of Rome is 5.", "The population of Rome is 12."):
        assert verify_claim(view, claim).status == "insufficient"
    assert verify_claim(view, "The population of Oslo is 5.").answer == "SUPPORTS"


def test_scale_words_in_claims_match_scales_in_headers() -> None:
    view = TableView.of("", ["City", "Cost (million EUR)"], [["Rome", "23"], ["Oslo", "5"]])
    assert verify_claim(view, "Rome has a cost of 23 million.").answer == "SUPPORTS"
    plain = TableView.of("", ["Model", "Params"], [["Alpha", "10M"], ["Bravo", "20M"]])
    assert verify_claim(plain, "Alpha has 10 million params.").answer == "SUPPORTS"


YEARS = TableView.of(
    "sales_2023.csv and sales_2024.csv and stock.csv, by product",
    ["product", "2023: sales", "2024: sales", "price", "supplier"],
    [
        ["Bolt", "120", "150", "0.4", "Keller"],
        ["Nut", "310", "290", "0.1", "Brand"],
        ["Latch", "40", "", "5.1", "Moser"],
    ],
)


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("Did Bolt sell more in 2024 than in 2023?", "SUPPORTS"),
        ("Did Nut sell more in 2024 than in 2023?", "REFUTES"),
        ("Nut had fewer sales in 2024 than in 2023.", "SUPPORTS"),
        ("Bolt had 30 more sales in 2024 than in 2023.", "SUPPORTS"),
        ("Bolt had 40 more sales in 2024 than in 2023.", "REFUTES"),
        ("Bolt had 30 more sales in 2023 than in 2024.", "REFUTES"),
        ("The sales of Bolt rose from 2023 to 2024.", "SUPPORTS"),
        ("Did the sales of Nut rise from 2023 to 2024?", "REFUTES"),
        ("The sales of Nut fell by 20 between 2023 and 2024.", "SUPPORTS"),
        ("Did Latch sell more in 2024 than in 2023?", None),
        ("Did the price of Bolt rise from 2023 to 2024?", None),
        ("Bolt sold more in 2023 and 2024.", None),
        ("The sales of Bolt rose by 25% from 2023 to 2024.", None),
        ("Bolt sold twice as much in 2024 as in 2023.", None),
    ],
)
def test_columns_of_joined_tables_are_compared_in_a_row(claim: str, label: str | None) -> None:
    answer = verify_claim(YEARS, claim)
    if label is None:
        assert answer.status == "insufficient"
    else:
        assert (answer.answer, answer.status) == (label, "answered")
        assert answer.chain(label).steps[-1].cells in (
            ((1, 2), (1, 1)),
            ((1, 1), (1, 2)),
            ((2, 2), (2, 1)),
            ((2, 1), (2, 2)),
        )


@pytest.mark.parametrize(
    ("caption", "label"),
    [("sales_2024.csv", SUPPORTS), ("sales_2023.csv", NOT_ENOUGH_INFORMATION), ("12024", NOT_ENOUGH_INFORMATION)],
)
def test_the_year_of_a_table_is_no_condition_on_its_rows(caption: str, label: str) -> None:
    view = TableView.of(caption, ["product", "sales", "supplier"], [["Bolt", "150", "Keller"], ["Nut", "290", "Brand"]])
    assert verify_claim(view, "Bolt of Keller had more than 100 sales in 2024.").answer == label


def test_a_year_is_a_condition_if_rows_have_dates() -> None:
    view = TableView.of("2020 to 2024", ["club", "founded"], [["Rovers", "2021"], ["Swifts", "2024"]])
    assert verify_claim(view, "Rovers was founded in 2024.").answer == "REFUTES"
