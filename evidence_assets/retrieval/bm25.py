"""BM25: the weight of a token within its own text, what a corpus says of its terms, and ranking by ``bm25s``.

Terms are known by 64 bits of their hash: among a million the chance that two share one is 3·10⁻⁸.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.lake.array_files import (
    ArrayWriter,
    find_key_positions,
    open_array,
    open_asset_file,
    open_description,
)
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.vectors import Array
from evidence_assets.text.words import split_words

VERSION = "3"
K1, B = 1.2, 0.75
TEXTS_PER_BLOCK = 4096
"""Texts whose terms are counted together."""
Idf = Literal["printed", "plus_one"]
TokenWeighting = Literal["text", "corpus", "idf"]
IntArray = NDArray[np.integer[Any]]
Terms = Sequence[str] | NDArray[np.uint64]
"""Terms, or their hashes."""


def lowercase_words(text: str) -> list[str]:
    """Lower-case words."""
    return split_words(text.casefold())


def hash_terms(terms: Sequence[str]) -> NDArray[np.uint64]:
    """The hashes that terms are known by."""
    digest = hashlib.blake2b
    joined = b"".join(digest(t.encode(errors="surrogatepass"), digest_size=8).digest() for t in terms)
    return np.frombuffer(joined, dtype="<u8")


def term_weight(idf: Any, frequency: Any, length: Any, average: float) -> Any:
    r"""Weight of a term that a text of ``length`` tokens holds ``frequency`` times (thesis, equation 7.9, inner part).

    .. math:: \mathrm{idf}\,\frac{f (k_1 + 1)}{f + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
    """
    norm = K1 * (1 - B + B * length / average) if average > 0 else K1
    return idf * frequency * (K1 + 1) / (frequency + norm)


def inverse_document_frequency(texts: int, holding: int | NDArray[Any], form: Idf) -> Array:
    r"""Inverse document frequency of terms by the number n of texts, out of N, that hold them.

    ``printed`` is the published :math:`\ln\frac{N - n + 0.5}{n + 0.5}`, **clipped at 0**: as printed it is negative for
    a token of more than half of the texts, which would be negative mass. ``plus_one`` is the form of Lucene,
    :math:`\ln\bigl(1 + \frac{N - n + 0.5}{n + 0.5}\bigr)`, which never reaches 0.
    """
    n = np.asarray(holding, dtype=np.float64)
    odds = (texts - n + 0.5) / (n + 0.5)
    return np.asarray(np.log1p(odds) if form == "plus_one" else np.maximum(0.0, np.log(odds)))


def text_weights(text: Sequence[str], idf: Callable[[str], float], average: float) -> Array:
    """Weight of each token within its own text, given the rarity of tokens and the average length of texts."""
    weights = {token: term_weight(idf(token), float(f), len(text), average) for token, f in Counter(text).items()}
    return np.array([weights[token] for token in text], dtype=np.float64)


def _ranker() -> Any:
    """Scores of :func:`term_weight` with the idf ``plus_one``, in float32."""
    import bm25s  # with scipy's sparse matrices 0.4 s, which who only reads the lake need not wait for

    return bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", csc_backend="scipy")


def score_texts(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """BM25 of each query (rows) against each of a few texts, which are the whole corpus."""
    if not any(texts):
        return np.zeros((len(queries), len(texts)), np.float32)
    ranker = _ranker()
    ranker.index(list(map(list, texts)), show_progress=False)
    return np.stack([ranker.get_scores_from_ids(ranker.get_tokens_ids(query)) for query in queries])


class TermIndexWriter:
    """Writes an index into ``folder``: hashes of terms, ascending, how many texts hold each, its saturated frequency
    over all texts, and the postings of ``bm25s``, without which nothing can be searched."""

    def __init__(self, folder: Path, *, postings: bool = True) -> None:
        folder.mkdir(parents=True)
        self._folder, self._postings = folder, postings
        self._number: dict[str, int] = {}
        self._terms = ArrayWriter(folder / "terms.tmp", np.int32)
        self._lengths = ArrayWriter(folder / "lengths.tmp", np.int32)

    def add(self, texts: Sequence[Sequence[str]]) -> None:
        """Append token lists; an empty one is a text that nothing finds."""
        number, lengths = self._number, [len(text) for text in texts]
        numbers = (number.setdefault(token, len(number)) for text in texts for token in text)
        self._terms.add(np.fromiter(numbers, np.int32, sum(lengths)))
        self._lengths.add(lengths)

    def finish(self) -> None:
        """Write the files."""
        self._terms.finish()
        self._lengths.finish()
        lengths = open_array(self._folder / "lengths.tmp")
        keys = hash_terms(list(self._number))
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        holding, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys))
        for term, _, weight in self._counted(place, lengths):
            np.add.at(holding, term, 1)
            np.add.at(totals, term, weight)  # summed one after another, as a loop over the texts would
        for name, array in (("keys", keys[order]), ("holding", holding), ("totals", totals)):
            np.save(self._folder / f"{name}.npy", array)
        if self._postings and len(keys):
            self._write_postings(place, lengths, holding)
        stated = {"version": VERSION, "texts": len(lengths), "tokens": self._terms.rows, "postings": self._postings}
        (self._folder / "meta.json").write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
        for name in ("terms", "lengths"):
            (self._folder / f"{name}.tmp").unlink()

    def _counted(self, place: IntArray, lengths: IntArray) -> Iterator[tuple[IntArray, IntArray, Array]]:
        """Term, text and weight without idf of every posting, some texts at a time; ascending by term, then by text."""
        terms, first = open_array(self._folder / "terms.tmp"), 0
        average = len(terms) / len(lengths) if len(lengths) else 0.0
        for start in range(0, len(lengths), TEXTS_PER_BLOCK):
            own = lengths[start : start + TEXTS_PER_BLOCK].astype(np.int64)
            pairs = place[terms[first : first + own.sum()]] * len(own) + np.repeat(np.arange(len(own)), own)
            pairs, frequencies = np.unique(pairs, return_counts=True)
            term, text = np.divmod(pairs, len(own))
            yield term, text + start, term_weight(1.0, frequencies.astype(np.float64), own[text], average)
            first += int(own.sum())

    def _write_postings(self, place: IntArray, lengths: IntArray, holding: IntArray) -> None:
        """The columns of ``bm25s``, filled some texts at a time: its own way of building holds all tokens as lists."""
        starts = np.concatenate([[0], np.cumsum(holding)])
        free, idf = starts[:-1].copy(), inverse_document_frequency(len(lengths), holding, "plus_one")
        data, indices = np.empty(starts[-1], np.float32), np.empty(starts[-1], np.int32)
        for term, text, weight in self._counted(place, lengths):
            places = free[term] + np.arange(len(term)) - np.searchsorted(term, term)
            data[places], indices[places] = idf[term] * weight, text
            np.add.at(free, term, 1)
        ranker = _ranker()
        ranker.scores = {"data": data, "indices": indices, "indptr": starts, "num_docs": len(lengths)}
        ranker.vocab_dict, ranker.nonoccurrence_array = {}, None
        ranker.save(self._folder, show_progress=False)


class TermIndex:
    """An index opened for reading, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        stated = open_description(folder / "meta.json", VERSION, "")
        self._folder, self._searchable = folder, stated["postings"]
        self.texts, self.tokens = int(stated["texts"]), int(stated["tokens"])
        self.average = self.tokens / self.texts if self.texts else 0.0
        self._keys, self._document_frequencies, self._totals = (
            open_array(folder / f"{name}.npy") for name in ("keys", "holding", "totals")
        )
        if not len(self._keys) == len(self._document_frequencies) == len(self._totals):
            raise self._torn()

    def __len__(self) -> int:
        return self.texts

    def _torn(self) -> StaleInput:
        return StaleInput(f"the files in {self._folder} do not belong together: materialize their asset again")

    @cached_property
    def _postings(self) -> Any:
        ranker = open_asset_file(self._folder, lambda folder: _ranker().load(folder, mmap=True, load_vocab=False))
        scores = ranker.scores
        whole = len(scores["indptr"]) == len(self._keys) + 1 and scores["num_docs"] == self.texts
        if not whole or not len(scores["data"]) == len(scores["indices"]) == scores["indptr"][-1]:
            raise self._torn()
        return ranker

    def find(self, terms: Terms) -> NDArray[np.int64]:
        """The number of each term; −1 where no text holds it."""
        return find_key_positions(self._keys, terms if isinstance(terms, np.ndarray) else hash_terms(terms))

    def _lookup(self, array: NDArray[Any], terms: Terms) -> NDArray[Any]:
        """The entry of each term; 0 where no text holds it."""
        numbers = self.find(terms)
        return np.where(numbers >= 0, array[numbers], 0) if len(array) else np.zeros(len(numbers), array.dtype)

    def document_frequencies(self, terms: Terms) -> IntArray:
        """How many texts hold each term."""
        return self._lookup(self._document_frequencies, terms)

    def corpus_weights(self, terms: Terms, weighting: TokenWeighting) -> Array:
        r"""What decides the weight of a token besides its own text.

        ``text`` is the printed idf, by which BM25 within the text is multiplied; ``idf`` that of Lucene, which alone is
        the weight; ``corpus`` the other reading of equation 7.9, which sums over all texts:

        .. math:: \mathrm{idf}(t) \sum_{S} \frac{f_S (k_1 + 1)}{f_S + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
        """
        form: Idf = "plus_one" if weighting == "idf" else "printed"
        idf = inverse_document_frequency(self.texts, self.document_frequencies(terms), form)
        return idf * self._lookup(self._totals, terms) if weighting == "corpus" else idf

    def token_weights(self, text: Sequence[str], weighting: TokenWeighting = "text") -> Array:
        """Weight of each token of a text that need not be of the corpus."""
        terms = list(dict.fromkeys(text))
        value = dict(zip(terms, self.corpus_weights(terms, weighting).tolist(), strict=True))
        if weighting == "text":
            return text_weights(text, value.__getitem__, self.average)
        return np.array([value[token] for token in text], dtype=np.float64)

    def top_k(self, query: Sequence[str], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions and scores of the ``k`` best texts that hold any of the query, descending, ties by position.

        A score is the sum over the query's tokens, in their order, a repeated one counted each time.
        """
        if not self._searchable:
            raise ValueError("this index keeps no postings: it says how rare terms are, and finds nothing")
        numbers = self.find(query)
        if not (numbers >= 0).any():
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        scores = self._postings.get_scores_from_ids(numbers[numbers >= 0])
        least = np.partition(scores, -k)[-k] if k < self.texts else 0.0
        found = np.flatnonzero((scores > 0) & (scores >= least))
        best = found[np.lexsort((found, -scores[found]))[:k]]
        return best, scores[best]
