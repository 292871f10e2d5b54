"""Questions without options, and claims, on small plain tables: few answers are wrong, most right as measured."""

import time
from collections import Counter

import pytest

from bench.tables.fit_asked_tables import SETS, read_cases
from bench.tables.measure_plain import FOLDER, RIGHT, WRONG, WRONG_LIST, grade, grade_set, read_table
from evidence_assets.experiment.scores.calibration import fit_answers
from evidence_assets.extractive.tables.open_questions import asks_for_list, is_statement, list_options
from evidence_assets.extractive.tables.questions import compute_outcome
from evidence_assets.reasoning.confidence import ASKED_TABLES, packaged_fits
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets_tests.extractive.tables.solver_calls import answer_choice, verify_claim

CUPS = TableView.of(
    "",
    ["Item", "Colour", "Price"],
    [["steel cup", "red", "9"], ["glass bowl", "blue", "3"], ["tin cup", "blue", "8"], ["big cup", "blue", "7"]],
)


@pytest.mark.parametrize(
    ("name", "n_right", "n_wrong"),
    [
        ("first", 614, 16),
        ("second", 263, 18),
        ("third", 283, 16),
        ("fourth", 241, 25),
        ("fifth", 171, 28),
        ("sixth", 92, 22),
    ],
)
def test_most_answers_on_plain_tables_are_right_and_few_wrong(name: str, n_right: int, n_wrong: int) -> None:
    verdicts = Counter(verdict for _, verdict, _ in grade_set(name))
    assert verdicts[RIGHT] >= n_right, verdicts
    assert verdicts[WRONG] + verdicts[WRONG_LIST] <= n_wrong, verdicts


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the cheapest cup?", "big cup"),
        ("Which blue cup is the most expensive?", "tin cup"),
        ("How many blue cups are there?", "2"),
        ("What is the cheapest bowl?", "glass bowl"),
    ],
)
def test_a_word_that_several_names_have_restricts_the_rows(question: str, answer: str) -> None:
    assert list_options(CUPS, question)[0] == answer


VEHICLES = TableView.of(
    "",
    ["prices: vehicle", "price per hour", "price per day", "bought", "purchase price in euros"],
    [["Heron", "7", "32", "2016", "2400"], ["Swan", "9", "52", "2019", "5200"], ["Mole", "14", "79", "2024", "31500"]],
)
"""Joined of the tables "prices" and another one."""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("In which year was the Swan purchased?", "2019"),
        ("How many vehicles cost more than 50 euros per day?", "2"),
        ("How many vehicles have a purchase price of more than 5000 euros?", "2"),
        ("What is the price per day of the vehicle bought in 2024?", "79"),
        ("Which vehicle costs the least per hour?", "Heron"),
    ],
)
def test_the_other_words_of_a_question_choose_among_similar_columns(question: str, answer: str) -> None:
    assert list_options(VEHICLES, question)[0] == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How much longer is the Otter than the Heron?", "5.3"),
        ("How much more expensive is the Otter than the Heron?", "12"),
        ("How much does the Otter cost?", "20"),
    ],
)
def test_how_much_names_no_column_beside_a_word_that_measures_another(question: str, answer: str) -> None:
    boats = TableView.of("", ["boat", "price_eur", "length_m"], [["Heron", "8", "6.2"], ["Otter", "20", "11.5"]])
    assert list_options(boats, question)[0] == answer


def test_times_of_day_are_no_durations() -> None:
    rows = [["Tuesday", "10:00", "18:00"], ["Wednesday", "11:00", "20:00"], ["Friday", "12:00", "19:00"]]
    hours = TableView.of("", ["Day", "Shop opens", "Shop closes"], rows)
    assert compute_outcome(hours, "Which day is the shop open longest?") is None
    assert list_options(hours, "On which day does the shop close latest?")[0] == "Wednesday"


@pytest.mark.parametrize("start", ["What is the number of visitors in", "How many visitors came to"])
def test_the_number_of_what_a_column_has_is_a_cell_and_no_count(start: str) -> None:
    rows = [["Rome", "2022", "700"], ["Oslo", "2022", "200"], ["Rome", "2023", "900"], ["Oslo", "2023", "350"]]
    view = TableView.of("", ["City", "Year", "Visitors"], rows)
    assert list_options(view, f"{start} Oslo in 2023?")[0] == "350"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which cups are blue?", True),
        ("Which cups hold 3 kg?", True),
        ("Which cups have 3 prices?", True),
        ("Which cups have 3 handles?", False),
        ("Which cups are not blue?", False),
        ("Which cup is blue?", False),
    ],
)
def test_several_cells_are_no_list_with_a_number_of_what_the_table_lacks(question: str, expected: bool) -> None:
    assert asks_for_list(CUPS, question) == expected


