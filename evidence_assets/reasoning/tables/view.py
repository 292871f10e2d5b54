"""A table as the deterministic reasoner reads it, and the plain shapes of what it answers.

What belongs here: the table with its shape, the words of its cells in a form that can be compared, and the results.
A place is ``(row, column)``: row 0 is the header as read, the body starts at row 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from evidence_assets.methods.cells import Cell
from evidence_assets.methods.table_shape import TableShape, detect_shape
from evidence_assets.methods.table_text import content_stems, stem, tokens

Place = tuple[int, int]
Status = Literal["answered", "ambiguous", "insufficient"]


@dataclass(frozen=True)
class TableStep:
    """One step of a chain: what was done (the operation), said in a sentence, with the cells that show it."""

    operation: str
    text: str
    cells: tuple[Place, ...] = ()
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableChain:
    """The steps that speak for one label or option; ``support`` in [0, 1] says how strongly."""

    hypothesis: str
    steps: tuple[TableStep, ...]
    support: float


@dataclass(frozen=True)
class TableAnswer:
    """Answer of the reasoner.

    ``answer`` is a label, or None where nothing decides; ``supported`` are all labels that the table supports equally;
    ``table_id`` is the table that the cited cells stand in.
    """

    answer: str | None
    supported: tuple[str, ...]
    status: Status
    confidence: float
    chains: tuple[TableChain, ...]
    table_id: str = ""

    def chain(self, hypothesis: str) -> TableChain | None:
        return next((chain for chain in self.chains if chain.hypothesis == hypothesis), None)


@dataclass(frozen=True)
class TableView:
    """A table with its shape and its words, limited to some rows and columns where a selection says so.

    ``columns`` and ``rows`` name the grid columns and rows that may be read; None means all.
    """

    table_id: str
    caption: str
    shape: TableShape
    columns: frozenset[int] | None = None
    rows: frozenset[int] | None = None
    _stems: dict[str, frozenset[str]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, table_id: str, caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableView:
        return cls(table_id, caption, detect_shape(header, rows))

    def restricted(self, columns: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> TableView:
        """The same table with only some columns and rows readable; places stay what they were."""
        return TableView(
            self.table_id,
            self.caption,
            self.shape,
            None if columns is None else frozenset(columns),
            None if rows is None else frozenset(rows),
            self._stems,
        )

    def cell(self, place: Place) -> Cell:
        return self.shape.grid[place[0]][place[1]]

    @cached_property
    def body(self) -> tuple[int, ...]:
        """Readable rows with data."""
        return tuple(i for i in self.shape.body if self.rows is None or i in self.rows)

    @cached_property
    def open_columns(self) -> tuple[int, ...]:
        """Readable columns."""
        return tuple(j for j in range(self.shape.width) if self.columns is None or j in self.columns)

    @cached_property
    def row_header_columns(self) -> tuple[int, ...]:
        """Readable columns that name the rows."""
        return tuple(j for j in self.shape.row_header_columns if j in self.open_columns)

    @cached_property
    def value_columns(self) -> tuple[int, ...]:
        """Readable columns that hold values."""
        return tuple(j for j in self.shape.value_columns if j in self.open_columns)

    def row_names(self, row: int) -> tuple[str, ...]:
        """Names of a row, as far as the columns (or the section) that say them are readable."""
        if self.columns is None:
            return self.shape.row_labels[row]
        return tuple(name for name in self.shape.row_labels[row] if name in self._readable_names)

    @cached_property
    def _readable_names(self) -> frozenset[str]:
        cells = {self.cell((i, j)).plain for i in self.shape.body for j in self.row_header_columns}
        return frozenset(cells | {cell.plain for i in self.shape.sections for cell in self.shape.grid[i]})

    def stems(self, text: str) -> frozenset[str]:
        """Content words of a text; of a text without any (such as "a(n)") all its words."""
        if text not in self._stems:
            self._stems[text] = word_set(text)
        return self._stems[text]

    @cached_property
    def row_frequency(self) -> Counter[str]:
        """In how many readable rows each word stands."""
        counts: Counter[str] = Counter()
        for i in self.body:
            counts.update(frozenset().union(*(self.stems(self.cell((i, j)).plain) for j in self.open_columns)))
        return counts

    def weight(self, word: str) -> float:
        """Inverse row frequency: a word of every row weighs next to nothing, a word of one row most."""
        return math.log(1.0 + len(self.body) / (0.5 + self.row_frequency[word]))


def word_set(text: str) -> frozenset[str]:
    """Content words of a text; of a text without any all its words."""
    found = content_stems(text)
    return frozenset(found or (stem(token) for token in tokens(text)))
