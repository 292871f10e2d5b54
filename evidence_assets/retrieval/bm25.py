"""BM25: corpus statistics, the weight of a token within its own text, and retrieval over an inverted index.

What belongs here: lexical weights and lexical ranking, on token lists, and the words that a text is cut into where no encoder
says what its tokens are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from evidence_assets.models.vectors import Array

__all__ = ["K1", "B", "BM25Index", "CorpusStatistics", "Idf", "idf_of", "term_weight", "text_weights", "words"]

Idf = Literal["printed", "plus_one"]
K1, B = 1.2, 0.75
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def words(text: str) -> list[str]:
    """Lower-case words."""
    return _WORD.findall(text.casefold())


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


def idf_of(texts: int, holding: int | NDArray[Any], form: Idf) -> Array:
    r"""Inverse document frequency of terms by the number n of texts, out of N, that hold them.

    ``printed`` is the published :math:`\ln\frac{N - n + 0.5}{n + 0.5}`, **clipped at 0**: as printed it is negative for a
    token of more than half of the texts, which would be negative mass. ``plus_one`` is the form of Lucene,
    :math:`\ln\bigl(1 + \frac{N - n + 0.5}{n + 0.5}\bigr)`, which never reaches 0.
    """
    n = np.asarray(holding, dtype=np.float64)
    odds = (texts - n + 0.5) / (n + 0.5)
    if form == "plus_one":
        return np.asarray(np.log1p(odds))
    if form == "printed":
        return np.asarray(np.maximum(0.0, np.log(odds)))
    raise ValueError(f"idf {form!r} is unknown: give 'printed' or 'plus_one'")


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

    def idf(self, token: str, form: Idf = "printed") -> float:
        """Inverse document frequency; a token that the corpus lacks stands in no text."""
        return float(idf_of(self.texts, self.document_frequencies.get(token, 0), form))

    def token_weights(self, text: Sequence[str], form: Idf = "printed") -> Array:
        """Weight of each token within its own text (thesis, equation 7.9 without the outer sum).

        The equation as printed sums over all texts of the corpus although its inner part is that of the token's own
        text; :meth:`~.term_index.TermIndex.values` has that other reading.
        """
        return text_weights(text, lambda token: self.idf(token, form), self.average_length)


class BM25Index:
    """Inverted index in memory, for a few texts such as the cells of a table; of a corpus see :mod:`.term_index`.

    ``texts``: Token lists; an empty one is allowed and never scores.
    ``form``: ``printed`` (clipped) or ``plus_one``.

    >>> index = BM25Index([["a", "b"], ["c"], ["a"], ["d"], ["d"]])
    >>> index.top_k(["a", "b"], 2)[0].tolist()
    [0, 2]
    """

    def __init__(self, texts: Sequence[Sequence[str]], form: Idf = "printed") -> None:
        self.size = len(texts)
        self._number: dict[str, int] = {}
        number, lengths = self._number, np.fromiter(map(len, texts), np.int64, self.size)
        terms = (number.setdefault(token, len(number)) for text in texts for token in text)
        places = np.fromiter(terms, np.int64, int(lengths.sum())) * max(1, self.size)
        places += np.repeat(np.arange(self.size), lengths)
        # One array a column of the matrix of terms and texts: no Python object a posting.
        places, counts = np.unique(places, return_counts=True)
        of_term, self._rows = np.divmod(places, max(1, self.size))
        holding = np.bincount(of_term, minlength=len(number))
        self._starts = np.concatenate([[0], np.cumsum(holding)])
        average = float(lengths.sum() / self.size) if self.size else 0.0
        frequencies = dict(zip(number, holding.tolist(), strict=True))
        self.statistics = CorpusStatistics(self.size, average, frequencies)
        idf = np.array([self.statistics.idf(token, form) for token in number], dtype=np.float64)
        self._values = term_weight(1.0, counts.astype(np.float64), lengths[self._rows], average) * idf[of_term]

    def scores(self, query: Sequence[str]) -> Array:
        """Score of every text: the sum over the query's tokens, a repeated one counted each time."""
        result = np.zeros(self.size)
        for token, times in Counter(query).items():
            term = self._number.get(token)
            if term is not None:
                postings = slice(self._starts[term], self._starts[term + 1])
                result[self._rows[postings]] += times * self._values[postings]
        return result

    def top_k(self, query: Sequence[str], k: int) -> tuple[NDArray[np.int64], Array]:
        """Positions and scores of the k best, descending, ties by position; all texts if there are fewer."""
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least one text")
        scores = self.scores(query)
        order = np.lexsort((np.arange(self.size), -scores))[:k]
        return order.astype(np.int64), scores[order]
