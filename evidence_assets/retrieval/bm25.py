"""BM25: corpus statistics, the weight of a token within its own text, and retrieval over an inverted index.

What belongs here: lexical weights and lexical ranking, on token lists. How a text becomes tokens is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["K1", "B", "BM25Index", "CorpusStatistics", "Idf", "term_weight", "text_weights"]

Array = NDArray[np.float64]
Idf = Literal["printed", "plus_one"]
K1, B = 1.2, 0.75


@overload
def term_weight(idf: float, frequency: float, length: float, average: float) -> float: ...
@overload
def term_weight(idf: float | Array, frequency: Array, length: float | NDArray[Any], average: float) -> Array: ...
def term_weight(idf: Any, frequency: Any, length: Any, average: float) -> Any:
    r"""Weight of a term that a text of ``length`` tokens holds ``frequency`` times (thesis, equation 7.9, inner part).

    .. math:: \mathrm{idf}\,\frac{f (k_1 + 1)}{f + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
    """
    norm = K1 * (1 - B + B * length / average) if average > 0 else K1
    return idf * frequency * (K1 + 1) / (frequency + norm)


def text_weights(text: Sequence[str], idf: Callable[[str], float], average: float) -> Array:
    """Weight of each token within its own text, given the rarity of tokens and the average length of texts."""
    weights = {token: term_weight(idf(token), float(f), len(text), average) for token, f in Counter(text).items()}
    return np.array([weights[token] for token in text], dtype=np.float64)


@dataclass(frozen=True)
class CorpusStatistics:
    """What BM25 needs to know of a corpus: how many texts, how long on average, and how many hold each token."""

    texts: int
    average_length: float
    document_frequencies: dict[str, int] = field(repr=False)

    @classmethod
    def from_texts(cls, texts: Iterable[Sequence[str]]) -> CorpusStatistics:
        """Count over token lists, one at a time, so that a corpus may be streamed.

        Examples
        --------
        >>> CorpusStatistics.from_texts([["a", "b"], ["a", "a"]])
        CorpusStatistics(texts=2, average_length=2.0)
        """
        frequencies: Counter[str] = Counter()
        count = tokens = 0
        for text in texts:
            frequencies.update(set(text))
            count += 1
            tokens += len(text)
        return cls(count, tokens / count if count else 0.0, dict(frequencies))

    def idf(self, token: str, form: Idf = "printed") -> float:
        r"""Inverse document frequency.

        ``printed`` is the published :math:`\ln\frac{N - n + 0.5}{n + 0.5}`, **clipped at 0**: as printed it is
        negative for a token of more than half of the texts, which would be negative mass. ``plus_one`` is the form of
        Lucene, :math:`\ln\bigl(1 + \frac{N - n + 0.5}{n + 0.5}\bigr)`, which never reaches 0. A token that the corpus
        lacks has n = 0.
        """
        n = self.document_frequencies.get(token, 0)
        odds = (self.texts - n + 0.5) / (n + 0.5)
        if form == "plus_one":
            return float(np.log1p(odds))
        if form == "printed":
            return max(0.0, float(np.log(odds)))
        raise ValueError(f"idf {form!r} is unknown: give 'printed' or 'plus_one'")

    def token_weights(self, text: Sequence[str], form: Idf = "printed") -> Array:
        """Weight of each token within its own text (thesis, equation 7.9 without the outer sum).

        The equation as printed sums over all texts of the corpus although its inner part is that of the token's own
        text; :meth:`summed_weights` is that other reading.
        """
        return text_weights(text, lambda token: self.idf(token, form), self.average_length)

    def summed_weights(self, text: Sequence[str], totals: dict[str, float], form: Idf = "printed") -> Array:
        """Weight of each token under the other reading of equation 7.9: the sum over all texts of the corpus.

        ``totals`` are the saturated frequencies summed over the corpus, made once by :meth:`frequency_totals`.
        """
        return np.array([self.idf(t, form) * totals.get(t, 0.0) for t in text], dtype=np.float64)

    def frequency_totals(self, texts: Iterable[Sequence[str]]) -> dict[str, float]:
        """Sum over texts of f (k1 + 1) / (f + k1 (1 − b + b |S| / avgdl)) for each token."""
        totals: dict[str, float] = {}
        for text in texts:
            for token, f in Counter(text).items():
                totals[token] = totals.get(token, 0.0) + term_weight(1.0, f, len(text), self.average_length)
        return totals


class BM25Index:
    """Inverted index that scores one query over all texts in a few vector operations.

    Parameters
    ----------
    texts
        Token lists; an empty one is allowed and never scores.
    form
        ``printed`` (clipped) or ``plus_one``.

    Examples
    --------
    >>> index = BM25Index([["a", "b"], ["c"], ["a"], ["d"], ["d"]])
    >>> index.top_k(["a", "b"], 2)[0].tolist()
    [0, 2]
    """

    def __init__(self, texts: Sequence[Sequence[str]], form: Idf = "printed", k1: float = K1, b: float = B) -> None:
        self.statistics = CorpusStatistics.from_texts(texts)
        self.form: Idf = form
        self.size = len(texts)
        average = self.statistics.average_length
        rows: dict[str, list[int]] = {}
        values: dict[str, list[float]] = {}
        for row, text in enumerate(texts):
            norm = k1 * (1 - b + b * len(text) / average) if average else k1
            for token, f in Counter(text).items():
                rows.setdefault(token, []).append(row)
                values.setdefault(token, []).append(f * (k1 + 1) / (f + norm))
        self._postings: dict[str, tuple[NDArray[np.int64], Array]] = {
            token: (
                np.array(found, dtype=np.int64),
                np.array(values[token]) * self.statistics.idf(token, form),
            )
            for token, found in rows.items()
        }

    def scores(self, query: Sequence[str]) -> Array:
        """Score of every text: the sum over the query's tokens, a repeated one counted each time."""
        result = np.zeros(self.size)
        for token, times in Counter(query).items():
            posting = self._postings.get(token)
            if posting is not None:
                result[posting[0]] += times * posting[1]
        return result

    def top_k(self, query: Sequence[str], k: int) -> tuple[NDArray[np.int64], Array]:
        """Positions and scores of the k best, descending, ties by position; all texts if there are fewer."""
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least one text")
        scores = self.scores(query)
        order = np.lexsort((np.arange(self.size), -scores))[:k]
        return order.astype(np.int64), scores[order]
