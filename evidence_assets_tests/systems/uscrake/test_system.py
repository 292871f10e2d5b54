"""USCRaKE on a small corpus and graph: exact rankings, citations that stand where they say, defined edge cases."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.benchmarks.graphs.relations import load
from evidence_assets.experiment.evidence.selection import Asked, Pick
from evidence_assets.lake.errors import BadInput
from evidence_assets.retrieval.maxsim import maxsim_texts, nearest_of
from evidence_assets.retrieval.token_store import TokenStore, TokenTexts, build, source_version
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets.systems.uscrake import chunk_ranking as ranking
from evidence_assets.systems.uscrake.chunk_ranking import Query, TitleLinks
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction, PairJudge, stance
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import Settings, Uscrake, joined
from evidence_assets.transport import TokenMeasure, ground_cost
from evidence_assets.transport.divergence import jensen_shannon
from evidence_assets_tests.graphs.small_graph import graph_of_rows
from evidence_assets_tests.retrieval import plain_bm25
from evidence_assets_tests.retrieval.written import build_index, written_corpus
from evidence_assets_tests.systems.small_models import SharedWords, WordEncoder
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder
from evidence_assets_tests.transport.random_texts import distance

ENCODER = PieceEncoder()
COSTS = ("fusion", "jsd", "moverscore")
"""Three that are ranked in three ways; the contract of ground costs covers the others."""
PAGES = {
    "Honey": "Honey is sweet. Bees make honey from nectar. It keeps for years.",
    "Bee": "A bee flies from flower to flower. Bees live in hives.",
    "Salt": "Salt is mined or won from the sea. It tastes salty.",
    "Sea": "The sea is salty water. Fish live in it.",
    "Plain": "Rain falls on the plain.",
    "One": "Sugar",
}
QUESTIONS = [
    Asked("q1", "b", "mcqa", "Which food is sweet and made by bees?", ("honey", "salt", "sea water")),
    Asked("q2", "b", "mcqa", "Where do fish live?", ("sea", "hive")),
]
NODES = [
    ("n0", "bee", ["honeybee"]),
    ("n1", "honey", []),
    ("n2", "hive", []),
    ("n3", "salt", []),
    ("n4", "sea", []),
    ("n5", "fish", []),
    *((f"x{i:03d}", f"thing {i}", []) for i in range(60)),
]
EDGES = [
    ("e0", "n0", "CapableOf", "n1"),
    ("e1", "n0", "AtLocation", "n2"),
    ("e2", "n3", "AtLocation", "n4"),
    ("e3", "n5", "AtLocation", "n4"),
    *((f"h{i:03d}", "n4", "RelatedTo", f"x{i:03d}") for i in range(60)),
]


def graph(cap: int = 50) -> ConceptTriples:
    """The triples as a graph whose names have no vectors, so that linking goes by spelling."""
    nodes = [{"node_id": node, "name": name, "aliases": aliases} for node, name, aliases in NODES]
    listed = {"triple_ids": [], "sources": [], "licences": []}
    edges = [{"edge_id": e, "head_id": h, "relation": r, "tail_id": t, **listed} for e, h, r, t in EDGES]
    return ConceptTriples(graph_of_rows("g", nodes, edges), load(), WordEncoder(), cap=cap)


def passages(folder: Path, pages: dict[str, str] = PAGES, *, stored: bool = True, titled: bool = True) -> Passages:
    """The pages as chunks named by their titles, in the order of their ids."""
    names = sorted(pages)
    texts = [pages[t] for t in names]
    vectors = ENCODER.sentences(texts) if texts else np.zeros((0, ENCODER.dimensions), np.float32)
    corpus = written_corpus(folder / "index", names, texts, names if titled else (), vectors)
    model = f"{ENCODER.model_id}@{ENCODER.revision}"
    build(folder / "store", [texts], ENCODER, model, "chunks", vectors=stored)
    expected = source_version("chunks", model)
    return Passages(corpus, TokenStore(folder / "store", expected=expected, cache=folder / "cache"))


def ids_of(corpus: Passages) -> list[str]:
    return corpus.corpus.ids(range(len(corpus.corpus)))


def tokens_of(corpus: Passages, chunk: int) -> tuple[list[str], npt.NDArray[np.float16]]:
    """Pieces of a chunk, and their vectors as they are kept."""
    (found,) = ENCODER.tokens(corpus.corpus.texts([chunk]))
    return list(found.tokens), found.vectors.astype(np.float16)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Passages:
    return passages(tmp_path_factory.mktemp("corpus"))


class Listing(Uscrake):
    """The selector, whose picks are looked at all together."""

    def select(self, questions: Sequence[Asked]) -> Any:
        return list(super().select(questions))


def selector(corpus: Passages | None, *, triples: ConceptTriples | None = None, **settings: Any) -> Listing:
    weights = {"weights": "idf"} if settings.get("cost") == "moverscore" else {}
    stated = Settings(**{"cost": "fusion", "R": 4, "k": 2, "s": 3, "titles": False, **weights, **settings})
    return Listing(stated, corpus, ENCODER, ENCODER, LateInteraction(ENCODER), triples)


def query(text: str) -> Query:
    return Query(text, ENCODER.tokens([text])[0])


def whole(corpus: Passages) -> TokenTexts:
    return corpus.seen(ENCODER).texts(np.arange(len(corpus.corpus)))


def why(pick: Pick) -> dict[str, Any]:
    return dict(json.loads(pick.why or "{}"))


def assert_nearest_first(picks: list[Pick], label: str, distances: dict[str, float], k: int, within: float) -> None:
    """The picks of an option are the k chunks of the smallest distances, in their order and with their scores."""
    own = sorted((p for p in picks if p.option == label), key=lambda p: why(p)["chunk_rank"])
    expected = sorted(distances, key=lambda name: (distances[name], name))[:k]
    assert [p.parents[0].id for p in own] == expected
    assert [why(p)["chunk_score"] for p in own] == pytest.approx([-distances[n] for n in expected], abs=within)


@pytest.mark.parametrize("cost", ["jsd", "cosine"])
def test_the_kept_chunks_are_those_of_a_naive_loop_over_the_pool(corpus: Passages, cost: Any) -> None:
    k = 3
    found = selector(corpus, cost=cost, grain="chunk", R=5, k=k).select(QUESTIONS)
    statistics, names = corpus.store.pieces, ids_of(corpus)
    for question, picks in zip(QUESTIONS, found, strict=True):
        queries = {label: query(f"{question.text} {option}") for label, option in question.hypotheses}
        vectors = ENCODER.sentences([q.text for q in queries.values()])
        pool = np.unique(corpus.corpus.index.search(vectors, 5)[1])
        for label, asked in queries.items():
            ground = ground_cost(cost)
            x = ground.measure(asked.tokens.vectors, statistics.token_weights(asked.tokens.tokens))
            distances = {}
            for chunk in pool.tolist():
                pieces, kept = tokens_of(corpus, chunk)
                y = ground.measure(kept, statistics.token_weights(pieces))
                distances[names[chunk]] = distance(x, y, cost)
            assert_nearest_first(picks, label, distances, k, 1e-8)


def naive_words(text: str) -> tuple[list[str], npt.NDArray[np.float64]]:
    """The words of a text in lower case, and the means of their pieces' vectors."""
    (tokens,) = ENCODER.tokens([text])
    found = [(m.group().lower(), m.span()) for m in re.finditer(r"\w+|[^\w\s]", text)]
    rows = [[i for i, (a, _) in enumerate(tokens.offsets) if low <= a < high] for _, (low, high) in found]
    return [word for word, _ in found], np.stack([tokens.vectors[r].astype(np.float64).mean(axis=0) for r in rows])


