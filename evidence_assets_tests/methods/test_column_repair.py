"""Columns and rows that filtering must not lose."""

from __future__ import annotations

from evidence_assets.methods.column_repair import (
    TableWords,
    named_cells,
    option_columns,
    restore_columns,
    restore_rows,
)
from evidence_assets.methods.columns import Kept, Selection

HEADER = ["Animal", "", "Diet", "Weight"]
COLUMNS = [["Buffalo", "Arctic fox", "Fox"], ["eats", "eats", "eats"], ["plants", "meat", "meat"], ["900", "5", "7"]]
WORDS = TableWords.of(HEADER, COLUMNS)
NONE = Selection((), 4)


def _rules(selection: Selection) -> dict[int, str]:
    return {item.line: item.rule for item in selection.kept}


def test_a_number_of_the_claim_brings_its_column_back() -> None:
    kept = Selection((Kept(0, "cluster", 0.7),), 4)
    assert _rules(restore_columns(kept, WORDS, "The buffalo weighs 900.")) == {0: "cluster", 3: "number"}


def test_what_is_covered_is_left_alone() -> None:
    kept = Selection((Kept(0, "cluster", 0.7), Kept(3, "cluster", 0.7)), 4)
    assert restore_columns(kept, WORDS, "The buffalo weighs 900.") == kept


def test_a_name_and_a_header_bring_their_columns_back() -> None:
    assert _rules(restore_columns(NONE, WORDS, "What is the diet of the arctic fox?")) == {0: "entity", 2: "header"}


def test_options_bring_their_column_back() -> None:
    restored = restore_columns(NONE, WORDS, "What does a fox eat?", ["meat", "plants"])
    assert _rules(restored) == {0: "entity", 2: "option"}
    assert set(option_columns(WORDS, ["meat", "plants"])) == {2}


def test_with_options_the_nearest_column_says_which_row_is_meant() -> None:
    restored = restore_columns(NONE, WORDS, "What does the arctic animal eat?", ["meat", "plants"])
    assert 0 in restored.indices


def test_a_longer_name_hides_the_shorter_one_in_it() -> None:
    assert list(named_cells(WORDS, "the arctic fox")) == [frozenset({"arctic", "fox"})]


def test_a_column_that_never_changes_names_nothing() -> None:
    assert named_cells(WORDS, "what eats") == {}


def test_rows_with_names_always_stay() -> None:
    kept = restore_rows(Selection((Kept(0, "cluster", 0.5),), 3), WORDS, "the arctic fox")
    assert _rules(kept) == {0: "cluster", 1: "entity"}


def test_row_headers_come_first_and_the_fallback_goes_when_something_speaks() -> None:
    fallback = Selection((Kept(1, "fallback", 0.1),), 4)
    assert _rules(restore_columns(fallback, WORDS, "It weighs 900.", row_headers=[0])) == {0: "row_header", 3: "number"}
    assert _rules(restore_columns(fallback, WORDS, "Nothing here.", row_headers=[0])) == {
        0: "row_header",
        1: "fallback",
    }


def test_a_claim_about_a_column_that_does_not_exist_restores_nothing() -> None:
    assert restore_columns(NONE, WORDS, "Its top speed is unknown.") == NONE


def test_empty_tables() -> None:
    empty = TableWords.of([], [])
    assert restore_columns(Selection((), 0), empty, "900", ["meat"]) == Selection((), 0)
    headed = TableWords.of(["a"], [[]])
    assert restore_columns(Selection((), 1), headed, "nothing", []) == Selection((), 1)
