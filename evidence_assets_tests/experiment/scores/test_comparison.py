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


def write_predictions(root: Path, correct_a: list[bool], correct_b: list[bool]) -> Lake:
    """Write predictions of two variants with this correctness; the gold answer is always A."""
    lake = Lake.create(root / "data_lake")
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(i) for i in range(len(correct_a))]})
    for name, outcomes in (("one", correct_a), ("two", correct_b)):
        rows = [prediction(i, "A" if correct else "B", selector=name) for i, correct in enumerate(outcomes)]
        lake.write(f"predictions/mcqa/{name}", "quiz|0", {"predictions": rows})
    return lake


def test_the_comparison_equals_numbers_counted_by_hand(tmp_path: Path) -> None:
    correct_a = [True] * 30 + [False] * 10
    correct_b = [True] * 12 + [False] * 26 + [True] * 2
    with connect(write_predictions(tmp_path, correct_a, correct_b).root) as connection:
        (comparison,) = compare(connection, "one", "mcqa/two")
    assert (comparison.n, comparison.only_a, comparison.only_b, comparison.left_out) == (40, 18, 2, 0)
    assert (comparison.accuracy_a, comparison.accuracy_b) == (0.75, 0.35)
    assert comparison.difference.value == pytest.approx(0.4)
    assert comparison.p_value == pytest.approx(binomtest(2, 20).pvalue)
    assert comparison.difference.low > 0
    assert comparison.verdict == "A"


def test_a_few_questions_are_undecided_even_if_all_agree(tmp_path: Path) -> None:
    with connect(write_predictions(tmp_path, [True] * 4, [False] * 4).root) as connection:
        (comparison,) = compare(connection, "one", "two")
    assert comparison.difference.low == 1.0
    assert comparison.verdict == "undecided"


def test_questions_of_only_one_variant_are_left_out(tmp_path: Path) -> None:
    lake = write_predictions(tmp_path, [True] * 6, [True] * 6)
    lake.write(
        "predictions/mcqa/two", "quiz|0", {"predictions": [prediction(i, "B", selector="two") for i in range(4)]}
    )
    with connect(lake.root) as connection:
        (comparison,) = compare(connection, "one", "two", "quiz")
        assert (comparison.n, comparison.left_out, comparison.only_a) == (4, 2, 4)
        with pytest.raises(BadInput, match="'other' was not answered by both"):
            compare(connection, "one", "two", "other")
        with pytest.raises(BadInput, match="no predictions of a variant 'three'; there are: mcqa/one, mcqa/two"):
            compare(connection, "one", "three")


def test_one_table_compares_several_variants_with_one(tmp_path: Path) -> None:
    lake = write_predictions(tmp_path, [True] * 6, [False] * 6)
    result = CliRunner().invoke(app, ["compare", "one", "two", "mcqa/one", "--json", "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    assert [(row["b"], row["only_a"]) for row in json.loads(result.output)] == [("two", 6), ("mcqa/one", 0)]
    output = CliRunner().invoke(app, ["compare", "one", "two", "mcqa/one", "--lake", str(lake.root)]).output
    assert output.count("quiz") == 2 and "A = one" in output
