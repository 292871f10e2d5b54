"""Suggestions for unknown names."""

import pytest

from evidence_assets.text.spelling import did_you_mean


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("bm52", "; did you mean 'bm25'?"),
        ("USCRAKE", "; did you mean 'uscrake'?"),
        ("reader", ". There are: bm25, uscrake."),
    ],
)
def test_only_a_similar_name_is_suggested(name: str, suggestion: str) -> None:
    assert did_you_mean(name, ["bm25", "uscrake"]) == suggestion
    assert did_you_mean(name, []) == ". There are none."


def test_a_long_list_of_names_is_cut_short() -> None:
    listed = did_you_mean("reader", [f"system{number:02}" for number in range(21)])
    assert listed.endswith("system18, system19, ….")
