"""Rankings of the same pools by several costs: one pass over the tokens ranks by all, and variants read the rows.

The tokens of a large pool do not fit in the cache of tokens, so that a pass for each cost would encode them again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
    ) -> Iterator[list[list[RankedChunk]]]:
        """For each question, the best chunks of its options by each cost."""
        ranker = PoolRanker(settings, self.passages, self.token_encoder)
        R = settings[0].R
        for batch in batch_questions(questions, R):
            hypotheses = encode_hypotheses(batch, self.token_encoder, self.token_encoder)
            pools = find_pools(hypotheses, self.passages.corpus, self.encoder, R)
            rankings = iter(ranker.rank(hypotheses, pools, self._read))
            for question in batch:
                options = list(islice(rankings, len(question.hypotheses)))
                yield [list(chain.from_iterable(chunks)) for chunks in zip(*options, strict=True)]

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

    The costs that a question lacks are ranked in one pass.
    """
    ids = {(question, each): rankings.ranking_id(question, each) for question in questions for each in settings}
    hashes = {row_id: rankings.input_hash(*inputs) for inputs, row_id in ids.items()}
    writer = RowWriter(TABLE, previous, hashes, "ranking_id")
    questions_by_costs = _group_by_costs(ids, set(writer.todo))
    todo = [(question, costs) for costs, group in questions_by_costs.items() for question in group]
    ranked = chain.from_iterable(rankings.rank(group, costs) for costs, group in questions_by_costs.items())
    for completed, ((question, costs), chunks_by_cost) in enumerate(zip(todo, ranked, strict=True), 1):
        for each, chunks in zip(costs, chunks_by_cost, strict=True):
            writer.add(question, each, ranking_id=ids[question, each], chunks=chunks)
        writer.checkpoint()
        if progress:
            progress(completed, len(todo))
    return writer.finish(questions=len(questions), questions_ranked=len(todo))


def _group_by_costs(
    ids: Mapping[tuple[Question, UscrakeSettings], str], missing: Collection[str]
) -> dict[tuple[UscrakeSettings, ...], list[Question]]:
    """The questions with missing rankings, by the costs of these."""
    missing_costs: dict[Question, list[UscrakeSettings]] = {}
    for (question, settings), ranking_id in ids.items():
        if ranking_id in missing:
            missing_costs.setdefault(question, []).append(settings)
    groups: dict[tuple[UscrakeSettings, ...], list[Question]] = {}
    for question, costs in missing_costs.items():
        groups.setdefault(tuple(costs), []).append(question)
    return groups


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
