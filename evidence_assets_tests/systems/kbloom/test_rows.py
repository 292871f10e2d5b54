"""Rows of seeds and harvests, and the lineage between them."""

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
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.models.tiny_world import tiny_model
from evidence_assets_tests.systems.kbloom.test_scores import make_triples
from evidence_assets_tests.systems.kbloom.test_system import SMALL_SETTINGS, make_relation, mine_eats_prompts

EATS = make_relation()
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
    relation = Relation(
        "r", "c", "<HEAD> p <TAIL>", tuple(pairs), "t", tuple(kinds), tuple(kinds), inverse, symmetric, functional
    )
    rows = as_stored("relation_seeds", build_seed_rows(relation))
    assert build_relation(rows) == relation and build_relations(rows) == [relation]
    assert set(rows["seed_hash"]) == {relation.seed_hash}


def harvest_both_variants() -> list[Harvest]:
    settings = (SMALL_SETTINGS, replace(SMALL_SETTINGS, variant="bertnet"))
    return [harvest_relation(make_relation(), tiny_model(), mine_eats_prompts(), one) for one in settings]


def test_rows_fit_their_tables_and_lineage_reaches_from_triple_to_seed() -> None:
    output = build_harvest_rows(make_relation(), harvest_both_variants(), model="m@1", source="test", input_hash="h")
    for table, rows in {**output.other_tables, "triples": output.rows}.items():
        assert prepare_rows(table, rows).num_rows == len(rows) > 0
    assert prepare_rows("lineage_edges", output.lineage).num_rows == len(
        {(e["child_id"], e["parent_kind"], e["parent_id"], e["relation"]) for e in output.lineage}
    )
    parents: dict[str, set[tuple[str, str]]] = {}
    for edge in output.lineage:
        parents.setdefault(edge["child_id"], set()).add((edge["parent_kind"], edge["parent_id"]))
    seeds = {row["seed_id"] for row in build_seed_rows(make_relation())}
    for triple in output.rows:
        ancestors, frontier = set(), {triple["triple_id"]}
        while frontier:
            new_ancestors = set().union(*(parents.get(one, set()) for one in frontier)) - ancestors
            ancestors |= new_ancestors
            frontier = {identifier for _, identifier in new_ancestors}
        assert {kind for kind, _ in ancestors} == {"candidate", "prompt", "seed", "model"}
        assert {identifier for kind, identifier in ancestors if kind == "seed"} == seeds


def test_the_hash_changes_with_everything_that_decides_a_harvest() -> None:
    def hash_of(
        relation: Relation = EATS, model: str = "m", encoder: str = "e", n: int = 5, kinds: EntityKinds | None = None
    ) -> str:
        return hash_harvest_inputs(relation, model, encoder, [KBloomSettings(n=n)], kinds)

    kinds = {"owl": frozenset({"bird"})}
    assert hash_of() == hash_of() == hash_of(kinds=kinds), "kinds count only for a relation that restricts them"
    changed = make_relation(seeds=4), make_relation(functional=True)
    hashes = [hash_of(), hash_of(model="n"), hash_of(encoder="f"), hash_of(n=6), *map(hash_of, changed)]
    assert len(set(hashes)) == len(hashes)
    restricted = make_relation(head_kinds=("bird",))
    hashes = [hash_of(restricted, kinds=of_entities) for of_entities in (kinds, {}, {"owl": frozenset({"ape"})})]
    assert len(set(hashes)) == 3


def test_triples_are_flagged_by_their_reverse() -> None:
    relations = (
        make_relation(id="near", symmetric=True),
        make_relation(id="eats", inverse="eaten_by"),
        make_relation(id="eaten_by"),
    )
    seeds = as_stored("relation_seeds", [row for one in relations for row in build_seed_rows(one)])
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
    triples = pl.concat([make_triples([(head, tail)], relation=relation) for head, relation, tail in facts])
    triples = pl.concat([triples, triples.with_columns(origin=pl.lit("bertnet"))])
    rows = select_collection(triples, seeds, "tiny", "kbloom")
    assert set(rows["origin"]) == {"kbloom"} and rows.height == 8
    flags_by_fact = {(h, r, t): flags for h, r, t, flags in rows.select("head", "relation", "tail", "flags").rows()}
    assert flags_by_fact == {
        ("Sea", "near", "town"): ["both_ways"],
        ("town", "near", "sea"): ["both_ways"],
        ("hill", "near", "town"): [],
        ("owl", "eats", "mouse"): ["reversed"],
        ("Mouse", "eats", "owl"): ["reversed"],
        ("cat", "eats", "fish"): ["by_inverse"],
        ("fish", "eaten_by", "cat"): ["by_inverse"],
        ("cow", "eats", "grass"): [],
    }
