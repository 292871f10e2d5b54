"""Shared parts of the commands."""

import pytest

from evidence_assets.cli import console
from evidence_assets.cli.console import leave_out_empty, print_word_table, split_constant


def test_columns_without_a_value_are_left_out() -> None:
    rows = [["quiz", "", 0, None], ["quiz", "", 3, "x"]]
    assert leave_out_empty(["benchmark", "published", "n", "source"], rows) == (
        ["benchmark", "n", "source"],
        [["quiz", 0, None], ["quiz", 3, "x"]],
    )


def test_equal_values_of_named_columns_are_split_off() -> None:
    rows = [["a", "quick", 3], ["a", "slow", 3]]
    constants, headers, kept_rows = split_constant(["name", "speed", "n"], rows, ("speed", "n"))
    assert (constants, headers, kept_rows) == ({"n": 3}, ["name", "speed"], [["a", "quick"], ["a", "slow"]])


@pytest.mark.parametrize("width", [10, 22, 30, 80])
def test_lines_of_a_table_break_only_between_words(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.out, "width", width)
    print_word_table(["source", "n"], [["thousandfold table", 3], ["a page of the dissertation", 12]])
    lines = capsys.readouterr().out.splitlines()
    assert {word for line in lines for word in line.split()} >= {"thousandfold", "dissertation", "source", "12"}
    assert max(map(len, lines)) <= max(width, len("dissertation ") + len("12 ")), "no wider than its words"