def test_no_name_says_when() -> None:
    crews = TableView.of(
        "",
        ["boat", "coach", "trains on", "bought"],
        [["Kestrel", "Tobias Renn", "Wednesday", "1999"], ["Old Cormorant", "Walter Pryce", "Sunday", "1961"]],
    )
    assert list_options(crews, "Since when has Walter Pryce mended the boats?") == []
    assert list_options(crews, "When has Walter Pryce mended the boats?") == []
    assert list_options(crews, "When was the Kestrel bought?")[0] == "1999"
    assert list_options(crews, "When does Tobias Renn train?")[0] == "Wednesday"
    assert list_options(crews, "Since when does the club own boats bought by Walter Pryce?")[0] == "1961"
    prices = TableView.of("", ["item", "half day (£)", "deposit (£)"], [["Punt", "42.00", "100"], ["Raft", "22", "40"]])
    assert list_options(prices, "Since when does the club have the Punt?") == []


def test_the_name_in_a_question_is_no_answer() -> None:
    for question, status in (("Who made the tin cup?", "insufficient"), ("What colour is the tin cup?", "answered")):
        options = list_options(CUPS, question)
        assert answer_choice(CUPS, question, options).choice.status == status
    museum = read_table(FOLDER / "fifth" / "museum_rooms.csv")
    assert grade(museum, {"text": "who curates the Whale Loft?", "answers": []}) == (RIGHT, "")
    warehouse = read_table(FOLDER / "fifth" / "warehouse_stock.csv")
    assert grade(warehouse, {"text": "who supplies the packing tape?", "answers": []}) == (RIGHT, "")


def test_of_rows_that_share_a_name_the_one_in_which_they_differ_is_the_answer() -> None:
    rows = [["Cleaning", "dog", "390"], ["Cleaning", "cat", "310"], ["Chip", "any", "24"], ["Surgery", "dog", "285"]]
    view = TableView.of("", ["service", "animal", "price"], rows)
    for question, answer in (
        ("Which is more expensive, a cleaning for a dog or for a cat?", "dog"),
        ("Which is cheaper, a cleaning for a dog or for a cat?", "cat"),
        ("Which service is the cheapest?", "Chip"),
    ):
        assert list_options(view, question)[0] == answer


LOANS = TableView.of(
    "",
    ["object", "borrower", "city", "restored by"],
    [["Tower clock", "Science Hall", "Ulm", "Ada Holt"], ["Water clock", "House of Glass", "Bonn", "Bo Lund"]],
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who borrowed the water clock?", "House of Glass"),
        ("Who was the water clock lent to?", "House of Glass"),
        ("Who has the water clock?", "House of Glass"),
        ("Who restored the water clock?", "Bo Lund"),
        ("Who built the water clock?", None),
        ("Who was the water clock built by?", None),
    ],
)
def test_a_column_of_people_answers_only_if_its_header_fits_the_verb(question: str, answer: str | None) -> None:
    options = list_options(LOANS, question)
    choice = answer_choice(LOANS, question, options).choice
    labels = dict(zip("ABCDEFGH", options, strict=False))
    assert (labels[choice.answer or ""] if choice.status == "answered" else None) == answer


def test_a_word_of_the_caption_says_what_all_rows_are() -> None:
    parks = TableView.of(
        "Parks", ["Name", "Area"], [["Hyde Park", "142"], ["Green Park", "19"], ["Hampstead Heath", "320"]]
    )
    assert list_options(parks, "Which park is the largest?")[0] == "Hampstead Heath"


def test_an_empty_cell_of_the_named_row_is_not_replaced_by_that_of_another() -> None:
    rows = [["Old Mill", "barley wine", ""], ["Pint-Sized Ann", "ale", "3.60"], ["Fog Bell", "stout", "4.10"]]
    beers = TableView.of("", ["Beer", "Style", "Pint GBP"], rows)
    assert list_options(beers, "What does a pint of Old Mill cost?") == []
    assert list_options(beers, "What does a pint of Fog Bell cost?")[0] == "4.10"
    assert list_options(beers, "Which style is Old Mill?")[0] == "barley wine"


