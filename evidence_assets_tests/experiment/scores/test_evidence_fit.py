"""Words covered and tokens matched, against plain loops."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evidence_assets.experiment.scores.gold_evidence import covered_words, evidence_texts, matched_tokens
from evidence_assets_tests.lake_rows import evidence, stored
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

ASKED = [
    {"question_id": "q1", "text": "Which drug treats malaria?"},
    {"question_id": "q2", "text": "Is glass melted sand?"},
    {"question_id": "q3", "text": "Who?"},
]
TEXTS = {"q1": ["Quinine is a drug.", "Malaria is a disease."], "q2": ["Sand becomes glass."]}


def test_words_with_content_are_counted_over_all_evidence_of_a_question() -> None:
    # which, what, who, is and of carry nothing: {drug, treat, malaria} and {glass, melt, sand} are looked for.
    assert covered_words(ASKED, TEXTS) == [pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0]
    assert covered_words(ASKED, {}) == [0.0, 0.0, 0.0]


def test_each_token_takes_its_nearest_of_any_text() -> None:
    encoder = PieceEncoder()
    found = matched_tokens(ASKED[:2], TEXTS, encoder)

    def vectors(text: str) -> np.ndarray:
        (made,) = encoder.tokens([text])
        return np.asarray(made.vectors, dtype=float)

    for question, value in zip(ASKED[:2], found, strict=True):
        best = []
        for token in vectors(question["text"]):
            cosines = [
                float(token @ other / (np.linalg.norm(token) * np.linalg.norm(other)))
                for text in TEXTS[question["question_id"]]
                for other in vectors(text)
            ]
            best.append(max(cosines))
        assert value == pytest.approx(sum(best) / len(best), abs=1e-6)
    assert matched_tokens(ASKED[2:], TEXTS, encoder) == [0.0]
    assert matched_tokens([], {}, encoder) == []


def test_what_a_model_recalled_is_left_out_and_equal_texts_count_once() -> None:
    recalled = json.dumps({"origin": "model", "triple": ["a", "b", "c"]})
    rows = [
        evidence(1, 1, "x"),
        evidence(1, 2, "x"),
        evidence(1, 3, "y", kind="triple", why=recalled),
        evidence(2, 1, "z"),
    ]
    found = stored("evidence", rows)
    assert evidence_texts(found) == {"q1": ["x"], "q2": ["z"]}
