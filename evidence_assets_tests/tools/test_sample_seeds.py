"""Seed pairs drawn from reference tuples, as published."""

from pathlib import Path

from evidence_assets.systems.kbloom.seeds import collection_folder, read_seed_folder
from tools.mutate_claims import PAGE, ROOT, find_problems, find_tested_claims, read_mutations
from tools.sample_seeds import draw_pairs, write_seed_files

TUPLES = [(f"thing {number}", f"use{number}") for number in range(40)]


def test_pairs_are_drawn_by_seed_and_relation_from_short_distinct_tuples() -> None:
    pairs = draw_pairs("UsedFor", TUPLES, 0)
    assert len(set(pairs)) == 5 and set(pairs) <= set(TUPLES)
    assert pairs == draw_pairs("UsedFor", TUPLES[::-1] * 2, 0), "whatever the order of the file"
    assert pairs != draw_pairs("UsedFor", TUPLES, 1) and pairs != draw_pairs("MadeOf", TUPLES, 0)
    assert draw_pairs("UsedFor", [("a", "a"), ("pen", "write a long letter"), ("pen", "writing")], 0) == [
        ("pen", "writing")
    ]


def test_seed_files_keep_the_prompt_and_are_valid(tmp_path: Path) -> None:
    relations = read_seed_folder(collection_folder("lama")).relations
    missing = write_seed_files(relations, {"P19": TUPLES, "P27": TUPLES[:2]}, tmp_path, 0)
    assert len(missing) == len(relations) - 2 and "P19" not in missing
    written = {relation.id: relation for relation in read_seed_folder(tmp_path).relations}
    packaged = {relation.id: relation for relation in relations}
    assert set(written) == {"P19", "P27"} and set(written["P27"].pairs) == set(TUPLES[:2])
    for name, relation in written.items():
        assert (relation.prompt, relation.template) == (packaged[name].prompt, packaged[name].template)
        assert relation.functional == packaged[name].functional and set(relation.pairs) <= set(TUPLES)


# The script that checks whether the tests of docs/reproduction.md can fail


def test_every_claim_has_a_mutation_that_still_applies() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    assert find_problems(read_mutations(), find_tested_claims(page)) == []
