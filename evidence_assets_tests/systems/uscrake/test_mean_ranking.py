"""Pools that are narrowed by mean points: the bound, what is encoded, and the evidence."""

import fcntl
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence_assets.benchmarks.chunk_store import ReportProgress
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.methods import read_settings
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake, delete_orphans, find_orphans
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.token_cache import token_cache_folder
from evidence_assets.systems.uscrake import mean_ranking
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction
from evidence_assets.systems.uscrake.mean_ranking import MeanRanking, write_chunk_means
from evidence_assets.systems.uscrake.passages import EncodedPassages, Hypothesis, Passages, Pool, Query
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import MeanFirstSettings
from evidence_assets.transport import get_ground_cost
from evidence_assets_tests.conftest import World
from evidence_assets_tests.systems.selector_contract import SelectorCase, SelectorContract
from evidence_assets_tests.systems.uscrake import small_pages
from evidence_assets_tests.systems.uscrake.test_large_pools import (
    MAX_BYTES,
    N_CHUNKS,
    QUESTION,
    WideEncoder,
    open_passages,
    select,
    texts_of_chunks,
)
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder
from evidence_assets_tests.transport.random_texts import distance

PUBLISHED = {"cost": "jsd", "grain": "chunk", "titles": False, "links": 0, "R": 200, "k": 7, "parts": "chunks"}


def open_ranking(passages: Passages, encoder: PieceEncoder, **settings: Any) -> MeanRanking:
    mean_first = MeanFirstSettings(**{**PUBLISHED, **settings})
    parts = (passages.corpus, passages.store, encoder, "text", mean_first.titles)
    return MeanRanking(mean_first, EncodedPassages(*parts, start_report=passages.start_report))


def select_mean_first(passages: Passages, encoder: WideEncoder, **settings: Any) -> list[SelectedEvidence]:
    mean_first = MeanFirstSettings(**{**PUBLISHED, **settings})
    selector = UscrakeSelector(mean_first, passages, PieceEncoder(), encoder, LateInteraction(encoder))
    (evidence,) = selector.select([QUESTION])
    return evidence


def ids_of(evidence: list[SelectedEvidence]) -> list[tuple[str, str]]:
    return [(row.option, row.parents[0].id) for row in evidence]


@pytest.mark.parametrize(("grain", "titles"), [("chunk", False), ("sentence", True)])
def test_the_whole_pool_has_the_evidence_of_the_exact_variant(tmp_path: Path, grain: Any, titles: bool) -> None:
    passages, encoder = open_passages(tmp_path, 1 << 30)
    settings = {**PUBLISHED, "grain": grain, "titles": titles}
    assert select_mean_first(passages, encoder, **settings, exact_share=1) == select(passages, encoder, **settings)


def test_only_the_share_with_the_least_bounds_is_encoded_and_ranked(tmp_path: Path) -> None:
    passages, encoder = open_passages(tmp_path, MAX_BYTES)
    ranking = open_ranking(passages, encoder)
    everything = Pool(np.arange(N_CHUNKS), np.zeros(N_CHUNKS))
    expected = set()
    nearest_of_label = {}
    for label, option in QUESTION.hypotheses:
        (tokens,) = encoder.encode_tokens([QUESTION.query(option)])
        query = Query(QUESTION.query(option), tokens)
        nearest_of_label[label] = np.argsort(ranking.bounds(query, everything), kind="stable")[:30]
        hypothesis = Hypothesis(QUESTION, label, option, query, query)
        (narrowed,) = ranking.narrow([hypothesis], [everything])
        assert narrowed.chunks.tolist() == sorted(nearest_of_label[label].tolist())
        (whole,) = open_ranking(passages, encoder, exact_share=1).narrow([hypothesis], [everything])
        assert whole is everything
        expected |= {texts_of_chunks()[i] for i in nearest_of_label[label]}
    passages.store.tokens(encoder)._max_bytes = 0
    encoder.encoded_texts.clear()
    evidence = select_mean_first(passages, encoder, R=N_CHUNKS, exact_share=0.1)
    assert Counter(text for text in encoder.encoded_texts if text in texts_of_chunks()).keys() <= expected
    for label, chunk in ids_of(evidence):
        assert int(chunk[1:]) in nearest_of_label[label]
    exact = ids_of(select(passages, encoder, **{**PUBLISHED, "R": N_CHUNKS}))
    assert len(set(ids_of(evidence)) & set(exact)) > 0.8 * len(exact)
    few = ids_of(select_mean_first(passages, encoder, exact_share=0.001))
    assert Counter(label for label, _ in few) == dict.fromkeys(QUESTION.labels, PUBLISHED["k"]), "at least k are ranked"


