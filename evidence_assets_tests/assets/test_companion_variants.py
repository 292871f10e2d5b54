"""The opted-in variants of A2Q and 4StepFocus as assets of a small world: what each changes, and what it is scored by."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from evidence_assets.benchmarks.declared import benchmarks, declared
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.lineage import dangling
from evidence_assets.systems import settings_of
from evidence_assets.systems.a2q.classifier_tuning import classifier_stages
from evidence_assets.systems.a2q.settings import A2QSettings, ClassifierSettings
from evidence_assets_tests.assets.small_worlds import SmallWorld, failures, small_world, wrong
from evidence_assets_tests.models.test_rerankers import make_cross_encoder

PRESETS = "presets: [a2q_main, a2q_ablation, fourstepfocus_main]"
MCQA = ("a2q", "a2q_paths", "nearest_triples", "linked_triples", "a2q_no_option", "a2q_no_path", "a2q_no_taxonomy",
        "a2q_no_classifier")  # fmt: skip
GRAPH = ("a2q", "a2q_paths", "a2q_no_path", "a2q_no_classifier", "a2q_no_taxonomy", "linked_triples", "a2q_tuned")
SEARCH = ("fourstepfocus", "vector_search", "multi_vector_search", "vector_search_reranked", "fourstepfocus_printed",
          "fourstepfocus_reranked", "fourstepfocus_described", "fourstepfocus_printed_reranked", "fourstepfocus_any_type",
          "fourstepfocus_undirected", "fourstepfocus_or_search")  # fmt: skip
READING = [name for name in SEARCH if name.startswith("fourstepfocus")]
BASE_PARTS = ("nodes", "edges", "csr", "passages", "passage_index")
PARAPHRASE = "My grandmother has gout and a fever. Could you tell me what people like her are usually given?"


def keys(tables: str, family: str, names: tuple[str, ...]) -> list[str]:
    return [f"{table}/{family}/{name}" for name in names for table in tables.split()]


def split(world: SmallWorld, name: str, before: str, after: str) -> None:
    file = world.lake.raw / "sample" / "benchmarks" / f"{name}.jsonl"
    file.write_text(file.read_text().replace(f'"split": "{before}"', f'"split": "{after}"'))


@pytest.fixture(scope="module")
def opted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """Every variant without a language model; what is tuned is a tiny cross-encoder in place of the embedded encoder."""
    tiny = make_cross_encoder(tmp_path_factory.mktemp("reranker"))
    lines = ["name: small", PRESETS]
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("opted"), lines, patch) as world:
        world.make("raw/sample")
        for name in ("sample_skb", "sample_kgqa", "sample_graph"):
            split(world, name, "dev", "test")
        asked = world.lake.raw / "sample" / "benchmarks" / "sample_skb.jsonl"
        line = {"question_id": "sample_skb-x", "split": "test", "task": "skb_search", "text": PARAPHRASE}
        asked.write_text(asked.read_text() + json.dumps(line | {"gold": ["n0000"]}) + "\n")
        world.make("questions/search", partition="sample_skb|0")
        world.make("questions/graph", partition="sample_kgqa|0")
        world.make("questions/mcqa", partition="sample_graph|0")
        world.make("knowledge/sample/triples", "knowledge/sample/nodes", "knowledge/sample/edges")
        world.make("knowledge/sample/passages", *(f"knowledge/sample_skb/{part}" for part in BASE_PARTS))
        split(world, "sample_kgqa", "test", "dev")
        patch.setattr("evidence_assets.systems.a2q.classifier_tuning.EMBEDDED", str(tiny))
        world.make("models/relevance_classifier")
        world.make(*keys("evidence chains predictions citations", "mcqa", MCQA), partition="sample_graph|0")
        world.make(*keys("scores", "mcqa", MCQA), partition="sample_graph")
        world.make(*keys("evidence predictions", "graph", GRAPH), partition="sample_kgqa|0")
        world.make(*keys("scores", "graph", GRAPH), partition="sample_kgqa")
        for name in SEARCH:
            fails = name in READING and name != "fourstepfocus_or_search"
            made = world.make(*keys("evidence predictions", "search", (name,)), partition="sample_skb|0", fails=fails)
            assert fails == ("1 of 6 rows failed" in str(wrong(made)))
        world.make(*keys("scores", "search", SEARCH), partition="sample_skb")
        yield world


def evidence(world: SmallWorld, place: str) -> list[dict[str, object]]:
    rows = world.rows("evidence", f"evidence/{place}").sort("question_id", "rank").to_dicts()
    return [{**row, "why": json.loads(row["why"])} for row in rows]


def metrics(world: SmallWorld, place: str) -> dict[str, float]:
    return dict(world.rows("scores", f"scores/{place}").select("metric", "value").iter_rows())


@pytest.mark.parametrize("name", MCQA)
def test_multiple_choice_is_answered_and_its_triples_are_scored(opted: SmallWorld, name: str) -> None:
    found = metrics(opted, f"mcqa/{name}")
    assert {"accuracy", "hit@1", "hit@10", "coverage", "bertscore"} <= found.keys()
    assert found["hit@1"] <= found["hit@10"]
    assert (
        opted.rows("predictions", f"predictions/mcqa/{name}").height == opted.rows("questions", "questions/mcqa").height
    )
    rows = evidence(opted, f"mcqa/{name}")
    assert rows and {row["source_kind"] for row in rows} == {"edge"}
    assert max(int(str(row["rank"])) for row in rows) <= 10


def test_a_hit_of_multiple_choice_is_the_right_option_at_the_end_of_a_triple(opted: SmallWorld) -> None:
    right = 0
    questions = [q for q in opted.rows("questions", "questions/mcqa").to_dicts() if q["gold"]]
    rows = evidence(opted, "mcqa/a2q_paths")
    for question in questions:
        gold = {question["options"]["ABCDEFGH".index(label)].casefold() for label in question["gold"]}
        ends = {
            end.casefold()
            for row in rows
            if row["question_id"] == question["question_id"]
            for end in (row["why"]["triple"][0], row["why"]["triple"][2])  # type: ignore[index]
        }
        right += bool(ends & gold)
    assert metrics(opted, "mcqa/a2q_paths")["hit@10"] == pytest.approx(right / len(questions))


@pytest.mark.parametrize("family", ["mcqa", "graph"])
def test_each_ablation_leaves_out_its_stage(opted: SmallWorld, family: str) -> None:
    rows = {name: evidence(opted, f"{family}/{name}") for name in ("a2q", "a2q_no_path", "a2q_no_classifier")}
    stages = {name: {row["why"]["stage"] for row in own} for name, own in rows.items()}  # type: ignore[index]
    assert stages["a2q_no_path"] == {"subgraph"}
    grades = {row["why"]["grade"] for row in rows["a2q_no_classifier"]}  # type: ignore[index]
    assert grades == {1.0}
    hashes = {
        n: set(opted.rows("evidence", f"evidence/{family}/{n}")["input_hash"]) for n in ("a2q", "a2q_no_taxonomy")
    }
    assert not hashes["a2q"] & hashes["a2q_no_taxonomy"]
    assert benchmarks()["sample_kgqa"].taxonomy == "sample_skb"


def test_the_tuned_classifier_is_another_model_and_learns_from_the_other_half(opted: SmallWorld) -> None:
    row = opted.rows("models", "models/relevance_classifier").to_dicts()[0]
    assert (row["task"], row["sentences"] > 0) == ("relevance classifier", True)
    before, after = (evidence(opted, f"graph/{name}") for name in ("a2q", "a2q_tuned"))
    grade = [[(r["source_id"], r["why"]["grade"]) for r in own] for own in (before, after)]  # type: ignore[index]
    assert grade[0] != grade[1]
    assert declared()["sample_kgqa"].split == "test"
    variant = next(v for v in variants_of("a2q") if v.method == "tuned_classifier")
    with pytest.raises(BadInput, match="is the one reported: tune on another"):
        classifier_stages(variant, ClassifierSettings("sample_kgqa", split="test"))
    with pytest.raises(BadInput, match="no declared benchmark with a graph"):
        classifier_stages(variant, ClassifierSettings("sample_mcqa"))
    split(opted, "sample_kgqa", "dev", "other")
    refused = opted.make("models/relevance_classifier", fails=True)
    assert "there is nothing to tune on" in failures(refused)
    split(opted, "sample_kgqa", "other", "dev")


def test_each_penalty_of_a_step_is_swept_with_each_depth_and_the_triples_alone() -> None:
    swept = [settings_of(v.place) for v in variants_of("a2q") if "a2q_sweeps" in v.presets]
    grid = [A2QSettings(penalty=penalty, theta=theta) for penalty, theta in product((0.1, 0.2, 0.3), (2, 3, 5))]
    alone = [A2QSettings(theta_counts="nodes"), A2QSettings(top_n=5), A2QSettings(top_n=20)]
    assert Counter(swept) == Counter(grid + alone)


@pytest.mark.parametrize("name", SEARCH)
def test_every_ranking_is_scored(opted: SmallWorld, name: str) -> None:
    found = metrics(opted, f"search/{name}")
    assert {"hit@1", "hit@5", "recall@20", "mrr"} <= found.keys()
    assert found["hit@1"] <= found["mrr"] <= 1
    assert found["hit@1"] <= found["hit@5"]


def test_paraphrased_questions_fail_or_are_searched_for_by_vectors(opted: SmallWorld) -> None:
    questions = opted.rows("questions", "questions/search")
    paraphrased = questions.filter(questions["text"] == PARAPHRASE)["question_id"][0]
    for name in READING:
        rows = opted.rows("predictions", f"predictions/search/{name}").to_dicts()
        row = next(row for row in rows if row["question_id"] == paraphrased)
        own = [r for r in evidence(opted, f"search/{name}") if r["question_id"] == paraphrased]
        if name == "fourstepfocus_or_search":
            plain = opted.rows("predictions", "predictions/search/multi_vector_search").to_dicts()
            searched = next(r for r in plain if r["question_id"] == paraphrased)
            assert row["status"] == "answered"
            assert row["ranked_answers"] == searched["ranked_answers"]
            assert row["supported_answers"] == []
            notes = [note for r in own for note in r["why"]["notes"]]  # type: ignore[index]
            assert notes and all("not read as triplets" in note and "none of the known forms" in note for note in notes)
        else:
            assert (row["status"], row["ranked_answers"], own) == ("failed", [], [])
            assert row["error"] == "the question is written in none of the known forms"


def test_looser_triplets_support_at_least_as_much(opted: SmallWorld) -> None:
    supported = {
        name: {
            row["question_id"]: set(row["supported_answers"])
            for row in opted.rows("predictions", f"predictions/search/{name}").to_dicts()
        }
        for name in ("fourstepfocus", "fourstepfocus_any_type", "fourstepfocus_undirected")
    }
    for question, strict in supported["fourstepfocus"].items():
        for name in ("fourstepfocus_any_type", "fourstepfocus_undirected"):
            loose = supported[name][question]
            assert strict <= loose or len(loose) == 20, "a longer list of candidates is cut at the nearest 20"


def test_all_rows_rest_on_rows_that_exist(opted: SmallWorld) -> None:
    with connect(opted.lake.root) as connection:
        for path in opted.lake.files("lineage_edges"):
            assert dangling(connection, path) == [], path
