"""BM25: weights of tokens in a text, term statistics of a corpus, and ranking with ``bm25s``.

A term is identified by a 64-bit hash; among a million terms the probability of a collision is 3·10⁻⁸.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evidence_assets.lake.array_files import find_key_positions, open_array, open_asset_file, open_description
from evidence_assets.models.vectors import Array
from evidence_assets.text.words import split_words

VERSION = "3"
K1 = 1.2
B = 0.75
Idf = Literal["published", "plus_one"]
TokenWeighting = Literal["text", "corpus", "idf"]
IntArray = NDArray[np.integer[Any]]
Terms = Sequence[str] | NDArray[np.uint64]
"""Terms, or their hashes."""


def lowercase_words(text: str) -> list[str]:
    """Lower-case words."""
    return split_words(text.casefold())


def hash_terms(terms: Sequence[str]) -> NDArray[np.uint64]:
    """64-bit hashes that identify terms."""
    digest = hashlib.blake2b
    digests = b"".join(digest(t.encode(errors="surrogatepass"), digest_size=8).digest() for t in terms)
    return np.frombuffer(digests, dtype="<u8")


def term_weight(idf: Any, frequency: Any, length: Any, average: float) -> Any:
    r"""Weight of a term with ``frequency`` in a text of ``length`` tokens (thesis, equation 7.9).

    .. math:: \mathrm{idf}\,\frac{f (k_1 + 1)}{f + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
    """
    norm = K1 * (1 - B + B * length / average) if average > 0 else K1
    return idf * frequency * (K1 + 1) / (frequency + norm)


def inverse_document_frequency(texts: int, document_frequencies: int | NDArray[Any], form: Idf) -> Array:
    r"""Inverse document frequency of terms that occur in n of N texts.

    ``published`` is :math:`\ln\frac{N - n + 0.5}{n + 0.5}`, **clipped at 0**: without clipping, tokens in
    more than half of the texts would have negative mass. ``plus_one`` is Lucene's form,
    :math:`\ln\bigl(1 + \frac{N - n + 0.5}{n + 0.5}\bigr)`, which is always positive.
    """
    n = np.asarray(document_frequencies, dtype=np.float64)
    odds = (texts - n + 0.5) / (n + 0.5)
    return np.asarray(np.log1p(odds) if form == "plus_one" else np.maximum(0.0, np.log(odds)))


def text_weights(text: Sequence[str], idf: Callable[[str], float], average: float) -> Array:
    """BM25 weight of each token in its text, given the idf of tokens and the average text length."""
    weights = {token: term_weight(idf(token), float(f), len(text), average) for token, f in Counter(text).items()}
    return np.array([weights[token] for token in text], dtype=np.float64)


def _ranker() -> Any:
    """A ``bm25s`` ranker equivalent to :func:`term_weight` with the idf ``plus_one``, in float32."""
    import bm25s  # takes 0.4 s, and commands that only read the lake do not need it

    return bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", csc_backend="scipy")


def score_texts(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """BM25 of each query (rows) with each text (columns); the texts are the corpus."""
    if not any(texts):
        return np.zeros((len(queries), len(texts)), np.float32)
    ranker = _ranker()
    ranker.index(list(map(list, texts)), show_progress=False)
    return np.stack([ranker.get_scores_from_ids(ranker.get_tokens_ids(query)) for query in queries])


class TermIndexWriter:
    """Writes term statistics and postings of ``bm25s`` to ``folder``.

    The statistics are hashes, document frequencies and saturated total frequencies of terms.
    Without ``postings`` the index has statistics but cannot be searched.
    """

    def __init__(self, folder: Path, *, postings: bool = True) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._postings = postings
        self._number: dict[str, int] = {}
        self._counts: list[Any] = []

    def add(self, texts: Sequence[Sequence[str]]) -> None:
        """Append texts as token lists; empty lists are allowed."""
        from scipy import sparse

        numbers = [self._number.setdefault(token, len(self._number)) for text in texts for token in text]
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        values = np.ones(len(numbers), np.int32), np.array(numbers, np.int32), starts
        counts = sparse.csr_array(values, shape=(len(texts), len(self._number)))
        counts.sum_duplicates()
        self._counts.append(counts)

    def finish(self) -> None:
        """Write the files."""
        keys = hash_terms(list(self._number))
        order = np.argsort(keys)
        ranks = np.argsort(order).astype(np.int32)
        document_frequencies = np.zeros(len(keys), np.int64)
        for block in self._counts:
            block.indices = ranks[block.indices]
            block.resize(block.shape[0], len(keys))
            document_frequencies += np.bincount(block.indices, minlength=len(keys))
        texts = sum(block.shape[0] for block in self._counts)
        tokens = int(sum(block.sum() for block in self._counts))
        idf = inverse_document_frequency(texts, document_frequencies, "plus_one")
        totals = self._weigh_counts(idf, tokens / texts if texts else 0.0)
        for name, array in (("keys", keys[order]), ("holding", document_frequencies), ("totals", totals)):
            np.save(self._folder / f"{name}.npy", array)
        if self._postings and len(keys):
            self._write_postings()
        metadata = {"version": VERSION, "texts": texts, "tokens": tokens}
        (self._folder / "meta.json").write_text(json.dumps(metadata, indent=1) + "\n", encoding="utf-8")

    def _weigh_counts(self, idf: Array, average: float) -> Array:
        """Replace the counts of terms by their weights; returns the saturated total frequency of each term."""
        totals = np.zeros(len(idf))
        for block in self._counts:
            lengths = np.repeat(block.sum(axis=1), np.diff(block.indptr))
            weights = term_weight(1.0, block.data.astype(np.float64), lengths, average)
            np.add.at(totals, block.indices, weights)  # sums in the order of the texts, for reproducible digits
            block.data = (idf[block.indices] * weights).astype(np.float32)
        return totals

    def _write_postings(self) -> None:
        """Fill the arrays of ``bm25s``; its own indexing keeps all tokens in Python lists."""
        from scipy import sparse

        scores = sparse.vstack(self._counts, format="csr").tocsc()
        starts = scores.indptr.astype(np.int64)
        indices = scores.indices.astype(np.int32)
        ranker = _ranker()
        ranker.scores = {"data": scores.data, "indices": indices, "indptr": starts, "num_docs": scores.shape[0]}
        ranker.vocab_dict = {}
        ranker.nonoccurrence_array = None
        ranker.save(self._folder, show_progress=False)


class TermIndex:
    """A memory-mapped term index."""

    def __init__(self, folder: Path) -> None:
        metadata = open_description(folder / "meta.json", VERSION, "")
        self._folder = folder
        self.texts = int(metadata["texts"])
        self.tokens = int(metadata["tokens"])
        self.average = self.tokens / self.texts if self.texts else 0.0
        self._keys, self._document_frequencies, self._totals = (
            open_array(folder / f"{name}.npy") for name in ("keys", "holding", "totals")
        )

    @cached_property
    def _postings(self) -> Any:
        return open_asset_file(self._folder, lambda folder: _ranker().load(folder, mmap=True, load_vocab=False))

    def find(self, terms: Terms) -> NDArray[np.int64]:
        """Number of each term; −1 if no text has it."""
        return find_key_positions(self._keys, terms if isinstance(terms, np.ndarray) else hash_terms(terms))

    def _lookup(self, array: NDArray[Any], terms: Terms) -> NDArray[Any]:
        """Entry of each term; 0 if no text has it."""
        numbers = self.find(terms)
        return np.where(numbers >= 0, array[numbers], 0) if len(array) else np.zeros(len(numbers), array.dtype)

    def document_frequencies(self, terms: Terms) -> IntArray:
        """Number of texts that have each term."""
        return self._lookup(self._document_frequencies, terms)

    def corpus_weights(self, terms: Terms, weighting: TokenWeighting) -> Array:
        r"""The factor of the token weights that depends on the corpus.

        ``text``: the published idf, a factor of BM25 within the text. ``idf``: Lucene's idf, the whole weight.
        ``corpus``: the other reading of equation 7.9, a sum over all texts:

        .. math:: \mathrm{idf}(t) \sum_{S} \frac{f_S (k_1 + 1)}{f_S + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
        """
        form: Idf = "plus_one" if weighting == "idf" else "published"
        idf = inverse_document_frequency(self.texts, self.document_frequencies(terms), form)
        return idf * self._lookup(self._totals, terms) if weighting == "corpus" else idf

    def token_weights(self, text: Sequence[str], weighting: TokenWeighting = "text") -> Array:
        """Weight of each token of any text."""
        terms = list(dict.fromkeys(text))
        value = dict(zip(terms, self.corpus_weights(terms, weighting).tolist(), strict=True))
        if weighting == "text":
            return text_weights(text, value.__getitem__, self.average)
        return np.array([value[token] for token in text], dtype=np.float64)

    def top_k(self, query: Sequence[str], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions and scores of the ``k`` best texts with a positive score, descending, ties by position.

        The score of a text is the sum over the query's tokens, including repeated ones.
        """
        numbers = self.find(query)
        if not (numbers >= 0).any():
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        scores = self._postings.get_scores_from_ids(numbers[numbers >= 0])
        min_score = np.partition(scores, -k)[-k] if k < self.texts else 0.0
        candidates = np.flatnonzero((scores > 0) & (scores >= min_score))
        best = candidates[np.lexsort((candidates, -scores[candidates]))[:k]]
        return best, scores[best]