def test_the_file_of_means_is_computed_once_and_has_the_same_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mean_ranking, "CHUNKS_PER_BLOCK", 128)
    passages, encoder = open_passages(tmp_path / "first", MAX_BYTES)
    ranking = open_ranking(passages, encoder)
    pool = Pool(np.arange(N_CHUNKS), np.zeros(N_CHUNKS))
    (tokens,) = encoder.encode_tokens(["honey of bees"])
    query = Query("honey of bees", tokens)
    bounds = ranking.bounds(query, pool)
    assert Counter(Counter(t for t in encoder.encoded_texts if t in texts_of_chunks()).values()) == {1: N_CHUNKS}
    assert max(encoder.file_bytes) <= 2 * MAX_BYTES
    encoder.encoded_texts.clear()
    assert open_ranking(passages, encoder).bounds(query, pool).tolist() == bounds.tolist() and not encoder.encoded_texts
    monkeypatch.setattr(mean_ranking, "CHUNKS_PER_BLOCK", 50)
    others, other_encoder = open_passages(tmp_path / "second", 0)
    again = open_ranking(others, other_encoder)
    again.bounds(query, pool)
    assert again.path.name == ranking.path.name and again.path.read_bytes() == ranking.path.read_bytes()
    with_titles = open_ranking(passages, encoder, titles=True)
    unscaled = open_ranking(passages, encoder, cost="jsd_unscaled")
    assert len({ranking.path, with_titles.path, unscaled.path}) == 3


@pytest.mark.parametrize("cut", [0, 1, 77])
def test_a_killed_pass_over_the_corpus_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    monkeypatch.setattr(mean_ranking, "CHUNKS_PER_BLOCK", 100)
    pool = Pool(np.arange(N_CHUNKS), np.zeros(N_CHUNKS))
    whole, encoder = open_passages(tmp_path / "whole", MAX_BYTES)
    (tokens,) = encoder.encode_tokens(["honey of bees"])
    query = Query("honey of bees", tokens)
    expected = open_ranking(whole, encoder)
    expected.bounds(query, pool)

    passages, encoder = open_passages(tmp_path / "killed", MAX_BYTES)
    encoded_counts = list[int]()

    def end_after_two_blocks(n_encoded: int, n_chunks: int) -> None:
        encoded_counts.append(n_encoded)
        if len(encoded_counts) == 2:
            raise KeyboardInterrupt

    counts_before = list[int]()

    def start_report(n_before: int) -> ReportProgress:
        counts_before.append(n_before)
        return end_after_two_blocks

    passages = replace(passages, start_report=start_report)
    with pytest.raises(KeyboardInterrupt):
        open_ranking(passages, encoder).bounds(query, pool)
    ranking = open_ranking(passages, encoder)
    part = ranking.path.with_suffix(".part")
    os.truncate(part, part.stat().st_size - cut)
    ranking.bounds(query, pool)
    assert ranking.path.read_bytes() == expected.path.read_bytes() and not part.exists()
    assert encoded_counts[:2] == [100, 200] and encoded_counts[2] == (300 if cut == 0 else 299), (
        "a row that was cut is computed again"
    )
    assert counts_before == [0, encoded_counts[2] - 100], "the rate leaves out what was there before"


def test_processes_do_not_compute_the_means_twice(tmp_path: Path) -> None:
    passages, encoder = open_passages(tmp_path, MAX_BYTES)
    encoded_counts = list[int]()
    reporting = replace(passages, start_report=lambda _: lambda n_encoded, _: encoded_counts.append(n_encoded))
    rankings = [open_ranking(reporting, encoder) for _ in range(4)]

    def write(ranking: MeanRanking) -> None:  # a cached property would let one thread in at a time
        write_chunk_means(ranking.path, ranking._passages, ranking._cost)

    with ThreadPoolExecutor(4) as threads:
        [*threads.map(write, rankings)]
    assert encoded_counts == [N_CHUNKS] and len([*rankings[0].path.parent.glob(f"{rankings[0].path.stem}*")]) == 1


