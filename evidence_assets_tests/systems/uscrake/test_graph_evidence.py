"""Triples of USCRaKE: the cap, and what the published variants do without it."""

import math
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.reasoning.questions import Question
from evidence_assets.systems.uscrake import concept_triples, evidence_judges
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.evidence_judges import JudgedText, LateInteraction
from evidence_assets.systems.uscrake.passages import Query
from evidence_assets.systems.uscrake.settings import MAX_TRIPLES, UscrakeSettings
from evidence_assets_tests.graphs.small_graph import graph_of, with_vectors
from evidence_assets_tests.systems.small_models import WordEncoder
from evidence_assets_tests.systems.uscrake.small_pages import ENCODER, graph, reasons_of, selector
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

HUB = Question("q", "b", "mcqa", "Where do fish live? Near thing 7?", ("sea",))
"""Its option is a hub of 62 triples."""


def test_a_hub_is_capped_by_words_in_common_and_what_was_dropped_is_recorded() -> None:
    capped = graph(cap=4)
    (candidates,) = capped.candidates([(HUB.text, "sea")])
    assert (len(candidates.triples), candidates.total) == (4, 62)
    ids = [capped.graph.edge_ids[c.edge] for c in candidates.triples]
    assert ids[0] == "e3", "joins a concept of the question to the option"
    assert "h007" in ids, "shares a word with the question"
    of_graph = selector(None, triples=capped, parts="graph")
    picks = next(iter(of_graph.select([HUB])))
    assert len(picks) == 3 and (reasons_of(picks[0])["dropped"], reasons_of(picks[0])["found"]) == (58, 62)


class RecordingJudge(LateInteraction):
    """Late interaction that records the texts that it scores."""

    def __init__(self) -> None:
        super().__init__(ENCODER)
        self.texts: list[str] = []
        self.calls = 0

    def score(self, requests: Any) -> list[npt.NDArray[np.float64]]:
        self.calls += any(items for _, items in requests)
        self.texts += [item.text for _, items in requests for item in items]
        return super().score(requests)


def test_as_published_every_triple_is_scored_by_the_judge() -> None:
    judge = RecordingJudge()
    settings = {"parts": "graph", "triples_judged": 0}
    published = selector(
        None, triples=graph(UscrakeSettings(triples_judged=0).max_triples), judged_by=judge, **settings
    )
    picks = next(iter(published.select([HUB])))
    sentences = {"fish is at location of sea", "salt is at location of sea"}
    sentences |= {f"sea is related to thing {i}" for i in range(60)}
    assert set(judge.texts) == sentences and len(picks) == 3
    assert {reasons_of(pick)["dropped"] for pick in picks} == {0}
    assert (UscrakeSettings(triples_judged=0, s=3).max_triples, UscrakeSettings(s=3).max_triples) == (MAX_TRIPLES, 30)


def test_questions_are_judged_in_batches_of_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [replace(HUB, question_id=f"q{i}", text=f"{HUB.text} Near thing {i}?") for i in range(5)]
    judged, picks = [], []
    for limit in (1, 100, 4096):
        monkeypatch.setattr(concept_triples, "TRIPLES_PER_BATCH", limit)
        judge = RecordingJudge()
        picks.append(list(selector(None, triples=graph(), judged_by=judge, parts="graph").select(questions)))
        judged.append(judge.calls)
    assert picks[0] == picks[1] == picks[2] and all(picks[0])
    assert judged[0] > judged[1] > judged[2] == 1


class CountingEncoder(PieceEncoder):
    """Records how many sentences each call has."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self.sizes.append(len(texts))
        return super().encode_tokens(texts)


def test_the_sentences_of_one_question_are_encoded_once_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    (stored,) = ENCODER.encode_tokens(["salt of the sea"])
    sea, land = (Query(text, ENCODER.encode_tokens([text])[0]) for text in ("fish of the sea", "plain, rain"))
    texts = [JudgedText(f"sea is related to thing {i}") for i in range(10)]
    requests = [
        (sea, [*texts[:7], JudgedText("salt of the sea", stored.vectors)]),
        (land, []),
        (land, texts[::-1]),
        (Query("", ENCODER.encode_tokens([""])[0]), texts[:2]),
    ]
    scores = []
    for size in (1, 4, 7, 8192):
        monkeypatch.setattr(evidence_judges, "TEXTS_PER_BLOCK", size)
        encoder = CountingEncoder()
        scores.append(np.concatenate(LateInteraction(encoder).score(requests)))
        assert sum(encoder.sizes) == 10 and max(encoder.sizes) <= size
    whole = scores[-1]
    assert len(whole) == 8 + 10 + 2 and len(set(whole)) > 8
    assert all(np.allclose(each, whole, rtol=1e-6, atol=0) for each in scores), "in single precision"


class NamedGraph:
    """Names of a graph's nodes."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)


def test_words_are_weighed_for_the_neighbours_alone() -> None:
    """The rarity of a word is log(1 + nodes / nodes with the word); the index has no list for each word."""
    names = [f"{'Rivers' if i % 2 else 'river of the'} number{i} river" for i in range(20_000)]
    triples = ConceptTriples.__new__(ConceptTriples)
    triples.graph = cast(KnowledgeGraph, NamedGraph(names))
    nodes = np.array([7, 4, 19_999, 7])
    everywhere, once = math.log(2), math.log(1 + 20_000)
    expected = [round(everywhere + rare, 9) for rare in (once, 0, once, once)]
    tracemalloc.start()
    assert triples._word_weights("The river: number7 of number19999s, other words", nodes).tolist() == expected
    index_size, index_peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    assert triples._word_weights("river number7", nodes[1:]).tolist() == [expected[1], expected[1], expected[0]]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index_peak < 7 << 20 and peak - index_size < 50_000


def test_as_published_no_concept_is_linked_by_meaning() -> None:
    springs = with_vectors(graph_of(["hot spring", "steam"], ["Causes"], [(0, 0, 1)]))
    encoder = WordEncoder()
    question = ("Which of these?", "spring, hot")  # the vector of "hot spring", but another spelling
    rules = {}
    for by_meaning in (True, False):
        triples = ConceptTriples(springs, load_vocabulary(), encoder, cap=9, by_meaning=by_meaning)
        (candidates,) = triples.candidates([question])
        rules[by_meaning] = {c.link.rule for c in candidates.triples}
    assert rules == {True: {"embedding"}, False: set()}
