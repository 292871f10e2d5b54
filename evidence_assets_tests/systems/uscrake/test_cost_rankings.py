"""One pass ranks pools by several costs: its rows are those of each cost alone, and every chunk is encoded once."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.lake import blocks
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.token_store import TokenTexts
from evidence_assets.systems.uscrake import chunk_ranking
from evidence_assets.systems.uscrake import passages as passages_module
from evidence_assets.systems.uscrake.cost_rankings import (
    TABLE,
    CostRankings,
    StoredRankings,
    keep_most_chunks,
    ranking_rows,
)
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport import TokenPool
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.uscrake import small_pages
from evidence_assets_tests.systems.uscrake.test_large_pools import (
    GROUP_BYTES,
    MAX_BYTES,
    QUESTION,
    WideEncoder,
    open_passages,
    texts_of_chunks,
)
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

ASSET = "chunk_rankings/mcqa/x"
PARTITION = "b|0"
PRINTED: dict[str, Any] = {"parts": "chunks", "grain": "chunk", "titles": False, "links": 0, "judge": 1}
COSTS = ("jsd", "jsd_unscaled", "cosine", "euclidean", "euclidean_unscaled", "maxsim", "fusion")


def build_settings(R: int, k: int) -> list[UscrakeSettings]:
    """A ranking by each cost, and one by other weights."""
    rankings = [{"cost": cost} for cost in COSTS] + [{"cost": "jsd", "weights": "corpus"}]
    return [UscrakeSettings(**{"R": R, "k": k, **PRINTED, **each}) for each in rankings]


def select_alone(
    settings: UscrakeSettings, passages: Passages, encoder: PieceEncoder, questions: Sequence[Question]
) -> list[list[SelectedEvidence]]:
    """Evidence of a variant that ranks by its cost alone."""
    selector = UscrakeSelector(settings, passages, PieceEncoder(), encoder, LateInteraction(encoder))
    return list(selector.select(questions))


def rank(
    settings: Sequence[UscrakeSettings],
    passages: Passages,
    encoder: PieceEncoder,
    questions: Sequence[Question],
    context: StageContext | None = None,
) -> StageOutput:
    previous = context.previous_output if context else None
    rankings = CostRankings(passages, PieceEncoder(), encoder)
    return ranking_rows(rankings, keep_most_chunks(settings), questions, previous)


def read(
    rows: pl.DataFrame, settings: UscrakeSettings, passages: Passages, questions: Sequence[Question]
) -> list[list[SelectedEvidence]]:
    """Evidence of a variant that reads the rows of a pass."""
    return list(StoredRankings(rows, settings, passages.corpus, ASSET).select(questions))


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages_module, "GROUP_BYTES", GROUP_BYTES)
    monkeypatch.setattr(chunk_ranking, "MAX_TRANSPORTED", 20)


def test_every_cost_has_the_evidence_of_ranking_by_it_alone(tmp_path: Path) -> None:
    passages = small_pages.passages(tmp_path)
    nothing = Question("q3", "b", "mcqa", "", ("", "sugar"))
    questions = [*small_pages.QUESTIONS, nothing]
    settings = build_settings(R=4, k=2)
    rows = as_stored(TABLE, rank(settings, passages, small_pages.ENCODER, questions).rows)
    assert rows.height == len(settings) * len(questions)
    evidence = [read(rows, each, passages, questions) for each in settings]
    assert evidence == [select_alone(each, passages, small_pages.ENCODER, questions) for each in settings]
    assert {row.option for row in evidence[0][2]} == {"B"}, "the other option has no words"
    assert len({str([row.score for row in rows[0]]) for rows in evidence}) == len(settings), "each is a ranking"


def encoded_chunks(encoder: WideEncoder) -> Counter[str]:
    """How often each chunk was encoded."""
    return Counter(text for text in encoder.encoded_texts if text in set(texts_of_chunks()))


@pytest.mark.usefixtures("small_groups")
def test_every_chunk_of_a_large_pool_is_encoded_once_for_all_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = build_settings(R=200, k=7)
    passages, encoder = open_passages(tmp_path / "together", 0)
    rows = as_stored(TABLE, rank(settings, passages, encoder, [QUESTION]).rows)
    times = encoded_chunks(encoder)
    assert len(times) > 200 and set(times.values()) == {1}, "without a cache of tokens"
    monkeypatch.setattr(passages_module, "GROUP_BYTES", 1 << 30)
    alone, one_encoder = open_passages(tmp_path / "alone", 1 << 30)
    for each in settings:
        assert read(rows, each, passages, [QUESTION]) == select_alone(each, alone, one_encoder, [QUESTION]), each


@pytest.mark.usefixtures("small_groups")
def test_all_costs_have_the_disk_and_memory_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded_bytes: list[int] = []

    def record_select(texts: TokenTexts, numbers: Any, select: Any = TokenTexts.select) -> TokenPool:
        pool: TokenPool = select(texts, numbers)
        loaded_bytes.append(pool.vectors.nbytes)
        return pool

    monkeypatch.setattr(TokenTexts, "select", record_select)
    monkeypatch.setattr("evidence_assets.retrieval.token_cache.TEXTS_PER_SEGMENT", 8)
    passages, encoder = open_passages(tmp_path, MAX_BYTES)
    rank(build_settings(R=200, k=7), passages, encoder, [QUESTION])
    encoder.record()
    assert 0 < max(encoder.file_bytes) <= MAX_BYTES
    assert max(encoder.deleted_bytes) <= 1.3 * GROUP_BYTES and encoder.deleted_bytes[-1] == 0
    assert max(loaded_bytes) <= 1.1 * GROUP_BYTES


class FailingEncoder(PieceEncoder):
    """Fails at the text of one question."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        if any(text.startswith(small_pages.QUESTIONS[1].text) for text in texts):
            raise KeyboardInterrupt
        return super().encode_tokens(texts)


