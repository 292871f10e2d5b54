"""Multiple-choice questions about small tables: answers, citations and insufficient questions."""

from evidence_assets.reasoning.tables.table import TableView
from evidence_assets_tests.extractive.tables.solver_calls import answer_choice

DIET = TableView.of(
    "",
    ["", "Type of Animal", "", "Type of Diet"],
    [
        ["A(n)", "Buffalo", "is a(n)", "herbivore"],
        ["A(n)", "Andean cat", "is a(n)", "carnivore"],
        ["A(n)", "Arctic fox", "is a(n)", "carnivore"],
        ["A(n)", "Raccoon", "is a(n)", "omnivore"],
    ],
)
LABELS = ("A", "B", "C", "D")


def test_a_look_up_cites_row_name_header_and_cell() -> None:
    answer = answer_choice(
        DIET, "What type of diet does a raccoon have?", ["herbivore", "omnivore", "carnivore", "none"]
    )
    assert (answer.answer, answer.status, answer.supported) == ("B", "answered", ("B",))
    chain = answer.chain("B")
    assert chain is not None
    assert [step.operation for step in chain.steps] == ["find_row", "look_up"]
    assert chain.steps[0].cells == ((4, 1),), "the row name"
    assert chain.steps[1].cells == ((0, 3), (4, 3)), "the header and the cell"
    assert [step.operation for step in answer.chain("D").steps] == ["absent"]


def test_several_supported_options_are_ambiguous() -> None:
    answer = answer_choice(DIET, "Which animal is a carnivore?", ["Andean cat", "Arctic fox", "Buffalo", "Raccoon"])
    assert answer.status == "ambiguous"
    assert answer.supported == ("A", "B")


WEIGHTS = TableView.of(
    "",
    ["", "Animal", "", "Weight", ""],
    [
        ["A(n)", name, "weighs, on average,", weight, "kilograms"]
        for name, weight in (
            ("Moose", "325"),
            ("Red fox", "4"),
            ("Coati", "4"),
            ("Olingo", "1"),
            ("Pygmy shrew", "less than 1"),
            ("Water shrew", "less than 1"),
            ("Wood mouse", "less than 1"),
            ("Grey mouse", "1"),
        )
    ],
)


def test_a_bounded_number_differs_from_the_number() -> None:
    animals = ["Moose", "Olingo", "Wood mouse"]
    for question, answer in (("1 kilogram", "B"), ("less than 1 kilogram", "C")):
        result = answer_choice(WEIGHTS, f"Which animal weighs, on average, {question}?", animals)
        assert (result.answer, result.status) == (answer, "answered")
    for name, answer in (("Olingo", "A"), ("Pygmy shrew", "B")):
        options = ["1 kilogram", "Less than 1 kilogram", "4Kg"]
        result = answer_choice(WEIGHTS, f"What is the weight of a {name}?", options)
        assert (result.answer, result.status) == (answer, "answered")


def test_a_row_answer_cites_its_own_cells() -> None:
    question = "Which animal has a weight below 1?"
    answer = answer_choice(WEIGHTS, question, ["Red fox", "Wood mouse", "Coati", "Olingo"])
    assert answer.answer == "B"
    rows = {location[0] for step in answer.chain("B").steps for location in step.cells}
    assert rows == {0, 7}, "the header and the row, not all rows below 1"
    columns = {location[1] for step in answer.chain("B").steps for location in step.cells}
    assert columns == {1, 3}, "the name and the weight, not constant columns"
    count_step = next(step for step in answer.chain("A").steps if step.operation == "count")
    assert count_step.cells == ((2, 3),), "the weight of the fox shows that it is not below 1"
    heaviest = answer_choice(WEIGHTS, "Which animal is the heaviest?", ["Moose", "Coati"])
    cells = [step.cells for label in "AB" for step in heaviest.chain(label).steps if step.operation == "superlative"]
    assert sorted(cells[0]) == [(i, 3) for i in range(1, 9)], "all cells prove the greatest"
    assert sorted(cells[1]) == [(1, 3), (3, 3)], "a smaller value is compared with the greatest"


def test_a_count_cites_all_counted_cells_if_rows_have_numeric_names() -> None:
    view = TableView.of("", ["Group", "Weight"], [[str(i), w] for i, w in enumerate(("40", "50", "60", "10", "70"), 1)])
    answer = answer_choice(view, "How many groups have a weight over 30?", ["4", "2"])
    count_step = next(step for step in answer.chain("A").steps if step.operation == "count")
    assert answer.answer == "A" and count_step.cells == ((1, 1), (2, 1), (3, 1), (5, 1))


def test_unrelated_options_are_insufficient() -> None:
    for options in (["granite", "basalt"], ["", " "]):
        answer = answer_choice(DIET, "Which rock is volcanic?", options)
        assert (answer.status, answer.supported) == ("insufficient", ()), "an answer without support"
    answer = answer_choice(DIET, "Xyzzy?", ["granite", "omnivore"])
    assert (answer.answer, answer.status) == ("B", "insufficient")


def test_a_negated_question_takes_the_least_supported_option() -> None:
    options = ["Andean cat", "Arctic fox", "Buffalo"]
    answer = answer_choice(DIET, "Which animal is not a carnivore?", options, negated=True)
    assert (answer.answer, answer.status) == ("C", "answered")
    assert max(answer.choice.weights, key=lambda label: answer.choice.weights[label]) == "C"


def test_cells_without_a_value_do_not_make_another_column_the_measure() -> None:
    rows = [["Reds", "n/a", "7"], ["Blues", "12", "3"], ["Golds", "8", "1"], ["Pinks", "–", "2"], ["Tans", "3", "4"]]
    teams = TableView.of("", ["team", "points", "wins"], rows)
    answer = answer_choice(teams, "Which team has the fewest points?", ["Golds", "Reds", "Tans", "Pinks"])
    assert (answer.answer, answer.status) == ("C", "answered")
