"""Links concepts to the nodes of a graph by name; the first rule with a match applies.

``exact``: equal names; ``normalised``: equal under :func:`~evidence_assets.text.words.name_key`, or without article or
inflection; ``fuzzy``: the most similar names; ``embedding``: the names with the largest cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
from rapidfuzz import fuzz, process

from evidence_assets.graphs.arrays import IntArray, find_positions
from evidence_assets.lake.array_files import sorted_unique
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.embedding import Encode
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets.text.words import is_filler, name_key, variant_keys, word_key, words_with_offsets

Rule = Literal["exact", "normalised", "fuzzy", "embedding", "none"]
MIN_SIMILARITY = 0.85
"""Minimum similarity of the fuzzy rule."""
MIN_COSINE = 0.75
"""Minimum cosine of the embedding rule."""


@dataclass(frozen=True)
class Link:
    """Link of one concept: all nodes with the best name, ascending; none if nothing matches."""

    concept: str
    rule: Rule
    score: float
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class LinkedSpan:
    """A span ``text[start:end]`` with its linked nodes."""

    start: int
    end: int
    link: Link


@dataclass(frozen=True)
class NameVectors:
    """Search for names similar in meaning, by an index with one unit vector per name of the linker."""

    index: VectorIndex
    encode: Encode

    def nearest(self, concepts: Sequence[str], k: int = 16) -> list[tuple[float, IntArray]]:
        """The best cosine of each concept, and the rows of the surface forms with that cosine."""
        if not concepts:
            return []
        queries = unit_rows(np.asarray(self.encode(concepts), dtype=np.float32))
        scores, rows = self.index.search(queries, k)
        return [(float(s[0]), r[s >= s[0] - 1e-6].astype(np.int64)) for s, r in zip(scores, rows, strict=True)]


class EntityLinker:
    """Links concepts to nodes by their names and aliases.

    ``surfaces``: All names and aliases; empty ones are ignored.
    ``nodes``: Node of each surface form; by default form i belongs to node i.

    >>> linker = EntityLinker(["dog", "hot dog", "Dog"], [4, 2, 3])
    >>> linker.link("dog").nodes, linker.link("Dogs").nodes, linker.link("hot doog").rule
    ((4,), (3, 4), 'fuzzy')
    """

    def __init__(self, surfaces: Sequence[str] | pl.Series, nodes: Sequence[int] | IntArray | None = None) -> None:
        owners = np.arange(len(surfaces)) if nodes is None else np.asarray(nodes, dtype=np.int64)
        self._surfaces = pl.Series(surfaces, dtype=pl.String).rechunk()
        self._owners = owners
        keys = pl.Series("key", map(name_key, self._surfaces), dtype=pl.String)
        table = pl.DataFrame([keys, pl.Series("owner", owners)]).with_row_index("row")
        table = table.filter(pl.col("key") != "").sort("key", "owner", "row")
        self.keys = table["key"].unique(maintain_order=True).set_sorted()
        """The distinct normal forms of all names, ascending."""
        self._rows = table["row"].to_numpy().astype(np.int64)
        """Names by key, then by node."""
        self._starts = np.append(table["key"].set_sorted().search_sorted(self.keys).to_numpy(), len(table))

    def link(self, concept: str) -> Link:
        """Link one concept by its spelling; see :meth:`link_many`."""
        return self.link_many([concept])[0]

    def link_many(self, concepts: Sequence[str], name_vectors: NameVectors | None = None) -> list[Link]:
        """Link each concept, in order; equal concepts are linked once and encoded in one call.

        ``name_vectors`` enables the embedding rule.
        """
        links = {concept: self._by_name(concept) for concept in dict.fromkeys(concepts)}
        if name_vectors is not None:
            unlinked_concepts = [c for c, link in links.items() if not link.nodes and c.strip()]
            for concept, (score, rows) in zip(unlinked_concepts, name_vectors.nearest(unlinked_concepts), strict=True):
                if len(rows) and score >= MIN_COSINE:
                    links[concept] = self._link(concept, "embedding", score, rows)
        return [links[concept] for concept in concepts]

    def find_spans(self, text: str) -> list[LinkedSpan]:
        """Find names in a text by the keys of whole words: leftmost longest matches without overlap.

        Names that consist of stop words or generic terms are skipped.
        """
        words = words_with_offsets(text)
        keys = [word_key(word) for word, _, _ in words]
        count = len(keys)
        longest_name = self._max_words
        windows = [(i, j) for i in range(count) for j in range(i + 1, min(i + longest_name, count) + 1)]
        key_ids = self._find_keys([" ".join(keys[i:j]) for i, j in windows])
        # Windows of a word are sorted by length, so the longest match remains.
        matches_by_start = {i: (j, key_id) for (i, j), key_id in zip(windows, key_ids, strict=True) if key_id >= 0}
        spans = []
        next_free = 0
        for first in sorted(matches_by_start):
            last, key_id = matches_by_start[first]
            if first < next_free or is_filler([word for word, _, _ in words[first:last]]):
                continue
            start = words[first][1]
            end = words[last - 1][2]
            spans.append(LinkedSpan(start, end, self._resolve(text[start:end], key_id)))
            next_free = last
        return spans

    def _find_keys(self, keys: Sequence[str]) -> list[int]:
        """Number of each key; −1 for keys that no name has."""
        numbers: list[int] = find_positions(self.keys, pl.Series(keys, dtype=pl.String)).tolist()
        return numbers

    def _by_name(self, concept: str) -> Link:
        key = name_key(concept)
        if not key:
            return Link(concept, "none", 0.0, ())
        for key_id in self._find_keys([key, *variant_keys(concept)]):
            if key_id >= 0:
                return self._resolve(concept, key_id)
        matches = process.extract(key, self._key_list, scorer=fuzz.ratio, score_cutoff=100 * MIN_SIMILARITY, limit=None)
        if matches:
            best = matches[0][1]
            rows = [self._rows_of(position) for _, score, position in matches if score == best]
            return self._link(concept, "fuzzy", best / 100, np.concatenate(rows))
        return Link(concept, "none", 0.0, ())

    def _resolve(self, concept: str, key_id: int) -> Link:
        """Select the exact forms of a key; otherwise those that differ only in case; otherwise all."""
        rows = self._rows_of(key_id)
        spelling = concept.strip()
        names = [self._surfaces[row] for row in rows.tolist()]
        exact_rows = [row for row, name in zip(rows, names, strict=True) if name == spelling]
        if exact_rows:
            return self._link(concept, "exact", 1.0, np.array(exact_rows))
        folded = " ".join(spelling.casefold().split())
        same_rows = [row for row, name in zip(rows, names, strict=True) if " ".join(name.casefold().split()) == folded]
        return self._link(concept, "normalised", 1.0, np.array(same_rows) if same_rows else rows)

    def _rows_of(self, key_id: int) -> IntArray:
        return np.asarray(self._rows[self._starts[key_id] : self._starts[key_id + 1]])

    def _link(self, concept: str, rule: Rule, score: float, rows: IntArray) -> Link:
        return Link(concept, rule, score, tuple(sorted_unique(self._owners[rows]).tolist()))

    @cached_property
    def _key_list(self) -> list[str]:
        return self.keys.to_list()

    @cached_property
    def _max_words(self) -> int:
        """Number of words of the longest key."""
        return 1 + max(self.keys.str.count_matches(" ", literal=True).to_list(), default=0)