def open_context(folder: Path) -> StageContext:
    return StageContext(Lake.create(folder), TABLE, ASSET, PARTITION)


def write(context: StageContext, output: StageOutput) -> bytes:
    """The file of the written rows."""
    assert output.lineage is not None
    context.lake.write(ASSET, PARTITION, {TABLE: output.rows, "lineage_edges": output.lineage})
    return context.lake.path(TABLE, ASSET, PARTITION).read_bytes()


def test_a_killed_pass_continues_with_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.0)
    monkeypatch.setattr(passages_module, "QUESTIONS_PER_BATCH", 1)
    passages = small_pages.passages(tmp_path)
    settings = build_settings(R=4, k=2)
    questions = small_pages.QUESTIONS
    whole = open_context(tmp_path / "whole")
    expected = write(whole, rank(settings, passages, PieceEncoder(), questions, whole))
    killed = open_context(tmp_path / "killed")
    with pytest.raises(KeyboardInterrupt):
        rank(settings, passages, FailingEncoder(), questions, killed)
    output = rank(settings, passages, PieceEncoder(), questions, open_context(tmp_path / "killed"))
    assert output.reused == len(settings) and output.metadata["questions_ranked"] == 1
    assert write(killed, output) == expected


def test_another_cost_is_ranked_without_the_stored_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passages = small_pages.passages(tmp_path)
    settings = build_settings(R=4, k=2)
    questions = small_pages.QUESTIONS
    context = open_context(tmp_path / "lake")
    write(context, rank(settings[:-1], passages, PieceEncoder(), questions, context))
    stored = context.previous_rows()
    ranked: list[Sequence[UscrakeSettings]] = []

    def record_rank(
        rankings: CostRankings,
        questions: Sequence[Question],
        costs: Sequence[UscrakeSettings],
        rank: Any = CostRankings.rank,
    ) -> Any:
        ranked.append(costs)
        return rank(rankings, questions, costs)

    monkeypatch.setattr(CostRankings, "rank", record_rank)
    output = rank(settings, passages, PieceEncoder(), questions, context)
    assert ranked == [[settings[-1]]] and output.reused == stored.height
    write(context, output)
    assert context.previous_rows().filter(~((pl.col("cost") == "jsd") & (pl.col("weights") == "corpus"))).equals(stored)
    again = rank(settings, passages, PieceEncoder(), questions, context)
    assert again.reused == len(settings) * len(questions) and again.metadata["questions_ranked"] == 0


def test_a_question_keeps_its_rows_where_another_lacks_more_costs(tmp_path: Path) -> None:
    passages = small_pages.passages(tmp_path)
    settings = build_settings(R=4, k=2)
    questions = small_pages.QUESTIONS
    context = open_context(tmp_path / "lake")
    write(context, rank(settings[:-1], passages, PieceEncoder(), questions[:1], context))
    output = rank(settings, passages, PieceEncoder(), questions, context)
    assert output.reused == len(settings) - 1
    expected = rank(settings, passages, PieceEncoder(), questions)
    assert as_stored(TABLE, output.rows).equals(as_stored(TABLE, expected.rows))


def test_the_largest_k_is_kept_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    passages = small_pages.passages(tmp_path)
    narrow, wide = (UscrakeSettings(cost="jsd", R=6, k=k, **PRINTED) for k in (2, 4))
    questions = small_pages.QUESTIONS
    assert keep_most_chunks([narrow, wide]) == (wide,)
    rows = as_stored(TABLE, rank([narrow, wide], passages, PieceEncoder(), questions).rows)
    for each in (narrow, wide):
        assert read(rows, each, passages, questions) == select_alone(each, passages, PieceEncoder(), questions)
    fewer = as_stored(TABLE, rank([narrow], passages, PieceEncoder(), questions).rows)
    with pytest.raises(StaleInput, match=f"{ASSET} keeps 2 instead of 4 chunks .* question q1 by jsd: materialize"):
        read(fewer, wide, passages, questions)
    with pytest.raises(StaleInput, match=r"keeps 0 instead of 2 chunks .* by cosine"):
        read(rows, UscrakeSettings(cost="cosine", R=6, k=2, **PRINTED), passages, questions)
    renamed = {f"new {title}": text for title, text in small_pages.PAGES.items()}
    with pytest.raises(StaleInput, match=f"{ASSET} has chunks that the corpus no longer has"):
        read(rows, narrow, small_pages.passages(tmp_path / "renamed", renamed), questions)