def test_gc_deletes_means_of_other_chunks_or_another_model_unless_they_are_written(tmp_path: Path, lake: Lake) -> None:
    passages, encoder = open_passages(tmp_path / "pages", MAX_BYTES)
    passages.store.cache_folder = token_cache_folder(lake, "pages")
    path = open_ranking(passages, encoder).path
    (path.parent / "encoder").mkdir(parents=True)
    old, old_part, written_part = (path.with_name(f"{'0' * 32}-{name}") for name in ("a.npy", "b.part", "c.part"))
    files = [path, path.with_suffix(".part"), path.parent / "encoder" / "a.arrow", old, old_part, written_part]
    for file in files:
        file.write_bytes(b"1234")
    assets = ["corpus/pages/token_store"]
    assert not find_orphans(lake, assets), "without a token store, none is known to be old"
    store = lake.index_folder(*assets)
    store.mkdir(parents=True)
    (store / "meta.json").write_text(json.dumps({"built_from": passages.store.meta.built_from}))
    with written_part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert find_orphans(lake, assets) == [(old, 4), (old_part, 4)]
        delete_orphans(find_orphans(lake, assets))
    assert [file.exists() for file in files] == [True, True, True, False, False, True]
    assert find_orphans(lake, assets) == [(written_part, 4)], "its writer has ended"
    assert (path.parent, 16) in find_orphans(lake, ["corpus/others/chunks"])


@pytest.mark.parametrize("cost", ["jsd", "jsd_unscaled"])
def test_stored_means_bound_the_exact_costs_of_chunks(tmp_path: Path, cost: str) -> None:
    passages = small_pages.passages(tmp_path)
    ranking = open_ranking(passages, small_pages.ENCODER, cost=cost)
    encoded = EncodedPassages(passages.corpus, passages.store, small_pages.ENCODER)
    everything = np.arange(len(passages.corpus))
    texts = encoded.texts(everything)
    for text in ("salty fish live in the sea", "honey", "sweet nectar of blossoms"):
        query = small_pages.query(text)
        measure = get_ground_cost(cost).measure(query.tokens.vectors, encoded.token_weights(query.tokens.tokens))
        exact = np.array([distance(measure, texts.measure(i, cost), cost) for i in everything.tolist()])
        bounds = ranking.bounds(query, Pool(everything, np.zeros(len(everything))))
        assert (bounds <= exact + 1e-5).all(), "means are rounded to float16"


def test_a_query_without_tokens_and_an_empty_corpus_have_no_evidence(tmp_path: Path) -> None:
    settings = MeanFirstSettings(**{**PUBLISHED, "k": 1})
    empty = Question("q", "b", "mcqa", "", ("", " "))
    for name, pages in (("pages", small_pages.PAGES), ("none", {})):
        passages = small_pages.passages(tmp_path / name, pages)
        encoder = small_pages.ENCODER
        selector = UscrakeSelector(settings, passages, encoder, encoder, LateInteraction(encoder))
        assert list(selector.select([empty])) == [[]]
        assert bool(next(selector.select(small_pages.QUESTIONS))) == bool(pages)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cost": "cosine"}, "cosine has no lower bound by mean points"),
        ({"cost": "fusion"}, "fusion has no lower bound by mean points"),
        ({"cost": "jsd", "exact_share": 0}, "exact_share: x: Input should be greater than 0"),
        ({"cost": "jsd", "exact_share": 1.5}, "exact_share: x: Input should be less than or equal to 1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_settings(MeanFirstSettings, settings, owner="x", defaults={})


class TestNarrowedPools(SelectorContract):
    """The contract of selectors on a benchmark with a corpus, a tenth of which is more than k chunks."""

    @pytest.fixture(scope="class")
    @classmethod
    def case(cls, made_world: World) -> SelectorCase:
        (variant,) = (each for each in variants_of("uscrake") if each.name == "uscrake_mean_first")
        few = variant.model_copy(update={"parameters": variant.parameters | {"k": 2}})
        return SelectorCase.open(few, Lake(made_world.root / "data_lake"), "sample_mcqa")
