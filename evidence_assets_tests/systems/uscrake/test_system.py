"""USCRaKE on a small corpus and graph: exact rankings, citations that stand where they say, defined edge cases."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.experiment.evidence.selection import Question, SelectedEvidence
from evidence_assets.retrieval.maxsim import maxsim_scores, nearest_cosines
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts, build_store, source_version
from evidence_assets.systems.uscrake import chunk_ranking as ranking
from evidence_assets.systems.uscrake.chunk_ranking import Query, TitleLinks
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction, PairJudge, classify_stance
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector, UscrakeSettings, blend_scores
from evidence_assets.transport import TokenMeasure, get_ground_cost
from evidence_assets.transport.divergence import jensen_shannon
from evidence_assets_tests.graphs.small_graph import graph_of_rows
from evidence_assets_tests.retrieval import plain_bm25
from evidence_assets_tests.retrieval.written import written_corpus
from evidence_assets_tests.systems.small_models import SharedWordReranker, WordEncoder
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder
from evidence_assets_tests.transport.random_texts import distance

ENCODER = PieceEncoder()
COSTS = ("fusion", "jsd", "moverscore")
"""Three that are ranked in three ways; the contract of ground costs covers the others."""
PAGES = {
    "Honey": "Honey is sweet. Bees make honey from nectar. It keeps for years.",
    "Bee": "A bee travels from blossom to blossom. Bees live in hives.",
    "Salt": "Salt is mined or won from the sea. It tastes salty.",
    "Sea": "The sea is salty water. Fish live in it.",
    "Plain": "Rain falls on the plain.",
    "One": "Sugar",
}
QUESTIONS = [
    Question("q1", "b", "mcqa", "Which food is sweet and made by bees?", ("honey", "salt", "sea water")),
    Question("q2", "b", "mcqa", "Where do fish live?", ("sea", "hive")),
]
NODES = [(f"n{i}", name) for i, name in enumerate(("bee", "honey", "hive", "salt", "sea", "fish"))]
NODES += [(f"x{i:03d}", f"thing {i}") for i in range(60)]
EDGES = [
    ("e0", "n0", "CapableOf", "n1"),
    ("e1", "n0", "AtLocation", "n2"),
    ("e2", "n3", "AtLocation", "n4"),
    ("e3", "n5", "AtLocation", "n4"),
    *((f"h{i:03d}", "n4", "RelatedTo", f"x{i:03d}") for i in range(60)),
]


def graph(cap: int = 50) -> ConceptTriples:
    """The triples as a graph whose names have no vectors, so that linking goes by spelling."""
    nodes = [{"node_id": node, "name": name, "aliases": []} for node, name in NODES]
    empty_lists = {"triple_ids": [], "sources": [], "licences": []}
    edges = [{"edge_id": e, "head_id": h, "relation": r, "tail_id": t, **empty_lists} for e, h, r, t in EDGES]
    return ConceptTriples(graph_of_rows("g", nodes, edges), load_vocabulary(), WordEncoder(), cap=cap)


def passages(
    folder: Path, pages: dict[str, str] = PAGES, *, with_vectors: bool = True, titled: bool = True
) -> Passages:
    """The pages as chunks named by their titles, in the order of their ids."""
    names = sorted(pages)
    texts = [pages[t] for t in names]
    vectors = ENCODER.encode_sentences(texts) if texts else np.zeros((0, ENCODER.dimensions), np.float32)
    corpus = written_corpus(folder / "index", names, texts, names if titled else (), vectors)
    model = f"{ENCODER.model_id}@{ENCODER.revision}"
    build_store(folder / "store", [texts], ENCODER, model, "chunks", vectors=with_vectors)
    expected = source_version("chunks", model)
    return Passages(corpus, TokenStore(folder / "store", expected=expected, cache=folder / "cache"))


def ids_of(corpus: Passages) -> list[str]:
    return corpus.corpus.ids(range(len(corpus.corpus)))


def tokens_of(corpus: Passages, chunk: int) -> tuple[list[str], npt.NDArray[np.float16]]:
    """Pieces of a chunk, and their vectors as they are kept."""
    (tokens,) = ENCODER.encode_tokens(corpus.corpus.texts([chunk]))
    return list(tokens.tokens), tokens.vectors.astype(np.float16)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Passages:
    return passages(tmp_path_factory.mktemp("corpus"))


def selector(corpus: Passages | None, *, triples: ConceptTriples | None = None, **settings: Any) -> UscrakeSelector:
    weights = {"weights": "idf"} if settings.get("cost") == "moverscore" else {}
    uscrake_settings = UscrakeSettings(
        **{"cost": "fusion", "R": 4, "k": 2, "s": 3, "titles": False, **weights, **settings}
    )
    return UscrakeSelector(uscrake_settings, corpus, ENCODER, ENCODER, LateInteraction(ENCODER), triples)


def query(text: str) -> Query:
    return Query(text, ENCODER.encode_tokens([text])[0])


def all_texts(corpus: Passages) -> TokenTexts:
    return corpus.with_encoder(ENCODER).texts(np.arange(len(corpus.corpus)))


def reasons_of(pick: SelectedEvidence) -> dict[str, Any]:
    return dict(json.loads(pick.why or "{}"))


def assert_nearest_first(
    picks: list[SelectedEvidence], label: str, distances: dict[str, float], k: int, within: float
) -> None:
    """The picks of an option are the k chunks of the smallest distances, in their order and with their scores."""
    rows = sorted((p for p in picks if p.option == label), key=lambda p: reasons_of(p)["chunk_rank"])
    expected = sorted(distances, key=lambda name: (distances[name], name))[:k]
    assert [p.parents[0].id for p in rows] == expected
    assert [reasons_of(p)["chunk_score"] for p in rows] == pytest.approx([-distances[n] for n in expected], abs=within)


def naive_tokens(text: str, words: bool) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Pieces of a text, or its words in lower case with the means of their pieces, and their vectors."""
    (tokens,) = ENCODER.encode_tokens([text])
    if not words:
        return list(tokens.tokens), tokens.vectors.astype(np.float64)
    matches = [(m.group().lower(), m.span()) for m in re.finditer(r"\w+|[^\w\s]", text)]
    rows = [[i for i, (a, _) in enumerate(tokens.offsets) if low <= a < high] for _, (low, high) in matches]
    return [word for word, _ in matches], np.stack([tokens.vectors[r].astype(np.float64).mean(axis=0) for r in rows])