def test_words_and_the_other_reading_of_weights_are_ranked_as_their_definition_says(corpus: Passages) -> None:
    words = {name: naive_words(text) for name, text in PAGES.items()}
    listed = [names for names, _ in words.values()]

    def measure(names: list[str], vectors: npt.NDArray[np.floating[Any]]) -> TokenMeasure:
        masses = [plain_bm25.idf(name, listed) * plain_bm25.total(name, listed) for name in names]
        return ground_cost("jsd").measure(vectors, masses)

    found = selector(corpus, cost="jsd", tokens="words", weights="corpus", grain="chunk", R=6, k=3).select(QUESTIONS)
    for question, picks in zip(QUESTIONS, found, strict=True):
        for label, option in question.hypotheses:
            x = measure(*naive_words(f"{question.text} {option}"))
            stored = {name: (names, vectors.astype(np.float16)) for name, (names, vectors) in words.items()}
            distances = {name: distance(x, measure(*each), "jsd") for name, each in stored.items()}
            assert_nearest_first(picks, label, distances, 3, 1e-4)


def test_moverscore_is_made_of_power_means_of_five_layers_weighted_by_rarity(corpus: Passages) -> None:
    statistics = corpus.store.pieces

    def measure(text: str) -> TokenMeasure:
        (tokens,) = ENCODER.token_layers([text], 5)
        layers = tokens.vectors.reshape(len(tokens.tokens), 5, ENCODER.dimensions)
        moverscore = ground_cost("moverscore")
        return moverscore.measure(moverscore.vectors(layers), statistics.values(tokens.tokens, "idf"))

    pages = {name: measure(text) for name, text in PAGES.items()}
    found = selector(corpus, cost="moverscore", grain="chunk", R=6, k=6).select(QUESTIONS)
    for question, picks in zip(QUESTIONS, found, strict=True):
        for label, option in question.hypotheses:
            x = measure(f"{question.text} {option}")
            distances = {name: distance(x, y, "euclidean") for name, y in pages.items()}
            assert_nearest_first(picks, label, distances, 6, 2e-3)


