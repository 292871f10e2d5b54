"""USCRaKE on a small corpus and graph: exact rankings, citations that stand where they say, defined edge cases."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.methods import read_settings
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.maxsim import maxsim_scores
from evidence_assets.systems.uscrake import chunk_ranking
from evidence_assets.systems.uscrake.chunk_ranking import ChunkRanker, boost_linked_texts, find_title_links
from evidence_assets.systems.uscrake.evidence_judges import PairJudge, blend_scores
from evidence_assets.systems.uscrake.passages import EncodedPassages, Passages, Pool, Query
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport import TokenMeasure, get_ground_cost
from evidence_assets.transport.divergence import jensen_shannon
from evidence_assets_tests.retrieval import plain_bm25
from evidence_assets_tests.systems.small_models import SharedWordReranker
from evidence_assets_tests.systems.uscrake.small_pages import (
    ENCODER,
    PAGES,
    QUESTIONS,
    graph,
    passages,
    query,
    reasons_of,
    selector,
)
from evidence_assets_tests.transport.random_texts import distance

COSTS = ("fusion", "jsd", "moverscore")
"""Three that are ranked in three ways; the contract of ground costs covers the others."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Passages:
    return passages(tmp_path_factory.mktemp("corpus"))


def scores_of_all(corpus: Passages, query: Query, **settings: Any) -> npt.NDArray[np.float64]:
    """Scores of all chunks for a query."""
    encoded = EncodedPassages(corpus.corpus, corpus.store, ENCODER)
    ranker = ChunkRanker(UscrakeSettings(**{"k": len(PAGES), **settings}), encoded)
    every = np.arange(len(corpus.corpus))
    best = ranker.add(query, ranker.start(query), Pool(every, np.zeros(len(every))), encoded.texts(every))
    best = ranker.finish(query, best)
    scores = np.full(len(every), -np.inf)
    scores[best.chunks] = best.scores
    return scores


def distances_of_pages(text: str) -> dict[str, float]:
    """Negative cosines of the pages' vectors and that of a text."""
    vectors = ENCODER.encode_sentences(list(PAGES.values())).astype(np.float16).astype(np.float64)
    return dict(zip(PAGES, -(vectors @ ENCODER.encode_sentences([text])[0]), strict=True))


def assert_nearest_first(
    picks: list[SelectedEvidence], label: str, distances: dict[str, float], k: int, within: float
) -> None:
    """The picks of an option are the k chunks of the smallest distances, in their order and with their scores."""
    rows = sorted((p for p in picks if p.option == label), key=lambda p: reasons_of(p)["chunk_rank"])
    expected = sorted(distances, key=lambda name: (distances[name], name))[:k]
    assert [p.parents[0].id for p in rows] == expected
    assert [reasons_of(p)["chunk_score"] for p in rows] == pytest.approx([-distances[n] for n in expected], abs=within)