@pytest.mark.parametrize(
    ("cost", "tokens", "weights"),
    [("jsd", "pieces", "text"), ("cosine", "pieces", "corpus"), ("jsd", "words", "corpus")],
)
def test_the_kept_chunks_are_those_of_a_naive_loop_over_the_pool(
    corpus: Passages, cost: Any, tokens: str, weights: str
) -> None:
    ground, words = get_ground_cost(cost), tokens == "words"
    tokens_of_pages = [naive_tokens(text, words)[0] for text in PAGES.values()]

    def measure(names: list[str], vectors: npt.NDArray[np.floating[Any]]) -> TokenMeasure:
        masses = plain_bm25.token_weights(names, tokens_of_pages)
        if weights == "corpus":
            masses = [plain_bm25.idf(name, tokens_of_pages) * plain_bm25.total(name, tokens_of_pages) for name in names]
        return ground.measure(vectors, masses)

    published = selector(corpus, cost=cost, tokens=tokens, weights=weights, grain="chunk", R=5, k=3)
    for question, picks in zip(QUESTIONS, published.select(QUESTIONS), strict=True):
        queries = {label: f"{question.text} {option}" for label, option in question.hypotheses}
        pool = np.unique(corpus.corpus.index.search(ENCODER.encode_sentences(list(queries.values())), 5)[1])
        for label, query_text in queries.items():
            distances = {}
            for name in corpus.corpus.ids(pool):
                names, vectors = naive_tokens(PAGES[name], words)
                y = measure(names, vectors.astype(np.float16))
                distances[name] = distance(measure(*naive_tokens(query_text, words)), y, cost)
            assert_nearest_first(picks, label, distances, 3, 1e-4)


