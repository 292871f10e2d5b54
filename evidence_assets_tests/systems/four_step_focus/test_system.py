"""4StepFocus and its baselines on a small knowledge base, and questions that fail."""

import json
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
import pytest

from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.experiment.stages import build_all_stages
from evidence_assets.experiment.variants import variants_of
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.graphs.passages import node_passages
from evidence_assets.graphs.substitution import Constant
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.embedding import vector_matrix
from evidence_assets.systems.four_step_focus.grading import (
    Grader,
    NodeCard,
    PromptedGrader,
    RerankerGrader,
    parse_grade,
)
from evidence_assets.systems.four_step_focus.question_forms import Form, FormParser
from evidence_assets.systems.four_step_focus.ranking import FocusSettings, FourStepFocus, NodeRanking, TripletReader
from evidence_assets.systems.four_step_focus.system import FourStepFocusMethod, build_triplet_reader
from evidence_assets.systems.four_step_focus.triplets import PromptedTriplets, Schema, TripletQuery
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.lake_rows import as_stored, prediction
from evidence_assets_tests.systems.four_step_focus.test_triplets import make_reply
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


def make_base(names: Sequence[str] = NAMES, documents: Sequence[str] = DOCUMENTS, tokens: int = 128) -> KnowledgeGraph:
    types = [TYPES[kind] for kind in [DRUG] * 3 + [GENE] * 2 + [DISEASE] * 2]
    aliases = [["ASA"], [], [], [], [], ["pyrexia"], []]
    graph = graph_of(names, RELATIONS, EDGES, types=types, aliases=aliases, documents=documents)
    return with_vectors(graph, passages=lambda graph, encoder: node_passages(graph, encoder, tokens=tokens))


BASE = make_base()
SCHEMA = Schema(BASE.type_names, BASE.relations)
FORMS = [
    Form("a remedy for {}", "treats", "head"),
    Form("a drug acting on {}", "targets", "head"),
    Form("what {} acts on", "targets", "tail"),
    Form("a rival of {}", "interacts with", "head"),
]


def test_passages_have_the_length_of_the_encoder_or_less() -> None:
    encoder = WordEncoder()
    base = make_base(documents=["It thins blood, slowly. " * 300, *DOCUMENTS[1:]])
    encoder.max_tokens = 8191
    whole, parts = (
        [p.text for p in node_passages(base, encoder, tokens=tokens) if p.owner_id == "n0" and p.char_start >= 0]
        for tokens in (None, 128)
    )
    assert len(whole) == 1 and len(parts) > 8 and max(encoder.count_tokens(parts)) <= 128


def make_ranker(
    reader: TripletReader | None = None,
    settings: FocusSettings | None = None,
    base: KnowledgeGraph = BASE,
    grader: Grader | None = None,
) -> FourStepFocus:
    return FourStepFocus(base, WordEncoder(), reader, grader, settings)


def rank_nodes(system: FourStepFocus, *texts: str) -> list[NodeRanking]:
    return system.rank([Question(f"q{i}", "own", "skb_search", text) for i, text in enumerate(texts)])


PARSER = FormParser(FORMS, BASE.type_names)


def test_evidence_shows_edges_and_passages() -> None:
    settings = FocusSettings(evidence_nodes=1)
    ranking = rank_nodes(
        make_ranker(PARSER, settings),
        "Which drug is at once a drug acting on what aspirin acts on and a remedy for gout?",
    )[0]
    assert ranking.nodes[0].node_id == "n1"
    triples = {tuple(json.loads(item.why or "")["triple"]) for item in ranking.evidence if item.kind == "triple"}
    assert triples == {("aspirin", "targets", "COX"), ("ibuprofen", "targets", "COX"), ("ibuprofen", "treats", "gout")}
    passages = [item for item in ranking.evidence if item.kind == "chunk"]
    assert [item.text for item in passages] == ["Ibuprofen is mild."]
    assert (passages[0].parents[0].kind, passages[0].parents[0].id) == ("node", "n1")
    assert passages[0].parents[1].kind == "passage"
    triplets = [tuple(json.loads(item.why or "")["triplet"]) for item in ranking.evidence if item.kind == "triple"]
    assert ("?x0", "treats", "gout") in triplets, "each edge names its triplet"
    start, end = map(int, passages[0].locator.split(":"))
    assert DOCUMENTS[1][start:end] == passages[0].text


