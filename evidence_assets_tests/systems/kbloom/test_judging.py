"""What models say of a harvest, against counting by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from evidence_assets.lake.rows import prepare
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.kbloom.scores import Harvested, judged_rows
from evidence_assets_tests.systems.kbloom.test_scores import EATS, harvested


class Opinion:
    """A judge that holds statements with certain words for correct, and has no opinion on others."""

    version = "1"

    def __init__(self, model_id: str, likes: str, unsure: str = "~") -> None:
        self.model_id, self._likes, self._unsure = model_id, likes, unsure

    def judge(self, statements: Sequence[str]) -> list[bool | Failure]:
        return [Failure("unsure") if self._unsure in text else self._likes in text for text in statements]


class Length:
    """Rates a text by its length, and keeps what stood before it."""

    model_id = "length"
    before: str = ""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float64]:
        self.before = pairs[0][0]
        return np.asarray([-float(len(text)) for _, text in pairs])


def test_verdicts_become_precision_noise_and_kappa_and_seeds_count_nowhere() -> None:
    own = harvested([("fox", "hen"), ("owl", "mouse"), ("cat", "mouse"), ("cow", "moon")])
    other = harvested([("owl", "mouse"), ("dog", "moon")], "bertnet")
    rated, judges = Length(), [Opinion("first", "mouse", unsure="dog"), Opinion("second", "owl")]
    both = Harvested([EATS], pl.concat([own, other]), {"kbloom": "own", "bertnet": "bertnet"})
    rows = judged_rows(both, judges, rated)
    for kind in ("relation", "collection"):
        found = {
            (r["selector"], r["reasoner"], r["metric"]): (r["value"], r["n"]) for r in rows if r["scope_kind"] == kind
        }
        assert found["own", "first", "precision"] == (pytest.approx(2 / 3), 3)
        assert found["own", "first", "noisy_percent"] == (pytest.approx(1 / 3), 3)
        assert found["own", "first", "precision_novel"] == (0.5, 2), "owl-mouse is the baseline's, too"
        assert found["own", "second", "precision"] == (pytest.approx(1 / 3), 3)
        # verdicts right-right, right-wrong, wrong-wrong: observed 2/3, expected by chance 4/9
        assert found["own", "first", "kappa"] == (pytest.approx(0.4), 3)
        assert found["own", "first", "exact_agreement"] == (pytest.approx(2 / 3), 3)
        assert found["bertnet", "first", "precision"] == (1, 1), "an unusable verdict counts neither way"
        assert found["bertnet", "first", "kappa"] == (None, 1)
        assert (("own", "length", "likelihood") in found) == (kind == "relation")
    lengths = [-len(f"{pair}.") for pair in ("owl eats mouse", "cat eats mouse", "cow eats moon")]
    [likelihood] = [row for row in rows if (row["selector"], row["metric"]) == ("own", "likelihood")]
    assert (likelihood["value"], likelihood["n"]) == (pytest.approx(np.mean(lengths)), 3)
    assert rated.before == "Fox eats hen."
    assert prepare("scores", rows).num_rows == len(rows)


def test_without_a_verdict_a_judge_or_a_triple_there_is_no_row() -> None:
    triples = Harvested([EATS], harvested([("owl", "mouse")]), {"kbloom": "own"})
    assert judged_rows(triples, [Opinion("first", "x", unsure="owl")]) == [] == judged_rows(triples, [])
    seed_alone = Harvested([EATS], harvested([("fox", "hen")]), {"kbloom": "own"})
    assert judged_rows(seed_alone, [], Length()) == []