def test_moverscore_is_made_of_power_means_of_five_layers_weighted_by_rarity(corpus: Passages) -> None:
    statistics = corpus.store.pieces

    def measure(text: str) -> TokenMeasure:
        (tokens,) = ENCODER.token_layers([text], 5)
        layers = tokens.vectors.reshape(len(tokens.tokens), 5, ENCODER.dimensions)
        moverscore = get_ground_cost("moverscore")
        return moverscore.measure(moverscore.vectors(layers), statistics.corpus_weights(tokens.tokens, "idf"))

    pages = {name: measure(text) for name, text in PAGES.items()}
    results = list(selector(corpus, cost="moverscore", grain="chunk", R=6, k=6).select(QUESTIONS))
    for question, picks in zip(QUESTIONS, results, strict=True):
        for label, option in question.hypotheses:
            x = measure(f"{question.text} {option}")
            distances = {name: distance(x, y, "euclidean") for name, y in pages.items()}
            assert_nearest_first(picks, label, distances, 6, 2e-3)


def test_the_published_cost_is_the_divergence_of_scaled_softmaxes(corpus: Passages) -> None:
    query_of_test = query("sweet")
    weight = corpus.store.pieces.token_weights(["sweet"])[0]
    z = query_of_test.tokens.vectors[0].astype(np.float64) * weight
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    sugar = ids_of(corpus).index("One")
    ((piece,), stored_vectors) = tokens_of(corpus, sugar)
    z = stored_vectors[0].astype(np.float64) * corpus.store.pieces.token_weights([piece])[0]
    q = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    scores = ranking.score_texts(
        [query_of_test], all_texts(corpus), corpus.with_encoder(ENCODER), "jsd", len(corpus.corpus)
    )[0]
    assert -scores[sugar] == pytest.approx(float(jensen_shannon(p, q)), abs=1e-9)


def test_fusion_is_the_mean_of_late_interaction_and_exact_transport(corpus: Passages) -> None:
    query_of_test, texts, encoded = query("salty fish live in the sea"), all_texts(corpus), corpus.with_encoder(ENCODER)
    measure = ranking.measure_query(query_of_test, "cosine", encoded)
    costs = np.array([distance(measure, texts.measure(i, "cosine"), "cosine") for i in range(len(texts))])
    late = maxsim_scores(query_of_test.tokens.vectors, texts)
    scores = ranking.score_texts([query_of_test], texts, encoded, "fusion", 1)[0]
    np.testing.assert_allclose(scores, (late + 1 - costs) / 2, atol=1e-12)
    some = ranking.fusion_scores(
        query_of_test, texts, encoded, 2, nearest_cosines([query_of_test.tokens.vectors], texts)[0]
    )
    assert set(np.flatnonzero(np.isfinite(some))) == set(np.argsort(-late)[:2])
    assert some[np.isfinite(some)] == pytest.approx(scores[np.isfinite(some)])


def test_a_title_is_ranked_as_words_of_its_text(corpus: Passages, tmp_path: Path) -> None:
    untitled = passages(tmp_path, {"x": "Bees fly."}, titled=False)
    for some in (corpus, untitled):
        every, weigh = np.arange(len(some.corpus)), some.store.pieces.token_weights
        texts = some.with_encoder(ENCODER, titles=True).texts(every).select(every)
        for i, name in enumerate(some.corpus.titles(every)):
            rows = slice(int(texts.offsets[i]), int(texts.offsets[i + 1]))
            (title,), (pieces, stored_vectors) = ENCODER.encode_tokens([name]), tokens_of(some, i)
            np.testing.assert_array_equal(
                texts.vectors[rows], np.array([*title.vectors.astype(np.float16), *stored_vectors])
            )
            assert texts.weights[rows].tolist() == [*weigh(title.tokens), *weigh(pieces)]