def naive_tokens(text: str) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Pieces of a text and their vectors."""
    (tokens,) = ENCODER.encode_tokens([text])
    return list(tokens.tokens), tokens.vectors.astype(np.float64)


@pytest.mark.parametrize(("cost", "weights"), [("jsd", "text"), ("cosine", "corpus")])
def test_the_kept_chunks_are_those_of_a_naive_loop_over_the_pool(corpus: Passages, cost: Any, weights: str) -> None:
    ground = get_ground_cost(cost)
    tokens_of_pages = [naive_tokens(text)[0] for text in PAGES.values()]

    def measure(names: list[str], vectors: npt.NDArray[np.floating[Any]]) -> TokenMeasure:
        masses = plain_bm25.token_weights(names, tokens_of_pages)
        if weights == "corpus":
            masses = [plain_bm25.idf(name, tokens_of_pages) * plain_bm25.total(name, tokens_of_pages) for name in names]
        return ground.measure(vectors, masses)

    published = selector(corpus, cost=cost, weights=weights, grain="chunk", R=3, k=3)
    for question, picks in zip(QUESTIONS, published.select(QUESTIONS), strict=True):
        for label, option in question.hypotheses:
            query_text, distances = question.query(option), {}
            from_query = distances_of_pages(query_text)
            for name in sorted(PAGES, key=from_query.__getitem__)[:3]:
                names, vectors = naive_tokens(PAGES[name])
                y = measure(names, vectors.astype(np.float16))
                distances[name] = distance(measure(*naive_tokens(query_text)), y, cost)
            assert_nearest_first(picks, label, distances, 3, 1e-4)


def test_plain_cosine_keeps_the_chunks_of_the_nearest_vectors_in_their_order(corpus: Passages) -> None:
    published = selector(corpus, cost="embedding", grain="chunk", R=5, k=3)
    for question, picks in zip(QUESTIONS, published.select(QUESTIONS), strict=True):
        for label, option in question.hypotheses:
            assert_nearest_first(picks, label, distances_of_pages(question.query(option)), 3, 1e-6)


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
    sugar = sorted(PAGES).index("One")
    ((piece,), vectors) = naive_tokens(PAGES["One"])
    z = vectors[0].astype(np.float16).astype(np.float64) * corpus.store.pieces.token_weights([piece])[0]
    q = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    scores = scores_of_all(corpus, query_of_test, cost="jsd", k=len(PAGES), titles=False)
    assert -scores[sugar] == pytest.approx(float(jensen_shannon(p, q)), abs=1e-9)


def test_fusion_is_the_mean_of_late_interaction_and_exact_transport(
    corpus: Passages, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_of_test, encoded = query("salty fish live in the sea"), EncodedPassages(corpus.corpus, corpus.store, ENCODER)
    tokens, texts = query_of_test.tokens, encoded.texts(np.arange(len(corpus.corpus)))
    measure = get_ground_cost("cosine").measure(tokens.vectors, encoded.token_weights(tokens.tokens))
    costs = np.array([distance(measure, texts.measure(i, "cosine"), "cosine") for i in range(len(texts))])
    late = maxsim_scores(tokens.vectors, texts)
    scores = scores_of_all(corpus, query_of_test, links=0, titles=False)
    np.testing.assert_allclose(scores, (late + 1 - costs) / 2, atol=1e-6)
    monkeypatch.setattr(chunk_ranking, "MAX_TRANSPORTED", 2)
    some = scores_of_all(corpus, query_of_test, links=0, titles=False)
    assert set(np.flatnonzero(np.isfinite(some))) == set(np.argsort(-late)[:2])
    assert some[np.isfinite(some)] == pytest.approx(scores[np.isfinite(some)])


def test_a_title_is_ranked_as_words_of_its_text(corpus: Passages, tmp_path: Path) -> None:
    untitled = passages(tmp_path, {"x": "Bees fly."}, titled=False)
    for some in (corpus, untitled):
        every, weigh = np.arange(len(some.corpus)), some.store.pieces.token_weights
        texts = EncodedPassages(some.corpus, some.store, ENCODER, titles=True).texts(every).select(every)
        for i, name in enumerate(some.corpus.titles(every)):
            rows = slice(int(texts.offsets[i]), int(texts.offsets[i + 1]))
            (title, of_title), (pieces, vectors) = naive_tokens(name), naive_tokens(*some.corpus.texts([i]))
            np.testing.assert_array_equal(texts.vectors[rows], np.array([*of_title, *vectors], np.float16))
            assert texts.weights[rows].tolist() == [*weigh(title), *weigh(pieces)]


@pytest.mark.parametrize(("cost", "grain"), [("fusion", "sentence"), ("jsd", "chunk"), ("moverscore", "sentence")])
def test_every_citation_matches_its_location(corpus: Passages, cost: Any, grain: Any) -> None:
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
        for label in {p.option for p in picks}:
            scores = [p.score for p in picks if p.option == label]
            assert scores == sorted(scores, reverse=True)


def test_tokens_that_one_variant_encoded_serve_the_next(tmp_path: Path) -> None:
    corpus = passages(tmp_path)
    assert list(selector(corpus, triples=graph()).select(QUESTIONS))
    n_encoded = len(ENCODER.encoded_texts)
    assert list(selector(corpus, triples=graph(), k=1).select(QUESTIONS))
    assert set(ENCODER.encoded_texts[n_encoded:]).isdisjoint(PAGES.values())


@pytest.mark.parametrize("cost", COSTS)
def test_edge_cases_are_defined(corpus: Passages, tmp_path: Path, cost: Any) -> None:
    stop_words = Question("q", "b", "mcqa", "is it in the", ("or", ""))
    picks = next(iter(selector(corpus, cost=cost, R=2, k=9).select([stop_words])))
    assert {p.option for p in picks} == {"A", "B"}  # a query of stop words only still ranks its pool
    no_token = Question("q", "b", "mcqa", " ", ("", " "))
    assert list(selector(corpus, cost=cost).select([no_token])) == [[]]
    assert list(selector(passages(tmp_path, {}), cost=cost).select(QUESTIONS)) == [[], []]


@given(st.data())
def test_links_never_change_the_best_place_nor_raise_redundant_evidence(data: st.DataObject) -> None:
    n, words = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    cosines = st.lists(st.floats(-1, 1), min_size=words * n, max_size=words * n)
    nearest = np.array(data.draw(cosines)).reshape(words, n)
    scores = np.array(data.draw(st.lists(st.floats(-1, 1) | st.just(-np.inf), min_size=n, max_size=n)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    weight = data.draw(st.floats(0.1, 9))
    links = find_title_links(
        [f"title {i}" for i in range(n)], [" ".join(f"title {j}" for i, j in pairs if i == x) for x in range(n)]
    )
    pairs = [(i, j) for i, j in pairs if i != j]
    assert set(links) == set(pairs)
    selections = boost_linked_texts(scores, nearest, links, weight)
    assert (selections >= scores).all() and selections.argmax() == scores.argmax()
    for j in range(n):
        better = [i for i, target in pairs if target == j and scores[i] > scores[j]]
        assert not better or selections[j] < max(scores[i] for i in better)
        if all((nearest[:, j] <= nearest[:, i]).all() for i in better):
            assert selections[j] == scores[j]


# Graph -----------------------------------------------------------------------------------------------------------


def test_triples_accompany_text_with_the_rule_that_selected_them(corpus: Passages) -> None:
    picks = list(selector(corpus, triples=graph()).select(QUESTIONS))[1]
    fish = next(p for p in picks if p.parents[0].id == "e3" and p.option == "A")
    assert fish.text == "fish is at location of sea" and fish.parents[0].kind == "edge"
    reason = reasons_of(fish)
    assert (reason["rule"], reason["link_score"], reason["triple"]) == ("exact", 1.0, ["fish", "AtLocation", "sea"])
    assert {p.kind for p in picks} == {"sentence", "triple"}
    assert all(sum(p.kind == "triple" for p in picks if p.option == label) <= 3 for label in "AB")


# Judges and rows -------------------------------------------------------------------------------------------------


def test_a_cross_encoder_orders_text_and_triples_alike(corpus: Passages) -> None:
    settings = UscrakeSettings("fusion", 4, 2, 3, judge=1)
    uscrake = UscrakeSelector(settings, corpus, ENCODER, ENCODER, PairJudge(SharedWordReranker()), graph())
    picks = [p for p in list(uscrake.select(QUESTIONS))[1] if p.option == "A"]
    expected = SharedWordReranker().score([("Where do fish live? sea", p.text) for p in picks])
    assert [p.score for p in picks] == expected.tolist() == sorted(expected.tolist(), reverse=True)


def test_the_judge_has_its_share_in_the_order_of_text() -> None:
    own_scores, judged = np.array([3.0, 1.0, 2.0]), np.array([0.2, 0.4, 0.3])
    assert blend_scores(own_scores, judged, 1.0) == pytest.approx(judged)
    assert blend_scores(own_scores, judged, 0.0) == pytest.approx([0.4, 0.2, 0.3])
    assert blend_scores(own_scores, judged, 0.5) == pytest.approx([0.3, 0.3, 0.3])
    assert blend_scores(own_scores[:1], judged[:1], 0.0) == pytest.approx(judged[:1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": "moverscore", "weights": "corpus"}, "remove weights"),
        ({"cost": "embedding"}, "grain: chunk"),
        ({"cost": "jds"}, "did you mean 'jsd'"),
        ({"links": -1}, "greater than or equal to 0"),
        ({"k": 0}, "greater than 0"),
        ({"judge": 1.5}, "less than or equal to 1"),
    ],
)
def test_settings_without_effect_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_settings(UscrakeSettings, settings, owner="a variant", defaults={})


# The real encoder ------------------------------------------------------------------------------------------------


def test_layers_are_the_networks_hidden_states() -> None:
    texts = ["Hyponatraemia is treated with tolvaptan.", "", "Bees make honey!", "naïve café-owners, e.g. ours"]
    encoder: Any = load_encoder(EMBEDDED_ENCODER, dtype="float32", device="cpu")
    last, five = encoder.encode_tokens(texts), encoder.token_layers(texts, 5)
    model, tokenizer = encoder._model.network, encoder._tokenizer
    for text, one, layered in zip(texts, last, five, strict=True):
        assert layered.vectors.shape == (len(one.tokens), 5 * 384)
        np.testing.assert_allclose(layered.vectors[:, -384:], one.vectors, atol=1e-5)
        assert layered.tokens == one.tokens and (layered.offsets == one.offsets).all()
        with torch.inference_mode():
            ids = torch.tensor([tokenizer.encode(text).ids])
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        for back in range(5):
            expected = states[-5 + back][0, 1:-1].numpy()
            np.testing.assert_allclose(layered.vectors[:, 384 * back : 384 * (back + 1)], expected, atol=1e-4)
    with pytest.raises(BadInput, match="has 7 layers"):
        encoder.token_layers(texts, 8)
