"""How the settings of the default ranking are chosen: from the first half of the questions alone, by a stated procedure.

    EVIDENCE_DEV_DATA=… python bench/tune_text_retrieval.py

Coarse grids, one stage after another; the second half of the questions is never looked at. A stage takes the setting
with the best mean recall over itself and its neighbours on the grid, so that a plateau wins against a lucky point; ties
fall to the earlier setting. What a stage is judged by is the mean of recall at 2, 5 and 10 over the tasks it concerns.

1. Weights of the four scores for chunks, by passages and facts, without titles and links.
2. Weights of titles and links, by passages.
3. For sentences, twice in turn: what their passage counts and what a second sentence of a passage loses; the weights of
   the four scores for sentences.

The constants of ``methods/fusion.py`` are what this prints; ``measure_text_retrieval.py`` prints what they reach.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from measure_text_retrieval import Scorer, Task, hotpot, openbook, title_links, words
from numpy.typing import NDArray

from evidence_assets.retrieval.bm25 import CorpusStatistics
from evidence_assets.retrieval.fusion import lift, spread, standardised

Array = NDArray[np.float64]
NAMES = ("bm25", "maxsim", "cosine", "transport")
WEIGHTS: tuple[tuple[float, ...], ...] = ((0, 0.25, 0.5, 1), (0, 0.5, 1, 2), (0, 0.25, 0.5, 1), (0.5, 1, 2))
TITLES, LINKS = (0.0, 0.1, 0.2, 0.4), (0.0, 0.2, 0.4, 0.6, 0.8)
PASSAGES, REPEATS = (0.4, 0.8, 1.2, 1.6), (0.0, 0.5, 1.0, 1.5)
KS = (2, 5, 10)
Setting = tuple[float, ...]


def title_shares(titles: list[str], statistics: CorpusStatistics, query: str) -> Array:
    """Share of the idf of each title's words that the query names."""
    named, shares = set(words(query)), []
    for title in titles:
        idf = {w: statistics.idf(w, "plus_one") for w in set(words(re.sub(r"\s*\(.*?\)", "", title)))}
        shares.append(sum(v for w, v in idf.items() if w in named) / sum(idf.values()) if idf else 0.0)
    return np.array(shares)


class Half:
    """The first half of a task's questions with standardised single scores, each query's apart."""

    def __init__(self, scorer: Scorer) -> None:
        task = scorer.task
        self.task, self.questions = task, range(len(task.groups) // 2)
        self.queries = [q for i in self.questions for q in task.groups[i]]
        made = {
            "bm25": scorer.bm25(),
            "maxsim": scorer.maxsim(),
            "cosine": scorer.context_cosine(),
            "transport": scorer.transport("cosine"),
        }
        self.single = np.stack([[standardised(made[n][q]) for q in self.queries] for n in NAMES])

    def fused(self, weights: Sequence[float]) -> Array:
        """Queries × units."""
        return np.asarray(np.tensordot(np.array(weights), self.single, 1) / sum(weights))

    def recall(self, scores: Array) -> float:
        """Mean of recall at 2, 5 and 10, in per cent."""
        at, found = 0, []
        for i in self.questions:
            size = len(self.task.groups[i])
            best = scores[at : at + size].max(axis=0)
            at += size
            gold = self.task.gold[i]
            if gold:
                near = np.argpartition(-best, 200)[:200] if len(best) > 200 else np.arange(len(best))
                near = np.sort(near)
                first = near[np.argsort(-best[near], kind="stable")].tolist()
                found.append(np.mean([len(gold & set(first[:k])) / len(gold) for k in KS]))
        return 100 * float(np.mean(found))


def neighbours(grid: Sequence[Sequence[float]], place: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """A place and those one step away along one axis."""
    yield place
    for axis, step in product(range(len(grid)), (-1, 1)):
        moved = place[axis] + step
        if 0 <= moved < len(grid[axis]):
            yield (*place[:axis], moved, *place[axis + 1 :])


def chosen(grid: Sequence[Sequence[float]], judge: Callable[[Setting], float]) -> Setting:
    """The setting of the grid with the best mean over itself and its neighbours."""
    values = {place: judge(at(grid, place)) for place in product(*(range(len(axis)) for axis in grid))}
    smooth = {place: float(np.mean([values[p] for p in neighbours(grid, place)])) for place in values}
    best = max(smooth, key=lambda place: (round(smooth[place], 9), [-p for p in place]))
    print(f"  {at(grid, best)}: {values[best]:.2f} itself, {smooth[best]:.2f} with its neighbours", flush=True)
    return at(grid, best)


def at(grid: Sequence[Sequence[float]], place: Sequence[int]) -> Setting:
    return tuple(axis[i] for axis, i in zip(grid, place, strict=True))


def main() -> None:
    if not os.environ.get("EVIDENCE_DEV_DATA"):
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder of the development data")
    data = Path(os.environ["EVIDENCE_DEV_DATA"])
    tasks: list[Task] = [*hotpot(data), openbook(data)]
    passages, sentences, facts = (Half(Scorer(task)) for task in tasks)

    print("weights of bm25, maxsim, cosine, transport for chunks")
    weights = chosen(WEIGHTS, lambda w: (passages.recall(passages.fused(w)) + facts.recall(facts.fused(w))) / 2)

    titles = list(json.loads((data / "hotpotqa-100" / "hotpotqa_train_corpus.json").read_text(encoding="utf-8")))
    statistics = CorpusStatistics.from_texts([words(u) for u in passages.task.units])
    sources, targets = title_links(titles, passages.task.units)
    plain = passages.fused(weights)
    named = [standardised(title_shares(titles, statistics, passages.task.queries[q])) for q in passages.queries]

    def linked(setting: Setting) -> Array:
        title, link = setting
        return np.stack([spread(s + title * n, sources, targets, link) for s, n in zip(plain, named, strict=True)])

    print("weights of titles and of links")
    whole = linked(chosen((TITLES, LINKS), lambda s: passages.recall(linked(s))))

    def lifted(weights: Setting, around: Setting) -> float:
        parents = sentences.task.parents
        assert parents is not None
        own = sentences.fused(weights)
        return sentences.recall(np.stack([lift(s, p, parents, *around) for s, p in zip(own, whole, strict=True)]))

    own_weights: Setting = weights
    for _ in range(2):
        print("what its passage counts in a sentence's score, what a further sentence of a passage loses")
        around = chosen((PASSAGES, REPEATS), partial(lifted, own_weights))
        print("weights of bm25, maxsim, cosine, transport for sentences")
        own_weights = chosen(WEIGHTS, partial(lifted, around=around))


if __name__ == "__main__":
    main()
