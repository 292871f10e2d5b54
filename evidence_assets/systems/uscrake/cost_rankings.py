"""Rankings of the same pools by several costs: one pass over the tokens ranks by all, and variants read the rows.

The tokens of a large pool do not fit in the cache of tokens, so that a pass for each cost would encode them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import TypedDict, cast

import numpy as np
import polars as pl

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake.chunk_ranking import Sentence
from evidence_assets.systems.uscrake.passages import Passages, batch_questions, encode_hypotheses, find_pools
from evidence_assets.systems.uscrake.pool_ranking import PoolRanker, Ranking
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.systems.uscrake.text_evidence import build_row, read_chunks

TABLE = "chunk_rankings"


class RankedChunk(TypedDict):
    """A chunk in a row of ``chunk_rankings``."""

    option: str
    chunk_id: str
    score: float


# The pass -----------------------------------------------------------------------------------------------------------


def keep_most_chunks(settings: Iterable[UscrakeSettings]) -> tuple[UscrakeSettings, ...]:
    """The distinct rankings of variants with the same pools, each with the largest k: others are its first chunks."""
    variants = tuple(settings)
    k = max(each.k for each in variants)
    return tuple(dict.fromkeys(replace(each, k=k) for each in variants))


@dataclass(frozen=True, eq=False)
class CostRankings:
    """Ranks the pools of questions by several costs.

    ``encoder``: Encoder of the corpus's index.
    ``token_encoder``: The encoder of the token store.
    """

    passages: Passages
    encoder: Encoder
    token_encoder: Encoder

    def ranking_id(self, question: Question, settings: UscrakeSettings) -> str:
        model = (self.encoder.model_id, self.encoder.revision)
        return content_id("chunk ranking", question.question_id, settings.cost, settings.weights, *model)

    def input_hash(self, question: Question, settings: UscrakeSettings) -> str:
        """Hash of everything that determines a ranking."""
        encoders = [[each.model_id, each.revision] for each in (self.encoder, self.token_encoder)]
        sources = [self.passages.corpus.version, self.passages.store.meta.built_from]
        return content_id("chunk ranking", VERSION, question.question_id, asdict(settings), encoders, sources)

    def rank(
        self, questions: Sequence[Question], settings: Sequence[UscrakeSettings]
    ) -> Iterator[tuple[Question, list[list[RankedChunk]]]]:
        """Each question with the best chunks of its options by each cost."""
        if not questions:
            return
        ranker = PoolRanker(settings, self.passages, self.token_encoder)
        R = settings[0].R
        for batch in batch_questions(questions, R):
            hypotheses = encode_hypotheses(batch, self.token_encoder, self.token_encoder)
            pools = find_pools(hypotheses, self.passages.corpus, self.encoder, R)
            rankings = iter(ranker.rank(hypotheses, pools, self._read))
            for question in batch:
                options = list(islice(rankings, len(question.hypotheses)))
                yield question, [list(chain.from_iterable(chunks)) for chunks in zip(*options, strict=True)]

    def _read(self, ranking: Ranking) -> list[list[RankedChunk]]:
        """The chunks that a hypothesis keeps by each cost."""
        label = ranking.hypothesis.label
        return [
            [
                RankedChunk(option=label, chunk_id=chunk_id, score=score)
                for chunk_id, score in zip(self.passages.corpus.ids(best.chunks), best.scores.tolist(), strict=True)
            ]
            for best in ranking.best
        ]


def ranking_rows(
    rankings: CostRankings,
    settings: Sequence[UscrakeSettings],
    questions: Sequence[Question],
    previous: PreviousOutput | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StageOutput:
    """Rows of ``chunk_rankings`` for every question and cost; rows with unchanged inputs are reused.

    One pass ranks by the costs whose rows are missing.
    """
    by_id = {rankings.ranking_id(question, each): (question, each) for question in questions for each in settings}
    hashes = {row_id: rankings.input_hash(*ranking) for row_id, ranking in by_id.items()}
    writer = RowWriter(TABLE, previous, hashes, "ranking_id")
    missing = {by_id[row_id]: row_id for row_id in writer.todo}
    todo = list(dict.fromkeys(question for question, _ in missing))
    costs = list(dict.fromkeys(each for _, each in missing))
    for completed, (question, chunks_by_cost) in enumerate(rankings.rank(todo, costs), 1):
        for each, chunks in zip(costs, chunks_by_cost, strict=True):
            if row_id := missing.get((question, each)):
                writer.add(question, each, ranking_id=row_id, chunks=chunks)
        writer.checkpoint()
        if progress:
            progress(completed, len(todo))
    return writer.finish(questions=len(questions), questions_ranked=len(todo))


# What a variant reads -----------------------------------------------------------------------------------------------


class StoredRankings:
    """Selects the chunks of a variant's cost from the rows of a pass.

    ``rows``: Rows of ``chunk_rankings``.
    ``asset``: The asset that has them.
    """

    def __init__(self, rows: pl.DataFrame, settings: UscrakeSettings, corpus: IndexedCorpus, asset: str) -> None:
        rows = rows.filter(cost=settings.cost, weights=settings.weights)
        self._settings = settings
        self._corpus = corpus
        self._asset = asset
        self._rows = {question: (k, chunks) for question, k, chunks in rows["question_id", "k", "chunks"].iter_rows()}
        self.version = content_id("stored rankings", VERSION, asdict(settings), rows["input_hash"].sort().to_list())

    def select(self, questions: Sequence[Question]) -> Iterator[list[SelectedEvidence]]:
        """Evidence of each question, best first within each option."""
        for question in questions:
            chunks = self._read(question)
            yield [row for label, _ in question.hypotheses for row in self._build_rows(label, chunks)]

    def _read(self, question: Question) -> list[RankedChunk]:
        """The stored chunks of a question; raises StaleInput if the pass did not keep as many as the variant."""
        k, chunks = self._rows.get(question.question_id, (0, []))
        if k < self._settings.k:
            raise StaleInput(
                f"{self._asset} keeps {k} instead of {self._settings.k} chunks for each option of question "
                f"{question.question_id} by {self._settings.ranking}: materialize it again"
            )
        return cast(list[RankedChunk], chunks)

    def _build_rows(self, label: str, chunks: Sequence[RankedChunk]) -> Iterator[SelectedEvidence]:
        """The rows of an option."""
        best = [chunk for chunk in chunks if chunk["option"] == label][: self._settings.k]
        positions = self._corpus.find([chunk["chunk_id"] for chunk in best])
        if (positions < 0).any():
            raise StaleInput(f"{self._asset} has chunks that the corpus no longer has: materialize it again")
        scores = np.array([chunk["score"] for chunk in best])
        best_chunks = read_chunks(self._corpus, positions, scores)
        for number, (text, score) in enumerate(zip(best_chunks.texts, scores.tolist(), strict=True)):
            whole = Sentence(number, 0, len(text), np.zeros(0, np.int64))
            yield build_row(self._settings, label, best_chunks, whole, score)
