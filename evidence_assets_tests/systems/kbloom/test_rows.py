"""Rows of seeds and harvests, and the lineage between them."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
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
from evidence_assets.systems.kbloom.seeds import Relation, find_suspect_seeds, read_seed_folder
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.models.tiny import tiny_model
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
    with pytest.raises(StaleInput, match="knowledge/seeds has no seeds of this relation; materialize it first"):
        build_relation(rows.clear())


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
    expected = {
        ("Sea", "near", "town"): ["both_ways"],
        ("town", "near", "sea"): ["both_ways"],
        ("hill", "near", "town"): [],
        ("owl", "eats", "mouse"): ["reversed"],
        ("Mouse", "eats", "owl"): ["reversed"],
        ("cat", "eats", "fish"): ["by_inverse"],
        ("fish", "eaten_by", "cat"): ["by_inverse"],
        ("cow", "eats", "grass"): [],
    }
    facts = [("m", "of no relation", "n"), *expected]
    triples = pl.concat([make_triples([(head, tail)], relation=relation) for head, relation, tail in facts])
    triples = pl.concat([triples, triples.with_columns(origin=pl.lit("bertnet"))])
    rows = select_collection(triples, seeds, "tiny", "kbloom")
    assert set(rows["origin"]) == {"kbloom"} and rows.height == len(expected)
    assert {(h, r, t): flags for h, r, t, flags in rows.select("head", "relation", "tail", "flags").rows()} == expected


# Valid and invalid seed files; every error names file, line and field


GOOD = """\
id: capital_of
collection: geography
prompt: <HEAD> is the capital of <TAIL>
pairs:
  - [Paris, France]
  - [New Delhi, "  India "]
  - [no, 1999]
template: <HEAD> is the capital city of <TAIL>.
head_kinds: [city]
tail_kinds: [country]
inverse: has_capital
functional: true
"""


def write(folder: Path, text: str, name: str = "capital.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read_seed_file(path: Path) -> Relation:
    folder = read_seed_folder(path.parent)
    for error in folder.errors:
        raise error
    (relation,) = folder.relations
    return relation


def test_a_good_file(tmp_path: Path) -> None:
    relation = read_seed_file(write(tmp_path, GOOD))
    pairs = (("Paris", "France"), ("New Delhi", "India"), ("no", "1999"))
    prompt, template = "<HEAD> is the capital of <TAIL>", "<HEAD> is the capital city of <TAIL>."
    kinds = ("city",), ("country",)
    assert relation == Relation(
        "capital_of", "geography", prompt, pairs, template, *kinds, "has_capital", symmetric=False, functional=True
    )


@pytest.mark.parametrize(
    ("change", "line", "field", "message"),
    [
        (("prompt: <HEAD> is the capital of <TAIL>", "prompt: <HEAD> is a capital"), 3, "prompt", "no <TAIL>"),
        (("[Paris, France]", "[Paris, '  ']"), 5, "pairs", "at least 1 character"),
        (("[Paris, France]", "[Paris]"), 5, "pairs", "write each seed as [head, tail]"),
        (("functional: true", "functionel: true"), 12, "functionel", "did you mean 'functional'?"),
        (("id: capital_of", "id: capital of/x"), 1, "id", "should match pattern"),
        (("id: capital_of\n", ""), 1, "id", "is missing"),
        (("inverse: has_capital", "id: again"), 11, "id", "appears twice"),
        (("[Paris, France]", "[Paris, France"), 5, "", "bracket that opens here is not closed"),
    ],
)
def test_bad_files_name_line_and_field(
    tmp_path: Path, change: tuple[str, str], line: int, field: str, message: str
) -> None:
    assert change[0] in GOOD
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(BadInput) as caught:
        read_seed_file(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: {field}")


@pytest.mark.parametrize(
    ("seed", "setting", "problem"),
    [
        ("[paris, France.]", "functional: true", "repeats"),
        ("[France, Paris]", "symmetric: true", "repeats"),
        ("[France, Paris]", "functional: true", "reverses"),
        ("[paris, Gaul]", "functional: true", "a second tail"),
        ("[paris, Gaul]", "functional: false", ""),
    ],
)
def test_suspect_seeds_are_named_with_file_line_and_field(
    tmp_path: Path, seed: str, setting: str, problem: str
) -> None:
    path = write(tmp_path, GOOD.replace("[no, 1999]", seed).replace("functional: true", setting))
    warnings = [str(warning) for warning in find_suspect_seeds(read_seed_folder(tmp_path))]
    assert len(warnings) == bool(problem)
    assert all(one.startswith(f"{path}:7: pairs: the seed [") and problem in one for one in warnings)


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "b.yaml")
    write(tmp_path, GOOD.replace("Paris", "Lyon"), "c.yaml")
    write(tmp_path, GOOD.replace("capital_of", "other"), "a.yml")
    write(tmp_path, "id: broken\n", "d.yaml")
    folder = read_seed_folder(tmp_path)
    assert [relation.id for relation in folder.relations] == ["capital_of", "other"]
    assert folder.relations[0].pairs[0] == ("Paris", "France")
    messages = [str(error) for error in folder.errors]
    assert len(messages) == 2
    assert "c.yaml:1: id: relation 'capital_of' is already defined in b.yaml" in messages[0]
    assert "d.yaml" in messages[1]
