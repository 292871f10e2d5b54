"""The ranking ``fusion``: the mean of late interaction and transport, raised along links between chunks.

Few transport problems are solved. A link leads from a chunk to another whose title it mentions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.retrieval.maxsim import Cosines
from evidence_assets.text.words import words_with_offsets
from evidence_assets.transport import TokenMeasure, TokenPool
from evidence_assets.transport.bounds import TextBounds
from evidence_assets.transport.exact import solve_transport
from evidence_assets.transport.ground_cost import ROUNDING_UNIT, sum_error

SLACK = 1e-6
"""Rounding error of sums over bounds of costs."""
BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]
Finish = Callable[[Array], tuple[Array, Sequence[int]]]
"""Final scores from scores, and for each text the text whose score its final score depends on (-1: none)."""


class CosineTransport:
    """Transport costs from a query to texts by cosine costs: exact for solved texts, lower bounds for the others.

    ``cosines``: Cosine of each query token with each token of the texts, in float32.
    """

    def __init__(self, query: TokenMeasure, texts: TokenPool, cosines: Cosines) -> None:
        has_mass = query.masses > 0
        self._points, self._query_masses = unit_rows(query.points[has_mass]), query.masses[has_mass]
        self._vectors, self._masses, self._offsets = texts.vectors, texts.masses(), texts.offsets
        rounding = np.float32(2 * sum_error(texts.dimensions) + 20 * ROUNDING_UNIT)
        low_costs = (1 - rounding) - cosines[has_mass]
        self._bounds = TextBounds(low_costs, self._query_masses, self._masses, self._offsets[:-1])
        self.costs = self._bounds.values - SLACK
        self.is_exact: BoolArray = np.zeros(len(texts), dtype=bool)

    def solve(self, texts: Sequence[int]) -> None:
        """Solve the problems of these texts, and tighten the bounds of the others."""
        for text in texts:
            rows = slice(int(self._offsets[text]), int(self._offsets[text + 1]))
            costs = np.clip(1.0 - self._points @ unit_rows(self._vectors[rows].astype(np.float64)).T, 0.0, 2.0)
            solution = solve_transport(self._query_masses, self._masses[rows], costs)
            self.costs[text], self.is_exact[text] = solution.value, True
            self._bounds.tighten(solution.potential)
        self.costs = np.where(self.is_exact, self.costs, self._bounds.values - SLACK)


def best_fusion_scores(
    query: TokenMeasure, texts: TokenPool, cosines: Cosines, late: Array, k: int, finish: Finish
) -> tuple[Array, int]:
    r"""Final scores of the k best texts, minus infinity for the others, and the number of solved problems.

    .. math:: S(y) = \tfrac{1}{2}\Bigl(\tfrac{1}{|q|}\sum_i \max_j \cos(q_i, y_j) + 1 - \mathrm{OT}_{\cos}(q, y)\Bigr)

    Late interaction (``late``) weights all words equally; transport weights rare words more and matches their mass in
    the text. Both are cosines, so that scores of different queries are comparable. ``finish`` computes final scores,
    which must not fall if a score rises. Bounds of the transport costs give upper bounds of them, so that only texts
    that could be among the best are solved; the result equals that of solving all.
    """
    transport = CosineTransport(query, texts, cosines)
    while True:
        final_scores, sources = finish((late + 1.0 - transport.costs) / 2)
        best = np.argsort(-final_scores, kind="stable")[:k].tolist()
        deciding = dict.fromkeys(text for i in best for text in (i, sources[i]) if text >= 0)
        unsolved = [text for text in deciding if not transport.is_exact[text]]
        if not unsolved:
            break
        transport.solve(unsolved)
    scores = np.full(len(texts), -np.inf)
    scores[best] = final_scores[best]
    return scores, int(transport.is_exact.sum())


MIN_TITLE_LENGTH = 3

_BRACKETS = re.compile(r"\s*\(.*?\)")


def normalise_text(text: str) -> str:
    """Lower-case words, joined by single spaces."""
    return " ".join(word.casefold() for word, _, _ in words_with_offsets(text))


def normalise_title(title: str) -> str:
    """The normalised title without text in brackets, which only disambiguates it."""
    return normalise_text(_BRACKETS.sub("", title))


class TitleLinks:
    """Links from texts of a pool to the texts whose titles they mention, as whole words.

    ``names``, ``texts``: Normalised title and text of each text of the pool. Titles under three letters are too common
        to match.
    """

    def __init__(self, names: Sequence[str], texts: Sequence[str]) -> None:
        owners: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            if len(name) >= MIN_TITLE_LENGTH:
                owners.setdefault(name, []).append(i)
        links = [
            (i, j)
            for i, text in enumerate(f" {text} " for text in texts)
            for name in owners
            if name != names[i] and f" {name} " in text
            for j in owners[name]
        ]
        pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
        self.sources, self.targets = pairs[:, 0], pairs[:, 1]

    def gains(self, nearest: Cosines) -> Array:
        """Mean over query tokens of what the target of each link covers better than its source.

        ``nearest``: The cosine of each query token with its nearest token of each text.
        """
        improvement = nearest[:, self.targets].astype(np.float64) - nearest[:, self.sources]
        return np.asarray(np.maximum(0.0, improvement).mean(axis=0))

    def boost(self, scores: Array, gains: Array, weight: float) -> tuple[Array, list[int]]:
        r"""Boost texts that a better text mentions; returns scores and the boosting text of each (-1: none).

        .. math:: S'(y) = \max_{x \to y,\, S(x) > S(y)} \min\Bigl(S(x),\,
            S(y) + w \tfrac{1}{|q|} \sum_i \max\bigl(0, n_i(y) - n_i(x)\bigr)\Bigr)

        n_i is the cosine of query token i with its nearest token of a text (``gains``). For a two-hop question both
        pages then rank high: the first page mentions the second. A page that covers no query token better keeps its
        score, and no page passes the page that mentions it.
        """
        boosted, boosting = scores.copy(), np.full(len(scores), -1)
        links = np.flatnonzero((scores[self.sources] > scores[self.targets]) & (gains > 0))
        sources, targets = self.sources[links], self.targets[links]
        # Just below the source, so that ties cannot reverse the order.
        below = np.nextafter(scores[sources], -np.inf)
        raised = np.minimum(below, scores[targets] + weight * gains[links])
        np.maximum.at(boosted, targets, raised)
        decides = (raised == boosted[targets]) & (raised > scores[targets])
        boosting[targets[decides]] = sources[decides]
        return boosted, boosting.tolist()
