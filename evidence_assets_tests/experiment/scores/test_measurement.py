"""Metrics of a half, paired differences and baselines, against numbers counted by hand."""

from typing import Any

import pytest

from evidence_assets.experiment.scores import measurement, metrics
from evidence_assets.experiment.scores.measurement import VariantTables
from evidence_assets.experiment.scores.scoring import NO_ANSWER, set_accuracy
from evidence_assets_tests.experiment.scores.test_passage_scores import DOCUMENT_OF, rows
from evidence_assets_tests.experiment.scores.test_passage_scores import gold as gold_documents
from evidence_assets_tests.lake_rows import as_stored, chain, evidence, prediction, question


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
    assert all_["answered_share"].n == 4 and ("token_f1" in graded) == (family == "graph")
    values = measurement.question_values(family, [*answered, no_answer, unknown], tables)
    assert values == measurement.question_values(family, [*answered, no_answer], tables)
    assert {len(of_metric) for name, of_metric in values.items() if name != "token_f1"} == {3}
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
    assert set_accuracy(["A"], NO_ANSWER) == 0
    assert set_accuracy(["A", "B"], row | {"supported_answers": ["A", "B"]}) == 1


def test_paired_differences_are_of_the_same_questions() -> None:
    correct = [[True] * 30 + [False] * 10, [True] * 12 + [False] * 26 + [True] * 2]
    questions = [question(i) for i in range(40)]
    values = [
        measurement.question_values("mcqa", questions, variant_tables(["A" if hit else "B" for hit in hits]))
        for hits in correct
    ]
    difference = measurement.paired_differences(*values)["accuracy"]
    assert difference.value == pytest.approx(0.4) and difference.low > 0
    same = measurement.paired_differences(values[0], values[0])["accuracy"]
    assert same.low == same.high == 0


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