def test_a_mentioned_node_is_not_the_answer_unless_printed() -> None:
    question = "Name a drug acting on what aspirin acts on."
    assert rank_nodes(make_ranker(PARSER), question)[0].supported == ("n1",)
    with_mentioned = rank_nodes(make_ranker(PARSER, FocusSettings(exclude_mentioned=False)), question)[0]
    assert set(with_mentioned.supported) == {"n0", "n1"}


def test_the_printed_form_has_no_candidates_between_variables() -> None:
    question = "Which drug is at once a drug acting on what aspirin acts on and a remedy for fever?"
    settings = FocusSettings(triplets="printed", edge_types=False, exclude_mentioned=False)
    ranking = rank_nodes(make_ranker(PARSER, settings), question)[0]
    assert ranking.supported == ()
    assert "no node satisfies all triplets" in ranking.notes
    assert len(ranking.nodes) == 7, "vector search ranks all nodes"


def test_the_evidence_row_equals_the_text_that_the_grader_reads() -> None:
    long = 'Says "no".\n' + "It thins blood – slowly. " * 200
    settings = FocusSettings(triplets="corrected", card_relations=3)
    model = ScriptedGenerator(lambda request: "0.5")
    grader = PromptedGrader(LanguageModel(model))
    system = make_ranker(PARSER, settings, make_base(documents=[long, *DOCUMENTS[1:]]), grader)
    question = Question("q", "b", "skb_search", "Name a remedy for fever.")
    output = evidence_rows("focus", system, [question])
    rows = [row for row in prepare_rows("evidence", output.rows).to_pylist() if row["source_kind"] == "node"]
    prompts = [request.user for request in model.requests]
    entries = {prompt.split("<<< entry ", 1)[1].split("\n", 1)[1].rsplit("\n>>> ", 1)[0] for prompt in prompts}
    assert len(rows) == 5 and {row["text"] for row in rows} <= entries
    aspirin = next(row["text"] for row in rows if row["source_id"] == "n0")
    assert aspirin.startswith(f"aspirin (drug)\n{long[:4000]} [") and " more characters left out]" in aspirin
    for row in rows:  # parents are the node and each relation of the card
        parents = [e for e in output.lineage.to_pylist() if e["child_id"] == row["evidence_id"]]
        card_lines = [
            line.removeprefix("- ").split(" | ") for line in row["text"].split("Relations:\n")[-1].split("\n")
        ]
        ids = [e["parent_id"] for e in sorted(parents, key=lambda e: e["rank"] or 0) if e["parent_kind"] == "edge"]
        edges = [list(BASE.triple(int(number))) for number in BASE.edge_numbers(ids)]
        assert edges == [line for line in card_lines if len(line) == 3] and len(edges) <= 3


@pytest.mark.parametrize(
    ("name", "part", "is_error"),
    [
        ("fourstepfocus_described", "triplets", True),
        ("fourstepfocus_or_search", "triplets", False),
        ("fourstepfocus_described", "grade of aspirin", True),
        ("vector_search_reranked", "grade of aspirin", True),
    ],
)
def test_a_published_run_that_fell_back_fails(name: str, part: str, is_error: bool) -> None:
    """Its score would be that of a search by vectors, beside the printed one."""
    (variant,) = (each for each in variants_of("four_step_focus") if each.name == name)
    (stage,) = (each for each in build_all_stages(FourStepFocusMethod(variant)) if each.table == "predictions")
    assert stage.check is not None
    lacks = {"kind": "missing" if part == "triplets" else "rejected", "part": part, "reason": "refused by the server"}
    row = {"ranked_answers": ["n1"]}
    usable = [prediction(n, "n1", **row) for n in range(19)]
    rows = [*usable, *(prediction(n, "n1", omissions=[lacks], **row) for n in (19, 20))]
    problems = stage.check(as_stored("predictions", rows))
    assert bool(problems) == is_error
    if problems:
        assert problems[0].startswith("2 of 21 requests for ") and "refused by the server" in problems[0]
    assert stage.check(as_stored("predictions", rows[:-1])) == [], "one of 20 may"


