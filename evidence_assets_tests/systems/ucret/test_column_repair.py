"""Repair of column and row selections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.systems.ucret.column_repair import (
    TableWords,
    find_named_cells,
    restore_columns,
    restore_rows,
    score_option_columns,
)
from evidence_assets.systems.ucret.columns import KeptLine, Selection

HEADER = ["Animal", "", "Diet", "Weight"]
COLUMNS = [["Buffalo", "Arctic fox", "Fox"], ["eats", "eats", "eats"], ["plants", "meat", "meat"], ["900", "5", "7"]]
WORDS = TableWords.of(HEADER, COLUMNS)
NONE = Selection((), 4)


def _rules(selection: Selection) -> dict[int, str]:
    return {item.line: item.rule for item in selection.kept_lines}


def test_a_number_in_the_claim_restores_its_column() -> None:
    selection = Selection((KeptLine(0, "cluster", 0.7),), 4)
    assert _rules(restore_columns(selection, WORDS, "The buffalo weighs 900.")) == {0: "cluster", 3: "number"}


def test_a_name_and_a_header_restore_their_columns() -> None:
    assert _rules(restore_columns(NONE, WORDS, "What is the diet of the arctic fox?")) == {0: "entity", 2: "header"}


def test_options_restore_their_column() -> None:
    restored = restore_columns(NONE, WORDS, "What does a fox eat?", ["meat", "plants"])
    assert _rules(restored) == {0: "entity", 2: "option"}
    assert set(score_option_columns(WORDS, ["meat", "plants"])) == {2}


def test_a_longer_name_hides_the_shorter_one_in_it() -> None:
    assert list(find_named_cells(WORDS, "the arctic fox")) == [frozenset({"arctic", "fox"})]


def test_rows_with_names_are_always_kept() -> None:
    restored = restore_rows(Selection((KeptLine(0, "cluster", 0.5),), 3), WORDS, "the arctic fox")
    assert _rules(restored) == {0: "cluster", 1: "entity"}


def test_fallback_columns_stay_only_if_nothing_else_is_kept() -> None:
    fallback = Selection((KeptLine(1, "fallback", 0.1),), 4)
    assert _rules(restore_columns(fallback, WORDS, "It weighs 900.", row_headers=[0])) == {0: "row_header", 3: "number"}
    assert _rules(restore_columns(fallback, WORDS, "Nothing here.", row_headers=[0])) == {
        0: "row_header",
        1: "fallback",
    }


def test_empty_tables_have_empty_selections() -> None:
    empty = TableWords.of([], [])
    assert restore_columns(Selection((), 0), empty, "900", ["meat"]) == Selection((), 0)
    headed = TableWords.of(["a"], [[]])
    assert restore_columns(Selection((), 1), headed, "nothing", []) == Selection((), 1)


def test_a_column_with_several_exact_options_is_an_option_column() -> None:
    columns = [["iron ore", "tin ore", "zinc ore"], ["iron", "tin", "clay"], ["red", "grey", "blue"]]
    words = TableWords.of(["Ore", "Metal", "Colour"], columns)
    assert {0, 1} <= set(score_option_columns(words, ["iron", "tin", "zinc ore", "lead ore"]))
    assert 2 not in score_option_columns(words, ["iron", "tin", "zinc ore", "lead ore"])


def test_the_best_column_of_each_option_is_kept() -> None:
    columns = [["Buffalo", "Fox", "Hen"], ["plants", "meat", "grain"], ["herd", "alone", "flock"]]
    words = TableWords.of(["Animal", "Food", "Lives"], columns)
    restored = restore_columns(Selection((), 3), words, "What is right?", ["plants", "meat", "grain", "herd"])
    assert {1, 2} <= set(restored.indices)


def test_a_text_in_many_rows_does_not_restore_its_column() -> None:
    columns = [[f"lake {i}" for i in range(20)], ["north"] * 15 + ["south"] * 5]
    words = TableWords.of(["Lake", "Side"], columns)
    assert restore_columns(Selection((), 2), words, "north").indices == ()
    assert restore_columns(Selection((), 2), words, "south").indices == (1,)


def test_a_name_of_a_row_without_an_option_is_kept() -> None:
    columns = [["Como", "Garda", "Iseo"], ["425", "346", "251"], ["Lombardy", "Veneto", "Lombardy"]]
    words = TableWords.of(["Lake", "Depth", "Region"], columns)
    restored = restore_columns(Selection((), 3), words, "How much deeper is Como than Garda?", ["251", "79"])
    assert _rules(restored) == {0: "entity", 1: "option"}


WORD = st.sampled_from(["red", "green", "blue", "north", "south", "old", "new", "tin", "iron"])
TABLE = st.integers(1, 5).flatmap(
    lambda height: st.lists(st.lists(WORD, min_size=height, max_size=height), min_size=1, max_size=5)
)


@given(TABLE, st.lists(WORD, min_size=1, max_size=6), st.lists(WORD, min_size=1, max_size=4))
def test_with_options_rows_are_distinguishable_and_all_options_are_kept(
    columns: list[list[str]], text: list[str], options: list[str]
) -> None:
    words = TableWords.of([""] * len(columns), columns)
    indices = restore_columns(Selection((), len(columns)), words, " ".join(text), options).indices
    differing = [j for j, column in enumerate(columns) if len(column) == 1 or len(set(column)) > 1]
    assert len(set(indices) & set(differing)) >= min(2, len(differing))
    for option in options:
        homes = {j for j, column in enumerate(columns) if option in column}
        assert not homes or homes & set(indices)
