"""Figures that follow from others: the arithmetic gives what is printed, wherever the print itself closes."""

from __future__ import annotations

from collections import Counter

import pytest

from evidence_assets.experiment.scores.published_figures import figures
from evidence_assets.reproduction.derived import Sum, sum_of

DOES_NOT_CLOSE = ("check:", "erratum:")


def test_printed_differences_and_averages_follow_from_printed_figures() -> None:
    found: Counter[str] = Counter()
    usable = sorted(figures(), key=lambda f: (f.erratum, f.table.startswith(("text", "Fig"))))
    for figure in figures():
        total = sum_of(figure)
        if total is None or not figure.ours or any(mark in figure.note for mark in DOES_NOT_CLOSE):
            continue
        value = total.value({figure.key: figure.fraction for figure in reversed(usable)})
        assert value is not None, figure
        step = 0.0151 if figure.scale != "count" else 0.5  # two roundings to 0.01 %, of which one is the mean's own
        assert 100 * value == pytest.approx(100 * figure.fraction, abs=step), figure
        found[total.kind] += 1
    assert found["mean"] >= 10 and found["difference"] > 80 and found["gain"] >= 2


def test_a_difference_that_lacks_a_side_is_none() -> None:
    keys = tuple((name, "s", "v", "", "accuracy", "") for name in "ab")
    assert Sum("difference", keys).value({keys[0]: 0.5}) is None
    assert Sum("difference", keys).value({keys[0]: 0.5, keys[1]: 0.25}) == 0.25
    assert Sum("difference", keys[:1], 0.75).value({keys[0]: 0.5}) == -0.25
    assert Sum("gain", keys).value({keys[0]: 0.5, keys[1]: 0.25}) == 1.0
    assert Sum("gain", keys).value({keys[0]: 0.5, keys[1]: 0.0}) is None
    assert Sum("mean", keys).value({keys[0]: 0.5, keys[1]: 0.25}) == 0.375