def test_a_node_without_a_usable_grade_keeps_its_similarity() -> None:
    plain = {
        node.node_id: node.similarity for node in rank_nodes(make_ranker(PARSER), "Name a remedy for gout.")[0].nodes
    }
    model = ScriptedGenerator(lambda r: "so so" if "ibuprofen (drug)" in r.user and "gout." in r.user else "0.5")
    grader = PromptedGrader(LanguageModel(model))
    first, second = rank_nodes(
        make_ranker(PARSER, grader=grader), "Name a remedy for gout.", "Name a remedy for fever."
    )
    assert (first.status, len(first.nodes), first.supported) == ("answered", 7, ("n2", "n1"))
    ungraded = next(node for node in first.nodes if node.grade is None)
    assert (ungraded.node_id, ungraded.score) == ("n1", plain["n1"]) and ungraded.score < 0.5
    assert [(each.kind, each.part) for each in first.omissions] == [("rejected", "grade of ibuprofen")]
    assert "no number from 0 to 1" in first.omissions[0].reason
    marked = {json.loads(item.why or "").get("grade") for item in first.evidence if item.parents[0].id == "n1"}
    assert "rejected" in marked
    assert second.status == "answered" and not second.omissions
    reranker = RerankerGrader(SharedWordReranker(), WordEncoder().count_tokens)
    assert rank_nodes(make_ranker(PARSER, grader=reranker), "Name a remedy for gout.")[0].status == "answered"


def make_reader(triplets: list[tuple[str, str, str]], **variables: str) -> TripletReader:
    reply = make_reply("?d", variables, *triplets)
    return PromptedTriplets(LanguageModel(ScriptedGenerator(reply)), SCHEMA)


@pytest.mark.parametrize(
    ("triplets", "supported", "note"),
    [
        ([("?d", "treats", "measles")], set(), "triplet 1 was left out: the constant 'measles' matches no node"),
        ([("?d", "treats", "measles")], set(), "all nodes of its type are candidates"),
        (
            [("?d", "treats", "gout"), ("?g", "targets", "fever")],
            {"n1", "n2"},
            "triplet 2 is not connected to the target",
        ),
        ([("?d", "treats", "gout"), ("?d", "treats", "COX")], set(), "no node satisfies all triplets"),
        ([("?d", "treats", "gout"), ("aspirin", "treats", "fever")], {"n1", "n2"}, "both ends are constants"),
    ],
)
def test_unusable_triplets_are_noted(triplets: list[tuple[str, str, str]], supported: set[str], note: str) -> None:
    ranking = rank_nodes(make_ranker(make_reader(triplets, d="drug", g="gene")), "Which?")[0]
    assert ranking.status == "answered"
    assert set(ranking.supported) == supported
    assert any(note in text for text in ranking.notes), ranking.notes


def test_candidates_start_as_all_nodes_of_the_targets_type() -> None:
    reader = make_reader([("?d", "treats", "measles")], d="drug")
    ranking = rank_nodes(make_ranker(reader), "What hurts toes?")[0]
    assert {node.node_id for node in ranking.nodes[:3]} == {"n0", "n1", "n2"}
    assert [node.filtered for node in ranking.nodes] == [True] * 3 + [False] * 4
    assert ranking.nodes[3].node_id == "n6", "the nearest node has another type"
    assert ranking.supported == ()
    assert not any(item.kind == "triple" for item in ranking.evidence)


def test_a_constant_without_a_node_takes_the_nearest_of_its_types() -> None:
    reader = make_reader([("?d", "treats", "hurting toes by gout")], d="drug")
    settings = FocusSettings(nearest_nodes=1)
    ranking = rank_nodes(make_ranker(reader, settings), "Which?")[0]
    assert set(ranking.supported) == {"n1", "n2"}, "gout is the nearest disease"
    genes = make_reader([("?d", "targets", "hurting toes by gout")], d="drug")
    one, two = (
        make_ranker(genes, FocusSettings(nearest_nodes=n)).link_query(read(genes)).patterns[0].tail for n in (1, 2)
    )
    assert isinstance(one, Constant) and {BASE.type_names[BASE.node_types[node]] for node in one.nodes} == {"gene"}
    assert isinstance(two, Constant) and len(two.nodes) == 2
    assert rank_nodes(make_ranker(reader), "Which?")[0].supported == ()


