"""Triples of graph and model side by side: origins, the four cases, hops, and replies that cannot be used."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evidence_assets.methods.entity_linking import EntityLinker
from evidence_assets.methods.graph import Graph
from evidence_assets.models.protocols import Request
from evidence_assets.systems.background_knowledge import BackgroundKnowledge, BackgroundSettings, Prompted
from evidence_assets.systems.graph_facts import GraphFacts
from evidence_assets.systems.selection import Asked
from evidence_assets_tests.systems.small_models import Scripted, WordEncoder

NAMES = ["Switzerland", "Swiss franc", "Bern", "Alps", "Europe"]
RELATIONS = ["currency", "capital", "located in"]
EDGES = [(0, 0, 1), (0, 1, 2), (3, 2, 4), (0, 2, 4)]
FACTS = GraphFacts(
    Graph.from_edges(5, *(np.array(column) for column in zip(*EDGES, strict=True))), NAMES, RELATIONS,
    [f"e{i}" for i in range(4)], [f"v{i}" for i in range(4)], "v1",
)  # fmt: skip
QUESTION = Asked("q1", "own", "kgqa", "What is the money of Switzerland called?")


def reply(request: Request) -> str:
    if "Which people" in request.user:
        return "- Switzerland\n- money"
    if "Which relations" in request.user:
        return "currency"
    if "State the facts" in request.user:
        assert '"Switzerland", "money"' in request.user
        return "Switzerland | money called | franc\nSwitzerland | currency | Swiss franc"
    return "Swiss franc" if "Swiss franc" in request.user else "N/A"


def system(settings: BackgroundSettings | None = None, generator: Scripted | None = None) -> BackgroundKnowledge:
    return BackgroundKnowledge("bk", FACTS, EntityLinker(NAMES), WordEncoder(), generator or Scripted(reply), settings)


def origins(prompted: Prompted) -> list[tuple[str, str]]:
    return [(json.loads(p.why or "")["origin"], p.text) for p in prompted.picks]


def test_both_origins_are_ranked_together_and_marked() -> None:
    prompted = system().retrieve([QUESTION])[0]
    assert prompted.topics == ("Switzerland",)
    assert set(origins(prompted)) == {
        ("graph", "Switzerland currency Swiss franc"), ("graph", "Switzerland capital Bern"),
        ("graph", "Switzerland located in Europe"), ("model", "Switzerland money called franc"),
    }  # fmt: skip
    assert origins(prompted)[0] == ("model", "Switzerland money called franc"), "nearest to the question first"
    model = prompted.picks[0]
    assert (model.parents[0].kind, model.locator) == ("completion", "line 1")
    assert all(p.parents[0].kind == "edge" for p in prompted.picks[1:])
    scores = [p.score for p in prompted.picks]
    assert scores == sorted(scores, reverse=True)


def test_what_the_graph_states_too_counts_as_the_graphs() -> None:
    assert ("graph", "Switzerland currency Swiss franc") in origins(system().retrieve([QUESTION])[0])


@pytest.mark.parametrize(
    ("graph", "model", "kinds"),
    [(True, True, {"graph", "model"}), (True, False, {"graph"}), (False, True, {"model"}), (False, False, set())],
)
def test_the_four_published_cases(graph: bool, model: bool, kinds: set[str]) -> None:
    generator = Scripted(reply)
    prompted = system(BackgroundSettings(graph=graph, model=model), generator).retrieve([QUESTION])[0]
    assert {origin for origin, _ in origins(prompted)} == kinds
    assert len(generator.requests) == (3 if model else 0)


def test_short_answers() -> None:
    bk = system()
    known = system(BackgroundSettings(graph=False, model=False))
    assert [(a.status, a.answer) for a in bk.answer(bk.retrieve([QUESTION]))] == [("answered", "Swiss franc")]
    assert [(a.status, a.answer) for a in known.answer(known.retrieve([QUESTION]))] == [("insufficient", None)]
    assert bk.answer([]) == []


def test_top_k_and_hops() -> None:
    assert len(system(BackgroundSettings(top_k=2)).retrieve([QUESTION])[0].picks) == 2
    question = Asked("q", "own", "kgqa", "Where is Bern?")
    near = system(BackgroundSettings(model=False)).retrieve([question])[0]
    assert {text for _, text in origins(near)} == {"Switzerland capital Bern"}
    far = system(BackgroundSettings(model=False, hops=3)).retrieve([question])[0]
    assert len(far.picks) == 4
    capped = system(BackgroundSettings(model=False, hops=3, max_triples=1)).retrieve([question])[0]
    assert {text for _, text in origins(capped)} == {"Switzerland capital Bern"}


@pytest.mark.parametrize("text", ["What is it?", "Wer bin ich?", ""])
def test_a_question_that_names_nothing_says_so(text: str) -> None:
    prompted = system(BackgroundSettings(model=False)).retrieve([Asked("q", "own", "kgqa", text)])[0]
    assert prompted.picks == ()
    assert prompted.notes == ("the question names no node of the graph",)


@pytest.mark.parametrize("stage", ["Which people", "Which relations", "State the facts"])
def test_prose_in_any_prompt_fails_that_question_alone(stage: str) -> None:
    def prose(request: Request) -> str:
        if stage in request.user and "bad" in request.user:
            return "I think that the question is about several interesting things in the world, so here they are."
        return reply(request).replace("assert", "")

    def safe(request: Request) -> str:
        return "none" if "State the facts" in request.user and "bad" not in request.user else prose(request)

    bk = system(generator=Scripted(lambda r: safe(r) if "State" not in r.user or "bad" in r.user else "none"))
    bad = Asked("q2", "own", "kgqa", "A bad question about Switzerland?")
    first, second = bk.retrieve([bad, QUESTION])
    assert first.picks == ()
    assert "unusable reply" in first.error
    assert second.error == ""
    answers = bk.answer([first, second])
    assert [(a.question_id, a.status) for a in answers] == [("q2", "failed"), ("q1", "answered")]
    assert "unusable reply" in answers[0].error


def test_an_empty_answer_is_a_failure_and_missing_generators_are_named() -> None:
    bk = system(BackgroundSettings(model=False), Scripted(lambda _: " "))
    assert [a.status for a in bk.answer(bk.retrieve([QUESTION]))] == ["failed"]
    with pytest.raises(ValueError, match="need a generator"):
        BackgroundKnowledge("bk", FACTS, EntityLinker(NAMES), WordEncoder(), None)
    silent = BackgroundKnowledge("bk", FACTS, EntityLinker(NAMES), WordEncoder(), None, BackgroundSettings(model=False))
    with pytest.raises(ValueError, match="need a generator"):
        silent.answer(silent.retrieve([QUESTION]))


def test_an_empty_graph() -> None:
    empty = GraphFacts(Graph.from_edges(0, *(np.zeros(0, int),) * 3), [], [], [], [], "v0")
    bk = BackgroundKnowledge("bk", empty, EntityLinker([]), WordEncoder(), None, BackgroundSettings(model=False))
    assert bk.retrieve([QUESTION])[0].picks == ()
    assert bk.retrieve([]) == []
