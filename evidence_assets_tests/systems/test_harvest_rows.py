"""Seeds as rows and back, a harvest as rows, and what may not become a row."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.datasets.seeds import Relation
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import prepare
from evidence_assets.systems.harvest_rows import (
    harvest_hash,
    harvest_rows,
    in_collection,
    relation_of,
    relations_of,
    seed_rows,
)
from evidence_assets.systems.kbloom import Harvest, KBloomSettings, harvest, mine
from evidence_assets_tests.models.tiny_world import tiny_model
from evidence_assets_tests.systems.test_kbloom import SMALL, LetterEncoder, relation

WORDS = st.text("abcé ", min_size=1, max_size=6).map(str.strip).filter(bool)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5, unique=True),
    st.booleans(), st.booleans(), st.none() | st.just("other"), st.lists(WORDS, max_size=2),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_a_relation_comes_back_from_its_rows(
    pairs: list[tuple[str, str]], symmetric: bool, functional: bool, inverse: str | None, kinds: list[str]
) -> None:
    before = Relation(
        "r", "c", "<HEAD> p <TAIL>", tuple(pairs), "t", tuple(kinds), tuple(kinds), inverse, symmetric, functional
    )
    rows = pl.from_arrow(prepare("relation_seeds", seed_rows(before)))
    assert isinstance(rows, pl.DataFrame)
    assert relation_of(rows) == before and relations_of(rows) == [before]
    assert set(rows["seed_hash"]) == {before.seed_hash}


@cache
def both() -> tuple[Harvest, Harvest]:
    prompts = mine(relation(), tiny_model(), LetterEncoder(), SMALL)
    own = harvest(relation(), tiny_model(), LetterEncoder(), SMALL, prompts=prompts)
    other = harvest(relation(), tiny_model(), LetterEncoder(), replace(SMALL, variant="bertnet"), prompts=prompts)
    return own, other


def test_rows_fit_their_tables_and_lineage_reaches_from_triple_to_seed() -> None:
    made = harvest_rows(relation(), both(), model="m@1", source="test", input_hash="h")
    for table, rows in (("prompts", made.prompts), ("candidate_tuples", made.candidates), ("triples", made.triples)):
        assert prepare(table, rows).num_rows == len(rows) > 0
    assert prepare("lineage_edges", made.lineage).num_rows == len(
        {(e["child_id"], e["parent_kind"], e["parent_id"], e["relation"]) for e in made.lineage}
    )
    parents: dict[str, set[tuple[str, str]]] = {}
    for edge in made.lineage:
        parents.setdefault(edge["child_id"], set()).add((edge["parent_kind"], edge["parent_id"]))
    seeds = {row["seed_id"] for row in seed_rows(relation())}
    for triple in made.triples:
        reached, frontier = set(), {triple["triple_id"]}
        while frontier:
            above = set().union(*(parents.get(one, set()) for one in frontier)) - reached
            reached |= above
            frontier = {identifier for _, identifier in above}
        assert {kind for kind, _ in reached} == {"candidate", "prompt", "seed", "model"}
        assert {identifier for kind, identifier in reached if kind == "seed"} == seeds


def test_a_harvest_without_a_triple_is_an_error_and_not_an_empty_result() -> None:
    empty = replace(both()[0], triples=())
    with pytest.raises(BadInput, match="relation 'eats': m@1 yields no pair"):
        harvest_rows(relation(), [empty], model="m@1", source="test", input_hash="h")


def test_the_hash_changes_with_everything_that_decides_a_harvest() -> None:
    def of(one: Relation = relation(), model: str = "m", words: str = "e", n: int = 5) -> str:
        return harvest_hash(one, model, words, [KBloomSettings(n=n)])

    assert of() == of()
    assert len({of(), of(model="n"), of(words="f"), of(n=6), of(relation(seeds=4)), of(relation(functional=True))}) == 6


def test_a_collection_takes_its_own_relations_and_one_origin() -> None:
    seeds = pl.DataFrame({"relation_id": ["a", "b"], "collection": ["x", "y"]})
    triples = pl.DataFrame(
        {"relation_id": ["a", "a", "b", "gone"], "origin": ["kbloom", "bertnet", "kbloom", "kbloom"]}
    )
    assert in_collection(triples, seeds, "x", "kbloom").rows() == [("a", "kbloom")]
    assert in_collection(triples, seeds, "z", "kbloom").height == 0
