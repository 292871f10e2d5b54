"""Rows of seeds and harvests, and the lineage between them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.systems.kbloom.harvesting import (
    EntityKinds,
    KBloomSettings,
    KeptPrompt,
    MiningSettings,
    SearchSettings,
)
from evidence_assets.systems.kbloom.rows import (
    CandidateRows,
    Row,
    build_prompt_rows,
    build_relation,
    build_relations,
    build_seed_rows,
    build_triple_rows,
    hash_harvest_inputs,
    hash_prompt_inputs,
    hash_search_inputs,
    link_prompts,
    read_candidates,
    read_kept_prompts,
    select_collection,
)
from evidence_assets.systems.kbloom.seeds import Relation, find_suspect_seeds, read_seed_folder
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.models.tiny import tiny_model
from evidence_assets_tests.systems.kbloom.test_scores import make_triples
from evidence_assets_tests.systems.kbloom.test_system import (
    SMALL_SETTINGS,
    Harvest,
    harvest_relation,
    make_relation,
    mine_eats_prompts,
)

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


def harvest_both_variants() -> dict[str, Harvest]:
    settings = (SMALL_SETTINGS, replace(SMALL_SETTINGS, variant="bertnet"))
    return {one.variant: harvest_relation(make_relation(), tiny_model(), mine_eats_prompts(), one) for one in settings}


def build_all_rows(harvests: Mapping[str, Harvest]) -> tuple[dict[str, list[Row]], list[Row]]:
    """Rows of the stages by table, and their lineage."""
    relation = make_relation()
    tables: dict[str, list[Row]] = {"prompts": [], "candidate_tuples": []}
    lineage: list[Row] = []
    for variant, harvest in harvests.items():
        prompts = build_prompt_rows(relation, variant, mine_eats_prompts(), "h")
        kept_ids = list(read_kept_prompts(as_stored("prompts", prompts)))
        candidate_rows = CandidateRows(relation.id, variant, "m@1")
        tables["prompts"] += prompts
        tables["candidate_tuples"] += candidate_rows.build(harvest.candidates, "h")
        lineage += link_prompts(relation, [str(row["prompt_id"]) for row in prompts], "m@1")
        lineage += candidate_rows.link(harvest.candidates, harvest.finders, kept_ids)
    triples = {variant: harvest.triples for variant, harvest in harvests.items()}
    output = build_triple_rows(relation, triples, "m@1", "test", "h")
    return {**tables, "triples": list(output.rows)}, [*lineage, *output.lineage]  # type: ignore[list-item, arg-type]


def test_rows_fit_their_tables_and_lineage_reaches_from_triple_to_seed() -> None:
    tables, lineage = build_all_rows(harvest_both_variants())
    for table, rows in tables.items():
        assert prepare_rows(table, rows).num_rows == len(rows) > 0
    assert prepare_rows("lineage_edges", lineage).num_rows == len(
        {(e["child_id"], e["parent_kind"], e["parent_id"], e["relation"]) for e in lineage}
    )
    parents: dict[str, set[tuple[str, str]]] = {}
    for edge in lineage:
        parents.setdefault(edge["child_id"], set()).add((edge["parent_kind"], edge["parent_id"]))
    seeds = {row["seed_id"] for row in build_seed_rows(make_relation())}
    for triple in tables["triples"]:
        ancestors, frontier = set(), {triple["triple_id"]}
        while frontier:
            new_ancestors = set().union(*(parents.get(one, set()) for one in frontier)) - ancestors
            ancestors |= new_ancestors
            frontier = {identifier for _, identifier in new_ancestors}
        assert {kind for kind, _ in ancestors} == {"candidate", "prompt", "seed", "model"}
        assert {identifier for kind, identifier in ancestors if kind == "seed"} == seeds
    for candidate in tables["candidate_tuples"]:
        same_variant = [row for row in tables["prompts"] if row["variant"] == candidate["variant"]]
        kept_ids = {row["prompt_id"] for row in same_variant if row["kept"]}
        prompts = {prompt_id for kind, prompt_id in parents[str(candidate["candidate_id"])] if kind == "prompt"}
        assert prompts <= kept_ids
        assert len(prompts) == (round(float(str(candidate["agreement"])) * len(kept_ids)) or len(kept_ids))


def test_prompts_and_candidates_come_back_from_their_rows() -> None:
    for variant, harvest in harvest_both_variants().items():
        prompts = as_stored("prompts", build_prompt_rows(EATS, variant, mine_eats_prompts(), "h"))
        kept_prompts = [KeptPrompt(prompt.text, prompt.weight) for prompt in mine_eats_prompts() if prompt.kept]
        assert list(read_kept_prompts(prompts).values()) == kept_prompts, "in the order in which they were mined"
        rows = as_stored("candidate_tuples", CandidateRows(EATS.id, variant, "m@1").build(harvest.candidates, "h"))
        assert read_candidates(rows) == harvest.candidates


def test_the_hash_of_a_stage_changes_with_everything_that_decides_its_rows_and_nothing_else() -> None:
    fewer, functional = make_relation(seeds=4), make_relation(functional=True)
    prompts = [KeptPrompt("<HEAD> eats <TAIL>", 1.0)]
    mining = MiningSettings()
    hashes = [hash_prompt_inputs(EATS, ["m", "e"], mining), hash_prompt_inputs(fewer, ["m", "e"], mining)]
    hashes += [hash_prompt_inputs(EATS, ["n", "e"], mining), hash_prompt_inputs(EATS, ["m", "e"], mining, ["text"])]
    hashes.append(hash_prompt_inputs(EATS, ["m", "e"], MiningSettings(prompts="top1")))
    assert len(set(hashes)) == len(hashes)
    assert hash_prompt_inputs(functional, ["m", "e"], mining) == hashes[0], "mining does not read it"
    search = SearchSettings()
    hashes = [hash_search_inputs(EATS, "m", search, prompts), hash_search_inputs(EATS, "n", search, prompts)]
    hashes.append(hash_search_inputs(EATS, "m", SearchSettings(n=6), prompts))
    hashes.append(hash_search_inputs(EATS, "m", search, [KeptPrompt("<HEAD> eats <TAIL>", 0.5)]))
    assert len(set(hashes)) == len(hashes)
    assert hash_search_inputs(fewer, "m", search, prompts) == hashes[0], "other seeds that give the same prompts"


def test_the_hash_changes_with_everything_that_decides_a_harvest() -> None:
    def hash_of(
        relation: Relation = EATS,
        model: str = "m",
        searched: str = "s",
        n: int = 5,
        kinds: EntityKinds | None = None,
        causal: str = "",
    ) -> str:
        return hash_harvest_inputs(relation, model, [KBloomSettings(n=n)], [searched], kinds, causal)

    kinds = {"owl": frozenset({"bird"})}
    assert hash_of() == hash_of() == hash_of(kinds=kinds), "kinds count only for a relation that restricts them"
    changed = make_relation(seeds=4), make_relation(functional=True)
    hashes = [hash_of(), hash_of(model="n"), hash_of(searched="t"), hash_of(n=6), hash_of(causal="c")]
    hashes += map(hash_of, changed)
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
