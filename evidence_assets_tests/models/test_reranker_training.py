"""A cross-encoder learns from labelled pairs, the same from the same, and says what it cannot learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.rerankers import CrossEncoderReranker, Labelled, TuningSettings, tune_reranker
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny import make_encoder

QUERIES = ("what treats fever", "what treats pain", "what lowers glucose")
PAIRS = [
    Labelled(query, text, "aspirin" in text)
    for query in QUERIES
    for text in ("aspirin may treat it", "aspirin lowers it", "insulin may treat it", "choose one of the letters")
]
QUICK = TuningSettings(epochs=40, rate=5e-3)


def test_what_is_relevant_scores_higher_after_tuning(tmp_path: Path) -> None:
    base = make_cross_encoder(tmp_path / "base")
    losses = tune_reranker(str(base), PAIRS, tmp_path / "tuned", QUICK)
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 2
    scores = CrossEncoderReranker(str(tmp_path / "tuned")).score([(pair.query, pair.text) for pair in PAIRS])
    relevant = np.array([pair.relevant for pair in PAIRS])
    assert scores[relevant].min() > scores[~relevant].max()


def test_a_plain_encoder_gets_an_output_and_the_same_pairs_give_the_same_model(tmp_path: Path) -> None:
    base = make_encoder(tmp_path / "base")
    settings = replace(QUICK, epochs=1)
    for name in ("one", "two"):
        tune_reranker(str(base), PAIRS, tmp_path / name, settings)
    first, second = (CrossEncoderReranker(str(tmp_path / name)) for name in ("one", "two"))
    assert first.revision == second.revision
    tune_reranker(str(base), PAIRS, tmp_path / "other", replace(settings, seed=1))
    assert CrossEncoderReranker(str(tmp_path / "other")).revision != first.revision


@pytest.mark.parametrize("relevant", [True, False])
def test_pairs_of_one_kind_are_refused(tmp_path: Path, relevant: bool) -> None:
    pairs = [replace(pair, relevant=relevant) for pair in PAIRS]
    with pytest.raises(ValueError, match="some that are and some that are not"):
        tune_reranker("any", pairs, tmp_path)


def test_a_base_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="cross-encoder"):
        tune_reranker(str(tmp_path / "nowhere"), PAIRS, tmp_path / "tuned")
