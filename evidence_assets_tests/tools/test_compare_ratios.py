"""Recorded and new ratios of the benches."""

from __future__ import annotations

import pytest

from bench.compare_ratios import BENCHES, format_table, is_slower, read_table
from bench.measure_all import PAGE


def test_a_table_is_read_as_it_is_written() -> None:
    ratios = {name: [3.0 + i, 1.25 + i, 2.0 + i] for i, name in enumerate(BENCHES)}
    assert read_table(format_table(ratios)) == {name: (1.25 + i, 3.0 + i) for i, name in enumerate(BENCHES)}


def test_the_page_records_each_bench() -> None:
    assert set(read_table(PAGE.read_text(encoding="utf-8"))) == set(BENCHES)


@pytest.mark.parametrize(
    ("values", "expected"), [([10.0], False), ([9.1], False), ([8.9, 8.0], True), ([8.9, 9.5], False), ([30.0], False)]
)
def test_slower_means_below_the_lowest_by_more_than_the_noise(values: list[float], expected: bool) -> None:
    assert is_slower(values, 10.0, 10.5) is expected
    assert not is_slower([7.6], 10.0, 12.5), "the spread of the recorded rounds is noise"
