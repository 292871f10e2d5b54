"""4StepFocus, A2Q and knowledge prompting as assets of a small world: rows, lineage, scores and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evidence_assets.experiment import solvers
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import trace
from evidence_assets.models.protocols import Request
from evidence_assets.systems.four_step_focus.question_forms import FormParser, load_sample_forms
from evidence_assets_tests.assets.small_worlds import SmallWorld, failed_checks, failures, small_world
from evidence_assets_tests.graphs.small_graph import graph_of_rows
from evidence_assets_tests.systems.four_step_focus.test_triplets import make_reply
from evidence_assets_tests.systems.small_models import ScriptedGenerator

PRESETS = "presets: [fourstepfocus_main, kaping_cases]"
BASE = tuple(f"knowledge/sample_skb/{part}" for part in ("nodes", "edges", "csr", "passages", "passage_index"))


def variant(family: str, *names: str) -> list[str]:
    return [f"{table}/{family}/{name}" for name in names for table in ("evidence", "predictions")]


def scores(family: str, *names: str) -> list[str]:
    return [f"scores/{family}/{name}" for name in names]


def prepared(world: SmallWorld) -> None:
    """Materialize the questions of both splits and their graph."""
    world.make("raw/sample")
    for name in ("sample_skb", "sample_kgqa"):
        file = world.lake.raw / "sample" / "benchmarks" / f"{name}.jsonl"
        file.write_text(file.read_text().replace('"split": "dev"', '"split": "test"'))
    world.make("questions/search", partition="sample_skb|0")
    world.make("questions/graph", partition="sample_kgqa|0")
    world.make("knowledge/sample/triples", "knowledge/sample/nodes", "knowledge/sample/edges")


@pytest.fixture(scope="module")
def default_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """The default assets of the three systems, materialized once and read-only."""
    with small_world(tmp_path_factory.mktemp("made"), ["name: small"]) as world:
        prepared(world)
        world.make(*BASE, "knowledge/sample/passages")
        world.make(*variant("search", "fourstepfocus", "vector_search"), partition="sample_skb|0")
        world.make(*variant("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa|0")
        world.make(*scores("search", "fourstepfocus", "vector_search"), partition="sample_skb")
        world.make(*scores("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa")
        yield world


def test_ranked_nodes_have_the_ids_of_their_base_and_of_the_gold(default_world: SmallWorld) -> None:
    nodes = set(default_world.rows("kg_nodes", BASE[0])["node_id"])
    gold = set(default_world.rows("questions", "questions/search")["gold"].explode(empty_as_null=True))
    assert gold and gold <= nodes
    assert all(node.startswith("sample_skb:n") for node in nodes)
    predictions = default_world.rows("predictions", "predictions/search/fourstepfocus")
    assert set(predictions["ranked_answers"].explode(empty_as_null=True)) <= nodes
    assert predictions["ranked_answers"].list.len().to_list() == [20] * predictions.height
    assert predictions["answer"].to_list() == predictions["ranked_answers"].list.first().to_list()
    assert set(predictions["reasoner"]) == {"form_parser"}, "no language model read the questions"
    assert set(default_world.rows("predictions", "predictions/search/vector_search")["reasoner"]) == {"vector"}


def test_every_answer_rests_on_rows_that_exist(default_world: SmallWorld) -> None:
    with connect(default_world.lake.root) as connection:
        for asset, sources in (
            ("predictions/search/fourstepfocus", {"question", "evidence", "edge", "node", "passage", "file"}),
            ("predictions/graph/kg_graph", {"question", "evidence", "edge", "triple", "file"}),
        ):
            rows = default_world.rows("predictions", asset).filter(pl.col("status") == "answered")
            root = trace(connection, rows["prediction_id"][0])
            if asset.startswith("predictions/search"):
                answer_nodes = [node for node in root.next if node.kind == "node"]
                assert [node.id for node in answer_nodes] == [rows["answer"][0]]
                assert answer_nodes[0].content["name"], "the answer's row has its name"
            assert {kind for kind, _ in _below(root.as_dict())} == sources


def _below(node: dict[str, object]) -> set[tuple[str, str]]:
    below: set[tuple[str, str]] = set()
    children = node["next"]
    assert isinstance(children, list)
    for child in children:
        below |= {(child["kind"], child["id"])} | _below(child)
    return below


# Language models, scripted ------------------------------------------------------------------------------------------

PROSE = "I am not sure what you would like to know, but let me tell you something about it all the same, my friend."


class Script:
    """Scripted replies: prose for some questions, valid replies for the others."""

    def __init__(self, world: SmallWorld) -> None:
        self._questions = world.rows("questions", "questions/search").sort("question_id")["text"].to_list()
        self._first = world.rows("questions", "questions/graph").sort("question_id")["text"][0]
        self._world, self._forms = world, load_sample_forms()

    def reply(self, request: Request) -> str:
        if "Node types:" in request.user:
            return self._triplets(request.user)
        if request.choices:
            return "0.5"
        if "Entities:" in request.user and "Triples:" not in request.user:
            return "tuberculosis\nmedicine"
        if "Relations:" in request.user and "Triples:" not in request.user:
            return "treats"
        if "Triples:" in request.user:
            return PROSE if json.dumps(self._first) in request.user else "(garlic, treats, tuberculosis)"
        return "N/A" if "Facts that may help" not in request.user else "garlic"

    def _triplets(self, user: str) -> str:
        first, second, *_ = self._questions
        if json.dumps(first) in user:
            return PROSE
        if json.dumps(second) in user:
            return make_reply("?x", {"x": "planet"}, ("?x", "orbits", "the sun"))
        text = next(q for q in self._questions if json.dumps(q) in user)
        nodes, edges = (
            self._world.rows(t, f"knowledge/sample_skb/{p}") for t, p in (("kg_nodes", "nodes"), ("kg_edges", "edges"))
        )
        graph = graph_of_rows("base", nodes, edges)
        query = FormParser(self._forms, graph.type_names).parse(text)
        types = {}
        for triplet in query.triplets:
            edge = int(np.flatnonzero(graph.arrays.relations == graph.relations.index(triplet.edge_type))[0])
            ends = graph.arrays.heads[edge], graph.arrays.tails[edge]
            head, tail = (graph.type_names[graph.node_types[end]] for end in ends)
            types |= {
                term.text: kind for term, kind in ((triplet.head, head), (triplet.tail, tail)) if term.is_variable
            }
        types[query.target.text] = query.target.node_type or ""
        types_by_name = {name.removeprefix("?"): node_type for name, node_type in types.items()}
        rows = [(t.head.text, t.edge_type, t.tail.text) for t in query.triplets]
        return make_reply(query.target.text, types_by_name, *rows)


CASES = ("kg_graph", "kg_background", "kg_both", "kg_none")


def answered_by_a_model(world: SmallWorld) -> None:
    """Materialize all assets that call the scripted model; two base questions and one graph question fail."""
    world.make(*BASE)
    result = world.make(
        *variant("search", "fourstepfocus", "fourstepfocus_reranked"), partition="sample_skb|0", fails=True
    )
    assert "2 of 5 rows failed" in failed_checks(result)["predictions/search/fourstepfocus"]
    world.make("chains/graph/background", "triples/graph/background", partition="sample_kgqa|0")
    for name in CASES:
        result = world.make(*variant("graph", name), partition="sample_kgqa|0", fails=name == "kg_background")
        if name == "kg_both":
            assert "predictions are incomplete" in failed_checks(result)["predictions/graph/kg_both"]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """A world answered by a scripted model."""
    lines = ["name: small", PRESETS, "generator: {backend: openai, name: scripted}"]
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("scripted"), lines) as world:
        prepared(world)
        generator = ScriptedGenerator(Script(world).reply)
        patch.setattr(solvers, "load_cached_generator", lambda settings: generator)
        answered_by_a_model(world)
        yield world


@pytest.mark.long
def test_the_four_cases_are_scored_and_model_knowledge_counts_as_no_evidence(scripted: SmallWorld) -> None:
    scripted.make(*scores("graph", *CASES), partition="sample_kgqa")
    scores_by_case = {
        name: dict(scripted.rows("scores", f"scores/graph/{name}").select("metric", "value").iter_rows())
        for name in CASES
    }
    for name in CASES:
        assert {"accuracy", "hit@1", "hit@10", "triple_f1", "evidence_recall"} <= scores_by_case[name].keys(), name
    assert scores_by_case["kg_graph"]["hit@10"] > 0
    for name in ("kg_background", "kg_none"):
        assert {scores_by_case[name][m] for m in ("hit@1", "hit@10", "triple_f1", "evidence_recall")} == {0.0}, name
    # An answer is right by name or alias; the script answers garlic to every question with facts.
    questions = scripted.rows("questions", "questions/graph").to_dicts()
    garlic = sum("garlic" in q["gold"] for q in questions)
    failed = set(scripted.rows("chains", "chains/graph/background").filter(pl.col("status") == "failed")["question_id"])
    unanswerable = [q for q in questions if not q["gold"]]
    assert scores_by_case["kg_none"]["accuracy"] == pytest.approx(len(unanswerable) / len(questions))
    right = sum("garlic" in q["gold"] and q["question_id"] not in failed for q in questions)
    assert scores_by_case["kg_background"]["accuracy"] == pytest.approx(right / len(questions))
    assert garlic >= right


# Errors -----------------------------------------------------------------------------------------------------------


def test_empty_and_missing_inputs_are_reported(tmp_path: Path) -> None:
    with small_world(tmp_path, ["name: small", PRESETS]) as world:
        world.make("raw/sample")
        world.make("questions/search", partition="sample_skb|0")
        world.make("questions/graph", partition="sample_kgqa|0")
        failed_run = world.make("evidence/graph/nearest_triples", partition="sample_kgqa|0", fails=True)
        assert "knowledge/sample/nodes is missing; materialize it first" in failures(failed_run)
        failed_run = world.make("chains/graph/background", partition="sample_kgqa|0", fails=True)
        assert "background knowledge needs a language model" in failures(failed_run)

        # An empty graph or base gives an insufficient row per question.
        world.lake.write("knowledge/sample/nodes", "", {"kg_nodes": []})
        world.lake.write("knowledge/sample/edges", "", {"kg_edges": []})
        world.make("knowledge/sample/passages")
        failed_run = world.make("evidence/graph/kg_both", partition="sample_kgqa|0", fails=True)
        assert "3 of 3 questions of sample_kgqa|0 have no recalled knowledge" in failures(failed_run)
        world.make(*variant("graph", "a2q", "nearest_triples", "kg_graph"), partition="sample_kgqa|0")
        for name in ("a2q", "nearest_triples", "kg_graph"):
            assert set(world.rows("predictions", f"predictions/graph/{name}")["status"]) == {"insufficient"}
        for part, table in (("nodes", "kg_nodes"), ("edges", "kg_edges"), ("passages", "kg_passages")):
            world.lake.write(f"knowledge/sample_skb/{part}", "0" if part == "passages" else "", {table: []})
        world.make("knowledge/sample_skb/passage_index")
        world.make(*variant("search", "vector_search"), partition="sample_skb|0")
        rows = world.rows("predictions", "predictions/search/vector_search")
        assert (set(rows["status"]), set(rows["answer"])) == ({"insufficient"}, {None})
