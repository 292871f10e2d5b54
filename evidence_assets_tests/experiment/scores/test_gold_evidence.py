"""Gold evidence recall, citation scores, word coverage and token similarity, against hand counts and plain loops."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from evidence_assets.experiment.scores.gold_evidence import (
    citation_scores,
    compute_chain_id,
    evidence_recall,
    recall_limit,
    token_similarity,
    word_coverage,
)
from evidence_assets.experiment.stages import check_recall_limit
from evidence_assets.graphs.merge import edge_id, node_id
from evidence_assets.reasoning.paths import path_locator
from evidence_assets.text.words import name_key
from evidence_assets_tests.lake_rows import as_stored, citation, evidence, prediction, question
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder


def gold(text: str, group: str = "") -> dict[str, str]:
    return {"kind": "sentence", "source": "d", "locator": "", "text": text, "group": group}


def cite(number: int, rank: int, verdict: str = "verified", hypothesis: str = "A") -> dict[str, Any]:
    return citation(compute_chain_id(f"q{number}", hypothesis, "s", "r", "m"), f"e-s-{number}-{rank}", verdict)


def test_citation_scores_equal_hand_counts() -> None:
    questions = [
        question(1, gold_evidence=[gold("one"), gold("two"), gold("again one", "g"), gold("also two", "g")]),
        question(2, gold_evidence=[gold("three")]),
        question(3, gold_evidence=[gold("four")]),  # answered, nothing cited
        question(4, gold_evidence=[gold("five")]),  # not answered
        question(5),  # without gold evidence
    ]
    predictions = {f"q{i}": prediction(i, None if i == 4 else "A") for i in range(1, 6)}
    rows = [
        evidence(1, 1, "it says one here"),
        evidence(1, 2, "nothing"),
        evidence(1, 3, "and also two"),
        evidence(2, 1, "it says three"),
        evidence(5, 1, "x"),
    ]
    citations = [
        cite(1, 1),
        cite(1, 2),
        cite(1, 3, "misquoted"),
        cite(2, 1),
        cite(2, 9, "absent"),
        cite(5, 1),
        cite(3, 1, hypothesis="B"),
    ]
    precision, recall = citation_scores(
        questions, predictions, as_stored("evidence", rows), as_stored("citations", citations)
    )
    # q1: one of three cited rows is gold (the misquoted one does not count), with one of the three groups.
    assert precision == [pytest.approx(1 / 3), 0.5]
    assert recall == [pytest.approx(1 / 3), 1.0, 0.0]


PATH = [["metformin", "may_treat", "diabetes"], ["Excessive thirsts", "is_associated_with", "diabetes"]]
TEXT = "metformin may_treat diabetes; excessive thirst is_associated_with diabetes"


def edge(head: str, relation: str, tail: str) -> str:
    return edge_id(node_id(name_key(head)), relation, node_id(name_key(tail)))


FIRST, SECOND = edge("Metformin", "may_treat", "diabetes"), edge("excessive thirst", "is_associated_with", "diabetes")


def recall(*rows: dict[str, Any]) -> float:
    gold = {"kind": "path", "source": "graph", "locator": json.dumps(PATH), "text": TEXT, "group": ""}
    edge_row = {"question_id": "q", "source_id": "", "source_kind": "edge"}
    frame = as_stored("evidence", [evidence(0, i, "", **{**edge_row, **row}) for i, row in enumerate(rows, 1)])
    (share,) = evidence_recall([{"question_id": "q", "gold_evidence": [gold]}], frame)
    return share


def path(*edges: str) -> dict[str, Any]:
    return {"kind": "path", "locator": path_locator((e, True) for e in edges)}


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([path(FIRST, SECOND)], 1),
        ([path(SECOND), path(FIRST)], 1),
        ([path(FIRST), {"kind": "triple", "locator": "", "source_id": SECOND}], 1),
        ([path(FIRST)], 0),
        ([{"kind": "chunk", "locator": "", "source_kind": "chunk", "source_id": SECOND}, path(FIRST)], 0),
        ([], 0),
    ],
)
def test_a_gold_path_is_found_if_all_its_edges_are(rows: list[dict[str, Any]], share: float) -> None:
    assert recall(*rows) == share


QUESTIONS = [
    {"question_id": "q1", "text": "Which drug treats malaria?"},
    {"question_id": "q2", "text": "Is glass melted sand?"},
    {"question_id": "q3", "text": "Who?"},
]
TEXTS = {"q1": ["Quinine is a drug.", "Malaria is a disease."], "q2": ["Sand becomes glass."]}


def test_word_coverage_uses_all_evidence_of_a_question() -> None:
    # Content words: {drug, treat, malaria} and {glass, melt, sand}; which, who, is and of are stop words.
    assert word_coverage(QUESTIONS, TEXTS) == [pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0]
    assert word_coverage(QUESTIONS, {}) == [0.0, 0.0, 0.0]


def test_each_token_matches_its_nearest_token_of_any_text() -> None:
    encoder = PieceEncoder()
    similarities = token_similarity(QUESTIONS[:2], TEXTS, encoder)

    def vectors(text: str) -> np.ndarray:
        (tokens,) = encoder.encode_tokens([text])
        return np.asarray(tokens.vectors, dtype=float)

    for row, value in zip(QUESTIONS[:2], similarities, strict=True):
        best = []
        for token in vectors(row["text"]):
            cosines = [
                float(token @ other / (np.linalg.norm(token) * np.linalg.norm(other)))
                for text in TEXTS[row["question_id"]]
                for other in vectors(text)
            ]
            best.append(max(cosines))
        assert value == pytest.approx(sum(best) / len(best), abs=1e-6)
    assert token_similarity(QUESTIONS[2:], TEXTS, encoder) == [0.0]
    assert token_similarity([], {}, encoder) == []


def test_the_limit_of_recall_is_what_single_chunks_hold() -> None:
    chunks = pl.DataFrame({"doc_id": ["d", "d", "e"], "text": ["one  two", "three", "long passage of e"]})
    long = gold("one two three")
    questions = [
        question(1, gold_evidence=[gold("one\ntwo"), long]),
        question(2, gold_evidence=[long]),
        question(3, gold_evidence=[long | {"group": "g"}, gold("three", "g")]),
        question(4, gold_evidence=[gold("long passage")]),  # in a chunk of another document
        question(5, gold_evidence=[{"kind": "cell", "source": "t", "locator": "r1c1", "text": "7", "group": ""}]),
        question(6),
    ]
    assert recall_limit(questions, chunks) == [0.5, 0.0, 1.0, 0.0]


def test_a_low_limit_of_recall_is_reported() -> None:
    def rows(value: float) -> pl.DataFrame:
        metrics = {"accuracy": 0.1, "evidence_recall_limit": value}
        return pl.DataFrame([{"metric": name, "value": number, "n": 500} for name, number in metrics.items()])

    assert check_recall_limit(rows(0.96)) == []
    [problem] = check_recall_limit(rows(0.014))
    assert problem.startswith("98.6% of the gold evidence of 500 questions is in no single chunk of the corpus")
