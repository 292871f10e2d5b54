"""Scores of a harvest against counting by hand, and the control against enumerating what chance can do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.kbloom.sample_scores import (
    REPORTED_HALF,
    TUNING_HALF,
    Control,
    assign_half,
    build_sample_rows,
    measure_control,
    recovery_p_value,
)
from evidence_assets.systems.kbloom.scores import HarvestedRelations, build_judgement_rows
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets_tests.lake_rows import stored

EATS = Relation("eats", "zoo", "<HEAD> eats <TAIL>", (("Fox", "hen"),), "<HEAD> eats <TAIL>")


def harvested(pairs: list[tuple[str, str]], origin: str = "kbloom", relation: str = "eats") -> pl.DataFrame:
    """Triples of one origin and relation, best first."""
    shared = {"relation": relation, "relation_id": relation, "origin": origin, "model_id": "m@1", "agreement": 0.5}
    shared |= {"flags": [], "source": "test", "licence": ""}
    rows = [
        shared | {"triple_id": f"{origin}{relation}{i}", "head": head, "tail": tail, "rank": i}
        for i, (head, tail) in enumerate(pairs, 1)
    ]
    return stored("triples", rows)


def test_scores_are_those_counted_by_hand() -> None:
    stated = [("Fox", "eats", "hen"), ("cat", "eats", "Mouse"), ("owl", "eats", "mouse"), ("cow", "eats", "grass")]
    held = [("owl", "eats", "hen")]
    ranked = [("fox", "hen"), ("cat", "mouse"), ("cow", "mouse"), ("owl", "mouse"), ("owl", "hen")]
    both = pl.concat([harvested(ranked), harvested(ranked[:2], "bertnet")])
    names = {"kbloom": "own", "bertnet": "bertnet"}
    rows = build_sample_rows(HarvestedRelations([EATS], both, names), stated=stated, held_out=held)
    found = {(row["scope_kind"], row["selector"], row["metric"]): row for row in rows}
    # seeds left out: three truths, of which two were found, at places 1 and 3
    assert found["relation", "own", "precision@50"]["value"] == pytest.approx(2 / 50)
    assert found["relation", "own", "r_precision"]["value"] == pytest.approx(2 / 3)
    assert found["relation", "own", "recall"]["value"] == pytest.approx(2 / 3)
    assert found["relation", "bertnet", "recall"]["value"] == pytest.approx(1 / 3)
    assert found["relation", "own", "held_out_recall"]["value"] == 1
    # 4 heads × 3 tails less 4 stated pairs = 8 untold ones, of weight 16: owl, hen and mouse are named twice, and
    # cow-mouse (1 · 2) and owl-hen (2 · 2) were harvested
    assert found["relation", "own", "held_out_chance"]["value"] == pytest.approx(6 / 16)
    assert found["relation", "own", "held_out_p"]["value"] == pytest.approx(6 / 16)
    assert found["collection", "own", "recall"]["value"] == pytest.approx(2 / 3)
    for row in rows:
        if row["low"] is not None:
            assert row["low"] <= row["value"] + 1e-9 and row["value"] <= row["high"] + 1e-9
    assert prepare_rows("scores", rows).num_rows == len(rows)
    assert set(rows[0]) == set(TABLES["scores"].names)


def test_a_symmetric_relation_counts_a_pair_once() -> None:
    relation = Relation("near", "zoo", "<HEAD> near <TAIL>", (("x", "y"),), "", symmetric=True)
    found = measure_control(
        relation, [("b", "near", "a"), ("c", "near", "a")], [("a", "near", "c")], [("a", "near", "b")]
    )
    # a (named twice), b and c: three unordered pairs, one of them stated, a-b twice as likely as b-c
    assert (found.found, found.held) == (1, 1) and found.chance == pytest.approx(2 / 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 4)), max_size=3))
@settings(max_examples=30, deadline=None)
def test_chance_is_what_enumeration_says(drawn: list[tuple[int, float, int]]) -> None:
    controls = [Control(min(found, held), held, chance) for held, chance, found in drawn]
    each = [one.chance for one in controls for _ in range(one.held)]
    wanted = sum(one.found for one in controls)
    expected = sum(
        math.prod(chance if hit else 1 - chance for hit, chance in zip(hits, each, strict=True))
        for hits in product((True, False), repeat=len(each))
        if sum(hits) >= wanted
    )
    assert recovery_p_value(controls) == pytest.approx(expected)


def test_the_halves_are_compared_with_the_baseline_over_their_own_relations() -> None:
    names = [f"r{i}" for i in range(6)]
    relations = [replace(EATS, id=name, pairs=(("x", "y"),)) for name in names]
    stated = [("a", name, "b") for name in names]
    own = pl.concat([harvested([("a", "b")], relation=name) for name in names])
    theirs = pl.concat([harvested([("b", "a")], "bertnet", relation=name) for name in names])
    both = HarvestedRelations(relations, pl.concat([own, theirs]), {"kbloom": "own", "bertnet": "bertnet"})
    rows = build_sample_rows(both, stated=stated, held_out=[])
    found = {(row["scope_id"], row["selector"], row["metric"]): row for row in rows}
    for half in (TUNING_HALF, REPORTED_HALF):
        members = [name for name in names if assign_half(name) == half]
        assert members, "the names of this test lie on both halves"
        gain = found[half, "own", "recall_over_bertnet"]
        assert (gain["value"], gain["n"]) == (1.0, len(members))
        assert found[half, "own", "precision@50_over_bertnet"]["value"] == pytest.approx(1 / 50)
        assert found[half, "bertnet", "recall"]["value"] == 0
    assert found["zoo", "own", "recall_over_bertnet"]["n"] == 6
    assert not any(variant == "bertnet" and "_over_" in metric for _, variant, metric in found)


# Judged --------------------------------------------------------------------------------------------------------------


class Opinion:
    """A judge that holds statements with certain words for correct, and has no opinion on others."""

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
    both = HarvestedRelations([EATS], pl.concat([own, other]), {"kbloom": "own", "bertnet": "bertnet"})
    rows = build_judgement_rows(both, judges, rated)
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
    assert prepare_rows("scores", rows).num_rows == len(rows)
