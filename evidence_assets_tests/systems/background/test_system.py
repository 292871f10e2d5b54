"""Triples of graph and model side by side: origins, the four cases, hops, and replies that cannot be used."""

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
from evidence_assets_tests.lake_rows import question, stored
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


def recalled(*questions: Question, by: Callable[[Request], str] = reply) -> tuple[pl.DataFrame, ScriptedGenerator]:
    """Rows of what a scripted model recalls."""
    generator = ScriptedGenerator(by)
    source = PromptedBackground(LanguageModel(generator, CompletionStore()))
    rows = build_recall_rows(source, "background", questions or (QUESTION,)).rows
    frame = stored("chains", rows)
    return frame, generator


def system(settings: BackgroundSettings | None = None, stored: StoredBackground | None = None) -> BackgroundKnowledge:
    settings = settings or BackgroundSettings(recall="recalled")
    return BackgroundKnowledge(GRAPH, WordEncoder(), settings, stored or read_background(recalled()[0]))


def origins(found: list[SelectedEvidence]) -> list[tuple[str, str]]:
    return [(json.loads(p.why or "")["origin"], p.text) for p in found]


def test_both_origins_are_ranked_together_and_marked() -> None:
    found = system().select([QUESTION])[0]
    assert set(origins(found)) == {
        ("graph", "Switzerland currency Swiss franc"),
        ("graph", "Switzerland capital Bern"),
        ("graph", "Switzerland located in Europe"),
        ("model", "Switzerland money called franc"),
    }
    assert origins(found)[0] == ("model", "Switzerland money called franc"), "nearest to the question first"
    assert found[0].parents[0].kind == "triple"
    assert all(p.parents[0].kind == "edge" for p in found[1:])
    scores = [p.score for p in found]
    assert scores == sorted(scores, reverse=True)


def test_a_recalled_triple_is_a_row_with_its_model_and_prompt_and_never_that_of_a_source() -> None:
    rows, _ = recalled()
    made = build_triple_rows(rows)
    assert prepare_rows("triples", made.rows).num_rows == 2
    assert {row["origin"] for row in made.rows} == {"background"}
    assert {row["model_id"] for row in made.rows} == {"scripted@1"}
    assert all(rows["prompt_hash"][0] in row["source"] for row in made.rows)
    assert not {row["triple_id"] for row in made.rows} & {
        triple_id(row["head"], row["relation"], row["tail"]) for row in made.rows
    }
    model = system().select([QUESTION])[0][0]
    assert model.parents[0].id in {row["triple_id"] for row in made.rows}
    assert {(e["parent_kind"], e["parent_id"], e["parent_version"]) for e in made.lineage} == {
        ("chain", rows["chain_id"][0], rows["content_hash"][0])
    }


@pytest.mark.parametrize(
    ("graph", "model", "kinds"),
    [(True, True, {"graph", "model"}), (True, False, {"graph"}), (False, True, {"model"}), (False, False, set())],
)
def test_the_four_published_cases(graph: bool, model: bool, kinds: set[str]) -> None:
    found = system(BackgroundSettings(graph=graph, recall="recalled" if model else "")).select([QUESTION])[0]
    assert {origin for origin, _ in origins(found)} == kinds


def prose(request: Request) -> str:
    """A sentence in place of the triples of a bad question."""
    if "Make triples" in request.user and "bad" in request.user:
        return "I think that the question is about several interesting things in the world, so here they are."
    return reply(request)


def test_what_is_recalled_is_taken_over_and_what_failed_is_asked_anew() -> None:
    generator = ScriptedGenerator(prose)
    source = PromptedBackground(LanguageModel(generator, CompletionStore()))
    first = build_recall_rows(source, "background", [QUESTION, BAD])
    before = PreviousOutput(stored("chains", first.rows), stored("lineage_edges", first.lineage))
    asked = len(generator.requests)
    again = build_recall_rows(source, "background", [QUESTION, BAD], before)
    assert again.reused == 1 and all("bad" in request.user for request in generator.requests[asked:])
    statuses = {row["question_id"]: row["status"] for row in prepare_rows("chains", again.rows).to_pylist()}
    assert statuses == {"q1": "answered", "q2": "failed"}


def test_top_k_and_hops() -> None:
    assert len(system(BackgroundSettings(recall="recalled", top_k=2)).select([QUESTION])[0]) == 2
    question = Question("q", "own", "kgqa", "Where is Bern?")
    near = system().select([question])[0]
    assert {text for _, text in origins(near)} == {"Switzerland capital Bern"}
    far = system(BackgroundSettings(recall="recalled", D=3)).select([question])[0]
    assert len(far) == 4
    capped = system(BackgroundSettings(recall="recalled", D=3, max_triples=1)).select([question])[0]
    assert {text for _, text in origins(capped)} == {"Switzerland capital Bern"}


def test_prose_fails_its_question_alone() -> None:
    background = read_background(recalled(BAD, QUESTION, by=prose)[0])
    first, second = system(stored=background).select([BAD, QUESTION])
    assert first == [] and second
    assert "is unusable" in background.failed[BAD.question_id]


def test_topics_are_those_that_another_linker_found(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1)
    rows = [question(i, "sample_kgqa", source_id=f"s{i}", task="kgqa", options=[]) for i in (1, 2)]
    lake.write("questions/graph", "sample_kgqa|0", {"questions": rows})
    file = lake.raw_path("links/sample_kgqa/refined.jsonl")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"id": "s1", "entities": ["Alps", "Mars"]}) + "\n")
    step = StageContext(lake, "evidence", "evidence/graph/x", "sample_kgqa|0", inputs=[StageInput("questions/graph")])
    selector = ExternallyLinkedSelector(system(BackgroundSettings(links="refined")), step, "refined")
    linked, unknown = selector.select([QUESTION, BAD])
    assert [pick.text for pick in linked] == ["Alps located in Europe"] and unknown == []
    with pytest.raises(BadInput, match=r"refnied\.jsonl"):
        ExternallyLinkedSelector(system(), step, "refnied")


# Replies -------------------------------------------------------------------------------------------------------------


def test_lists() -> None:
    assert parse_list("- Switzerland\n2. Swiss franc\n\n* Switzerland\nMartin Luther King Jr.") == (
        "Switzerland",
        "Swiss franc",
        "Martin Luther King Jr.",
    )
    assert parse_list("1984\n7 Up") == ("1984", "7 Up")
    assert parse_list("None.") == ()


def test_triples() -> None:
    reply = "1. Switzerland | currency | Swiss franc\n\nBern|capital of|Switzerland\nBern | capital of | Switzerland"
    assert parse_triples(reply) == (
        ("Switzerland", "currency", "Swiss franc"),
        ("Bern", "capital of", "Switzerland"),
    )
    assert parse_triples("none") == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("Here are the entities:\nBern", "line 1 is no name"),
        ("The question asks about the money of Switzerland.", "line 1 is no name"),
        ("\n".join(f"name {i}" for i in range(31)), "31 lines are more than 30"),
    ],
)
def test_prose_is_no_list(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_list(reply)
