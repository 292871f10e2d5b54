"""Generated dumps of 2,000 lines, from their lines to scores; ``bench.graphs.dumps`` runs the same at a million."""

import numpy as np
import pytest

from bench.graphs.dumps import NAME, SHAPES, STAGES, World, questions_of, score
from bench.graphs.selection import WordVectors
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.graphs.graph_store import open_graph
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.store import Lake
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings

LINES = 2_000
SHARED = 9
"""An entity with the label of the one before."""


@pytest.fixture(scope="module", params=SHAPES)
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Lake]:
    """The shape of a dump, and the lake with its graph."""
    lake = Lake.create(tmp_path_factory.mktemp("dump") / "lake")
    for name, stage in STAGES.items():
        if stage is not score:
            assert stage(lake, request.param, LINES), name
    return request.param, lake


@pytest.fixture
def world(converted: tuple[str, Lake]) -> World:
    return SHAPES[converted[0]].world(LINES)


@pytest.fixture
def graph(converted: tuple[str, Lake]) -> KnowledgeGraph:
    return open_graph(converted[1], NAME, WordVectors())


def facts(graph: KnowledgeGraph, name: str) -> list[set[tuple[str, str]]]:
    """Relation and tail of the triples of each node with this label or alias."""
    arrays = graph.arrays
    triples = [
        [graph.triple(edge) for edge in arrays.edges_at(np.array([node])) if arrays.heads[edge] == node]
        for node in graph.linker.link(name).nodes
    ]
    return [{(relation.split(".")[-1].replace("_", " "), tail) for _, relation, tail in of} for of in triples]


def test_entities_that_share_a_label_keep_their_own_dates(graph: KnowledgeGraph, world: World) -> None:
    dates = [{tail for relation, tail in of if relation == "date of birth"} for of in facts(graph, world.label(SHARED))]
    assert sorted(dates, key=str) == sorted([{world.date(SHARED - 1)}, {world.date(SHARED)}], key=str)
    assert not any("(" in name for name in graph.names), "ids that tell nodes apart are not shown"


def test_an_alias_leads_to_its_entity_and_other_languages_to_none(graph: KnowledgeGraph, world: World) -> None:
    alias = world.alias(4)
    assert alias
    assert facts(graph, alias) == [
        {("part of", world.label(world.whole(4))), ("date of birth", world.date(4)), ("country", world.label(0))}
    ]
    assert graph.linker.link(alias).rule == "exact"
    assert not [form for form in graph.forms.texts if form.startswith("das ")]


def test_every_triple_arrives(graph: KnowledgeGraph, world: World) -> None:
    assert graph.arrays.n_edges == 2 * world.entities + world.in_hub + 1
    [hub] = graph.linker.link(world.label(0)).nodes
    assert graph.arrays.degree(np.array([hub])).tolist() == [world.in_hub + 4], "a date, a capital, a whole, and a part"


def test_a_hub_is_cut_after_its_relations_are_ranked(graph: KnowledgeGraph, world: World) -> None:
    questions = {question.text: question for question in build_questions(questions_of(world))}
    question = questions[f"What is the capital of {world.label(0)}?"]
    selector = BackgroundKnowledge(graph, WordVectors(), BackgroundSettings(max_triples=20))
    [evidence] = selector.select([question])
    assert world.label(world.capital) in evidence[0].text


def test_questions_with_known_answers_are_scored(converted: tuple[str, Lake]) -> None:
    shape, lake = converted
    scores = score(lake, shape, LINES)
    assert scores["hit@10"].n == 20 and scores["hit@10"].value == 1.0


def test_an_answer_that_the_graph_lacks_is_no_hit(converted: tuple[str, Lake], monkeypatch: pytest.MonkeyPatch) -> None:
    shape, lake = converted
    monkeypatch.setattr(World, "date", lambda world, entity: "3000-01-01")
    assert score(lake, shape, LINES)["hit@10"].value == 11 / 20
