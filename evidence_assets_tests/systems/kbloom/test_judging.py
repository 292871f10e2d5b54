"""What models say of a harvest, and its coverage, against counting by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from evidence_assets.lake.rows import prepare
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.kbloom.collection_scores import coverage_rows, deal
from evidence_assets.systems.kbloom.judging import judged_rows
from evidence_assets.systems.kbloom.rows import harvest_rows
from evidence_assets.systems.kbloom.system import harvest
from evidence_assets_tests.lake_rows import stored
from evidence_assets_tests.models.tiny_world import tiny_model
from evidence_assets_tests.systems.kbloom.test_rows import both
from evidence_assets_tests.systems.kbloom.test_scores import EATS, harvested
from evidence_assets_tests.systems.kbloom.test_system import SMALL, LetterEncoder, relation


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
    rated = Length()
    rows = judged_rows(
        [EATS],
        pl.concat([own, other]),
        variants={"kbloom": "own", "bertnet": "bertnet"},
        judges=[Opinion("first", "mouse", unsure="dog"), Opinion("second", "owl")],
        likelihood=rated,
    )
    found = {(r["selector"], r["reasoner"], r["metric"]): (r["value"], r["n"]) for r in rows}
    assert found["own", "first", "judge_precision"] == (pytest.approx(200 / 3), 3)
    assert found["own", "first", "judge_noisy"] == (pytest.approx(100 / 3), 3)
    assert found["own", "first", "judge_precision_novel"] == (50, 2), "owl-mouse is the baseline's, too"
    assert found["own", "second", "judge_precision"] == (pytest.approx(100 / 3), 3)
    # verdicts right-right, right-wrong, wrong-wrong: observed 2/3, expected by chance 4/9
    assert found["own", "first", "judge_kappa"] == (pytest.approx(0.4), 3)
    assert found["bertnet", "first", "judge_precision"] == (100, 1), "an unusable verdict counts neither way"
    assert found["bertnet", "first", "judge_kappa"] == (None, 1)
    lengths = [-len(f"{pair}.") for pair in ("owl eats mouse", "cat eats mouse", "cow eats moon")]
    assert found["own", "length", "likelihood"] == (pytest.approx(np.mean(lengths)), 3)
    assert rated.before == "Fox eats hen."
    assert prepare("scores", rows).num_rows == len(rows)


def test_without_a_verdict_there_is_no_precision_and_without_judges_no_row() -> None:
    rows = judged_rows(
        [EATS], harvested([("owl", "mouse")]), variants={"kbloom": "own"}, judges=[Opinion("first", "x", unsure="owl")]
    )
    assert [(row["metric"], row["value"], row["n"]) for row in rows] == [("judge_precision", None, 0)]
    assert judged_rows([EATS], harvested([("owl", "mouse")]), variants={"kbloom": "own"}) == []
    assert judged_rows([EATS], harvested([("fox", "hen")]), variants={"kbloom": "own"}, likelihood=Length()) == []


def test_coverage_is_that_of_two_harvests_with_disjoint_prompts() -> None:
    made = harvest_rows(relation(), both(), model="m@1", source="test", input_hash="h")
    prompts = stored("prompts", made.beside["prompts"])
    first, second = deal(prompts)
    assert not {p.text for p in first} & {p.text for p in second}
    assert {p.text for p in (*first, *second)} == set(prompts.filter("kept")["text"])
    rows = coverage_rows([relation()], prompts, tiny_model(), LetterEncoder(), SMALL, "own", "m@1")
    catches = [
        {(t.head, t.tail) for t in harvest(relation(), tiny_model(), LetterEncoder(), SMALL, prompts=half).triples}
        for half in (first, second)
    ]
    one, two, shared = len(catches[0]), len(catches[1]), len(catches[0] & catches[1])
    found = {row["metric"]: row for row in rows}
    assert found["findable"]["value"] == pytest.approx((one + 1) * (two + 1) / (shared + 1) - 1)
    assert found["coverage"]["value"] == pytest.approx(
        min(1.0, len(catches[0] | catches[1]) / found["findable"]["value"])
    )
    lonely = prompts.filter(pl.col("text") == first[0].text)
    assert coverage_rows([relation()], lonely, tiny_model(), LetterEncoder(), SMALL, "own", "m@1") == []