class LastLayerAlone:
    """An encoder of somebody else's, with nothing but what the protocol asks for."""

    model_id, revision, dimensions, max_tokens = "plain", "1", 16, 512
    count_tokens, tokens, sentences = ENCODER.count_tokens, ENCODER.tokens, ENCODER.sentences


@pytest.mark.parametrize("settings", [{"cost": "moverscore", "weights": "idf"}, {"cost": "jsd", "tokens": "words"}])
def test_an_encoder_without_layers_is_refused_for_what_needs_them(settings: dict[str, Any]) -> None:
    plain: Any = LastLayerAlone()
    with pytest.raises(BadInput, match="plain gives neither its words"):
        Uscrake(Settings(R=4, k=2, s=3, **settings), None, plain, plain, LateInteraction(plain))


def test_the_published_cost_is_the_divergence_of_scaled_softmaxes(corpus: Passages) -> None:
    asked = query("sweet")
    weight = corpus.store.pieces.token_weights(["sweet"])[0]
    z = asked.tokens.vectors[0].astype(np.float64) * weight
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    sugar = ids_of(corpus).index("One")
    ((piece,), kept) = tokens_of(corpus, sugar)
    z = kept[0].astype(np.float64) * corpus.store.pieces.token_weights([piece])[0]
    q = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    scores = ranking.scores_of([asked], whole(corpus), corpus.seen(ENCODER), "jsd", len(corpus.corpus))[0]
    assert -scores[sugar] == pytest.approx(float(jensen_shannon(p, q)), abs=1e-9)


def test_fusion_is_the_mean_of_late_interaction_and_exact_transport(corpus: Passages) -> None:
    asked, texts, seen = query("salty fish live in the sea"), whole(corpus), corpus.seen(ENCODER)
    own = ranking.query_measure(asked, "cosine", seen)
    costs = np.array([distance(own, texts.measure(i, "cosine"), "cosine") for i in range(len(texts))])
    late = maxsim_texts(asked.tokens.vectors, texts)
    found = ranking.scores_of([asked], texts, seen, "fusion", 1)[0]
    np.testing.assert_allclose(found, (late + 1 - costs) / 2, atol=1e-12)
    some = ranking.fused(asked, texts, seen, 2, nearest_of([asked.tokens.vectors], texts)[0])
    assert set(np.flatnonzero(np.isfinite(some))) == set(np.argsort(-late)[:2])
    assert some[np.isfinite(some)] == pytest.approx(found[np.isfinite(some)])


