"""Paired comparison of stored predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment.scores.comparison import compare
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import prediction, question


def made(root: Path, right_a: list[bool], right_b: list[bool]) -> Lake:
    """Two variants of which it is known which questions they answer rightly; the gold answer is always A."""
    lake = Lake.create(root / "data_lake")
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(i) for i in range(len(right_a))]})
    for name, right in (("one", right_a), ("two", right_b)):
        rows = [prediction(i, "A" if fine else "B", selector=name) for i, fine in enumerate(right)]
        lake.write(f"predictions/mcqa/{name}", "quiz|0", {"predictions": rows})
    return lake


def test_the_numbers_are_those_counted_by_hand(tmp_path: Path) -> None:
    right_a = [True] * 30 + [False] * 10
    right_b = [True] * 12 + [False] * 26 + [True] * 2
    with connect(made(tmp_path, right_a, right_b).root) as connection:
        (found,) = compare(connection, "one", "mcqa/two")
    assert (found.n, found.only_a, found.only_b, found.left_out) == (40, 18, 2, 0)
    assert (found.accuracy_a, found.accuracy_b) == (0.75, 0.35)
    assert found.difference.value == pytest.approx(0.4)
    assert found.p_value == pytest.approx(binomtest(2, 20).pvalue)
    assert found.difference.low > 0
    assert found.verdict == "A"


def test_a_few_questions_decide_nothing_even_where_all_of_them_agree(tmp_path: Path) -> None:
    with connect(made(tmp_path, [True] * 4, [False] * 4).root) as connection:
        (found,) = compare(connection, "one", "two")
    assert found.difference.low == 1.0
    assert found.verdict == "undecided"


def test_questions_of_one_variant_alone_are_counted_and_left_out(tmp_path: Path) -> None:
    lake = made(tmp_path, [True] * 6, [True] * 6)
    lake.write(
        "predictions/mcqa/two", "quiz|0", {"predictions": [prediction(i, "B", selector="two") for i in range(4)]}
    )
    with connect(lake.root) as connection:
        (found,) = compare(connection, "one", "two", "quiz")
        assert (found.n, found.left_out, found.only_a) == (4, 2, 4)
        with pytest.raises(BadInput, match="'other' was not answered by both"):
            compare(connection, "one", "two", "other")
        with pytest.raises(BadInput, match="no predictions of a variant 'three'; there are: mcqa/one, mcqa/two"):
            compare(connection, "one", "three")


def test_several_variants_are_compared_with_one_in_one_table(tmp_path: Path) -> None:
    lake = made(tmp_path, [True] * 6, [False] * 6)
    done = CliRunner().invoke(app, ["compare", "one", "two", "mcqa/one", "--json", "--lake", str(lake.root)])
    assert done.exit_code == 0, done.output
    assert [(row["b"], row["only_a"]) for row in json.loads(done.output)] == [("two", 6), ("mcqa/one", 0)]
    shown = CliRunner().invoke(app, ["compare", "one", "two", "mcqa/one", "--lake", str(lake.root)]).output
    assert shown.count("quiz") == 2 and "A = one" in shown
