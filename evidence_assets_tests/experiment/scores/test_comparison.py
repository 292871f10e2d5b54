"""Paired comparison of stored predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.experiment.scores import measurement, metrics
from evidence_assets.experiment.scores.comparison import compare
from evidence_assets.experiment.scores.measurement import VariantTables
from evidence_assets.experiment.scores.scoring import set_accuracy
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.experiment.scores.test_passage_scores import DOCUMENT_OF, rows
from evidence_assets_tests.experiment.scores.test_passage_scores import gold as gold_documents
from evidence_assets_tests.lake_rows import as_stored, chain, evidence, prediction, question


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


# Metrics of a half, paired differences and baselines, against numbers counted by hand


def variant_tables(answers: list[str | None], **tables: list[dict[str, Any]]) -> VariantTables:
    predictions = [prediction(i, answer) for i, answer in enumerate(answers)]
    names = ("evidence", "citations", "chains")
    others = {name: as_stored(name, tables.get(name, [])) for name in names}
    return VariantTables(as_stored("predictions", predictions), **others, documents=DOCUMENT_OF)


def test_metrics_of_a_half_are_those_of_its_questions() -> None:
    questions = as_stored("questions", [question(i) for i in (3, 1, 0, 2, 4)])
    halves = {half: metrics.halve(questions, half) for half in ("first", "second")}
    assert [half["question_id"].to_list() for half in halves.values()] == [["q0", "q1"], ["q2", "q3", "q4"]]
    assert metrics.halve(questions, "first", other=True).equals(halves["second"])
    assert metrics.halve(questions, None)["question_id"].to_list() == ["q0", "q1", "q2", "q3", "q4"]
    tables = variant_tables(["A", "B", "A", "A", None])
    first, second, all_ = (measurement.measure("mcqa", metrics.halve(questions, h), tables) for h in (*halves, None))
    assert [first["accuracy"].value, all_["accuracy"].value] == [0.5, 0.6]
    assert second["accuracy"].value == pytest.approx(2 / 3) and second["accuracy"].n == 3
    assert second["answered_share"].value == pytest.approx(2 / 3) and second["supported_accuracy"].n == 2
    assert len(all_) <= 8 and all(len(names) <= 8 for names in measurement.METRICS.values())


@pytest.mark.parametrize("family", ["mcqa", "table", "graph", "search"])
def test_questions_without_known_answers_are_not_graded(family: str) -> None:
    fields: dict[str, Any] = {
        "mcqa": {},
        "table": {"task": "verification", "options": ["A", "B"]},
        "graph": {"task": "kgqa", "options": []},
        "search": {"task": "skb_search", "options": []},
    }[family]
    answered = [question(0, **fields), question(1, **fields)]
    no_answer = question(2, **fields) | {"gold": []}
    unknown = question(3, **fields) | {"gold": None}
    tables = variant_tables(["A", "B", None, "A"])
    graded, all_ = (
        measurement.measure(family, as_stored("questions", questions), tables)
        for questions in ([*answered, no_answer], [*answered, no_answer, unknown])
    )
    shares = [name for name in graded if name != "answered_share"]
    assert shares and {name: all_[name] for name in shares} == {name: graded[name] for name in shares}
    assert all_["answered_share"].n == 4
    values = measurement.question_values(family, [*answered, no_answer, unknown], tables)
    assert values == measurement.question_values(family, [*answered, no_answer], tables)
    assert {len(of_metric) for name, of_metric in values.items() if name != "answer_f1"} == {3}
    answers = measurement.baseline_answers([*answered, unknown], [*answered, unknown])["most frequent"]
    assert answers == ["A"] * 3 and measurement.count_correct([*answered, unknown], answers)[0].n == 2


@pytest.mark.parametrize(
    ("supported", "status", "expected"),
    [
        (["A"], "answered", 1.0),
        (["A", "B"], "ambiguous", 0.5),
        (["B", "C"], "ambiguous", 0.0),
        ([], "insufficient", 0.0),
        ([], "answered", 1.0),
    ],
)
def test_a_set_of_answers_scores_by_its_share_of_right_ones(supported: list[str], status: str, expected: float) -> None:
    row = prediction(0, "A") | {"supported_answers": supported, "status": status}
    assert set_accuracy(["A"], row) == expected
    assert set_accuracy(["A"], None) == 0
    assert set_accuracy(["A", "B"], row | {"supported_answers": ["A", "B"]}) == 1


def test_the_paired_difference_equals_that_of_compare(tmp_path: Path) -> None:
    correct = [[True] * 30 + [False] * 10, [True] * 12 + [False] * 26 + [True] * 2]
    lake = write_predictions(tmp_path, *correct)
    with connect(lake.root) as connection:
        (comparison,) = compare(connection, "one", "two")
    questions = lake.read("questions", "questions/mcqa").sort("question_id").to_dicts()
    values = [
        measurement.question_values("mcqa", questions, variant_tables(["A" if hit else "B" for hit in hits]))
        for hits in correct
    ]
    difference = measurement.paired_differences(*values)["accuracy"]
    assert difference == comparison.difference and measurement.is_better(difference)
    assert not measurement.is_better(measurement.paired_differences(values[0], values[0])["accuracy"])
    first, second = (value["accuracy"] for value in values)
    assert measurement.count_changes(first, second) == (18, 2) and measurement.count_changes(first, first) == (0, 0)


def test_documents_are_compared_question_by_question() -> None:
    questions = [question(1, gold_evidence=gold_documents(0)), question(2, gold_evidence=gold_documents(1))]
    first = variant_tables([], evidence=[*rows(1, [0]), *rows(2, [2])])
    second = variant_tables([], evidence=[*rows(1, [0]), *rows(2, [9])])
    values = [measurement.question_values("retrieval", questions, tables) for tables in (first, second)]
    assert values[1]["recall@5"] == [1.0, 0.0]
    assert measurement.paired_differences(*values)["recall@5"].value == 0.5
    metrics = measurement.measure("retrieval", as_stored("questions", questions), second)
    assert metrics["recall@5"].value == 0.5 and next(iter(metrics)) == "recall@2"


def test_the_signal_of_a_graph_is_compared_question_by_question() -> None:
    def graph_evidence(*options: str) -> list[dict[str, Any]]:
        return [evidence(i, 1, "A bee buzzes.", option=o, kind="path", score=0.5) for i, o in enumerate(options)]

    questions = [question(i) for i in range(2)]
    first, second = (variant_tables(["A", "A"], evidence=graph_evidence(*options)) for options in ("AA", "AB"))
    values = [measurement.question_values("mcqa", questions, tables) for tables in (first, second)]
    assert [value["graph_signal"] for value in values] == [[1.0, 1.0], [1.0, 0.0]]
    assert measurement.measure("mcqa", as_stored("questions", questions), first)["graph_signal"].value == 1.0
    assert "graph_signal" not in measurement.question_values("mcqa", questions, variant_tables(["A", "A"]))


def test_baselines_answer_as_their_names_say() -> None:
    questions = [
        question(0, text="Which drug treats gout?", options=["water", "a drug for gout"], gold="B"),
        question(1, text="How long do cats sleep?", options=["thirteen hours in all", "cats sleep long"], gold="A"),
    ]
    other_half = [question(i, gold=label) for i, label in enumerate("BBA")]
    answers = measurement.baseline_answers(questions, other_half)
    assert answers == {"longest option": ["B", "A"], "association": ["B", "B"], "most frequent": ["B", "B"]}
    chains = as_stored(
        "chains",
        [chain(0, "A", "x", [], support=0.4), chain(0, "B", "y", [], support=0.2), chain(1, "B", "z", [], support=0.1)],
    )
    assert measurement.nearest_answers([*questions, question(2)], chains) == ["A", "B", ""]
    estimate, hits = measurement.count_correct(questions, answers["association"])
    assert (estimate.value, estimate.n, hits) == (0.5, 2, [1.0, 0.0])


def test_claims_have_one_baseline_beside_the_nearest_statement() -> None:
    claims = [
        question(i, gold=gold, task="verification", options=["supports", "refutes"]) for i, gold in enumerate("ab")
    ]
    assert measurement.baseline_answers(claims, [question(3, gold="b")]) == {"most frequent": ["b", "b"]}
    assert measurement.baseline_answers(claims, []) == {"most frequent": ["", ""]}