def test_a_title_is_ranked_as_words_of_its_text(corpus: Passages, tmp_path: Path) -> None:
    untitled = passages(tmp_path, {"x": "Bees fly."}, titled=False)
    for some in (corpus, untitled):
        every, weigh = np.arange(len(some.corpus)), some.store.pieces.token_weights
        texts = some.seen(ENCODER, titles=True).texts(every).some(every)
        for i, name in enumerate(some.corpus.titles(every)):
            rows = slice(int(texts.offsets[i]), int(texts.offsets[i + 1]))
            (title,), (pieces, kept) = ENCODER.tokens([name]), tokens_of(some, i)
            np.testing.assert_array_equal(texts.vectors[rows], np.array([*title.vectors.astype(np.float16), *kept]))
            assert texts.weights[rows].tolist() == [*weigh(title.tokens), *weigh(pieces)]
    asked = [Asked("q", "b", "mcqa", "One", ("sugar",))]
    with_title, without = (
        selector(corpus, cost="maxsim", grain="chunk", R=6, k=6, titles=t).select(asked)[0] for t in (True, False)
    )
    scores = [{p.parents[0].id: p.score for p in picks} for picks in (with_title, without)]
    assert scores[0]["One"] == pytest.approx(1, abs=1e-3) and scores[1]["One"] < 0.9


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("grain", ["sentence", "chunk"])
def test_every_citation_stands_where_it_says(corpus: Passages, cost: Any, grain: Any) -> None:
    made = selector(corpus, cost=cost, grain=grain).select(QUESTIONS)
    for picks in made:
        assert picks
        for pick in picks:
            text = PAGES[pick.parents[0].id]
            assert pick.kind == grain and pick.parents[0].version == pick.parents[0].id
            if grain == "sentence":
                a, b = (int(n) for n in pick.locator.split(":"))
                assert text[a:b] == pick.text
            else:
                assert pick.text == text and not pick.locator
            for pair in why(pick)["aligned"]:
                a, b = (int(n) for n in pair["at"].split(":"))
                assert text[a:b] == pair["text"]
                assert pair["text"].isalnum() and pair["query"].isalnum() and pair["cost"] >= -1e-6
        for label in {p.option for p in picks}:
            scores = [p.score for p in picks if p.option == label]
            assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("cost", COSTS)
def test_tokens_encoded_on_demand_give_the_same_evidence(corpus: Passages, tmp_path: Path, cost: Any) -> None:
    on_demand = passages(tmp_path, stored=False)
    stored = selector(corpus, cost=cost, triples=graph())
    again = selector(on_demand, cost=cost, triples=graph())
    assert again.select(QUESTIONS) == stored.select(QUESTIONS) and again.version == stored.version
    asked = len(ENCODER.asked)
    assert selector(on_demand, cost=cost, triples=graph(), k=1).select(QUESTIONS)
    assert set(ENCODER.asked[asked:]).isdisjoint(PAGES.values()), "what one variant encoded serves the next"


def test_versions_change_with_settings_corpus_graph_and_judge(corpus: Passages) -> None:
    versions = [
        selector(corpus).version,
        selector(corpus, k=3).version,
        selector(None).version,
        selector(corpus, triples=graph()).version,
        Uscrake(Settings("fusion", 4, 2, 3), corpus, ENCODER, ENCODER, PairJudge(SharedWords())).version,
    ]
    assert len(set(versions)) == len(versions) and selector(corpus).version == versions[0]


def test_a_hybrid_pool_holds_what_the_index_missed(corpus: Passages, tmp_path: Path) -> None:
    asked = [Asked("q", "b", "mcqa", "the plain", ("Rain",))]
    dense, hybrid = (selector(corpus, R=1, coarse=coarse, k=6, grain="chunk") for coarse in ("dense", "hybrid"))
    nothing = np.zeros((len(corpus.corpus), ENCODER.dimensions), np.float32)
    build_index(tmp_path / "index", nothing, built_from="v", model_id="pieces")
    seeing, corpus.corpus.index = corpus.corpus.index, VectorIndex(tmp_path / "index", expected="v")
    try:
        assert "Plain" not in {p.parents[0].id for p in dense.select(asked)[0]}
        assert "Plain" in {p.parents[0].id for p in hybrid.select(asked)[0]}, "words alone lead to the page"
    finally:
        corpus.corpus.index = seeing


