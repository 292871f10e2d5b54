"""Linking of concepts to the nodes of a graph by name; the first rule that finds a node decides.

``exact``: as written; ``normalised``: equal under :func:`~evidence_assets.text.words.name_key`, or without article or
inflection; ``fuzzy``: the most similar names; ``embedding``: the names of largest cosine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from evidence_assets.lake.array_files import find_key_positions, sorted_unique
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.bm25 import hash_terms
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets.text.words import is_filler, name_key, variant_keys, word_key, words_with_offsets

Rule = Literal["exact", "normalised", "fuzzy", "embedding", "none"]
Encode = Callable[[Sequence[str]], NDArray[np.float32]]
MIN_SIMILARITY = 0.85
"""Least similarity of the fuzzy rule."""
MIN_COSINE = 0.75
"""Least cosine of the embedding rule."""
NAMES_PER_BATCH = 1 << 16
"""Names whose keys are Python strings at a time."""


@dataclass(frozen=True)
class Link:
    """Where one concept leads: all nodes that share the best name, ascending; no node means that nothing matched."""

    concept: str
    rule: Rule
    score: float
    nodes: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def is_linked(self) -> bool:
        return bool(self.nodes)


@dataclass(frozen=True)
class LinkedSpan:
    """A stretch ``text[start:end]`` that names nodes."""

    start: int
    end: int
    link: Link


class NameVectors:
    """Names that mean nearly the same as a concept, by an index over one unit vector a surface form of the linker."""

    def __init__(self, index: VectorIndex, encode: Encode) -> None:
        self.n = len(index)
        self._index, self._encode = index, encode

    def nearest(self, concepts: Sequence[str], k: int = 16) -> list[tuple[float, NDArray[np.int64]]]:
        """For each concept the best cosine and the surface rows that reach it."""
        if not concepts or not self.n:
            return [(0.0, np.zeros(0, np.int64))] * len(concepts)
        queries = unit_rows(np.ascontiguousarray(self._encode(concepts), dtype=np.float32))
        scores, rows = self._index.search(queries, min(k, self.n))
        return [
            (float(score[0]), row[score >= score[0] - 1e-6].astype(np.int64))
            for score, row in zip(scores, rows, strict=True)
        ]


class EntityLinker:
    """Links concepts to nodes by their names and aliases.

    ``surfaces``: Every name and alias; empty ones are left out.
    ``nodes``: The node that each surface form names; by default the i-th names node i.

    >>> linker = EntityLinker(["dog", "hot dog", "Dog"], [4, 2, 3])
    >>> linker.link("dog").nodes, linker.link("Dogs").nodes, linker.link("hot doog").rule
    ((4,), (3, 4), 'fuzzy')
    """

    def __init__(
        self,
        surfaces: Sequence[str] | pl.Series,
        nodes: Sequence[int] | NDArray[np.int64] | None = None,
    ) -> None:
        owners = np.arange(len(surfaces)) if nodes is None else np.asarray(nodes, dtype=np.int64)
        self._surfaces, self._owners = pl.Series(surfaces, dtype=pl.String).rechunk(), owners
        keys, hashes = [pl.Series([], dtype=pl.String)], [np.zeros(0, np.uint64)]
        for start in range(0, len(self._surfaces), NAMES_PER_BATCH):
            some = [name_key(name) for name in self._surfaces[start : start + NAMES_PER_BATCH]]
            keys.append(pl.Series(some))
            hashes.append(hash_terms(some))
        written, hashed = pl.concat(keys), np.concatenate(hashes)
        named = np.flatnonzero((written != "").to_numpy())
        self._hashes, first, numbers = np.unique(hashed[named], return_index=True, return_inverse=True)
        self.keys = written.gather(named[first])
        """The distinct normal forms of all names, in the order of their hashes."""
        key_of = np.full(len(self._surfaces), -1, dtype=np.int64)
        key_of[named] = numbers
        # Rows of each key lie side by side, in the order of their nodes.
        order = np.lexsort((np.arange(len(owners)), owners, key_of))
        self._rows = order[int((key_of < 0).sum()) :]
        self._starts = np.searchsorted(key_of[self._rows], np.arange(len(self.keys) + 1))

    def link(self, concept: str) -> Link:
        """The nodes that one concept names by its spelling; see :meth:`link_many`."""
        return self.link_many([concept])[0]

    def link_many(self, concepts: Sequence[str], near: NameVectors | None = None) -> list[Link]:
        """One link a concept, in order; equal concepts are worked out once, and encoded in one call.

        ``near`` switches the embedding rule on; it holds a vector for each surface form.
        """
        found = {concept: self._by_name(concept) for concept in dict.fromkeys(concepts)}
        if near is not None:
            open_concepts = [c for c, link in found.items() if not link.is_linked and c.strip()]
            for concept, (score, rows) in zip(open_concepts, near.nearest(open_concepts), strict=True):
                if len(rows) and score >= MIN_COSINE:
                    found[concept] = self._link(concept, "embedding", score, rows)
        return [found[concept] for concept in concepts]

    def find_spans(self, text: str) -> list[LinkedSpan]:
        """Names in a text as whole words, compared by their keys: leftmost longest, none overlapping, in text order.

        A name of stop words or generic terms alone is left out.
        """
        words = words_with_offsets(text)
        keys = [word_key(word) for word, _, _ in words]
        count, longest_name = len(keys), self._most_words
        windows = [(i, j) for i in range(count) for j in range(i + 1, min(i + longest_name, count) + 1)]
        found = find_key_positions(self._hashes, hash_terms([" ".join(keys[i:j]) for i, j in windows])).tolist()
        # Windows of a word come in the order of their length.
        longest = {i: (j, key_id) for (i, j), key_id in zip(windows, found, strict=True) if key_id >= 0}
        spans, free = [], 0
        for first in sorted(longest):
            last, key_id = longest[first]
            if first < free or is_filler([word for word, _, _ in words[first:last]]):
                continue
            start, end = words[first][1], words[last - 1][2]
            spans.append(LinkedSpan(start, end, self._resolve(text[start:end], key_id)))
            free = last
        return spans

    def fuzzy(self, concept: str) -> tuple[float, list[int]]:
        """The best similarity at or above the threshold and the numbers of the keys that reach it; else (0, [])."""
        key, threshold = name_key(concept), MIN_SIMILARITY
        if not key or not len(self.keys):
            return 0.0, []
        # 2·min(n, m) ≥ t·(n + m) bounds the length n of a match.
        shortest = math.ceil(len(key) * threshold / (2 - threshold) - 1e-6)
        longest = math.floor(len(key) * (2 - threshold) / threshold + 1e-6)
        lengths, order, keys = self._by_length
        low, high = np.searchsorted(lengths, [shortest, longest + 1]).tolist()
        matches = process.extract(key, keys[low:high], scorer=fuzz.ratio, score_cutoff=100 * threshold, limit=None)
        best = matches[0][1] if matches else 0.0
        return best / 100, [int(order[low + place]) for _, score, place in matches if score == best]

    def _by_name(self, concept: str) -> Link:
        key = name_key(concept)
        if not key:
            return Link(concept, "none", 0.0, (), ())
        for candidate in (key, *variant_keys(concept)):
            if (key_id := int(find_key_positions(self._hashes, hash_terms([candidate]))[0])) >= 0:
                return self._resolve(concept, key_id)
        score, ids = self.fuzzy(concept)
        if ids:
            return self._link(concept, "fuzzy", score, np.concatenate([self._rows_of(i) for i in ids]))
        return Link(concept, "none", 0.0, (), ())

    def _resolve(self, concept: str, key_id: int) -> Link:
        """Of the forms under one key, those written exactly so, else those that differ in case only, else all."""
        rows, written = self._rows_of(key_id), concept.strip()
        names = [self._surfaces[row] for row in rows.tolist()]
        exact = [row for row, name in zip(rows, names, strict=True) if name == written]
        if exact:
            return self._link(concept, "exact", 1.0, np.array(exact))
        folded = " ".join(written.casefold().split())
        same = [row for row, name in zip(rows, names, strict=True) if " ".join(name.casefold().split()) == folded]
        return self._link(concept, "normalised", 1.0, np.array(same) if same else rows)

    def _rows_of(self, key_id: int) -> NDArray[np.int64]:
        return np.asarray(self._rows[self._starts[key_id] : self._starts[key_id + 1]])

    def _link(self, concept: str, rule: Rule, score: float, rows: NDArray[np.int64]) -> Link:
        nodes = tuple(sorted_unique(self._owners[rows]).tolist())
        return Link(concept, rule, score, nodes, tuple(sorted({self._surfaces[row] for row in rows.tolist()})))

    @cached_property
    def _by_length(self) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
        """The keys by their length: these lengths, the numbers of the keys, and the keys."""
        lengths = self.keys.str.len_chars().to_numpy()
        order = np.argsort(lengths, kind="stable")
        return lengths[order], order, self.keys.gather(order).to_list()

    @cached_property
    def _most_words(self) -> int:
        """Words of the longest key."""
        return 1 + max(self.keys.str.count_matches(" ", literal=True).to_list(), default=0)
