"""From linked nodes to ranked passages, on a small medical graph and on odd input."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from evidence_assets import profiles
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.experiment.evidence import question_concepts
from evidence_assets.experiment.evidence.question_concepts import (
    MIN_DEPTH,
    UNREACHED_HOP,
    LinkedPhrase,
    QuestionConcepts,
    QuestionSubgraph,
    expand_questions,
    load_question_subgraphs,
    subgraph_rows,
)
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.methods import read_settings
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.graphs.arrays import FloatArray
from evidence_assets.graphs.attention.scorer import AttentionSettings, relevant_nodes
from evidence_assets.graphs.keyphrases import Concept
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import parse_path_locator
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems import find_method
from evidence_assets.systems.ugat.system import PathSelection, PathSelector, UgatSettings, gate_concepts
from evidence_assets_tests.graphs.small_graph import graph_of, small_graph, vectors_of, with_vectors
from evidence_assets_tests.lake_rows import as_stored

TRIPLES = [
    ("urethral obstruction", "may_cause", "hydronephrosis"),
    ("hydronephrosis", "is_associated_with", "increased pressure"),
    ("hydronephrosis", "may_cause", "parenchymal thinning"),
    ("parenchymal thinning", "is_a_risk_factor_of", "atrophy"),
    ("increased pressure", "is_a_risk_factor_of", "bladder hypertrophy"),
    ("bladder hypertrophy", "is_a_subtype_of", "hyperplasia"),
    ("aspirin", "may_treat", "fever"),
    ("aspirin", "may_contraindicate", "fever"),
    ("fever", "resembles_oddly", "aspirin"),
    ("cell", "see_also", "cell"),
]
WIDTH = 16


def random_vectors(graph: KnowledgeGraph) -> KnowledgeGraph:
    vectors = np.random.default_rng(0).standard_normal((len(graph), WIDTH)).astype(np.float32)
    none = vectors_of(graph, lambda texts: vectors[: len(texts)], lambda: as_stored("kg_passages", []))
    return replace(graph, stored_vectors=none)


NAMES = sorted({end for head, _, tail in TRIPLES for end in (head, tail)})
NODE = {name: node for node, name in enumerate(NAMES)}
RELATIONS = sorted({relation for _, relation, _ in TRIPLES})
GRAPH = random_vectors(
    graph_of(NAMES, RELATIONS, sorted((NODE[h], RELATIONS.index(r), NODE[t]) for h, r, t in TRIPLES))
)
VECTOR = np.random.default_rng(1).standard_normal(WIDTH).astype(np.float32)
SETTINGS = UgatSettings(steps=5)


def make_question_subgraph(
    name: str,
    concepts: Iterable[int],
    options: dict[str, tuple[int, ...]],
    graph: KnowledgeGraph = GRAPH,
    max_nodes: int = 300,
) -> QuestionSubgraph:
    nodes = tuple(concepts)

    def link_phrase(nodes: tuple[int, ...]) -> tuple[LinkedPhrase, ...]:
        return (LinkedPhrase("", "exact", 1.0, nodes),) if nodes else ()

    cosine = graph.node_vectors @ VECTOR / np.linalg.norm(graph.node_vectors, axis=1)
    part = graph.arrays.neighbourhood(nodes, 4, 32, cosine.take, max_nodes)
    linked = {label: link_phrase(of) for label, of in options.items()}
    return QuestionSubgraph(QuestionConcepts(name, link_phrase(nodes), linked), VECTOR, part)


def question_subgraph(concepts: list[str], options: dict[str, list[str]], name: str = "q") -> QuestionSubgraph:
    linked = {label: tuple(NODE[node] for node in nodes) for label, nodes in options.items()}
    return make_question_subgraph(name, (NODE[concept] for concept in concepts), linked)


def relevant_paths(
    question: QuestionSubgraph, settings: UgatSettings = SETTINGS, graph: KnowledgeGraph = GRAPH
) -> PathSelection:
    return PathSelector(graph, {}, load_vocabulary(), settings).select_paths([question])[0]


QUESTION = question_subgraph(
    ["urethral obstruction", "hydronephrosis"], {"A": ["hyperplasia"], "C": ["atrophy"], "D": ["fever"]}
)


def test_paths_lead_from_the_question_to_each_option() -> None:
    selection = relevant_paths(QUESTION)
    assert list(selection.passages) == ["A", "C", "D"]
    paths = selection.passages["C"]
    assert "Hydronephrosis may cause parenchymal thinning. Parenchymal thinning is a risk factor for atrophy." in paths
    walks = [[NAMES[node] for node in path.nodes] for path in paths.values()]
    assert ["urethral obstruction", "hydronephrosis", "parenchymal thinning", "atrophy"] in walks
    assert selection.passages["D"] == {}


def test_paths_are_ranked_by_the_cosine_of_edge_texts_and_question() -> None:
    def random_vector(text: str) -> FloatArray:
        return np.random.default_rng(len(text)).standard_normal(WIDTH)

    by_relevance = relevant_paths(QUESTION).passages["C"]
    graph = replace(
        GRAPH, stored_vectors=replace(GRAPH.vectors, encode=lambda texts: np.array([*map(random_vector, texts)]))
    )
    by_words = relevant_paths(QUESTION, replace(SETTINGS, rank="words"), graph).passages["C"]
    assert by_words.keys() == by_relevance.keys() and len(by_relevance) > 1
    for text, path in by_words.items():
        total = np.sum([random_vector(sentence + ".") for sentence in text.removesuffix(".").split(". ")], axis=0)
        cosine = total @ VECTOR / np.linalg.norm(total) / np.linalg.norm(VECTOR)
        assert path.score == pytest.approx(cosine, abs=1e-5)
    scores = [path.score for path in by_words.values()]
    assert scores == sorted(scores, reverse=True) != [by_relevance[text].score for text in by_words]


def test_layers_and_heads_are_those_of_the_variant() -> None:
    attention = read_settings(
        UgatSettings, {"layers": 1, "heads": 8}, owner="variant x", defaults={"steps": 7}
    ).attention
    assert attention is not None and (attention.layers, attention.heads, attention.steps) == (1, 8, 7)
    one, two = (relevant_paths(QUESTION, replace(SETTINGS, layers=layers)).scores for layers in (1, 2))
    assert one is not None and two is not None and not np.allclose(one.scores, two.scores)


def test_contradictions_and_unknown_relations_are_put_into_words() -> None:
    aspirin = question_subgraph(["aspirin"], {"A": ["fever"]}, "q1")
    subgraphs = {"q": QUESTION, "q1": aspirin}
    questions = [Question(name, "b", "mcqa", "?", ("x", "y", "z", "w")) for name in subgraphs]
    other, (row,) = PathSelector(GRAPH, subgraphs, load_vocabulary(), SETTINGS).select(questions)
    assert row.text == "Aspirin may contraindicate fever. Aspirin may treat fever. Fever resembles oddly aspirin."
    edges = [parent.id for parent in row.parents]
    assert parse_path_locator(row.locator) == list(zip(edges, (True, True, False), strict=True))
    assert json.loads(row.why or "")["contradictory"]
    assert not any(json.loads(each.why or "")["contradictory"] for each in other)


def drawn_graph(nodes: int, edges: int, seed: int = 0) -> KnowledgeGraph:
    ends = np.random.default_rng(seed).integers(0, nodes, (edges, 2)).tolist()
    names = [f"name {node:04}" for node in range(nodes)]
    return random_vectors(graph_of(names, RELATIONS, sorted({(a, 0, b) for a, b in ends})))


@pytest.mark.parametrize("D", [3])
def test_a_whole_subgraph_is_all_within_d_steps_as_networkx_finds_it(D: int) -> None:
    graph = drawn_graph(300, 500)
    question = make_question_subgraph("q", [3, 8], {"A": (20,), "B": (299,)}, graph, max_nodes=10)
    settings = UgatSettings(steps=1, D=D, whole=True)
    selection = relevant_paths(question, settings, graph)
    world = networkx.Graph(zip(graph.arrays.heads.tolist(), graph.arrays.tails.tolist(), strict=True))
    near = {n for seed in (3, 8) for n in networkx.single_source_shortest_path_length(world, seed, cutoff=D)}
    assert set(selection.subgraph.nodes.tolist()) == near and not len(selection.subgraph.dropped)
    edges = {(a, b) for a, b in zip(graph.arrays.heads, graph.arrays.tails, strict=True) if {a, b} <= near}
    assert len(selection.subgraph.edges) == len(edges)
    assert selection.scores is not None and len(selection.scores.scores) == len(near)
    capped = relevant_paths(question, replace(settings, whole=False), graph)
    assert len(capped.subgraph.nodes) <= 10
    bounded = relevant_paths(question, replace(settings, most_nodes=4), graph)
    assert len(bounded.subgraph.nodes) == 4 and {3, 8} <= set(bounded.subgraph.nodes.tolist())
    assert len(bounded.subgraph.dropped), "omitted nodes are recorded"


PUBLISHED: UgatSettings = replace(
    find_method("mcqa/ugat_published").settings, steps=1, D=3, path_length=3, most_nodes=300
)


def test_the_published_variants_threshold_as_printed() -> None:
    """Line 18 of algorithm 6.1: V = {v | S_v > θ_0}, also where training has moved all nodes to the query."""
    collapsed = np.array([0.91, 0.92, 0.91, 0.90, 0.2] + [0.91] * 60, np.float32)
    for name in ("ugat_published", "ugat_gcn", "ugat_published_1_hop", "ugat_published_whole_graph"):
        attention = find_method(f"mcqa/{name}").settings.attention
        assert attention is not None and attention.variant == ("gcn" if name == "ugat_gcn" else "gat")
        nodes, spread, rule = relevant_nodes(collapsed, attention)
        assert spread > 0 and rule == "threshold" and set(nodes.tolist()) == set(range(65)) - {4}, name
    same = np.full(20, 0.7, np.float32)
    nodes, spread, rule = relevant_nodes(same, PUBLISHED.attention or AttentionSettings())
    assert (len(nodes), spread, rule) == (20, 0.0, "threshold")
    guarded = relevant_nodes(same, UgatSettings().attention or AttentionSettings())
    assert (len(guarded[0]), guarded[2]) == (10, "top"), "our own variants keep the ten best"
    parameters = {"threshold": 0.8, "learning_rate": 0.01, "least_spread": 0}
    attention = read_settings(UgatSettings, parameters, owner="x", defaults={}).attention
    assert attention is not None and (attention.threshold, attention.learning_rate) == (0.8, 0.01)


def test_published_paths_start_at_relevant_nodes_alone() -> None:
    names_of = lambda settings: {  # noqa: E731
        NAMES[path.nodes[0]]
        for ranked in relevant_paths(QUESTION, settings).passages.values()
        for path in ranked.values()
    }
    concepts = {"urethral obstruction", "hydronephrosis"}
    assert names_of(replace(PUBLISHED, threshold=1.0)) == set(), "no node is relevant"
    assert names_of(replace(PUBLISHED, threshold=1.0, anchors="concepts_and_relevant")) == concepts
    every = replace(PUBLISHED, threshold=-1.0, passages=100)
    assert names_of(every) > concepts, "all nodes are relevant"
    selection = relevant_paths(QUESTION, every)
    assert selection.scores is not None
    between = float(np.median(selection.scores.scores))
    relevant = {NAMES[n] for n, s in zip(selection.subgraph.nodes, selection.scores.scores, strict=True) if s > between}
    assert names_of(replace(every, threshold=between)) <= relevant


def test_published_paths_do_not_leave_the_subgraph_of_d_hops() -> None:
    """6.6.1: with one hop, facts that are three hops away are out of reach; 6.4.4 reads G_K instead."""
    question = question_subgraph(["urethral obstruction"], {"C": ["atrophy"]})
    passages = {
        (D, within): len(
            relevant_paths(question, replace(PUBLISHED, D=D, paths_within=within, threshold=-1.0)).passages["C"]
        )
        for D in (1, 2, 3)
        for within in ("subgraph", "graph")
    }
    assert passages[1, "subgraph"] == passages[2, "subgraph"] == 0 < passages[3, "subgraph"]
    assert passages[1, "graph"] and passages[2, "graph"]


def test_without_node_filtering_all_nodes_of_the_raw_subgraph_anchor_paths() -> None:
    unfiltered = replace(PUBLISHED, scorer="none", passages=10_000)
    graph = drawn_graph(60, 90)
    first, last = graph.arrays.neighbourhood([3], 3).nodes[[0, -1]].tolist()
    question = make_question_subgraph("q", [3], {"A": (first,), "B": (last,)}, graph)
    selection = relevant_paths(question, unfiltered, graph)
    world = networkx.Graph()
    inside = set(selection.subgraph.nodes.tolist())
    pairs = zip(graph.arrays.heads.tolist(), graph.arrays.tails.tolist(), strict=True)
    world.add_edges_from((a, b) for a, b in pairs if {a, b} <= inside)
    for label, target in (("A", first), ("B", last)):
        reached = networkx.single_source_shortest_path_length(world, target, cutoff=3) if target in world else {}
        paths = selection.passages[label].values()
        starts = {path.nodes[0] for path in paths}
        assert starts == reached.keys() - {first, last} and len(starts) > 3
        lengths = [len(path.nodes) for path in paths]
        assert lengths == sorted(lengths) and {path.score for path in paths} <= {0.0}
    assert selection.scores is None and any(selection.passages.values())
    other = replace(question, vector=-question.vector)
    assert relevant_paths(other, unfiltered, graph).passages == selection.passages, "no cosine ranks them"


# As a selector -------------------------------------------------------------------------------------------------------


THIRST = Question(
    "q1",
    "b",
    "mcqa",
    "Which sign would fit the illness that metformin relieves?",
    ("excessive thirst", "fever", "zzyzx", "cell"),
)
WIDE = profiles.load().ugat.model_copy(update={"D": 3, "cap": 32, "max_nodes": 300})


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return small_graph(tmp_path)


def select(
    graph: KnowledgeGraph, *questions: Question, settings: UgatSettings = SETTINGS
) -> list[list[SelectedEvidence]]:
    make_question_subgraph = expand_questions(questions, graph, WIDE)
    return list(PathSelector(graph, make_question_subgraph, load_vocabulary(), settings).select(questions))


def test_evidence_cites_edges_of_the_graph_and_has_reasons(graph: KnowledgeGraph) -> None:
    (picks,) = select(graph, THIRST)
    assert picks and {pick.option for pick in picks} == {"A"}
    best = next(pick for pick in picks if len(pick.parents) == 2)
    assert best.text == "Metformin may treat diabetes. Excessive thirst is associated with diabetes."
    assert [edge for edge, _ in parse_path_locator(best.locator)] == [p.id for p in best.parents]
    assert {p.id for p in best.parents} <= set(graph.edge_ids)
    assert {(p.kind, p.version) for p in best.parents} == {("edge", p.id) for p in best.parents}
    reasons = json.loads(best.why or "")
    assert [node["name"] for node in reasons["nodes"]] == ["metformin", "diabetes", "excessive thirst"]
    assert [link["phrase"] for link in reasons["links"]] == ["metformin", "excessive thirst"]
    assert set(reasons["attention"]) == {p.id for p in best.parents}


def test_key_phrases_gate_the_concepts_of_published_variants(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Which sign would fit the diabetes that metformin relieves?"
    question = Question("q", "b", "mcqa", text, ("excessive thirst",))
    start = text.index("metformin")
    phrase = Concept("metformin", start, start + len("metformin"))
    monkeypatch.setattr(question_concepts, "extract_concepts", lambda texts, encode, top_n: [[phrase] for _ in texts])
    stored = expand_questions([question], graph, WIDE)
    assert {each.phrase for each in stored["q"].links.concepts} >= {"metformin", "diabetes"}
    gated = gate_concepts([question], stored, graph)
    assert [each.phrase for each in gated["q"].links.concepts] == ["metformin"]
    assert gated["q"].links.options == stored["q"].links.options
    for name in ("ugat_published", "ugat_gcn", "ugat_unfiltered", "ugat_published_2_hops"):
        assert find_method(f"mcqa/{name}").settings.concepts == "key_phrases"
    assert find_method("mcqa/ugat").settings.concepts == "names_and_phrases"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Why so?", ("fever", "cell")),
        ("What does metformin relieve?", ("zzyzx", "qqq")),
        ("What is a cell?", ("cell", "fever")),
        ("What does metformin relieve?", ("fever", "writing")),
        ("What does metformin relieve?", ()),
    ],
    ids=["no concept", "options without nodes", "one node with a self-loop", "another part", "no options"],
)
def test_odd_questions_have_no_evidence(graph: KnowledgeGraph, text: str, options: tuple[str, ...]) -> None:
    assert select(graph, Question("q", "b", "mcqa", text, options)) == [[]]


def test_subgraphs_are_written_down_and_read_back(graph: KnowledgeGraph) -> None:
    questions = [THIRST, Question("q2", "b", "mcqa", "Why so?", ("fever",))]
    narrow = WIDE.model_copy(update={"cap": 1, "max_nodes": 3})
    first_output = subgraph_rows(questions, graph, narrow)
    rows = {row["question_id"]: row for row in as_stored("subgraphs", first_output.rows).to_dicts()}
    assert rows["q2"]["note"] and not rows["q2"]["nodes"] and not rows["q2"]["concepts"]
    options = {node for link in rows["q1"]["targets"] for node in link["node_ids"]}
    placed = {node["node_id"]: node["hop"] for node in rows["q1"]["nodes"]}
    assert sum(hop != UNREACHED_HOP for hop in placed.values()) <= 3 and rows["q1"]["dropped_counts"]
    assert UNREACHED_HOP in placed.values() and options <= placed.keys(), "no cap cuts an option off"
    fresh = expand_questions(questions, graph, narrow)
    back = load_question_subgraphs(as_stored("subgraphs", first_output.rows), questions, graph)
    assert fresh.keys() == back.keys() == {"q1", "q2"}
    for question, make_question_subgraph in fresh.items():
        assert back[question].links == make_question_subgraph.links
        assert np.array_equal(back[question].vector, make_question_subgraph.vector)
        for field in ("nodes", "hop", "edges", "heads", "tails"):
            assert np.array_equal(
                getattr(back[question].subgraph, field), getattr(make_question_subgraph.subgraph, field)
            ), field
    before = PreviousOutput(as_stored("subgraphs", first_output.rows), as_stored("lineage_edges", first_output.lineage))
    second_output = subgraph_rows(questions, graph, narrow, before)
    assert second_output.reused == 2
    assert as_stored("subgraphs", second_output.rows).equals(as_stored("subgraphs", first_output.rows))
    assert subgraph_rows(questions, graph, narrow.model_copy(update={"D": MIN_DEPTH + 1}), before).reused == 0


def test_a_hub_has_one_count_of_its_dropped_nodes() -> None:
    hub = graph_of(["granite", *(f"leaf {i}" for i in range(50))], RELATIONS, [(0, 0, i) for i in range(1, 51)])
    question = Question("q", "b", "mcqa", "What is granite?", ("leaf 3",))
    for limits, hub_id, count in (({"cap": 4, "max_nodes": 90}, hub.node_ids[0], 46), ({"max_nodes": 11}, "", 40)):
        expansion = WIDE.model_copy(update={"cap": 50} | limits)
        output = subgraph_rows([question], with_vectors(hub), expansion)
        (row,) = as_stored("subgraphs", output.rows).to_dicts()
        assert row["dropped_counts"] == [{"hub_id": hub_id, "nodes": count}] and not row["dropped"]
        assert output.metadata["nodes_dropped"] == count


def test_questions_are_expanded_in_groups_and_a_killed_run_continues(
    graph: KnowledgeGraph, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [replace(THIRST, question_id=f"q{i}", text=f"{THIRST.text} Case {i}.") for i in range(5)]
    whole = as_stored("subgraphs", subgraph_rows(questions, graph, WIDE).rows)
    monkeypatch.setattr(question_concepts, "QUESTIONS_PER_GROUP", 2)
    monkeypatch.setattr("evidence_assets.lake.blocks.BLOCK_SECONDS", 0.0)
    groups: list[list[str]] = []

    def expand_until_killed(group: Sequence[Question], *inputs: Any) -> dict[str, QuestionSubgraph]:
        groups.append([question.question_id for question in group])
        if len(groups) == 3:
            raise KeyboardInterrupt
        return expand_questions(group, *inputs)

    monkeypatch.setattr(question_concepts, "expand_questions", expand_until_killed)
    rows, edges = (as_stored(table, []) for table in ("subgraphs", "lineage_edges"))
    blocks = Blocks(lake, "subgraphs/x", "b|0")
    with pytest.raises(KeyboardInterrupt):
        subgraph_rows(questions, graph, WIDE, PreviousOutput(rows, edges, blocks))
    assert groups == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    previous = PreviousOutput(blocks.merge_into("subgraphs", rows), blocks.merge_into("lineage_edges", edges), blocks)
    output = subgraph_rows(questions, graph, WIDE, previous)
    assert output.reused == 4 and groups[3:] == [["q4"]]
    assert as_stored("subgraphs", output.rows).equals(whole)