def test_the_variant_with_negation_removes_nodes_of_denied_triplets() -> None:
    (variant,) = [each for each in variants_of("four_step_focus") if each.name == "fourstepfocus_negation"]
    settings = FocusSettings(**variant.parameters)
    assert settings.denials
    reply = json.loads(make_reply("?d", {"d": "drug"}, ("?d", "treats", "gout"), ("?d", "targets", "COX")))
    reply["triplets"][1]["denied"] = True
    model = LanguageModel(ScriptedGenerator(json.dumps(reply)))
    reader = build_triplet_reader(model, BASE, settings, has_forms=False)
    ranking = rank_nodes(make_ranker(reader, settings), "Which remedy for gout does not act on COX?")[0]
    assert ranking.supported == ("n2",)
    triplets = [json.loads(item.why or "")["triplet"] for item in ranking.evidence if item.kind == "triple"]
    assert triplets == [["?d", "treats", "gout"]]


def read(reader: TripletReader) -> TripletQuery:
    ((query, _),) = reader.read_triplets(["Which?"])
    assert isinstance(query, TripletQuery)
    return query


def test_the_described_run_ignores_edge_types_compares_one_vector_and_grades_twenty() -> None:
    (variant,) = (each for each in variants_of("four_step_focus") if each.name == "fourstepfocus_described")
    settings = FourStepFocusMethod(variant).settings
    reader = make_reader([("?d", "targets", "gout")], d="drug")
    assert settings.fallback
    assert set(rank_nodes(make_ranker(reader, settings), "Which?")[0].supported) == {"n1", "n2"}, "they treat it"
    base = make_base(documents=["It thins blood. " + "Willow bark grows. " * 90, *DOCUMENTS[1:]])
    searches = (FocusSettings(search="vector"), FocusSettings(search="multi_vector"), settings)
    one, several, described = (
        rank_nodes(make_ranker(None, each, base), "What thins blood?")[0].nodes for each in searches
    )
    assert described == one != several
    names, model = [f"drug {number}" for number in range(30)], ScriptedGenerator("0.5")
    graph = graph_of(names, RELATIONS, [(i, TREATS, 0) for i in range(1, 30)], types=["drug"] * 30, documents=names)
    grader = PromptedGrader(LanguageModel(model))
    system = make_ranker(None, settings, with_vectors(graph, passages=node_passages), grader)
    assert len(rank_nodes(system, "Which drug?")[0].nodes) == len(model.requests) == 20


@pytest.mark.parametrize(("name", "supported"), [("described", set()), ("undirected", {"n1", "n2"})])
def test_edges_have_the_printed_direction_or_none(name: str, supported: set[str]) -> None:
    """Gout treats nothing, but an edge connects it with two drugs."""
    (variant,) = (each for each in variants_of("four_step_focus") if each.name == f"fourstepfocus_{name}")
    reader = make_reader([("gout", "treats", "?d")], d="drug")
    ranker = make_ranker(reader, FourStepFocusMethod(variant).settings)
    assert set(rank_nodes(ranker, "Which?")[0].supported) == supported


def test_unusable_replies_fail_or_fall_back_to_vector_search() -> None:
    reader = PromptedTriplets(LanguageModel(ScriptedGenerator("Aspirin would be my choice.")), SCHEMA)
    failed = rank_nodes(make_ranker(reader), "What helps with gout?")[0]
    assert (failed.status, failed.nodes, failed.evidence) == ("failed", (), ())
    assert "not valid JSON" in failed.error
    searched = rank_nodes(make_ranker(reader, FocusSettings(fallback=True)), "What helps with gout?")[0]
    plain = rank_nodes(make_ranker(None), "What helps with gout?")[0]
    assert (searched.status, searched.supported) == ("answered", ())
    assert [(each.kind, each.part) for each in searched.omissions] == [("missing", "triplets")]
    assert [n.node_id for n in searched.nodes] == [n.node_id for n in plain.nodes]
    notes = [json.loads(item.why or "")["notes"] for item in searched.evidence]
    assert notes and all("not valid JSON" in note for (note,) in notes)


