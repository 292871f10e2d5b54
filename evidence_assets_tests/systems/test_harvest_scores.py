"""Scores of a harvest against counting by hand, and the control against enumerating what chance can do."""

from __future__ import annotations

from itertools import combinations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.datasets.seeds import Relation
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import prepare
from evidence_assets.systems.harvest_scores import Control, above_chance, control, score_rows

EATS = Relation("eats", "zoo", "<HEAD> eats <TAIL>", (("Fox", "hen"),), "<HEAD> eats <TAIL>")


def harvested(pairs: list[tuple[str, str]], origin: str = "kbloom") -> pl.DataFrame:
    rows = [
        {
            "triple_id": f"{origin}{i}", "head": head, "relation": "eats", "tail": tail, "origin": origin, "rank": i,
            "flags": [], "model_id": "m@1", "relation_id": "eats", "source": "test", "licence": "",
        }
        for i, (head, tail) in enumerate(pairs, 1)
    ]  # fmt: skip
    frame = pl.from_arrow(prepare("triples", rows))
    assert isinstance(frame, pl.DataFrame)
    return frame


def test_scores_are_those_counted_by_hand() -> None:
    stated = [("Fox", "eats", "hen"), ("cat", "eats", "Mouse"), ("owl", "eats", "mouse"), ("cow", "eats", "grass")]
    held = [("owl", "eats", "hen")]
    ranked = [("fox", "hen"), ("cat", "mouse"), ("cow", "mouse"), ("owl", "mouse"), ("owl", "hen")]
    rows = score_rows(
        [EATS], pl.concat([harvested(ranked), harvested(ranked[:2], "bertnet")]), stated=stated, held_out=held,
        variants={"kbloom": "own", "bertnet": "bertnet"},
    )  # fmt: skip
    found = {(row["scope_kind"], row["selector"], row["metric"]): row for row in rows}
    # seeds left out: three truths, of which two were found, at places 1 and 3
    assert found["relation", "own", "precision@50"]["value"] == pytest.approx(2 / 50)
    assert found["relation", "own", "r_precision"]["value"] == pytest.approx(2 / 3)
    assert found["relation", "own", "recall"]["value"] == pytest.approx(2 / 3)
    assert found["relation", "bertnet", "recall"]["value"] == pytest.approx(1 / 3)
    assert found["relation", "own", "held_out_recall"]["value"] == 1
    # 4 heads × 3 tails less 4 stated pairs = 8 untold ones, of which cow-mouse and owl-hen were harvested
    assert found["relation", "own", "held_out_chance"]["value"] == pytest.approx(2 / 8)
    assert found["relation", "own", "held_out_p"]["value"] == pytest.approx(2 / 8)
    assert found["collection", "own", "recall"]["value"] == pytest.approx(2 / 3)
    for row in rows:
        if row["low"] is not None:
            assert row["low"] <= row["value"] + 1e-9 and row["value"] <= row["high"] + 1e-9
    assert prepare("scores", rows).num_rows == len(rows)
    assert set(rows[0]) == set(TABLES["scores"].names)


def test_a_symmetric_relation_counts_a_pair_once() -> None:
    relation = Relation("near", "zoo", "<HEAD> near <TAIL>", (("x", "y"),), "", symmetric=True)
    found = control(relation, [("b", "near", "a"), ("c", "near", "a")], [("a", "near", "c")], [("a", "near", "b")])
    # a, b and c: three unordered pairs, one of them stated
    assert found == Control(found=1, held=1, harvested=1, untold=2)


def test_a_relation_of_which_the_corpus_states_nothing_else_is_not_scored() -> None:
    only_seed = [("fox", "eats", "hen")]
    assert score_rows([EATS], harvested([]), stated=only_seed, held_out=[], variants={"kbloom": "own"}) == []


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_chance_is_what_enumeration_says(data: st.DataObject) -> None:
    def draw() -> Control:
        untold = data.draw(st.integers(1, 6))
        held, taken = data.draw(st.integers(0, untold)), data.draw(st.integers(0, untold))
        found = data.draw(st.integers(max(0, held + taken - untold), min(held, taken)))
        return Control(found, held, taken, untold)

    pair = [draw(), draw()]
    worlds = [[set(drawn) for drawn in combinations(range(c.untold), c.held)] for c in pair]
    wanted = sum(c.found for c in pair)
    reached = [
        len(one & set(range(pair[0].harvested))) + len(two & set(range(pair[1].harvested))) >= wanted
        for one in worlds[0]
        for two in worlds[1]
    ]
    assert above_chance(pair) == pytest.approx(sum(reached) / len(reached))