@pytest.mark.parametrize("question", ["Which has more CPU cores, a1 or b2?", "Which has the most CPU cores?"])
def test_what_has_more_is_a_thing_and_no_number(question: str) -> None:
    hosts = TableView.of("", ["host", "CPU cores"], [["a1", "16"], ["b2", "24"], ["c3", "8"]])
    assert list_options(hosts, question)[0] == "b2"


def test_a_table_with_thousands_of_rows_takes_seconds() -> None:
    rows = [[f"cup {n}", ("blue", "red", "green")[n % 3], str(9000 - n), str(n % 50)] for n in range(3000)]
    table = TableView.of("", ["Item", "Colour", "Price", "Shelf"], rows)
    started = time.perf_counter()
    assert list_options(table, "What is the cheapest blue item?")[0] == "cup 2997"
    assert time.perf_counter() - started < 20, "each option was compared with each cell, for more than ten minutes"


def test_the_packaged_probability_is_the_fit_on_the_newest_sets() -> None:
    fit = fit_answers([case.answer for name in SETS for case in read_cases(name)])
    assert packaged_fits()[ASKED_TABLES, "extractive"] == fit
    assert fit.probability({"share": 10.0, "answered": 1.0}) < 0.9, "five of six answers are right, not nearly all"


YEARS = TableView.of(
    "",
    ["product", "2023: sales", "2023: returns", "2024: sales", "2024: returns", "Price", "Supplier"],
    [
        ["Bolt", "120", "4", "150", "6", "0.4", "Keller"],
        ["Nut", "310", "9", "290", "3", "0.1", "Brand"],
        ["Hinge", "75", "2", "90", "2", "3.2", "Keller"],
        ["Latch", "40", "1", "", "", "5.1", ""],
    ],
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the difference of sales of Bolt between 2023 and 2024?", "30"),
        ("How many more sales did Nut have in 2023 than in 2024?", "20"),
        ("By how much did the returns of Nut fall from 2023 to 2024?", "6"),
        ("How many products had more sales in 2024 than in 2023?", "2"),
        ("Which product had fewer returns in 2024 than in 2023?", "Nut"),
        ("Which product with a price over 1 had more sales in 2024 than in 2023?", "Hinge"),
        ("Which product had 30 more sales in 2024 than in 2023?", None),
        ("What is the supplier of the product with the highest price?", None),
        ("By how much did the returns of Nut rise from 2023 to 2024?", None),
        ("What is the difference of sales of Latch between 2023 and 2024?", None),
        ("What is the difference of Bolt between 2023 and 2024?", None),
        ("Which product had the greatest difference of sales between 2023 and 2024?", None),
        ("What are the total sales of Bolt in 2023 and 2024?", None),
        ("What were the sales of Bolt in 2023 and in 2024?", None),
    ],
)
def test_columns_of_joined_tables_are_compared(question: str, answer: str | None) -> None:
    choice = answer_choice(YEARS, question, options := list_options(YEARS, question)[:26])
    if answer is None:
        assert choice.status == "insufficient"
    else:
        assert (options["ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(choice.answer)], choice.status) == (answer, "answered")


TOOLS = TableView.of(
    "tools",
    ["Code", "Tool", "Shelf", "Owner", "Lent?", "Weight (kg)", "Bought", "Until"],
    [
        ["T-01", "Red rake", "A", "Ida Moss", "yes", "2", "03/04/2024", "5 May"],
        ["T-02", "Hand-drill", "B", "Ole Finn", "no", "3", "15/05/2024", ""],
        ["T-03", "Blue rake", "B", "Ida Moss", "yes", "4", "20/05/2024", "9 June"],
        ["T-04", "Ladder", "C", "Bea Holt", "no", "9", "01/06/2024", ""],
    ],
)


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("where is the ladder", ["C"]),  # not "T-04"
        ("where's the red rake", ["A"]),
        ("heaviest tool", ["Ladder"]),
        ("tools that are lent", ["Red rake", "Blue rake"]),
        ("Which tools still have to be lent?", ["Hand-drill", "Ladder"]),
        ("Which tools are not lent?", ["Hand-drill", "Ladder"]),
        ("How many tools does Ida Moss own?", ["2"]),
        ("number of tools of Ida Moss", ["2"]),
        ("What do the two rakes weigh together?", ["6"]),
        ("what was bought on 15 May", ["Hand-drill"]),
        ("tools above 3 kg", ["Blue rake", "Ladder"]),
        ("Who owns only one tool?", []),
        ("Which tool has nobody lent?", []),
        ("Who sharpens the rake?", []),
        ("until when is the ladder lent", []),
        ("weight of T-09", []),
        ("What do two ladders and one drill weigh together?", []),
    ],
)
def test_notes_and_everyday_questions_get_cells_of_the_right_kind_or_none(question: str, answers: list[str]) -> None:
    assert not is_statement(question)
    assert find_cells(TOOLS, question) == sorted(answers)