@pytest.mark.parametrize("question", ["Which drug treats gout?", "Was hilft gegen Gicht?"])
def test_questions_in_other_words_are_not_guessed(question: str) -> None:
    failed = rank_nodes(make_ranker(PARSER), question)[0]
    assert (failed.status, failed.nodes) == ("failed", ())
    assert failed.error == "the question is written in none of the known forms"
    searched = rank_nodes(make_ranker(PARSER, FocusSettings(fallback=True)), question)[0]
    assert (searched.status, searched.supported, len(searched.nodes)) == ("answered", (), 7)


def test_an_empty_base_has_no_answer() -> None:
    ranker = make_ranker(FormParser(FORMS, ["drug"]), base=with_vectors(graph_of([], [], [])))
    ranking = rank_nodes(ranker, "Name a remedy for fever.")[0]
    assert (ranking.status, ranking.nodes, ranking.evidence) == ("insufficient", (), ())


@pytest.mark.parametrize("method", ["vector", "multi_vector"])
def test_search_equals_brute_force(method: Literal["vector", "multi_vector"]) -> None:
    base = make_base(tokens=9)
    rows, query = pl.concat(base.vectors.passages()), WordEncoder().encode_sentences(["blood and willow"])[0]
    expected = []
    for node in base.node_ids:
        node_vectors = vector_matrix(rows.filter(pl.col("owner_id") == node)["vector"].to_arrow())
        mean = node_vectors.mean(axis=0)
        expected.append(max(node_vectors @ query) if method == "multi_vector" else mean @ query / np.linalg.norm(mean))
    search, all_nodes = base.vectors.passage_files(), np.arange(len(base))
    similarities = search.similarities(query, all_nodes, method)
    assert similarities == pytest.approx(expected, abs=1e-3)  # vectors are stored in half precision
    order = np.lexsort((all_nodes, -similarities)).tolist()
    for k in range(len(base) + 2):
        assert search.nearest(query, all_nodes % 2 == 0, k, method).tolist() == [n for n in order if n % 2 == 0][:k]


# Grading -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("0.8", 0.8),
        (".8", 0.8),
        ("**Score:** 0.85 / 1.0\n\nIt meets 2 of the 3 requirements.", 0.85),
        ("On a scale of 0 to 1, I would give this entry 0.4.", 0.4),
        ('{"score": 0.3}', 0.3),
        ("0,7", 0.7),
        ("Score: 8/10", 0.8),
        ("85 %", 0.85),
        ("0", 0.0),
    ],
)
def test_a_grade_is_parsed_in_the_forms_of_real_models(reply: str, grade: float) -> None:
    assert parse_grade(reply) == grade


@pytest.mark.parametrize("reply", ["8/1000", "2/3", "0.5 or 0.7", "-0.2", "Score: -0.2", "1.5", "high", "٠.٥"])
def test_a_reply_without_one_grade_is_unusable(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_grade(reply)


def test_a_card_states_the_relations_left_out() -> None:
    grader = PromptedGrader(LanguageModel(ScriptedGenerator("0.5")))

    def read_card(settings: FocusSettings) -> str:
        """The card of aspirin, which has three relations."""
        ranking = rank_nodes(make_ranker(None, settings, grader=grader), "What thins blood?")[0]
        return next(item.text for item in ranking.evidence if item.parents[0].id == "n0")

    assert read_card(FocusSettings(card_relations=1)).endswith("[2 more left out]")
    assert "left out" not in read_card(FocusSettings())


CARD = NodeCard("aspirin", "drug", "Aspirin eases pain.", (("aspirin", "treats", "fever"),))


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_a_reranker_with_a_short_input_scores_the_best_passage() -> None:
    class Short(SharedWordReranker):
        def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
            assert all(count_words([text])[0] <= 12 for _, text in pairs)
            assert all(text.startswith("aspirin (drug)") for _, text in pairs)
            return super().score(pairs)

    long = NodeCard("aspirin", "drug", "It is sold. " * 20 + "It eases fever and pain.", CARD.relations)
    plain = NodeCard("aspirin", "drug", "", ())
    grader = RerankerGrader(Short(), count_words, tokens=12)
    assert grader.grade([("fever pain", long), ("aspirin", plain)]) == [(2.0, None), (1.0, None)]
    assert grader.version != RerankerGrader(Short(), count_words).version
