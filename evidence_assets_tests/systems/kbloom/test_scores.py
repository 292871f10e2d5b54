"""Scores of a harvest against counting by hand, and the control against enumerating what chance can do."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.rows import prepare
from evidence_assets.lake.schemas import TABLES
from evidence_assets.systems.kbloom.sample_scores import (
    REPORTED,
    TUNED,
    Control,
    above_chance,
    control,
    half_of,
    sample_rows,
)
from evidence_assets.systems.kbloom.scores import Harvested
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets_tests.lake_rows import stored

EATS = Relation("eats", "zoo", "<HEAD> eats <TAIL>", (("Fox", "hen"),), "<HEAD> eats <TAIL>")


def harvested(pairs: list[tuple[str, str]], origin: str = "kbloom", relation: str = "eats") -> pl.DataFrame:
    rows = [
        {
            "triple_id": f"{origin}{relation}{i}",
            "head": head,
            "relation": relation,
            "tail": tail,
            "origin": origin,
            "rank": i,
            "flags": [],
            "model_id": "m@1",
            "relation_id": relation,
            "source": "test",
            "licence": "",
        }
        for i, (head, tail) in enumerate(pairs, 1)
    ]
    return stored("triples", rows)


def test_scores_are_those_counted_by_hand() -> None:
    stated = [("Fox", "eats", "hen"), ("cat", "eats", "Mouse"), ("owl", "eats", "mouse"), ("cow", "eats", "grass")]
    held = [("owl", "eats", "hen")]
    ranked = [("fox", "hen"), ("cat", "mouse"), ("cow", "mouse"), ("owl", "mouse"), ("owl", "hen")]
    both = pl.concat([harvested(ranked), harvested(ranked[:2], "bertnet")])
    names = {"kbloom": "own", "bertnet": "bertnet"}
    rows = sample_rows(Harvested([EATS], both, names), stated=stated, held_out=held)
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
    assert prepare("scores", rows).num_rows == len(rows)
    assert set(rows[0]) == set(TABLES["scores"].names)


def test_a_symmetric_relation_counts_a_pair_once() -> None:
    relation = Relation("near", "zoo", "<HEAD> near <TAIL>", (("x", "y"),), "", symmetric=True)
    found = control(relation, [("b", "near", "a"), ("c", "near", "a")], [("a", "near", "c")], [("a", "near", "b")])
    # a (named twice), b and c: three unordered pairs, one of them stated, a-b twice as likely as b-c
    assert (found.found, found.held) == (1, 1) and found.chance == pytest.approx(2 / 3)


def test_a_relation_of_which_the_corpus_states_nothing_else_is_not_scored() -> None:
    only_seed = [("fox", "eats", "hen")]
    assert sample_rows(Harvested([EATS], harvested([]), {"kbloom": "own"}), stated=only_seed, held_out=[]) == []


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
    assert above_chance(controls) == pytest.approx(expected)


def test_chance_is_what_drawing_by_popularity_gives() -> None:
    """Heads and tails drawn apart, each from the facts that name them, told pairs thrown away."""
    told = [("ant", "eats", "bee"), ("ant", "eats", "cod"), ("ape", "eats", "bee"), ("ape", "eats", "dew")]
    held = [("ant", "eats", "dew"), ("auk", "eats", "bee")]
    ranked = [("ant", "eats", "dew"), ("auk", "eats", "cod"), ("ant", "eats", "bee")]
    random = np.random.default_rng(0)
    heads, tails = ([fact[place] for fact in told + held] for place in (0, 2))
    known = {(head, tail) for head, _, tail in told}
    pairs = [p for p in zip(random.choice(heads, 40_000), random.choice(tails, 40_000), strict=True) if p not in known]
    hits = np.mean([(head, "eats", tail) in ranked for head, tail in pairs])
    assert control(EATS, ranked, told, held).chance == pytest.approx(hits, abs=0.01)


def test_the_halves_are_compared_with_the_baseline_over_their_own_relations() -> None:
    names = [f"r{i}" for i in range(6)]
    relations = [replace(EATS, id=name, pairs=(("x", "y"),)) for name in names]
    stated = [("a", name, "b") for name in names]
    own = pl.concat([harvested([("a", "b")], relation=name) for name in names])
    theirs = pl.concat([harvested([("b", "a")], "bertnet", relation=name) for name in names])
    both = Harvested(relations, pl.concat([own, theirs]), {"kbloom": "own", "bertnet": "bertnet"})
    rows = sample_rows(both, stated=stated, held_out=[])
    found = {
        (row["scope_id"], row["selector"], row["metric"]): row for row in rows if row["scope_kind"] == "collection"
    }
    for half in (TUNED, REPORTED):
        members = [name for name in names if half_of(name) == half]
        assert members, "the names of this test lie on both halves"
        gain = found[half, "own", "recall_over_bertnet"]
        assert (gain["value"], gain["n"]) == (1.0, len(members))
        assert found[half, "own", "precision@50_over_bertnet"]["value"] == pytest.approx(1 / 50)
        assert found[half, "bertnet", "recall"]["value"] == 0
    assert found["zoo", "own", "recall_over_bertnet"]["n"] == 6
    assert not any(variant == "bertnet" and "_over_" in metric for _, variant, metric in found)


def test_size_and_novelty_need_no_truth() -> None:
    eggs = Harvested([EATS], harvested([("Egg", "hen"), ("egg", "hen")]), {"kbloom": "own"})
    rows = sample_rows(eggs, stated=[("a", "eats", "b")], held_out=[], known=["hen", "egg"])
    found = {row["metric"]: row["value"] for row in rows if row["scope_kind"] == "relation"}
    assert (found["tuples"], found["extracted_facts"], found["diversity"]) == (2, 4, 3)
    assert found["novelty"] == pytest.approx(100 / 3)