@pytest.mark.parametrize("cost", COSTS)
def test_edge_cases_are_defined(corpus: Passages, tmp_path: Path, cost: Any) -> None:
    stop_words = Asked("q", "b", "mcqa", "is it in the", ("or", ""))
    picks = selector(corpus, cost=cost, R=2, k=9).select([stop_words])[0]
    assert {p.option for p in picks} == {"A", "B"}  # a query of stop words only still ranks its pool
    assert len({p.parents[0].id for p in picks if p.option == "A"}) <= 4
    assert selector(corpus, cost=cost).select([]) == []
    no_token = Asked("q", "b", "mcqa", " ", ("", " "))
    assert selector(corpus, cost=cost).select([no_token]) == [[]]
    empty = passages(tmp_path, {})
    assert selector(empty, cost=cost).select(QUESTIONS) == [[], []]
    one = selector(corpus, cost=cost, R=6, k=6).select([Asked("q", "b", "mcqa", "Sugar", ("sweet",))])[0]
    assert "Sugar" in {p.text for p in one}  # a chunk of one token is a text like any other


def test_equal_chunks_are_ordered_by_their_ids(tmp_path: Path) -> None:
    corpus = passages(tmp_path, dict.fromkeys(("d", "b", "a", "c"), "Bees make honey."))
    for cost in COSTS:
        picks = selector(corpus, cost=cost, grain="chunk", k=3).select(QUESTIONS[:1])[0]
        assert [p.parents[0].id for p in picks if p.option == "A"] == ["a", "b", "c"]


