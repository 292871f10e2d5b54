"""BM25 over texts of any number: what a corpus says of its terms, and which texts hold them, on disk.

=============== ======== ==========================================================================
``keys.npy``    V        uint64 hashes of the terms, ascending
``starts.npy``  V + 1    int64, postings of each term, which are as many as texts hold it
``totals.npy``  V        its saturated frequency, summed over all texts
``rows.npy``    P        int32, the texts of each term, ascending; term after term
``codes.npy``   P        uint16 or int32, its frequency and the text's length as a number of a pair
``common.npy``  F × 2    int64, each term of more than an eighth of the texts, and how many hold it
``spread.npy``  F × N    its codes, one a text, 0 where the text lacks it; these have no postings
``weights.npy`` C        float64, what BM25 makes of each such pair, idf left out; 0 is no pair
``meta.json``            texts, tokens
=============== ======== ==========================================================================

A posting takes six bytes and has the weight that float64 gives it: of pairs of a frequency and a length there are but some
thousands. Common terms, which seldom decide, are read by the number of the text instead of being searched. Files are written in one pass over the texts, whose postings wait on the disk, cut by the first byte of their term,
until each part is sorted in memory. Terms are known by 64 bits of their hash: among a million terms the chance that two
share one is 3·10⁻⁸.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.array_files import ArrayWriter, find_keys, open_array, open_json
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval.bm25 import Idf, idf_of, term_weight

VERSION = "2"
SPILL = 1 << 20
"""Postings that wait in memory."""
PARTS = 256
TILE = 1 << 20
"""Texts whose sums are in memory at a time: 4 MiB of them."""
COMMON = 8
"""A term of more than this part of the texts is common: its codes are spread over the texts, and it is added only where too few
texts were found without it."""
GROUP = 16
"""Texts of which the greatest is looked at to see what the best have at least."""
LOOKED_UP = 20
"""Postings that are added one after another in the time in which one is looked up."""
Ints = npt.NDArray[np.integer[Any]]
POSTING = np.dtype([("key", "<u8"), ("row", "<i4"), ("code", "<i4")])

Reading = Literal["text", "corpus", "idf"]
Terms = Sequence[str] | npt.NDArray[np.uint64]
"""Terms, or what they are known by."""


def term_keys(terms: Sequence[str]) -> npt.NDArray[np.uint64]:
    """What terms are known by."""
    digest = hashlib.blake2b
    joined = b"".join(digest(t.encode(errors="surrogatepass"), digest_size=8).digest() for t in terms)
    return np.frombuffer(joined, dtype="<u8")


class TermIndexWriter:
    """Writes an index into ``folder``, text after text; whoever calls it replaces the folder as a whole.

    Without ``postings`` only what the corpus says of its terms is kept, and nothing can be searched.
    """

    def __init__(self, folder: Path, *, postings: bool = True) -> None:
        folder.mkdir(parents=True)
        self._folder, self._postings = folder, postings
        self._texts = self._tokens = self._waiting = 0
        self._blocks: list[npt.NDArray[Any]] = []
        self._codes = {0: 0}

    def add(self, texts: Sequence[Sequence[str]]) -> None:
        """Append token lists; an empty one is a text that nothing finds."""
        local: dict[str, int] = {}
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        terms = (local.setdefault(token, len(local)) for text in texts for token in text)
        places = np.fromiter(terms, np.int64, int(lengths.sum())) * max(1, len(texts))
        places += np.repeat(np.arange(len(texts)), lengths)
        places, frequencies = np.unique(places, return_counts=True)
        of_term, rows = np.divmod(places, max(1, len(texts)))
        pairs, inverse = np.unique((frequencies.astype(np.int64) << 32) | lengths[rows], return_inverse=True)
        codes = np.array([self._codes.setdefault(pair, len(self._codes)) for pair in pairs.tolist()], dtype=np.int32)
        block = np.empty(len(rows), POSTING)
        block["key"], block["row"] = term_keys(list(local))[of_term], rows + self._texts
        block["code"] = codes[inverse.ravel()]
        self._texts, self._tokens = self._texts + len(texts), self._tokens + int(lengths.sum())
        self._blocks.append(block)
        self._waiting += len(block)
        if self._waiting >= SPILL:
            self._spill()

    def _part(self, number: int) -> Path:
        return self._folder / f"part{number}.tmp"

    def _spill(self) -> None:
        """Put what waits on the disk, each part into its file."""
        block = np.concatenate(self._blocks)
        part = (block["key"] >> np.uint64(56)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(PARTS + 1))
        for number in range(PARTS):
            with self._part(number).open("ab") as file:
                file.write(block[order[ends[number] : ends[number + 1]]].tobytes())
        self._blocks, self._waiting = [], 0

    def _parts(self) -> Iterator[npt.NDArray[Any]]:
        """All postings, ascending by the first byte of their term, within a term by their text."""
        if not self._part(0).exists():
            yield np.concatenate([*self._blocks, np.empty(0, POSTING)])
            return
        if self._waiting:
            self._spill()
        for number in range(PARTS):
            yield np.fromfile(self._part(number), POSTING)
            self._part(number).unlink()

    def finish(self) -> None:
        """Write the files."""
        pairs = np.array(list(self._codes), dtype=np.int64)
        frequencies, lengths = (pairs >> 32).astype(np.float64), pairs & 0xFFFFFFFF
        average = self._tokens / self._texts if self._texts else 0.0
        weights = np.asarray(term_weight(1.0, frequencies, lengths, average))
        code: npt.DTypeLike = np.uint16 if len(pairs) < 1 << 16 else np.int32
        files: list[tuple[str, npt.DTypeLike, tuple[int, ...]]] = [
            ("keys", np.uint64, ()),
            ("starts", np.int64, ()),
            ("totals", np.float64, ()),
            ("weights", np.float64, ()),
            ("rows", np.int32, ()),
            ("codes", code, ()),
            ("common", np.int64, (2,)),
            ("spread", code, (self._texts,)),
        ]
        writers = {name: ArrayWriter(self._folder / f"{name}.npy", dtype, row) for name, dtype, row in files}
        written = 0
        try:
            writers["weights"].add(weights)
            writers["starts"].add([0])
            for part in self._parts():
                part = part[np.argsort(part["key"], kind="stable")]
                keys, first, holding = np.unique(part["key"], return_index=True, return_counts=True)
                common = (holding > self._texts // COMMON) & self._postings
                of_term = np.repeat(np.arange(len(keys)), holding)
                # Summed one after another, as a loop over the texts would.
                writers["totals"].add(np.bincount(of_term, weights=weights[part["code"]], minlength=len(keys)))
                for term in np.flatnonzero(common):
                    own = part[first[term] : first[term] + holding[term]]
                    spread = np.zeros((1, self._texts), code)
                    spread[0, own["row"]] = own["code"]
                    writers["spread"].add(spread)
                    writers["common"].add([[writers["keys"].rows + term, holding[term]]])
                writers["keys"].add(keys)
                holding[common] = 0
                writers["starts"].add(written + np.cumsum(holding))
                written += int(holding.sum())
                if self._postings:
                    part = part[~common[of_term]]
                    writers["rows"].add(part["row"])
                    writers["codes"].add(part["code"])
        except BaseException:
            for writer in writers.values():
                writer.abandon()
            raise
        for writer in writers.values():
            writer.finish()
        stated = {"version": VERSION, "texts": self._texts, "tokens": self._tokens, "postings": self._postings}
        (self._folder / "meta.json").write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")


class TermIndex:
    """An index opened for reading: nothing of it is in memory but what is asked for."""

    def __init__(self, folder: Path) -> None:
        stated = open_json(folder / "meta.json")
        if stated.get("version") != VERSION:
            raise StaleInput(
                f"{folder} holds an index of words that another release wrote: materialize its asset again"
            )
        self.texts, self.tokens, self._searchable = int(stated["texts"]), int(stated["tokens"]), stated["postings"]
        self.average = self.tokens / self.texts if self.texts else 0.0
        self._keys, self.starts, self._totals, self.rows, self.codes, self.spread = (
            open_array(folder / f"{name}.npy") for name in ("keys", "starts", "totals", "rows", "codes", "spread")
        )
        self.weights, self.common = (np.array(open_array(folder / f"{name}.npy")) for name in ("weights", "common"))
        whole = self.starts[-1] == len(self.rows) and self.spread.shape == (len(self.common), self.texts)
        if len(self.starts) != len(self._keys) + 1 or (self._searchable and not whole):
            raise StaleInput(f"the files in {folder} do not belong together: materialize their asset again")

    def __len__(self) -> int:
        return self.texts

    def find(self, terms: Terms) -> Ints:
        """The number of each term; −1 where no text holds it."""
        return find_keys(self._keys, terms if isinstance(terms, np.ndarray) else term_keys(terms))

    def holding(self, terms: Terms) -> Ints:
        """How many texts hold each term."""
        return self.of_numbers(self.find(terms))[0]

    def of_numbers(self, numbers: Ints) -> tuple[Ints, Ints]:
        """How many texts hold each term of these numbers, and its row in ``spread``; −1 for one that is not common."""
        common = find_keys(self.common[:, 0], numbers)
        held = np.where(numbers >= 0, self.starts[numbers + 1] - self.starts[numbers], 0)
        held[common >= 0] = self.common[common[common >= 0], 1]
        return held, common

    def idf(self, terms: Terms, form: Idf = "printed") -> Array:
        """Inverse document frequency of each term; see :func:`~.bm25.idf_of`."""
        return idf_of(self.texts, self.holding(terms), form)

    def values(self, terms: Terms, reading: Reading) -> Array:
        r"""What decides the weight of a token besides its own text.

        ``text`` is the printed idf, by which BM25 within the text is multiplied; ``idf`` that of Lucene, which alone is the
        weight; ``corpus`` the other reading of equation 7.9, which sums over all texts:

        .. math:: \mathrm{idf}(t) \sum_{S} \frac{f_S (k_1 + 1)}{f_S + k_1 (1 - b + b\,|S| / \mathrm{avgdl})}
        """
        if reading != "corpus":
            return self.idf(terms, "printed" if reading == "text" else "plus_one")
        numbers = self.find(terms)
        totals = np.zeros(len(numbers))
        totals[numbers >= 0] = self._totals[numbers[numbers >= 0]]
        return self.idf(terms, "printed") * totals

    def token_weights(self, text: Sequence[str], reading: Reading = "text") -> Array:
        """Weight of each token of a text that need not be of the corpus."""
        counted = Counter(text)
        terms = list(counted)
        values = self.values(terms, reading)
        if reading == "text":
            frequencies = np.array([counted[term] for term in terms], dtype=np.float64)
            values = np.asarray(term_weight(values, frequencies, len(text), self.average))
        of_term = dict(zip(terms, values.tolist(), strict=True))
        return np.array([of_term[token] for token in text], dtype=np.float64)

    def top_k(self, query: Sequence[str], k: int, form: Idf = "printed") -> tuple[Ints, Array]:
        """Positions and scores of the ``k`` best texts that hold any of the query, descending, ties by position.

        A score is the sum over the query's tokens, in their order, a repeated one counted each time. Texts are looked at a
        tile at a time, so that memory does not grow with their number.
        """
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least one text")
        if not self._searchable:
            raise ValueError("this index keeps no postings: it says how rare terms are, and finds nothing")
        counted = Counter(query)
        numbers = self.find(list(counted))
        times, numbers = np.array(list(counted.values()), np.float64)[numbers >= 0], numbers[numbers >= 0]
        asked = _Asked(self, numbers, times, form)
        positions, scores = np.zeros(0, np.int64), np.zeros(0)
        for first in range(0, self.texts, TILE):
            least = scores[-1] if len(scores) == k else 0.0
            rows, values = asked.best(first, min(first + TILE, self.texts), k, least)
            positions, scores = np.concatenate([positions, rows]), np.concatenate([scores, values])
            order = np.lexsort((positions, -scores))[:k]
            positions, scores = positions[order], scores[order]
        return positions, scores


class _Asked:
    r"""The terms of a query, and which texts of a tile may be among its best.

    A term adds at most :math:`m_t = \mathrm{idf}_t f_t \max_c w_c`. Once k texts have more than all terms that are left can
    add, none is looked for any more that holds but those, and these are the frequent ones; they are looked up for the texts
    that were found (MaxScore). Sums up to there are in float32 and serve to leave texts out, by a margin above their error;
    what is returned is summed anew in float64 and in the order of the query.
    """

    def __init__(self, index: TermIndex, numbers: Ints, times: Array, form: Idf) -> None:
        self._index, self._times = index, times
        self._starts, self._ends = index.starts[numbers], index.starts[numbers + 1]
        held, self._common = index.of_numbers(numbers)
        self._idf = idf_of(index.texts, held, form)
        most = times * self._idf * index.weights.max(initial=0.0)
        self._order = np.argsort(-most, kind="stable")
        self._margin = 1 + 1e-6 * (1 + len(most))
        # What the terms from the n-th on may add.
        self._rest = [*(np.cumsum(most[self._order][::-1])[::-1] * self._margin).tolist(), 0.0]

    def best(self, first: int, last: int, k: int, least: float) -> tuple[Ints, Array]:
        """The ``k`` best texts of a tile, in no order, with those that might be equal; none that has less than ``least``."""
        starts, ends = self._within(first, last)
        order, rest, margin = self._order, self._rest, self._margin
        made, n = np.zeros(last - first, np.float32), 0
        while n < len(order) and rest[n] * margin >= least:
            if self._common[order[n]] >= 0 and np.count_nonzero(made > rest[n]) >= k:
                break
            self._add(made, first, starts, ends, int(order[n]))
            n += 1
        if not least:
            found = _among_best(made, k)
            if len(found) == k:
                reached = made[found] + self._sums(order[n:], starts, ends, found + first)
                least = float(reached.min()) / margin
        rows = np.flatnonzero(made > max(0.0, float(least) / margin - rest[n]))
        left = made[rows]
        for place, term in enumerate(order[n:], n + 1):
            left = left + self._sums([term], starts, ends, rows + first).astype(np.float32)
            kept = left >= least / margin - rest[place]
            rows, left = rows[kept], left[kept]
        if len(rows) > k:
            least = max(least, float(np.partition(left, len(left) - k)[len(left) - k]) / margin)
        rows = rows[left >= least / margin] + first
        if LOOKED_UP * len(rows) * len(order) < (ends - starts).sum() + len(made):
            return rows, self._sums(np.arange(len(order)), starts, ends, rows)
        exact = np.zeros(len(made))
        for term in range(len(order)):
            self._add(exact, first, starts, ends, term)
        return rows, exact[rows - first]

    def _within(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Where the postings of a tile begin and end."""
        if last - first == self._index.texts:
            return self._starts, self._ends
        bounds = np.array([first, last], np.int32)  # of another type than the rows, these would be copied
        rows = self._index.rows
        found = [a + rows[a:b].searchsorted(bounds) for a, b in zip(self._starts, self._ends, strict=True)]
        edges = np.array(found, np.int64).reshape(-1, 2)
        return edges[:, 0], edges[:, 1]

    def _add(self, made: npt.NDArray[Any], first: int, starts: Ints, ends: Ints, term: int) -> None:
        """Add what a term gives to each text of a tile."""
        index, common = self._index, self._common[term]
        # By pairs first: there are fewer of them than postings of a term that costs time. The fast ways of numpy to gather
        # and to scatter take a third of the time of ``made[rows] += values[codes]``.
        values = (self._times[term] * (index.weights * self._idf[term])).astype(made.dtype)
        if common >= 0:
            made += values.take(index.spread[common, first : first + len(made)], mode="clip")
            return
        own = slice(int(starts[term]), int(ends[term]))
        rows = index.rows[own] - np.int32(first) if first else index.rows[own]
        np.add.at(made, rows, values.take(index.codes[own], mode="clip"))

    def _sums(self, terms: Sequence[int] | Ints, starts: Ints, ends: Ints, rows: Ints) -> Array:
        """What some terms give to some texts, added in the order of the terms."""
        index, made = self._index, np.zeros(len(rows))
        rows = rows.astype(np.int32)  # of another type than the postings', these would be copied
        for term in terms:
            if self._common[term] >= 0:
                codes = index.spread[self._common[term]].take(rows)
            elif starts[term] == ends[term]:
                continue
            else:
                own = index.rows[starts[term] : ends[term]]
                places = own.searchsorted(rows)
                np.minimum(places, len(own) - 1, out=places)
                codes = index.codes[starts[term] : ends[term]].take(places) * (own.take(places) == rows)
            made += self._times[term] * (index.weights.take(codes) * self._idf[term])
        return made


def _among_best(made: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.int64]:
    """``k`` texts that have much, ascending; fewer where fewer have anything."""
    groups = len(made) // GROUP
    if groups >= k:
        # Of k groups each has a text of at least this, and few others have: they are found without sorting all.
        greatest = made[: GROUP * groups].reshape(GROUP, groups).max(axis=0)
        bar = float(np.partition(greatest, groups - k)[groups - k])
        found = np.flatnonzero(made >= bar) if bar else np.flatnonzero(made)
    else:
        found = np.flatnonzero(made)
    if len(found) <= k:
        return found
    return np.sort(found[np.argpartition(made[found], len(found) - k)[len(found) - k :]])
