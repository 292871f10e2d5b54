"""Packaged relations, reference tuples from a user's files, and scores of collections without known facts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evidence_assets import systems
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import variants, variants_of
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.scores import (
    HarvestedRelations,
    build_inspection_rows,
    build_reference_rows,
    build_size_rows,
    load_references,
)
from evidence_assets.systems.kbloom.seeds import PACKAGED_RELATIONS, Relation, collection_folder, read_seed_folder
from evidence_assets.systems.kbloom.system import KBloom, find_judges
from evidence_assets_tests.systems.kbloom.test_scores import make_triples, word_judge

COUNTS = {"conceptnet": 20, "lama": 20, "umls": 15}
EATS, NEAR = (
    Relation(name, "zoo", f"<HEAD> {verb} <TAIL>", (("cow", "hay"),), f"<HEAD> {verb} <TAIL>")
    for name, verb in (("eats", "eats"), ("near", "is near"))
)
LAMA_RELATIONS = (
    "P17 P19 P20 P27 P30 P31 P36 P37 P39 P47 P101 P103 P106 P108 P127 P131 P136 P138 P140 P159 P176 P178 P190 P264 "
    "P276 P279 P361 P364 P407 P413 P449 P463 P495 P527 P530 P740 P937 P1001 P1303 P1376 P1412"
)
"""The properties of Wikidata that LAMA's T-REx part has facts of."""
SELECTORS = {"kbloom": "k", "bertnet": "b"}


@pytest.mark.parametrize("collection", COUNTS)
def test_packaged_relations_are_sound_and_of_their_collection(collection: str) -> None:
    folder = read_seed_folder(collection_folder(collection))
    assert not folder.errors and len(folder.relations) == COUNTS[collection]
    for relation in folder.relations:
        assert relation.collection == collection and folder.files[relation.id].stem == relation.id
        assert len(relation.pairs) == 5 and len({head for head, _ in relation.pairs}) >= 4
        assert all(1 <= len(entity.split()) <= 2 for pair in relation.pairs for entity in pair), relation.id
    assert f"| `{collection}` | {COUNTS[collection]} |" in (PACKAGED_RELATIONS / "README.md").read_text()


@pytest.mark.dev_data
def test_relations_are_named_as_in_the_real_files(dev_data: Path) -> None:
    conceptnet_relations = {
        line.split("\t")[0] for line in (dev_data / "conceptnet" / "train_slice.txt").read_text().splitlines()
    }
    packaged = {relation.id for relation in read_seed_folder(collection_folder("conceptnet")).relations}
    assert packaged <= conceptnet_relations
    umls_pairs = (
        load_references()["umls_semantic_network"]
        .model_copy(update={"paths": ("umls/train.txt",)})
        .read_pairs(dev_data)
    )
    assert {relation.id for relation in read_seed_folder(collection_folder("umls")).relations} <= set(umls_pairs)
    lama_pairs = load_references()["lama_trex"].read_pairs(dev_data)
    assert len(lama_pairs) == 8 and sum(map(len, lama_pairs.values())) == 4000
    lama_relations = {relation.id: relation for relation in read_seed_folder(collection_folder("lama")).relations}
    assert {name for name in lama_relations if name in lama_pairs} == {"P27", "P106", "P364", "P449", "P463"}
    for name in lama_relations.keys() & lama_pairs.keys():
        heads, tails = ({entity.casefold() for entity in side} for side in zip(*lama_pairs[name], strict=True))
        seed_tails = {tail.casefold() for _, tail in lama_relations[name].pairs}
        assert len(seed_tails & tails) > len(seed_tails & heads), f"{name}: its seeds are facts of this relation"


def test_the_relations_of_lama_are_of_its_t_rex_part() -> None:
    packaged = {relation.id for relation in read_seed_folder(collection_folder("lama")).relations}
    assert packaged < set(LAMA_RELATIONS.split()) and len(LAMA_RELATIONS.split()) == 41


TRIPLES = pl.concat(
    [
        make_triples([("cow", "grass"), ("cat", "mouse")]),
        make_triples([("cow", "Barn")], relation="near"),
        make_triples([("cow", "grass")], "bertnet"),
        make_triples([("owl", "barn")], "bertnet", "near"),
    ]
)


def values_by_metric(rows: list[dict[str, Any]], variant: str) -> dict[str, float]:
    prepare_rows("scores", rows)
    return {row["metric"]: row["value"] for row in rows if row["selector"] == variant}


def test_sizes_of_a_collection_are_those_of_all_its_relations_together() -> None:
    rows = build_size_rows(HarvestedRelations([EATS, NEAR], TRIPLES, SELECTORS))
    assert values_by_metric(rows, "k") == {"tuples": 3, "fact_count": 6, "diversity": 5, "agreement": 0.5}
    assert values_by_metric(rows, "b") == {"tuples": 2, "fact_count": 4, "diversity": 4, "agreement": 0.5}
    assert {(row["scope_kind"], row["scope_id"]) for row in rows} == {("collection", "zoo")}


