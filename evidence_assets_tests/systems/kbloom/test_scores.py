"""Scores of a harvest against manual counts, and the control against an enumeration of chance outcomes."""

import re
from dataclasses import replace

import polars as pl
import pytest

from evidence_assets.harvest.triple_metrics import sampled_precision
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.kbloom.sample_scores import build_sample_rows, draw_sample_precision, measure_control
from evidence_assets.systems.kbloom.scores import (
    HarvestedRelations,
    build_judgement_rows,
    draw_judged_precision,
    judge_harvest,
)
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import verbalise_triple
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.small_models import ScriptedGenerator

EATS = Relation("eats", "zoo", "<HEAD> eats <TAIL>", (("Fox", "hen"),), "<HEAD> eats <TAIL>")


def make_triples(pairs: list[tuple[str, str]], origin: str = "kbloom", relation: str = "eats") -> pl.DataFrame:
    """Triples of one origin and relation, best first."""
    shared = {"relation": relation, "relation_id": relation, "origin": origin, "model_id": "m@1", "agreement": 0.5}
    shared |= {"flags": [], "source": "test", "licence": ""}
    rows = [
        shared | {"triple_id": f"{origin}{relation}{i}", "head": head, "tail": tail, "rank": i}
        for i, (head, tail) in enumerate(pairs, 1)
    ]
    return as_stored("triples", rows)


def test_scores_equal_manual_counts() -> None:
    stated_facts = [
        ("Fox", "eats", "hen"),
        ("cat", "eats", "Mouse"),
        ("owl", "eats", "mouse"),
        ("cow", "eats", "grass"),
    ]
    held_out_facts = [("owl", "eats", "hen")]
    pairs = [("fox", "hen"), ("cat", "mouse"), ("cow", "mouse"), ("owl", "mouse"), ("owl", "hen")]
    triples = pl.concat([make_triples(pairs), make_triples(pairs[:2], "bertnet")])
    selectors = {"kbloom": "own", "bertnet": "bertnet"}
    harvest, entities = HarvestedRelations([EATS], triples, selectors), ["fox", "hen", "owl"]
    rows = build_sample_rows(harvest, stated_facts=stated_facts, held_out_facts=held_out_facts, known_entities=entities)
    scores = {(row["scope_kind"], row["selector"], row["metric"]): row for row in rows}
    # without seeds: three facts, of which two were harvested, at ranks 1 and 3
    assert scores["relation", "own", "precision@50"]["value"] == pytest.approx(2 / 50)
    assert scores["relation", "own", "r_precision"]["value"] == pytest.approx(2 / 3)
    assert scores["relation", "own", "recall"]["value"] == scores["collection", "own", "recall"]["value"]
    assert scores["relation", "own", "novelty"]["value"] == 1 / 2, "of six entities"
    assert scores["relation", "bertnet", "recall"]["value"] == pytest.approx(1 / 3)
    assert scores["relation", "own", "held_out_recall"]["value"] == 1
    # 4 heads × 3 tails - 4 stated pairs = 8 unstated pairs with total weight 16: owl, hen and mouse occur twice;
    # cow-mouse (1 · 2) and owl-hen (2 · 2) were harvested
    assert scores["relation", "own", "held_out_chance"]["value"] == pytest.approx(6 / 16)
    assert scores["collection", "own", "recall"]["value"] == pytest.approx(2 / 3)
    for row in (row for row in rows if row["low"] is not None):
        assert row["low"] <= row["value"] + 1e-9 and row["value"] <= row["high"] + 1e-9
    picture = draw_sample_precision(harvest, stated_facts)["precision on zoo"]
    assert "own: 0.500 at 4" in picture and "bertnet: 0.250 at 4" in picture, "of four triples that are no seeds"
    assert prepare_rows("scores", rows).num_rows == len(rows)
    assert set(rows[0]) == {*TABLES["scores"].names} - {"input_version"}, "only scores of predictions have one"


def test_a_symmetric_relation_counts_a_pair_once() -> None:
    relation = Relation("near", "zoo", "<HEAD> near <TAIL>", (("x", "y"),), "", symmetric=True)
    control = measure_control(
        relation, [("b", "near", "a"), ("c", "near", "a")], [("a", "near", "c")], [("a", "near", "b")]
    )
    # a (which occurs twice), b and c: three unordered pairs, one of them stated, a-b twice as likely as b-c
    assert (control.n_recovered, control.n_held_out) == (1, 1) and control.chance == pytest.approx(2 / 3)