@given(st.data())
def test_no_link_changes_the_first_place_or_raises_what_says_nothing_new(data: st.DataObject) -> None:
    n, words = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    cosines = st.lists(st.floats(-1, 1), min_size=words * n, max_size=words * n)
    nearest = np.array(data.draw(cosines)).reshape(words, n)
    scores = np.array(data.draw(st.lists(st.floats(-1, 1) | st.just(-np.inf), min_size=n, max_size=n)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    weight = data.draw(st.floats(0.1, 9))
    made = TitleLinks(ends[:, 0], ends[:, 1]).raised(scores, nearest, weight)
    assert (made >= scores).all() and made.argmax() == scores.argmax()
    for j in range(n):
        better = [i for i, target in pairs if target == j and scores[i] > scores[j]]
        assert not better or made[j] < max(scores[i] for i in better)
        if all((nearest[:, j] <= nearest[:, i]).all() for i in better):
            assert made[j] == scores[j]


def test_a_named_page_gains_what_it_says_beyond_the_one_that_names_it() -> None:
    nearest = np.array([[0.9, 0.2, 0.9], [0.3, 0.8, 0.3]])
    scores = np.array([0.6, 0.4, 0.5])
    links = TitleLinks(np.array([0, 0]), np.array([1, 2]))
    assert links.raised(scores, nearest, 0.4).tolist() == pytest.approx([0.6, 0.5, 0.5])  # + 0.4 · (0.8 − 0.3) / 2
    assert links.raised(scores, nearest, 9.0)[1] == pytest.approx(0.6) and links.raised(scores, nearest, 9.0)[1] < 0.6


# Graph -----------------------------------------------------------------------------------------------------------


def test_triples_stand_beside_text_with_the_rule_that_led_to_them(corpus: Passages) -> None:
    picks = selector(corpus, triples=graph()).select(QUESTIONS)[1]
    found = {p.parents[0].id: p for p in picks if p.kind == "triple" and p.option == "A"}
    fish = found["e3"]
    assert fish.text == "fish is at location of sea"
    assert (fish.parents[0].kind, fish.parents[0].version) == ("edge", "e3")
    reason = why(fish)
    assert (reason["rule"], reason["link_score"], reason["triple"]) == ("exact", 1.0, ["fish", "AtLocation", "sea"])
    assert reason["concept"] in ("fish", "sea")
    assert {p.kind for p in picks} == {"sentence", "triple"}
    assert all(sum(p.kind == "triple" for p in picks if p.option == label) <= 3 for label in "AB")
    said = {(p.option, p.text): why(p)["says"] for p in picks}
    assert said["A", "fish is at location of sea"] == "entails"
    assert said["A", "Fish live in it."] == "mentions"
    assert set(said.values()) <= {"entails", "contradicts", "mentions"}


def test_a_hub_is_capped_by_words_in_common_and_what_was_dropped_is_recorded() -> None:
    few = graph(cap=4)
    found = few.candidates([("Where do fish live? Near thing 7?", "sea")])[0]
    assert len(found.triples) == 4
    assert found.found == 62 and found.dropped == 58
    ids = [few.graph.edge_ids[c.edge] for c in found.triples]
    assert ids[0] == "e3"  # joins a concept of the question to the option
    assert "h007" in ids  # shares a word with the question
    picks = selector(None, triples=few, parts="graph").select(
        [Asked("q", "b", "mcqa", "Where do fish live? Near thing 7?", ("sea",))]
    )[0]
    assert len(picks) == 3
    assert why(picks[0])["dropped"] == 58 and why(picks[0])["found"] == 62


# Judges and rows -------------------------------------------------------------------------------------------------


def test_a_cross_encoder_orders_text_and_triples_alike(corpus: Passages) -> None:
    settings = Settings("fusion", 4, 2, 3, judge=1)
    uscrake = Listing(settings, corpus, ENCODER, ENCODER, PairJudge(SharedWords()), graph())
    picks = [p for p in uscrake.select(QUESTIONS)[1] if p.option == "A"]
    expected = SharedWords().score([("Where do fish live? sea", p.text) for p in picks])
    assert [p.score for p in picks] == expected.tolist() == sorted(expected.tolist(), reverse=True)


def test_the_judge_has_its_share_in_the_order_of_text_and_none_where_text_stands_alone(corpus: Passages) -> None:
    own, judged = np.array([3.0, 1.0, 2.0, 0.0]), np.array([0.2, 0.4, 0.3, 0.9])
    assert joined(own, judged, 3, 1.0) == pytest.approx(judged)
    assert joined(own, judged, 3, 0.0) == pytest.approx([0.4, 0.2, 0.3, 0.9])
    assert joined(own, judged, 3, 0.5) == pytest.approx([0.3, 0.3, 0.3, 0.9])
    assert joined(own[:1], judged, 1, 0.0) == pytest.approx(judged)
    orders = []
    for share in (0.0, 1.0):
        picks = selector(corpus, triples=graph(), judge=share, R=6, k=6, grain="chunk").select(QUESTIONS)
        orders.append([[p for p in made if p.kind == "chunk"] for made in picks])
        alone = selector(corpus, judge=share, R=6, k=6, grain="chunk").select(QUESTIONS)
        for made in (alone, orders[0]):
            assert all(
                why(p)["chunk_rank"] == i
                for ps in made
                for o in "AB"
                for i, p in enumerate([p for p in ps if p.option == o], 1)
            )
    assert [p.parents for p in orders[0][0]] != [p.parents for p in orders[1][0]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": "moverscore"}, "weights: idf"),
        ({"cost": "jds"}, "did you mean 'jsd'"),
        ({"k": 0}, "keep at least one"),
        ({"judge": 1.5}, "from 0 to 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**{"cost": "fusion", "R": 4, "k": 2, "s": 3, **settings})


# Stance ---------------------------------------------------------------------------------------------------------


PRESSURE = "Which drug is used to treat high blood pressure?"


@pytest.mark.parametrize(
    ("option", "kind", "text", "expected"),
    [
        ("lisinopril", "chunk", "Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is a drug.", "mentions"),  # the kind of thing asked for is no topic
        ("lisinopril", "chunk", "Lisinopril is never used for high blood pressure.", "contradicts"),
        ("lisinopril", "chunk", "It is not for high blood pressure. Lisinopril treats high blood pressure.", "entails"),
        ("lisinopril", "chunk", "Lisinopril is old. High blood pressure is treated by others.", "mentions"),
        ("beta blocker", "chunk", "A blocker treats high blood pressure.", "mentions"),  # half of the option
        ("beta blocker", "triple", "beta blocker may treat high blood pressure", "entails"),
        ("", "chunk", "High blood pressure is treated.", "mentions"),
        ("lisinopril", "chunk", "", "mentions"),
    ],
)
def test_a_statement_must_name_the_option_and_what_is_asked(option: str, kind: str, text: str, expected: str) -> None:
    assert stance(PRESSURE, option, kind, text) == expected