@pytest.mark.parametrize(("cost", "grain"), [("fusion", "sentence"), ("jsd", "chunk"), ("moverscore", "sentence")])
def test_every_citation_stands_where_it_says(corpus: Passages, cost: Any, grain: Any) -> None:
    selections = list(selector(corpus, cost=cost, grain=grain).select(QUESTIONS))
    for picks in selections:
        assert picks
        for pick in picks:
            text = PAGES[pick.parents[0].id]
            assert pick.kind == grain and pick.parents[0].version == pick.parents[0].id
            if grain == "sentence":
                a, b = (int(n) for n in pick.locator.split(":"))
                assert text[a:b] == pick.text
            else:
                assert pick.text == text and not pick.locator
            for pair in reasons_of(pick)["aligned"]:
                a, b = (int(n) for n in pair["at"].split(":"))
                assert text[a:b] == pair["text"]
                assert pair["text"].isalnum() and pair["query"].isalnum() and pair["cost"] >= -1e-6
        for label in {p.option for p in picks}:
            scores = [p.score for p in picks if p.option == label]
            assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("cost", COSTS)
def test_tokens_encoded_on_demand_give_the_same_evidence(corpus: Passages, tmp_path: Path, cost: Any) -> None:
    on_demand = passages(tmp_path, with_vectors=False)
    from_store = selector(corpus, cost=cost, triples=graph())
    on_the_fly = selector(on_demand, cost=cost, triples=graph())
    assert (
        list(on_the_fly.select(QUESTIONS)) == list(from_store.select(QUESTIONS))
        and on_the_fly.version == from_store.version
    )
    n_encoded = len(ENCODER.encoded_texts)
    assert list(selector(on_demand, cost=cost, triples=graph(), k=1).select(QUESTIONS))
    assert set(ENCODER.encoded_texts[n_encoded:]).isdisjoint(PAGES.values()), "what one variant encoded serves the next"


@pytest.mark.parametrize("cost", COSTS)
def test_edge_cases_are_defined(corpus: Passages, tmp_path: Path, cost: Any) -> None:
    stop_words = Question("q", "b", "mcqa", "is it in the", ("or", ""))
    picks = next(iter(selector(corpus, cost=cost, R=2, k=9).select([stop_words])))
    assert {p.option for p in picks} == {"A", "B"}  # a query of stop words only still ranks its pool
    no_token = Question("q", "b", "mcqa", " ", ("", " "))
    assert list(selector(corpus, cost=cost).select([no_token])) == [[]]
    assert list(selector(passages(tmp_path, {}), cost=cost).select(QUESTIONS)) == [[], []]