def test_a_collection_is_compared_with_the_baseline_over_its_relations() -> None:
    names = [f"r{i}" for i in range(6)]
    relations = [replace(EATS, id=name, pairs=(("x", "y"),)) for name in names]
    stated_facts = [("a", name, "b") for name in names]
    kbloom = pl.concat([make_triples([("a", "b")], relation=name) for name in names])
    bertnet = pl.concat([make_triples([("b", "a")], "bertnet", relation=name) for name in names])
    harvest = HarvestedRelations(relations, pl.concat([kbloom, bertnet]), {"kbloom": "own", "bertnet": "bertnet"})
    rows = build_sample_rows(harvest, stated_facts=stated_facts, held_out_facts=[])
    scores = {(row["scope_id"], row["selector"], row["metric"]): row for row in rows}
    gain = scores["zoo", "own", "recall_over_bertnet"]
    assert (gain["value"], gain["n"]) == (1.0, 6)
    assert scores["zoo", "own", "precision@50_over_bertnet"]["value"] == pytest.approx(1 / 50)
    assert scores["zoo", "bertnet", "recall"]["value"] == 0
    assert not any(variant == "bertnet" and "_over_" in metric for _, variant, metric in scores)


# Judgements ---------------------------------------------------------------------------------------------------------


def word_judge(model_id: str, likes: str, unsure: str = "~") -> LanguageModel:
    """A judge that accepts statements with a certain word, and fails on statements with another."""

    def reply(request: Request) -> str:
        (statement,) = re.findall(r"Statement: (.*)", request.user)
        return "unsure" if unsure in statement else "correct" if likes in statement else "wrong"

    return LanguageModel(ScriptedGenerator(reply, model_id=model_id))


def test_verdicts_become_precision_noise_and_kappa_and_seeds_count_nowhere() -> None:
    kbloom = make_triples([("fox", "hen"), ("owl", "mouse"), ("cat", "mouse"), ("cow", "moon")])
    bertnet = make_triples([("owl", "mouse"), ("dog", "moon")], "bertnet")
    judges = [word_judge("first", "mouse", unsure="dog"), word_judge("second", "owl")]
    harvest = HarvestedRelations([EATS], pl.concat([kbloom, bertnet]), {"kbloom": "own", "bertnet": "bertnet"})
    verdicts = judge_harvest(harvest, judges)
    picture = draw_judged_precision(harvest, verdicts)["precision on zoo"]
    assert "own: 0.667 at 3" in picture and "bertnet: 0.333 at 3" in picture, "as the first judge sees it"
    rows = build_judgement_rows(harvest, judges, verdicts)
    scores = {(r["selector"], r["reasoner"].removesuffix("@1"), r["metric"]): (r["value"], r["n"]) for r in rows}
    assert scores["own", "first", "precision"] == (pytest.approx(2 / 3), 3)
    assert scores["own", "first", "noisy_percent"] == (pytest.approx(1 / 3), 3)
    assert scores["own", "second", "precision"] == (pytest.approx(1 / 3), 3)
    # verdicts right-right, right-wrong, wrong-wrong: observed 2/3, expected by chance 4/9
    assert scores["own", "first", "kappa"] == (pytest.approx(0.4), 3)
    assert scores["own", "first", "exact_agreement"] == (pytest.approx(2 / 3), 3)
    assert scores["bertnet", "first", "precision"] == (1, 1), "unusable verdicts are ignored"
    assert scores["bertnet", "first", "kappa"] == (None, 1)
    assert prepare_rows("scores", rows).num_rows == len(rows)


def test_published_judges_see_the_initial_prompt_over_200_experiments() -> None:
    relation = replace(EATS, template="one sees <HEAD> eat <TAIL>")
    triples = make_triples([(f"x{number}", "hen") for number in range(300)])
    generator = ScriptedGenerator(lambda r: "correct" if re.search(r'"x\d*[13579] ', r.user) else "wrong")
    harvest = HarvestedRelations([relation], triples, {"kbloom": "own"}, "prompt")
    judges = [LanguageModel(generator)]
    rows = build_judgement_rows(harvest, judges, judge_harvest(harvest, judges))
    assert any('"x0 eats hen."' in request.user for request in generator.requests)
    assert verbalise_triple(relation, "x0", "hen") == "one sees x0 eat hen."
    scores = {row["metric"]: row for row in rows}
    spread = sampled_precision([[number % 2 == 1 for number in range(300)]])
    precision = scores["precision"]
    assert precision["value"] == pytest.approx(spread.mean / 100)
    half_width = (precision["high"] - precision["low"]) / 2
    assert half_width == pytest.approx(1.96 * spread.deviation / 100) and half_width > 0.05
    assert scores["noisy_percent"]["value"] == pytest.approx(1 - precision["value"])