def find_cells(view: TableView, question: str) -> list[str]:
    """The cells that answer a question; none if it has no answer."""
    options = list_options(view, question)
    choice = answer_choice(view, question, options).choice if len(options) > 1 else None
    if choice is None or choice.status == "insufficient":
        return []
    labels = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", options, strict=False))
    return sorted(labels[label] for label in choice.supported)


FINDS = TableView.of(
    "finds",
    ["No.", "What", "Found where", "Handed in by", "Shelf", "Size"],
    [
        ["F-01", "Scarf", "Tram 5", "Mr Ode", "A", "2 m²"],
        ["F-02", "Violin", "Bus 14", "Mrs Ridley", "safe", "1 m²"],
        ["F-03", "Tent", "Tram 5", "Mrs Ridley", "B", "4 m²"],
    ],
)
WINES = TableView.of(
    "wines",
    ["No.", "Wine", "Region", "Style"],
    [["11", "Mondgarten", "Varra Coast", "sweet"], ["12", "Mill", "Saar", "dry"], ["13", "Perle", "Ahr", "dry"]],
)
DOSES = TableView.of(
    "doses",
    ["Who", "Medicine", "For"],
    [["Ilse", "Cardivan", "heart"], ["Ilse", "Ossipen", "bones"], ["Ruben", "Febrisan", "fever"]],
)


@pytest.mark.parametrize(
    ("view", "question", "answers"),
    [
        (TOOLS, "Which tools are not on shelf B?", ["Ladder", "Red rake"]),
        (FINDS, "Where was the violin found?", ["Bus 14"]),
        (FINDS, "where is the violin now", ["safe"]),
        (WINES, "Where is the sweet wine from?", ["Varra Coast"]),
        (TOOLS, "Which tool on shelf B has just a single owner?", []),
        (DOSES, "How many medicines is Ilse on?", ["2"]),
    ],
)
def test_places_people_and_counts(view: TableView, question: str, answers: list[str]) -> None:
    assert find_cells(view, question) == answers


@pytest.mark.parametrize(
    ("note", "expected"), [("tools above 3 kg", True), ("dry wines", True), ("tool of Ida", False)]
)
def test_a_note_about_several_things_has_one_answer(note: str, expected: bool) -> None:
    assert asks_for_list(TOOLS, note) == expected


def test_an_amount_or_more_is_no_cell() -> None:
    answer = verify_claim(FINDS, "All finds of 2 m² or more were handed in by Mr Ode.")
    assert (answer.answer, answer.status) == ("REFUTES", "answered")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The saw is red.", True),
        ("Rome has 2800 inhabitants", True),
        ("Is the saw lent?", True),
        ("price of the blue one", False),
        ("Total weight on shelf B", False),
        ("tools that are lent", False),
        ("with which tool do I cut wood", False),
        ("cheapest one", False),
    ],
)
def test_a_search_is_no_statement(text: str, expected: bool) -> None:
    assert is_statement(text) == expected


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("Both rakes weigh more than 1 kg.", "SUPPORTS"),
        ("Both rakes weigh more than 3 kg.", "REFUTES"),
        ("All tools of 4 kg or more are lent.", "REFUTES"),
        ("Every tool of Ida Moss is lent.", "SUPPORTS"),
        ("The ladder was bought on 1 June.", "SUPPORTS"),
        ("The ladder was bought on 3 April.", "REFUTES"),
        ("Ida Moss bought at least three tools.", "REFUTES"),
        ("Ida Moss has at least 4 kg on every shelf.", None),
    ],
)
def test_claims_about_all_rows_and_days_are_settled_or_left_open(claim: str, label: str | None) -> None:
    answer = verify_claim(TOOLS, claim)
    assert (answer.answer if answer.status == "answered" else None) == label