def test_a_harvest_is_compared_with_reference_tuples() -> None:
    """Vectors by hand: one tuple is similar to all reference tuples, one to one of three, one to none."""
    similar_texts = [("cow eats grass.", "cow eats hay.", "horse eats oats."), ("cat eats mouse.", "dog eats meat.")]
    vectors = {text: np.eye(3)[number] for number, texts in enumerate(similar_texts) for text in texts}

    def encode(texts: Sequence[str]) -> Any:
        return np.array([vectors.get(text, np.eye(3)[2]) for text in texts])

    reference_pairs = {
        "eats": [("cow", "hay"), ("horse", "oats"), ("dog", "meat"), ("cow", "hay")],
        "unheard": [("a", "Grass")],
    }
    harvest = HarvestedRelations([EATS, NEAR], TRIPLES, SELECTORS)
    rows = build_reference_rows(harvest, "farm", reference_pairs, encode)
    kbloom, bertnet = values_by_metric(rows, "k"), values_by_metric(rows, "b")
    assert kbloom["novelty"] == pytest.approx(4 / 5), "the reference has only cow"
    assert kbloom["novelty_by_entity"] == pytest.approx(3 / 5), "the reference has cow and Grass"
    assert kbloom["accuracy"] == 0.5, "cow eats grass is similar to two of three, cat eats mouse to one"
    assert kbloom["accuracy_maximum"] == 1.0 and kbloom["novel_only_precision"] == 1.0 and kbloom["fact_count"] == 6
    assert bertnet["accuracy"] == 1.0 and "novel_only_precision" not in bertnet
    (accuracy_row,) = [row for row in rows if (row["selector"], row["metric"]) == ("k", "accuracy")]
    assert accuracy_row["n"] == 2, "a relation without reference tuples counts for novelty only"


def test_published_references_are_compared_as_tuples_without_the_prompt() -> None:
    """The words of a prompt, which all statements of a relation share, would make any two of them similar."""
    texts = list[str]()

    def encode(some_texts: Sequence[str]) -> Any:
        texts.extend(some_texts)
        return np.eye(9)[[hash(text) % 9 for text in some_texts]]

    (variant,) = (each for each in variants_of("kbloom") if each.name == "kbloom_printed")
    settings = KBloom(variant).settings
    harvest = HarvestedRelations([EATS], TRIPLES, SELECTORS, settings.statements, settings.compared)
    build_reference_rows(harvest, "farm", {"eats": [("cow", "hay")]}, encode)
    assert "(cow, hay)" in texts and not any("eats" in text for text in texts)


def test_gemini_judges_where_a_profile_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = "extends: companions\nname: mine\ngenerators: {small: {backend: openai, name: own}}\n"
    (tmp_path / "mine.yaml").write_text(lines)
    for profile, judge in (
        ("companions", "gemini-1.0-pro"),
        ("paper", "Qwen/Qwen2.5-72B-Instruct-AWQ"),
        (str(tmp_path / "mine.yaml"), "own"),
    ):
        monkeypatch.setenv("EVIDENCE_PROFILE", profile)
        assert [each.name for each in find_judges()] == [judge], profile


def test_tuples_labelled_false_are_not_references(tmp_path: Path) -> None:
    (tmp_path / "references/conceptnet").mkdir(parents=True)
    (tmp_path / "references/conceptnet/test.txt").write_text("IsA\toak\ttree\t1\nIsA\toak\tfish\t0\n")
    assert load_references()["conceptnet_test"].read_pairs(tmp_path) == {"IsA": [("oak", "tree")]}


def test_the_ten_best_tuples_by_judge_and_likelihood() -> None:
    used_for = Relation("UsedFor", "zoo", "<HEAD> for <TAIL>", (("saw", "wood"), ("pen", "ink")), "<HEAD> for <TAIL>")
    kbloom = make_triples([("saw", "wood"), ("cup", "tea"), ("bed", "sleep")], relation="UsedFor")
    bertnet = make_triples([("Barn", "cow"), ("ox", "hay")], "bertnet", "UsedFor")

    class LengthScorer:
        model_id = "length"

        def score(self, pairs: Any) -> Any:
            return np.array([-len(text) - len(seed_lengths) / 100 for seed_lengths, text in pairs], np.float32)

    harvest = HarvestedRelations([EATS, used_for], pl.concat([kbloom, bertnet]), SELECTORS)
    scorer: Any = LengthScorer()
    rows = build_inspection_rows(harvest, [word_judge("judge", "bed", unsure="Barn")], scorer)
    kbloom_scores, bertnet_scores = values_by_metric(rows, "k"), values_by_metric(rows, "b")
    assert (kbloom_scores["correct_of_10:UsedFor"], bertnet_scores["correct_of_10:UsedFor"]) == (1, 0)
    seed_lengths = np.array([len("Saw for wood."), len("Pen for ink.")]) / 100
    expected = -np.array([[len("Cup for tea.")], [len("Bed for sleep.")]]) - seed_lengths
    assert kbloom_scores["bartscore_mean"] == pytest.approx(expected.mean(), abs=1e-5)
    assert kbloom_scores["bartscore_max:range"] == pytest.approx(round(expected.max(), 2))
    assert kbloom_scores["bartscore_min:rounded"] == pytest.approx(round(expected.min(), 1))
    assert kbloom_scores["pairs_with_higher_bartscore"] == 1, "of the two ranks that both have"
    assert "pairs_with_higher_bartscore" not in bertnet_scores


def test_a_masked_model_without_its_corpus_names_what_to_materialize(tmp_path: Path) -> None:
    variant = next(variant for variant in variants() if variant.key == "models/masked_lm")
    [stage] = build_stages(systems.open_method(variant))
    with pytest.raises(StaleInput, match="corpus/sample/chunks is missing; materialize it first"):
        stage.run(StageContext(Lake.create(tmp_path), stage.table, stage.key))
