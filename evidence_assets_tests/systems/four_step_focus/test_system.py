"""4StepFocus end to end on a small base, its baselines, and questions that go wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
import pytest

from evidence_assets.experiment.evidence.selection import Question, evidence_rows
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import node_passages
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.retrieval.corpus import vector_matrix
from evidence_assets.systems.four_step_focus.grading import (
    GRADES,
    GradeTask,
    NodeCard,
    PromptedGrader,
    RerankerGrader,
    grade_request,
)
from evidence_assets.systems.four_step_focus.question_forms import Form, FormParser
from evidence_assets.systems.four_step_focus.ranking import FocusSettings, FourStepFocus, NodeRanking, build_schema
from evidence_assets.systems.four_step_focus.triplets import PromptedTriplets, TripletReader
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.systems.four_step_focus.test_triplets import reply_of
from evidence_assets_tests.systems.small_models import ScriptedGenerator, SharedWordReranker, WordEncoder

DRUG, GENE, DISEASE = 0, 1, 2
TREATS, TARGETS, INTERACTS = 0, 1, 2
NAMES = ("aspirin", "ibuprofen", "colchicine", "COX", "tubulin", "fever", "gout")
EDGES = [
    (0, TREATS, 5),
    (1, TREATS, 5),
    (1, TREATS, 6),
    (2, TREATS, 6),
    (0, TARGETS, 3),
    (1, TARGETS, 3),
    (2, TARGETS, 4),
    (0, INTERACTS, 1),
]
RELATIONS, TYPES = ("treats", "targets", "interacts with"), ("drug", "gene", "disease")
DOCUMENTS = (
    "Aspirin comes from willow bark. It thins blood.",
    "Ibuprofen is mild.",
    "Colchicine comes from crocus.",
    "COX makes messengers.",
    "",
    "Fever is heat.",
    "Gout hurts toes.",
)


def base_of(names: Sequence[str] = NAMES, documents: Sequence[str] = DOCUMENTS, tokens: int = 128) -> KnowledgeGraph:
    types = [TYPES[kind] for kind in [DRUG] * 3 + [GENE] * 2 + [DISEASE] * 2]
    aliases = [["ASA"], [], [], [], [], ["pyrexia"], []]
    graph = graph_of(names, RELATIONS, EDGES, types=types, aliases=aliases, documents=documents)
    return with_vectors(graph, passages=lambda graph, encoder: node_passages(graph, encoder, tokens=tokens))


BASE = base_of()
FORMS = [
    Form("a remedy for {}", "treats", "head"),
    Form("a drug acting on {}", "targets", "head"),
    Form("what {} acts on", "targets", "tail"),
    Form("a rival of {}", "interacts with", "head"),
]


def focus(
    reader: TripletReader | None = None,
    settings: FocusSettings | None = None,
    base: KnowledgeGraph = BASE,
    **more: object,
) -> FourStepFocus:
    return FourStepFocus(base, WordEncoder(), reader, None, settings, **more)  # type: ignore[arg-type]


def ask(system: FourStepFocus, *texts: str) -> list[NodeRanking]:
    return system.rank([Question(f"q{i}", "own", "skb_search", text) for i, text in enumerate(texts)])


PARSER = FormParser(FORMS, BASE.type_names)


def test_nodes_that_satisfy_the_triplets_come_first_and_others_fill_up() -> None:
    ranking = ask(focus(PARSER), "Which drug is at once a remedy for fever and a remedy for gout?")[0]
    assert ranking.status == "answered"
    assert ranking.nodes[0].node_id == "n1"
    assert [node.filtered for node in ranking.nodes] == [True] + [False] * 6
    assert ranking.supported == ("n1",)
    rest = [node.similarity for node in ranking.nodes[1:]]
    assert rest == sorted(rest, reverse=True)


def test_evidence_shows_edges_and_passages() -> None:
    settings = FocusSettings(evidence_nodes=1)
    ranking = ask(
        focus(PARSER, settings), "Which drug is at once a drug acting on what aspirin acts on and a remedy for gout?"
    )[0]
    assert ranking.nodes[0].node_id == "n1"
    triples = {tuple(json.loads(p.why or "")["triple"]) for p in ranking.picks if p.kind == "triple"}
    assert triples == {("aspirin", "targets", "COX"), ("ibuprofen", "targets", "COX"), ("ibuprofen", "treats", "gout")}
    passages = [pick for pick in ranking.picks if pick.kind == "chunk"]
    assert [p.text for p in passages] == ["Ibuprofen is mild."]
    assert (passages[0].parents[0].kind, passages[0].parents[0].id) == ("node", "n1")
    assert passages[0].parents[1].kind == "passage"
    asked = [tuple(json.loads(p.why or "")["triplet"]) for p in ranking.picks if p.kind == "triple"]
    assert ("?x0", "treats", "gout") in asked, "each edge says which triplet it satisfies"
    start, end = map(int, passages[0].locator.split(":"))
    assert DOCUMENTS[1][start:end] == passages[0].text


def test_a_node_that_the_question_names_is_not_its_answer_unless_printed() -> None:
    question = "Name a drug acting on what aspirin acts on."
    assert ask(focus(PARSER), question)[0].supported == ("n1",)
    kept = ask(focus(PARSER, FocusSettings(exclude_mentioned=False)), question)[0]
    assert set(kept.supported) == {"n0", "n1"}


def test_printed_form_leaves_nothing_between_variables() -> None:
    question = "Which drug is at once a drug acting on what aspirin acts on and a remedy for fever?"
    settings = FocusSettings(triplets="printed", edge_types=False, exclude_mentioned=False)
    printed = ask(focus(PARSER, settings), question)[0]
    assert printed.supported == ()
    assert "no node satisfies all triplets" in printed.notes
    assert len(printed.nodes) == 7, "plain vector search still ranks"


def test_what_a_grader_reads_is_the_row_of_evidence_to_the_character() -> None:
    long = 'Says "no".\n' + "It thins blood – slowly. " * 200
    settings = FocusSettings(triplets="corrected", card_relations=3)
    system = focus(PARSER, settings, base_of(documents=[long, *DOCUMENTS[1:]]))
    model = ScriptedGenerator(lambda request: "0.5")
    system._grader = PromptedGrader(LanguageModel(model))
    asked = Question("q", "b", "skb_search", "Name a remedy for fever.")
    made = evidence_rows("focus", system, [asked])
    rows = [row for row in prepare_rows("evidence", made.rows).to_pylist() if row["source_kind"] == "node"]
    prompts = [request.user for request in model.requests]
    entries = {prompt.split("<<< entry ", 1)[1].split("\n", 1)[1].rsplit("\n>>> ", 1)[0] for prompt in prompts}
    assert len(rows) == 5 and {row["text"] for row in rows} <= entries
    aspirin = next(row["text"] for row in rows if row["source_id"] == "n0")
    assert aspirin.startswith(f"aspirin (drug)\n{long[:4000]} [") and " more characters left out]" in aspirin
    for row in rows:  # and it leads to the node and to each relation that was read
        parents = [e for e in made.lineage.to_pylist() if e["child_id"] == row["evidence_id"]]
        read = [line.removeprefix("- ").split(" | ") for line in row["text"].split("Relations:\n")[-1].split("\n")]
        ids = [e["parent_id"] for e in sorted(parents, key=lambda e: e["rank"] or 0) if e["parent_kind"] == "edge"]
        edges = [list(BASE.triple(int(number))) for number in BASE.edge_numbers(ids)]
        assert edges == [line for line in read if len(line) == 3] and len(edges) <= 3


def test_an_unusable_grade_fails_its_question_alone() -> None:
    system = focus(PARSER)
    system._grader = PromptedGrader(
        LanguageModel(ScriptedGenerator(lambda r: "so so" if "ibuprofen" in r.user and "gout." in r.user else "0.5"))
    )
    first, second = ask(system, "Name a remedy for gout.", "Name a remedy for fever.")
    assert (first.status, first.nodes) == ("failed", ())
    assert "no number from 0 to 1" in first.error
    assert second.status == "answered"
    system._grader = RerankerGrader(SharedWordReranker(), WordEncoder().count_tokens)
    assert ask(system, "Name a remedy for gout.")[0].status == "answered"


def prompted(triplets: list[tuple[str, str, str]], **variables: str) -> TripletReader:
    reply = reply_of("?d", variables, *triplets)
    return PromptedTriplets(LanguageModel(ScriptedGenerator(lambda _: reply)), build_schema(BASE))


@pytest.mark.parametrize(
    ("triplets", "supported", "note"),
    [
        ([("?d", "treats", "measles")], set(), "triplet 1 was left out: the constant 'measles' matches no node"),
        ([("?d", "targets", "?g")], {"n0", "n1", "n2"}, "the variable ?g is joined to no constant"),
        ([("?d", "treats", "gout"), ("?d", "treats", "COX")], set(), "no node satisfies all triplets"),
        ([("?d", "treats", "gout"), ("aspirin", "treats", "fever")], {"n1", "n2"}, "both ends are constants"),
    ],
)
def test_triplets_that_say_too_little_or_too_much(
    triplets: list[tuple[str, str, str]], supported: set[str], note: str
) -> None:
    ranking = ask(focus(prompted(triplets, d="drug", g="gene")), "Which?")[0]
    assert ranking.status == "answered"
    assert set(ranking.supported) == supported
    assert any(note in text for text in ranking.notes), ranking.notes


def test_replies_that_cannot_be_used_fail_or_leave_vector_search() -> None:
    reader = PromptedTriplets(
        LanguageModel(ScriptedGenerator(lambda _: "Aspirin would be my choice.")), build_schema(BASE)
    )
    failed = ask(focus(reader), "What helps with gout?")[0]
    assert (failed.status, failed.nodes, failed.picks) == ("failed", (), ())
    assert "not valid JSON" in failed.error
    searched = ask(focus(reader, FocusSettings(fallback=True)), "What helps with gout?")[0]
    plain = ask(focus(None), "What helps with gout?")[0]
    assert (searched.status, searched.supported) == ("answered", ())
    assert [n.node_id for n in searched.nodes] == [n.node_id for n in plain.nodes]
    told = [json.loads(pick.why or "")["notes"] for pick in searched.picks]
    assert told and all("not valid JSON" in note for (note,) in told)


@pytest.mark.parametrize("question", ["Which drug treats gout?", "Was hilft gegen Gicht?"])
def test_other_words_for_a_known_question_are_never_guessed_at(question: str) -> None:
    failed = ask(focus(PARSER), question)[0]
    assert (failed.status, failed.nodes) == ("failed", ())
    assert failed.error == "the question is written in none of the known forms"
    searched = ask(focus(PARSER, FocusSettings(fallback=True)), question)[0]
    assert (searched.status, searched.supported, len(searched.nodes)) == ("answered", (), 7)


EMPTY = with_vectors(graph_of([], [], []))


def test_an_empty_base_has_no_answer() -> None:
    ranking = ask(focus(FormParser(FORMS, ["drug"]), base=EMPTY), "Name a remedy for fever.")[0]
    assert (ranking.status, ranking.nodes, ranking.picks) == ("insufficient", (), ())


@pytest.mark.parametrize("method", ["vector", "multi_vector"])
def test_search_equals_a_slow_version(method: Literal["vector", "multi_vector"]) -> None:
    base = base_of(tokens=9)
    rows, query = base.vectors.passages(), WordEncoder().encode_sentences(["blood and willow"])[0]
    slow = []
    for node in base.node_ids:
        own = vector_matrix(rows.filter(pl.col("owner_id") == node)["vector"])
        mean = own.mean(axis=0)
        slow.append(max(own @ query) if method == "multi_vector" else mean @ query / np.linalg.norm(mean))
    search, every = base.vectors.passage_files(), np.arange(len(base))
    found = search.similarities(query, every, method)
    assert found == pytest.approx(slow, abs=1e-3)  # vectors are kept in half precision
    ranked = np.lexsort((every, -found)).tolist()
    for k in range(len(base) + 2):
        assert search.nearest(query, every % 2 == 0, k, method).tolist() == [n for n in ranked if n % 2 == 0][:k]


# Grading -------------------------------------------------------------------------------------------------------------


CARD = NodeCard("aspirin", "drug", "Aspirin eases pain.", (("aspirin", "treats", "fever"),))


def count(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_a_cut_document_says_so() -> None:
    assert CARD.text(100) == "aspirin (drug)\nAspirin eases pain.\nRelations:\n- aspirin | treats | fever"
    assert "Aspirin [12 more characters left out]" in CARD.text(7)
    assert grade_request(GradeTask("What?", CARD)).choices == GRADES


def test_a_reranker_that_reads_little_gets_passages_and_the_best_one_counts() -> None:
    class Short(SharedWordReranker):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            assert all(count([text])[0] <= 12 for _, text in pairs)
            assert all(text.startswith("aspirin (drug)") for _, text in pairs)
            return super().score(pairs)

    long = NodeCard("aspirin", "drug", "It is sold. " * 20 + "It eases fever and pain.", CARD.relations)
    plain = NodeCard("aspirin", "drug", "", ())
    grader = RerankerGrader(Short(), count, tokens=12)
    assert grader.grade([("fever pain", long), ("aspirin", plain)]) == [(2.0, None), (1.0, None)]
    assert grader.version != RerankerGrader(Short(), count).version
