"""Ranks whole pools by one or several costs: chunks are encoded in groups and ranked while their tokens are at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TypeVar

import numpy as np

from evidence_assets.lake.array_files import release_memory
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.bm25 import IntArray
from evidence_assets.retrieval.token_store import TokenTexts
from evidence_assets.systems.uscrake.chunk_ranking import BestChunks, ChunkRanker
from evidence_assets.systems.uscrake.passages import EncodedPassages, Hypothesis, Passages, Pool
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets.transport.search import MIN_FILTERED_TEXTS

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Ranking:
    """A hypothesis with its pool and, for each cost, the best chunks of the groups that have been ranked."""

    hypothesis: Hypothesis
    pool: Pool
    best: Sequence[BestChunks]

    def copy(self) -> Ranking:
        """With the texts in memory, so that their segments can be deleted."""
        return replace(self, best=[best.copy() for best in self.best])


class PoolRanker:
    """Ranks pools by the costs of several variants, or of one, in one pass over their tokens.

    ``settings``: Of each variant; they have the same R and titles.
    ``view``: Encoder of the tokens that rank chunks.
    """

    def __init__(self, settings: Sequence[UscrakeSettings], passages: Passages, view: Encoder) -> None:
        passages.store.tokens(view)  # opens the cache before threads share it
        parts = (passages.corpus, passages.store, view)
        self._encoded = {
            each.weighting: EncodedPassages(*parts, each.weighting, each.titles, start_report=passages.start_report)
            for each in settings
        }
        self.rankers = [ChunkRanker(each, self._encoded[each.weighting]) for each in settings]
        self._R = settings[0].R

    def rank(self, hypotheses: Sequence[Hypothesis], pools: Sequence[Pool], read: Callable[[Ranking], T]) -> list[T]:
        """What ``read`` returns for each hypothesis with its best chunks by each cost, best first.

        It is called while the tokens of these chunks are at hand, in threads for small pools. A query without tokens
        has no chunks.
        """
        rankings = [
            Ranking(hypothesis, pool, [ranker.start(hypothesis.query) for ranker in self.rankers])
            for hypothesis, pool in zip(hypotheses, pools, strict=True)
        ]
        results: list[T] = []
        for batch in self._batches(rankings):
            results += self._rank_batch(batch, read)
            release_memory()  # large pools otherwise stay allocated
        return results

    def _batches(self, rankings: Sequence[Ranking]) -> Iterator[list[Ranking]]:
        """Questions whose chunks make one group, or one question of more chunks."""
        batch: list[Ranking] = []
        union: IntArray = np.zeros(0, np.int64)
        for _, options in groupby(rankings, key=lambda ranking: ranking.hypothesis.question.question_id):
            question = list(options)
            chunks = unite_pools(question)
            union = np.union1d(union, chunks)
            if batch and len(union) > self._passages.chunks_per_group:
                yield batch
                batch = []
                union = chunks
            batch += question
        if batch:
            yield batch

    def _rank_batch(self, rankings: list[Ranking], read: Callable[[Ranking], T]) -> list[T]:
        """Rank each group of chunks for all hypotheses and costs while its tokens are at hand, then read the best."""
        # The search in a large pool has threads of its own, and one such pool in memory is enough.
        run = map_single_threaded if self._R < MIN_FILTERED_TEXTS else map
        groups = self._passages.groups(unite_pools(rankings))
        for group in groups:
            texts = self._passages.texts(group)
            rankings = list(run(partial(self._rank_group, group, texts), rankings))
            del texts  # frees its space before the next group is encoded
            if len(groups) > 1:
                rankings = [ranking.copy() for ranking in rankings]
        return list(run(lambda ranking: read(self._finish(ranking)), rankings))

    def _rank_group(self, group: IntArray, texts: TokenTexts, ranking: Ranking) -> Ranking:
        """Rank the chunks of a group that are in the pool, by each cost."""
        query = ranking.hypothesis.query
        numbers = np.searchsorted(group, ranking.pool.chunks)
        in_group = np.flatnonzero(group.take(numbers, mode="clip") == ranking.pool.chunks)
        if not len(query) or not len(in_group):
            return ranking
        members = [texts.members[i] for i in numbers[in_group].tolist()]
        weighed = {weighting: encoded.weigh(members) for weighting, encoded in self._encoded.items()}
        part = ranking.pool.select(in_group)
        best = [
            ranker.add(query, best, part, weighed[ranker.settings.weighting])
            for ranker, best in zip(self.rankers, ranking.best, strict=True)
        ]
        return replace(ranking, best=best)

    def _finish(self, ranking: Ranking) -> Ranking:
        """With the k best chunks by each cost."""
        query = ranking.hypothesis.query
        best = [
            ranker.finish(query, best) if len(best.chunks) else best
            for ranker, best in zip(self.rankers, ranking.best, strict=True)
        ]
        return replace(ranking, best=best)

    @property
    def _passages(self) -> EncodedPassages:
        """The passages with any weighting, to encode groups."""
        return self.rankers[0].passages


def unite_pools(rankings: Sequence[Ranking]) -> IntArray:
    """Ascending positions of the chunks of all pools."""
    return np.unique(np.concatenate([ranking.pool.chunks for ranking in rankings]))
