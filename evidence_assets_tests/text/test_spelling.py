"""Suggestions for unknown names."""

import pytest

from evidence_assets.text.spelling import closest_names, did_you_mean


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


VARIANTS = ("bm25", "ucret", "ucret_js", "ucret_published", "uscrake", "uscrake_k5_s5", "uscrake_published")
COSTS = ("uscrake_jsd_chunks", "uscrake_euclidean_chunks", "uscrake_squared_chunks")


@pytest.mark.parametrize(
    ("name", "names", "closest"),
    [
        ("uscrake_squard", [*VARIANTS, *COSTS], ["uscrake_squared_chunks"]),
        ("uscrake_squard", VARIANTS, ["uscrake"]),
        ("uscrake_euclid", [*VARIANTS, *COSTS], ["uscrake_euclidean_chunks"]),
        ("ucret_first", VARIANTS, ["ucret"]),
        ("uscrak", VARIANTS, ["uscrake"]),
        ("ucret_publishd", VARIANTS, ["ucret_published"]),
        ("tua", ["eta", "tau", "theta"], ["tau"]),
        ("k2", ["k", "s"], []),
        ("published", VARIANTS, []),
        ("x", [], []),
    ],
)
def test_an_edit_or_a_missing_end_is_similar_but_another_end_is_not(
    name: str, names: list[str], closest: list[str]
) -> None:
    assert closest_names(name, names) == closest


def test_equally_similar_names_are_all_suggested_up_to_three() -> None:
    thetas = [f"lambda1_theta{number}" for number in (2, 3, 4, 5)]
    assert did_you_mean("eta20", ["eta21", "ETA22"]) == "; did you mean 'eta21' or 'ETA22'?"
    expected = "; did you mean 'lambda1_theta2', 'lambda1_theta3' or 'lambda1_theta4'?"
    assert did_you_mean("lambda1_theta1", thetas) == expected
