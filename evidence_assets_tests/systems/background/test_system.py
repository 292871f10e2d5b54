"""Triples of graph and model: origins, the four published cases, hops, and unusable replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from evidence_assets.benchmarks.graphs.rows import triple_id
from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence
from evidence_assets.experiment.evidence.sources import ExternallyLinkedSelector
from evidence_assets.experiment.stage import PreviousOutput, StageContext, StageInput
from evidence_assets.lake.errors import BadInput, UnusableReply
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.background.recall import (
    PromptedBackground,
    StoredBackground,
    build_recall_rows,
    build_triple_rows,
    parse_list,
    parse_triples,
    read_background,
)
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings
from evidence_assets_tests.graphs.small_graph import graph_of
from evidence_assets_tests.lake_rows import as_stored, question
from evidence_assets_tests.systems.small_models import CompletionStore, ScriptedGenerator, WordEncoder

NAMES = ["Switzerland", "Swiss franc", "Bern", "Alps", "Europe"]
RELATIONS = ["currency", "capital", "located in"]
EDGES = [(0, 0, 1), (0, 1, 2), (3, 2, 4), (0, 2, 4)]
GRAPH = graph_of(NAMES, RELATIONS, EDGES)
QUESTION = Question("q1", "own", "kgqa", "What is the money of Switzerland called?")
BAD = Question("q2", "own", "kgqa", "A bad question about Switzerland?")


def reply(request: Request) -> str:
    if request.user.endswith("Entities:"):
        return "- Switzerland\n- money"
    if request.user.endswith("Relations:"):
        return "currency"
    assert '"Switzerland", "money"' in request.user
    return "(Switzerland, money called, franc)\n(Switzerland, currency, Swiss franc)"


def recall_with_script(
    *questions: Question, script: Callable[[Request], str] = reply
) -> tuple[pl.DataFrame, ScriptedGenerator]:
    """Rows of ``chains`` recalled by a scripted model."""
    generator = ScriptedGenerator(script)
    source = PromptedBackground(LanguageModel(generator, CompletionStore()))
    rows = build_recall_rows(source, "background", questions or (QUESTION,)).rows
    frame = as_stored("chains", rows)
    return frame, generator


def make_selector(
    settings: BackgroundSettings | None = None, background: StoredBackground | None = None
) -> BackgroundKnowledge:
    settings = settings or BackgroundSettings(recall="recalled")
    return BackgroundKnowledge(GRAPH, WordEncoder(), settings, background or read_background(recall_with_script()[0]))


def origins_and_texts(evidence: list[SelectedEvidence]) -> list[tuple[str, str]]:
    return [(json.loads(item.why or "")["origin"], item.text) for item in evidence]


def test_both_origins_are_ranked_together_and_marked() -> None:
    evidence = make_selector().select([QUESTION])[0]
    assert set(origins_and_texts(evidence)) == {
        ("graph", "Switzerland currency Swiss franc"),
        ("graph", "Switzerland capital Bern"),
        ("graph", "Switzerland located in Europe"),
        ("model", "Switzerland money called franc"),
    }
    assert origins_and_texts(evidence)[0] == ("model", "Switzerland money called franc"), (
        "nearest to the question first"
    )
    assert evidence[0].parents[0].kind == "triple"
    assert all(item.parents[0].kind == "edge" for item in evidence[1:])
    scores = [item.score for item in evidence]
    assert scores == sorted(scores, reverse=True)


def test_a_recalled_triple_has_its_model_and_prompt_but_never_the_id_of_a_source() -> None:
    rows, _ = recall_with_script()
    output = build_triple_rows(rows)
    assert prepare_rows("triples", output.rows).num_rows == 2
    assert {row["origin"] for row in output.rows} == {"background"}
    assert {row["model_id"] for row in output.rows} == {"scripted@1"}
    assert all(rows["prompt_hash"][0] in row["source"] for row in output.rows)
    assert not {row["triple_id"] for row in output.rows} & {
        triple_id(row["head"], row["relation"], row["tail"]) for row in output.rows
    }
    recalled_item = make_selector().select([QUESTION])[0][0]
    assert recalled_item.parents[0].id in {row["triple_id"] for row in output.rows}
    assert {(e["parent_kind"], e["parent_id"], e["parent_version"]) for e in output.lineage} == {
        ("chain", rows["chain_id"][0], rows["content_hash"][0])
    }


@pytest.mark.parametrize(
    ("graph", "model", "kinds"),
    [(True, True, {"graph", "model"}), (True, False, {"graph"}), (False, True, {"model"}), (False, False, set())],
)
def test_the_four_published_cases(graph: bool, model: bool, kinds: set[str]) -> None:
    evidence = make_selector(BackgroundSettings(graph=graph, recall="recalled" if model else "")).select([QUESTION])[0]
    assert {origin for origin, _ in origins_and_texts(evidence)} == kinds


def reply_with_prose(request: Request) -> str:
    """Reply with a sentence instead of triples to the bad question."""
    if "Make triples" in request.user and "bad" in request.user:
        return "I think that the question is about several interesting things in the world, so here they are."
    return reply(request)


def test_recalled_rows_are_reused_and_failed_ones_requested_again() -> None:
    generator = ScriptedGenerator(reply_with_prose)
    source = PromptedBackground(LanguageModel(generator, CompletionStore()))
    first = build_recall_rows(source, "background", [QUESTION, BAD])
    previous = PreviousOutput(as_stored("chains", first.rows), as_stored("lineage_edges", first.lineage))
    n_requests = len(generator.requests)
    second = build_recall_rows(source, "background", [QUESTION, BAD], previous)
    assert second.reused == 1 and all("bad" in request.user for request in generator.requests[n_requests:])
    statuses = {row["question_id"]: row["status"] for row in prepare_rows("chains", second.rows).to_pylist()}
    assert statuses == {"q1": "answered", "q2": "failed"}


def test_top_k_and_hops() -> None:
    assert len(make_selector(BackgroundSettings(recall="recalled", top_k=2)).select([QUESTION])[0]) == 2
    question = Question("q", "own", "kgqa", "Where is Bern?")
    near = make_selector().select([question])[0]
    assert {text for _, text in origins_and_texts(near)} == {"Switzerland capital Bern"}
    far = make_selector(BackgroundSettings(recall="recalled", D=3)).select([question])[0]
    assert len(far) == 4
    capped = make_selector(BackgroundSettings(recall="recalled", D=3, max_triples=1)).select([question])[0]
    assert {text for _, text in origins_and_texts(capped)} == {"Switzerland capital Bern"}


def test_topic_entities_come_from_an_external_linker(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1)
    rows = [question(i, "sample_kgqa", source_id=f"s{i}", task="kgqa", options=[]) for i in (1, 2)]
    lake.write("questions/graph", "sample_kgqa|0", {"questions": rows})
    file = lake.raw_path("links/sample_kgqa/refined.jsonl")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"id": "s1", "entities": ["Alps", "Mars"]}) + "\n")
    context = StageContext(
        lake, "evidence", "evidence/graph/x", "sample_kgqa|0", inputs=[StageInput("questions/graph")]
    )
    selector = ExternallyLinkedSelector(make_selector(BackgroundSettings(links="refined")), context, "refined")
    linked, without_entities = selector.select([QUESTION, BAD])
    assert [item.text for item in linked] == ["Alps located in Europe"] and without_entities == []
    with pytest.raises(BadInput, match=r"refnied\.jsonl"):
        ExternallyLinkedSelector(make_selector(), context, "refnied")


# Replies -------------------------------------------------------------------------------------------------------------


def test_lists_of_names_are_parsed() -> None:
    assert parse_list("- Switzerland\n2. Swiss franc\n\n* Switzerland\nMartin Luther King Jr.") == (
        "Switzerland",
        "Swiss franc",
        "Martin Luther King Jr.",
    )
    assert parse_list("1984\n7 Up") == ("1984", "7 Up")
    assert parse_list("None.") == ()


def test_triples_are_parsed() -> None:
    reply = "1. Switzerland | currency | Swiss franc\n\nBern|capital of|Switzerland\nBern | capital of | Switzerland"
    assert parse_triples(reply) == (("Switzerland", "currency", "Swiss franc"), ("Bern", "capital of", "Switzerland"))
    assert parse_triples("none") == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("Here are the entities:\nBern", "line 1 is no name"),
        ("\n".join(f"name {i}" for i in range(31)), "31 lines are more than 30"),
    ],
)
def test_prose_is_no_list(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_list(reply)
