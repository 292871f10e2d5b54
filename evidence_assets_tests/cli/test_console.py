"""Shared parts of the commands."""

from evidence_assets.cli.console import leave_out_empty


def test_columns_without_a_value_are_left_out() -> None:
    rows = [["quiz", "", 0, None], ["quiz", "", 3, "x"]]
    assert leave_out_empty(["benchmark", "published", "n", "source"], rows) == (
        ["benchmark", "n", "source"],
        [["quiz", 0, None], ["quiz", 3, "x"]],
    )
