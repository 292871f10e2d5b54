"""Seeds as rows and back, a harvest as rows, and what may not become a row."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.rows import prepare_rows
from evidence_assets.systems.kbloom.harvesting import EntityKinds, Harvest, KBloomSettings, harvest_relation
from evidence_assets.systems.kbloom.rows import (
    build_harvest_rows,
    build_relation,
    build_relations,
    build_seed_rows,
    hash_harvest_inputs,
    select_collection,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets_tests.lake_rows import stored
from evidence_assets_tests.models.tiny_world import tiny_model
from evidence_assets_tests.systems.kbloom.test_scores import harvested
from evidence_assets_tests.systems.kbloom.test_system import SMALL, eats_prompts, relation

WORDS = st.text("abcé ", min_size=1, max_size=6).map(str.strip).filter(bool)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5, unique=True),
    st.booleans(),
    st.booleans(),
    st.none() | st.just("other"),
    st.lists(WORDS, max_size=2),
)
@settings(max_examples=20, deadline=None)
def test_a_relation_comes_back_from_its_rows(
    pairs: list[tuple[str, str]], symmetric: bool, functional: bool, inverse: str | None, kinds: list[str]
) -> None:
    before = Relation(
        "r", "c", "<HEAD> p <TAIL>", tuple(pairs), "t", tuple(kinds), tuple(kinds), inverse, symmetric, functional
    )
    rows = stored("relation_seeds", build_seed_rows(before))
    assert build_relation(rows) == before and build_relations(rows) == [before]
    assert set(rows["seed_hash"]) == {before.seed_hash}


def both() -> list[Harvest]:
    settings = (SMALL, replace(SMALL, variant="bertnet"))
    return [harvest_relation(relation(), tiny_model(), eats_prompts(), one) for one in settings]


def test_rows_fit_their_tables_and_lineage_reaches_from_triple_to_seed() -> None:
    made = build_harvest_rows(relation(), both(), model="m@1", source="test", input_hash="h")
    for table, rows in {**made.other_tables, "triples": made.rows}.items():
        assert prepare_rows(table, rows).num_rows == len(rows) > 0
    assert prepare_rows("lineage_edges", made.lineage).num_rows == len(
        {(e["child_id"], e["parent_kind"], e["parent_id"], e["relation"]) for e in made.lineage}
    )
    parents: dict[str, set[tuple[str, str]]] = {}
    for edge in made.lineage:
        parents.setdefault(edge["child_id"], set()).add((edge["parent_kind"], edge["parent_id"]))
    seeds = {row["seed_id"] for row in build_seed_rows(relation())}
    for triple in made.rows:
        reached, frontier = set(), {triple["triple_id"]}
        while frontier:
            above = set().union(*(parents.get(one, set()) for one in frontier)) - reached
            reached |= above
            frontier = {identifier for _, identifier in above}
        assert {kind for kind, _ in reached} == {"candidate", "prompt", "seed", "model"}
        assert {identifier for kind, identifier in reached if kind == "seed"} == seeds


def test_the_hash_changes_with_everything_that_decides_a_harvest() -> None:
    def of(
        one: Relation = relation(), model: str = "m", words: str = "e", n: int = 5, kinds: EntityKinds | None = None
    ) -> str:
        return hash_harvest_inputs(one, model, words, [KBloomSettings(n=n)], kinds)

    kinds = {"owl": frozenset({"bird"})}
    assert of() == of() == of(kinds=kinds), "kinds count only for a relation that asks for some"
    assert len({of(), of(model="n"), of(words="f"), of(n=6), of(relation(seeds=4)), of(relation(functional=True))}) == 6
    picky = relation(head_kinds=("bird",))
    assert len({of(picky, kinds=known) for known in (kinds, {}, {"owl": frozenset({"ape"})})}) == 3


def test_what_the_reverse_of_a_triple_says_is_flagged() -> None:
    relations = relation(id="near", symmetric=True), relation(id="eats", inverse="eaten_by"), relation(id="eaten_by")
    seeds = stored("relation_seeds", [row for one in relations for row in build_seed_rows(one)])
    facts = [
        ("m", "gone", "n"),
        ("Sea", "near", "town"),
        ("town", "near", "sea"),
        ("hill", "near", "town"),
        ("owl", "eats", "mouse"),
        ("Mouse", "eats", "owl"),
        ("cat", "eats", "fish"),
        ("cow", "eats", "grass"),
        ("fish", "eaten_by", "cat"),
    ]
    triples = pl.concat([harvested([(head, tail)], relation=relation) for head, relation, tail in facts])
    triples = pl.concat([triples, triples.with_columns(origin=pl.lit("bertnet"))])
    rows = select_collection(triples, seeds, "tiny", "kbloom")
    assert set(rows["origin"]) == {"kbloom"} and rows.height == 8
    found = {(h, r, t): flags for h, r, t, flags in rows.select("head", "relation", "tail", "flags").rows()}
    assert found == {
        ("Sea", "near", "town"): ["both_ways"],
        ("town", "near", "sea"): ["both_ways"],
        ("hill", "near", "town"): [],
        ("owl", "eats", "mouse"): ["reversed"],
        ("Mouse", "eats", "owl"): ["reversed"],
        ("cat", "eats", "fish"): ["by_inverse"],
        ("fish", "eaten_by", "cat"): ["by_inverse"],
        ("cow", "eats", "grass"): [],
    }
