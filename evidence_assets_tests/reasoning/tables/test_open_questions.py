"""Questions without options, and claims, on small plain tables: few answers are wrong, most right as measured."""

from collections import Counter

import pytest

from bench.tables.measure_plain import RIGHT, WRONG, WRONG_LIST, grade_set


@pytest.mark.parametrize(
    ("name", "n_right", "n_wrong"),
    [("first", 613, 15), ("second", 261, 21), ("third", 282, 16), ("fourth", 234, 40), ("fifth", 130, 64)],
)
def test_most_answers_on_plain_tables_are_right_and_few_wrong(name: str, n_right: int, n_wrong: int) -> None:
    verdicts = Counter(verdict for _, verdict, _ in grade_set(name))
    assert verdicts[RIGHT] >= n_right, verdicts
    assert verdicts[WRONG] + verdicts[WRONG_LIST] <= n_wrong, verdicts