@given(st.data())
def test_no_link_changes_the_first_place_or_raises_what_says_nothing_new(data: st.DataObject) -> None:
    n, words = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    cosines = st.lists(st.floats(-1, 1), min_size=words * n, max_size=words * n)
    nearest = np.array(data.draw(cosines)).reshape(words, n)
    scores = np.array(data.draw(st.lists(st.floats(-1, 1) | st.just(-np.inf), min_size=n, max_size=n)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    weight = data.draw(st.floats(0.1, 9))
    selections = TitleLinks(ends[:, 0], ends[:, 1]).boost(scores, nearest, weight)
    assert (selections >= scores).all() and selections.argmax() == scores.argmax()
    for j in range(n):
        better = [i for i, target in pairs if target == j and scores[i] > scores[j]]
        assert not better or selections[j] < max(scores[i] for i in better)
        if all((nearest[:, j] <= nearest[:, i]).all() for i in better):
            assert selections[j] == scores[j]


# Graph -----------------------------------------------------------------------------------------------------------


def test_triples_stand_beside_text_with_the_rule_that_led_to_them(corpus: Passages) -> None:
    picks = list(selector(corpus, triples=graph()).select(QUESTIONS))[1]
    fish = next(p for p in picks if p.parents[0].id == "e3" and p.option == "A")
    assert fish.text == "fish is at location of sea" and fish.parents[0].kind == "edge"
    reason = reasons_of(fish)
    assert (reason["rule"], reason["link_score"], reason["triple"]) == ("exact", 1.0, ["fish", "AtLocation", "sea"])
    assert {p.kind for p in picks} == {"sentence", "triple"}
    assert all(sum(p.kind == "triple" for p in picks if p.option == label) <= 3 for label in "AB")
    stances = {(p.option, p.text): reasons_of(p)["says"] for p in picks}
    assert stances["A", "fish is at location of sea"] == "entails" and stances["A", "Fish live in it."] == "mentions"


def test_a_hub_is_capped_by_words_in_common_and_what_was_dropped_is_recorded() -> None:
    question, capped = Question("q", "b", "mcqa", "Where do fish live? Near thing 7?", ("sea",)), graph(cap=4)
    (candidates,) = capped.candidates([(question.text, "sea")])
    assert (len(candidates.triples), candidates.total, candidates.dropped) == (4, 62, 58)
    ids = [capped.graph.edge_ids[c.edge] for c in candidates.triples]
    assert ids[0] == "e3", "joins a concept of the question to the option"
    assert "h007" in ids, "shares a word with the question"
    picks = next(iter(selector(None, triples=capped, parts="graph").select([question])))
    assert len(picks) == 3 and (reasons_of(picks[0])["dropped"], reasons_of(picks[0])["found"]) == (58, 62)


# Judges and rows -------------------------------------------------------------------------------------------------


def test_a_cross_encoder_orders_text_and_triples_alike(corpus: Passages) -> None:
    settings = UscrakeSettings("fusion", 4, 2, 3, judge=1)
    uscrake = UscrakeSelector(settings, corpus, ENCODER, ENCODER, PairJudge(SharedWordReranker()), graph())
    picks = [p for p in list(uscrake.select(QUESTIONS))[1] if p.option == "A"]
    expected = SharedWordReranker().score([("Where do fish live? sea", p.text) for p in picks])
    assert [p.score for p in picks] == expected.tolist() == sorted(expected.tolist(), reverse=True)


def test_the_judge_has_its_share_in_the_order_of_text() -> None:
    own_scores, judged = np.array([3.0, 1.0, 2.0, 0.0]), np.array([0.2, 0.4, 0.3, 0.9])
    assert blend_scores(own_scores, judged, 3, 1.0) == pytest.approx(judged)
    assert blend_scores(own_scores, judged, 3, 0.0) == pytest.approx([0.4, 0.2, 0.3, 0.9])
    assert blend_scores(own_scores, judged, 3, 0.5) == pytest.approx([0.3, 0.3, 0.3, 0.9])
    assert blend_scores(own_scores[:1], judged, 1, 0.0) == pytest.approx(judged)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": "moverscore"}, "weights: idf"),
        ({"cost": "jds"}, "did you mean 'jsd'"),
        ({"k": 0}, "must be at least 1"),
        ({"judge": 1.5}, "between 0 and 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UscrakeSettings(**{"cost": "fusion", "R": 4, "k": 2, "s": 3, **settings})


# Stance ---------------------------------------------------------------------------------------------------------


PRESSURE = "Which drug is used to treat high blood pressure?"


@pytest.mark.parametrize(
    ("option", "kind", "text", "expected"),
    [
        ("lisinopril", "chunk", "Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is a drug.", "mentions"),  # the kind of thing asked for is no topic
        ("lisinopril", "chunk", "Lisinopril is never used for high blood pressure.", "contradicts"),
        ("lisinopril", "chunk", "It is not for high blood pressure. Lisinopril treats high blood pressure.", "entails"),
        ("beta blocker", "chunk", "A blocker treats high blood pressure.", "mentions"),  # half of the option
        ("beta blocker", "triple", "beta blocker may treat high blood pressure", "entails"),
    ],
)
def test_a_statement_must_name_the_option_and_what_is_asked(option: str, kind: str, text: str, expected: str) -> None:
    assert classify_stance(PRESSURE, option, kind, text) == expected
