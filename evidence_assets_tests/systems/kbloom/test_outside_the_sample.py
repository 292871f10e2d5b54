"""K-Bloom outside the sample: packaged relations, references of a user's files, and what a collection's harvest is
worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evidence_assets.lake.rows import prepare_rows
from evidence_assets.systems.kbloom.references import load_references
from evidence_assets.systems.kbloom.scores import (
    HarvestedRelations,
    build_inspection_rows,
    build_reference_rows,
    build_size_rows,
)
from evidence_assets.systems.kbloom.seeds import PACKAGED_RELATIONS, Relation, collection_folder, read_seed_folder
from evidence_assets_tests.systems.kbloom.test_scores import Opinion, harvested

COUNTS = {"conceptnet": 20, "lama": 20, "umls": 15}
EATS, NEAR = (
    Relation(name, "zoo", f"<HEAD> {verb} <TAIL>", (("cow", "hay"),), f"<HEAD> {verb} <TAIL>")
    for name, verb in (("eats", "eats"), ("near", "is near"))
)
BOTH = {"kbloom": "k", "bertnet": "b"}


@pytest.mark.parametrize("collection", COUNTS)
def test_packaged_relations_are_sound_and_of_their_collection(collection: str) -> None:
    found = read_seed_folder(collection_folder(collection))
    assert not found.errors and len(found.relations) == COUNTS[collection]
    for relation in found.relations:
        assert relation.collection == collection and found.files[relation.id].stem == relation.id
        assert len(relation.pairs) == 5 and len({head for head, _ in relation.pairs}) >= 4
        assert all(1 <= len(entity.split()) <= 2 for pair in relation.pairs for entity in pair), relation.id
    assert f"| `{collection}` | {COUNTS[collection]} |" in (PACKAGED_RELATIONS / "README.md").read_text()


@pytest.mark.dev_data
def test_relations_are_named_as_in_the_real_files(dev_data: Path) -> None:
    stated = {line.split("\t")[0] for line in (dev_data / "conceptnet" / "train_slice.txt").read_text().splitlines()}
    own = {relation.id for relation in read_seed_folder(collection_folder("conceptnet")).relations}
    assert own <= stated
    semantic = (
        load_references()["umls_semantic_network"].model_copy(update={"paths": ("umls/train.txt",)}).pairs(dev_data)
    )
    assert {relation.id for relation in read_seed_folder(collection_folder("umls")).relations} <= set(semantic)
    facts = load_references()["lama_trex"].pairs(dev_data)
    assert len(facts) == 8 and sum(map(len, facts.values())) == 4000


TRIPLES = pl.concat(
    [
        harvested([("cow", "grass"), ("cat", "mouse")]),
        harvested([("cow", "Barn")], relation="near"),
        harvested([("cow", "grass")], "bertnet"),
        harvested([("owl", "barn")], "bertnet", "near"),
    ]
)


def numbers(rows: list[dict[str, Any]], variant: str) -> dict[str, float]:
    prepare_rows("scores", rows)
    return {row["metric"]: row["value"] for row in rows if row["selector"] == variant}


def test_sizes_of_a_collection_are_those_of_all_its_relations_together() -> None:
    rows = build_size_rows(HarvestedRelations([EATS, NEAR], TRIPLES, BOTH))
    assert numbers(rows, "k") == {"tuples": 3, "fact_count": 6, "diversity": 5, "agreement": 0.5}
    assert numbers(rows, "b") == {"tuples": 2, "fact_count": 4, "diversity": 4, "agreement": 0.5}
    assert {(row["scope_kind"], row["scope_id"]) for row in rows} == {("collection", "zoo")}


def test_what_a_reference_says_of_a_harvest() -> None:
    """Vectors by hand: one tuple is like all of the reference's, one like one of three, one like none."""
    alike = [("cow eats grass.", "cow eats hay.", "horse eats oats."), ("cat eats mouse.", "dog eats meat.")]
    vectors = {text: np.eye(3)[number] for number, texts in enumerate(alike) for text in texts}

    def encode(texts: list[str]) -> Any:
        return np.array([vectors.get(text, np.eye(3)[2]) for text in texts])

    stated = {"eats": [("cow", "hay"), ("horse", "oats"), ("dog", "meat"), ("cow", "hay")], "unheard": [("a", "b")]}
    rows = build_reference_rows(HarvestedRelations([EATS, NEAR], TRIPLES, BOTH), "farm", stated, encode)  # type: ignore[arg-type]
    ours, theirs = numbers(rows, "k"), numbers(rows, "b")
    assert ours["novelty"] == pytest.approx(4 / 5), "cow alone is the reference's"
    assert ours["accuracy"] == 0.5, "cow eats grass is like two of three, cat eats mouse like one"
    assert ours["accuracy_maximum"] == 1.0 and ours["novel_only_precision"] == 1.0 and ours["fact_count"] == 6
    assert theirs["accuracy"] == 1.0 and "novel_only_precision" not in theirs
    (counted,) = [row for row in rows if (row["selector"], row["metric"]) == ("k", "accuracy")]
    assert counted["n"] == 2, "a relation that the reference does not state counts for novelty alone"


def test_a_marked_untruth_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "references/conceptnet").mkdir(parents=True)
    (tmp_path / "references/conceptnet/test.txt").write_text("IsA\toak\ttree\t1\nIsA\toak\tfish\t0\n")
    assert load_references()["conceptnet_test"].pairs(tmp_path) == {"IsA": [("oak", "tree")]}


def test_the_ten_best_tuples_by_judge_and_likelihood() -> None:
    used = Relation("UsedFor", "zoo", "<HEAD> for <TAIL>", (("saw", "wood"), ("pen", "ink")), "<HEAD> for <TAIL>")
    ours = harvested([("saw", "wood"), ("cup", "tea"), ("bed", "sleep")], relation="UsedFor")
    theirs = harvested([("Barn", "cow"), ("ox", "hay")], "bertnet", "UsedFor")

    class Rates:
        model_id = "rates"

        def score(self, pairs: Any) -> Any:
            return np.array([-len(text) - len(before) / 100 for before, text in pairs], np.float32)

    both = HarvestedRelations([EATS, used], pl.concat([ours, theirs]), BOTH)
    rows = build_inspection_rows(both, [Opinion("judge", "bed", unsure="Barn")], Rates())
    ours_numbers, theirs_numbers = numbers(rows, "k"), numbers(rows, "b")
    assert (ours_numbers["correct_of_10:UsedFor"], theirs_numbers["correct_of_10:UsedFor"]) == (1, 0)
    before = np.array([len("Saw for wood."), len("Pen for ink.")]) / 100
    rated = -np.array([[len("Cup for tea.")], [len("Bed for sleep.")]]) - before
    assert ours_numbers["bartscore_mean"] == pytest.approx(rated.mean(), abs=1e-5)
    assert ours_numbers["bartscore_max:range"] == pytest.approx(round(rated.max(), 2))
    assert ours_numbers["bartscore_min:rounded"] == pytest.approx(round(rated.min(), 1))
    assert ours_numbers["pairs_with_higher_bartscore"] == 1, "of the two ranks that both have"
    assert "pairs_with_higher_bartscore" not in theirs_numbers
