"""Tables joined by a common key column, so that one question can compare columns of different files.

A column is a key if its header has a text and occurs once, each row has a value in it, all values differ, and most are
texts instead of numbers, or whole numbers in the first column that are no years and no ranks. Two tables have a common
key if keys of both have equal headers, and at least two values and half of those of the shorter table are equal.
Headers and values are compared without case, spaces and punctuation.

If the values differ in both tables, a joined table has each cell once, and its sums, averages and counts are right. If
they repeat in one table, its rows get the columns of the other one, whose cells repeat: see :func:`counts_once`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from evidence_assets.benchmarks.records import ASKED_BENCHMARK, CellOrigin, Table
from evidence_assets.experiment.stage import LogFunction
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.tables.cell_text import collect_words, strip_markup
from evidence_assets.reasoning.tables.cells import Cell, parse_cell
from evidence_assets.reasoning.tables.lexicon import normalize_header, pattern
from evidence_assets.reasoning.tables.table import CellLocation

MIN_COMMON = 2
"""Minimum values that the keys of two tables have in common."""
MIN_COMMON_SHARE = 0.5
"""Minimum share of the values of the shorter key that the other one has."""
MAX_NUMBERS = 0.2
"""Maximum share of numbers and dates among the values of a key."""
MAX_TRIED = 8
"""Tables that a join is tried with: those with the most words of the question."""
MAX_JOINED = 4
"""Tables of a join."""
MAX_CELLS = 50_000
"""Cells of a joined table, with the empty ones."""
_RANKS = frozenset(("rank", "place", "position", "pos"))
"""Headers of numbers that are no ids."""
_NAME_WORD = re.compile(r"[^\W_]+")
_IGNORED = re.compile(r"[\s.,;:!?'’`´\"“”()_–—-]+")


def normalize(text: str) -> str:
    """A header or value without case, spaces and punctuation; signs such as "+" and "#" distinguish names.

    >>> normalize("Product_ID "), normalize("St. Gallen"), normalize("C++")
    ('product id', 'st gallen', 'c++')
    """
    plain = unicodedata.normalize("NFKC", strip_markup(text)).casefold()
    return _IGNORED.sub(" ", plain).strip()


class TableJoin(NamedTuple):
    """A joined table, and the tables that it was made of.

    ``repeated``: Columns whose cells repeat, because several rows of the first table have the same key; its column
    first. Empty if each cell is there once.
    """

    table: Table
    sources: tuple[Table, ...]
    repeated: tuple[int, ...] = ()


class JoinCandidate:
    """A table that may be joined, with the words of a question that it has; keys are read when they are needed."""

    def __init__(self, table: Table, words: frozenset[str]) -> None:
        self.table = table
        self.words = words
        counts = Counter(map(normalize, table.header))
        self.headers = {normalize(text): j for j, text in enumerate(table.header) if counts[normalize(text)] == 1}
        self.headers.pop("", None)

    @property
    def n_rows(self) -> int:
        return len(self.table.rows)

    @property
    def n_columns(self) -> int:
        return max(map(len, (self.table.header, *self.table.rows)))

    @cached_property
    def keys(self) -> Mapping[str, Mapping[str, int]]:
        """The row of each value, by the header of each key."""
        keys = {header: self._read_key(column) for header, column in self.headers.items()}
        return {header: rows for header, rows in keys.items() if rows}

    @cached_property
    def body(self) -> list[int]:
        """The rows with a text."""
        return [i for i, row in enumerate(self.table.rows) if any(row)]

    def _read_key(self, column: int) -> dict[str, int]:
        """The row of each value of a column; empty if it is no key."""
        cells = [(i, parse_cell(self.text_at(i, column))) for i in self.body]
        rows = {normalize(cell.plain): i for i, cell in cells if cell.is_known}
        is_distinct = len(rows) == len(cells) and "" not in rows
        return rows if is_distinct and self._has_names(column, [cell for _, cell in cells]) else {}

    def _has_names(self, column: int, cells: Sequence[Cell]) -> bool:
        """Whether most cells of a column are texts, or all are whole numbers that identify rows."""
        if sum(cell.is_mostly_value for cell in cells) <= MAX_NUMBERS * len(cells):
            return True
        is_rank = normalize(self.table.header[column]) in _RANKS
        has_ids = all(cell.plain.isdecimal() and not any(value.is_date for value in cell.values) for cell in cells)
        return column == 0 and not is_rank and has_ids

    def find_value(self, header: str, row: int) -> str:
        """The normalized value in a row of the column with this normalized header."""
        return normalize(self.text_at(row, self.headers[header]))

    def text_at(self, row: int, column: int) -> str:
        """The text of a cell; a ragged row may have none."""
        texts = self.table.rows[row]
        return texts[column] if column < len(texts) else ""


SourceColumn = tuple[JoinCandidate, int]
"""A column of a table."""
JoinedRow = Mapping[JoinCandidate, int | None]
"""The row of each table that a joined row is made of; None of a table that lacks the key."""


def share_key(first: JoinCandidate, second: JoinCandidate, header: str) -> bool:
    """Whether two tables have a common key with this normalized header."""
    if header not in first.keys or header not in second.keys:
        return False
    values = first.keys[header].keys()
    others = second.keys[header].keys()
    n_common = len(values & others)
    return n_common >= max(MIN_COMMON, MIN_COMMON_SHARE * min(len(values), len(others)))


def can_look_up(first: JoinCandidate, second: JoinCandidate, header: str) -> bool:
    """Whether a column of the first table repeats values of a key of the second one."""
    if header not in first.headers or header not in second.keys:
        return False
    values = {first.find_value(header, row) for row in first.body}
    n_common = len(values & second.keys[header].keys())
    return len(values) < len(first.body) and n_common >= max(MIN_COMMON, MIN_COMMON_SHARE * len(values))


def can_join(first: JoinCandidate, second: JoinCandidate) -> bool:
    """Whether two tables have a common key, or the key of one is a column of the other."""
    return any(
        share_key(first, second, header) or can_look_up(first, second, header) or can_look_up(second, first, header)
        for header in first.headers.keys() & second.headers.keys()
    )


def select_join(candidates: Sequence[JoinCandidate], inform: LogFunction) -> TableJoin | None:
    """The join that has most words of a question, if any; each of its tables has a word that the others lack.

    Tables with equal headers are tried in pairs, at most ``MAX_TRIED`` of them, those with most words first.
    """
    counts = Counter(header for candidate in candidates for header in candidate.headers)
    with_header = [each for each in candidates if each.words and any(counts[header] > 1 for header in each.headers)]
    with_header.sort(key=lambda each: -len(each.words))
    if len(with_header) > MAX_TRIED:
        inform(
            f"{len(with_header)} tables have a column in common: only the {MAX_TRIED} with most words of the question "
            "are joined"
        )
    tried = with_header[:MAX_TRIED]
    too_large: dict[frozenset[str], str] = {}
    groups = [
        (header, group)
        for first in tried
        for header in first.headers
        if counts[header] > 1
        for group in _collect_groups(first, tried, header, too_large)
    ]
    for message in too_large.values():
        inform(message)
    if not groups:
        return None
    header, best = max(groups, key=lambda group: len(frozenset().union(*(each.words for each in group[1]))))
    return join_tables(sorted(best, key=candidates.index) if header in best[0].keys else best, header)


def _collect_groups(
    first: JoinCandidate, tried: Sequence[JoinCandidate], header: str, too_large: dict[frozenset[str], str]
) -> Iterator[list[JoinCandidate]]:
    """The tables that have a key in common with a table, and pairs of it with a table that its rows look up."""
    group = _collect_group(first, tried, header, too_large)
    if len(group) > 1:
        yield group
    for other in tried:
        is_spare = first.words <= other.words or other.words <= first.words
        if other is first or is_spare or not can_look_up(first, other, header):
            continue
        if len(first.body) * (first.n_columns + other.n_columns) <= MAX_CELLS:
            yield [first, other]


def _collect_group(
    first: JoinCandidate, tried: Sequence[JoinCandidate], header: str, too_large: dict[frozenset[str], str]
) -> list[JoinCandidate]:
    """A table and those that have a key in common with it, each with a word that the others lack; else none.

    ``too_large``: Gets a message about each join that would have too many cells.
    """
    group = [first]
    for other in tried:
        if other is first or header not in other.headers or len(group) == MAX_JOINED or _adds_nothing(other, group):
            continue
        larger = [*group, other]
        n_cells = sum(each.n_rows + 1 for each in larger) * sum(each.n_columns for each in larger)
        if n_cells > MAX_CELLS:
            names = [table_name(each.table) for each in larger]
            message = f"{' and '.join(names)} are not joined: {n_cells:,} cells, more than {MAX_CELLS:,}"
            too_large.setdefault(frozenset(names), message)
        elif share_key(first, other, header):
            group = larger
    has_spare = any(_adds_nothing(each, [other for other in group if other is not each]) for each in group)
    return [] if has_spare else group


def _adds_nothing(candidate: JoinCandidate, others: Sequence[JoinCandidate]) -> bool:
    """Whether other tables have all words of the question that a table has."""
    return candidate.words <= frozenset().union(*(other.words for other in others))


def table_name(table: Table) -> str:
    """The file of an asked table, whose id ends with its hash."""
    return table.table_id.rpartition("@")[0]


def counts_once(join: TableJoin, operation: str, cells: Sequence[CellLocation], question: str) -> bool:
    """Whether the result of an operation on a join counts no cell that repeats, and the rows that a question counts.

    "Which keeper caught the most swarms?" asks for a sum of several rows of each keeper, and "How many harvests" for
    rows of the table harvests.csv, if no column is called so.
    """
    if not join.repeated:
        return True
    key = join.repeated[0]
    row_nouns = collect_words(_strip_suffix(table_name(join.sources[0]))) - collect_words(" ".join(join.table.header))
    rows = {i for i, _ in cells if i}
    keys = {normalize(join.table.rows[i - 1][key]) for i in rows}
    match operation:
        case "total" | "mean":
            return all(j not in join.repeated for _, j in cells)
        case "superlative":
            return len(keys) == len(rows) or bool(row_nouns & collect_words(question))
        case "count":
            counted = pattern("counting").search(question)
            return counted is None or bool(row_nouns & collect_words(question[counted.end() + 1 :].partition(" ")[0]))
    return False


def join_tables(joined: Sequence[JoinCandidate], header: str) -> TableJoin:
    """The full outer join by a key: all rows of the first table, then those of the others that it does not have.

    If the key repeats in the first table: its rows, with the columns of the others.
    """
    columns = _list_columns(joined, header)
    rows = list(_match_rows(joined, header))
    origins = chain(
        *(_list_origins(source, column, rows, j) for j, each in enumerate(columns) for source, column in each)
    )
    tables = tuple(each.table for each in joined)
    table_id = f"{' + '.join(map(table_name, tables))}@{content_id('join', header, *(t.table_id for t in tables))[:12]}"
    first = joined[0]
    caption = f"{' and '.join(map(_describe, tables))}, by {first.table.header[first.headers[header]].strip()}"
    labels = _label_columns([sources[0] for sources in columns])
    texts = tuple(tuple(_find_text(sources, row) for sources in columns) for row in rows)
    repeated = (first.headers[header], *range(first.n_columns, len(columns))) if header not in first.keys else ()
    return TableJoin(Table(ASKED_BENCHMARK, table_id, caption, labels, texts, origins=tuple(origins)), tables, repeated)


def _match_rows(joined: Sequence[JoinCandidate], header: str) -> Iterator[JoinedRow]:
    """The rows of the tables that a joined row is made of, for each value of a key or each row that looks one up."""
    first, *others = joined
    if header in first.keys:
        values = dict.fromkeys(chain(*(each.keys[header] for each in joined)))
        matches = [(first.keys[header].get(value), value) for value in values]
    else:
        matches = [(row, first.find_value(header, row)) for row in first.body]
    for row, value in matches:
        yield {first: row, **{each: each.keys[header].get(value) for each in others}}


def _list_columns(joined: Sequence[JoinCandidate], header: str) -> list[list[SourceColumn]]:
    """The columns of a join, those of the first table first; its key comes from all tables."""
    first, *others = joined
    key = [(each, each.headers[header]) for each in joined]
    columns = [key if j == first.headers[header] else [(first, j)] for j in range(first.n_columns)]
    return columns + [[(each, j)] for each in others for j in range(each.n_columns) if j != each.headers[header]]


def _find_text(sources: Sequence[SourceColumn], rows: JoinedRow) -> str:
    """The text of a joined column in a row: that of the first table that has one."""
    places = ((source, column, rows[source]) for source, column in sources)
    texts = (source.text_at(row, column) for source, column, row in places if row is not None)
    return next(filter(None, texts), "")


def _list_origins(
    source: JoinCandidate, column: int, rows: Sequence[JoinedRow], joined_column: int
) -> Iterator[CellOrigin]:
    """Where a joined column takes its header and the cells of one table from, and the column as a whole."""
    table_id = source.table.table_id
    yield CellOrigin(f"c{joined_column}", table_id, f"c{column}")
    yield CellOrigin(f"r0c{joined_column}", table_id, f"r0c{column}")
    for joined_row, row in enumerate(rows, 1):
        i = row[source]
        if i is not None and source.text_at(i, column):
            yield CellOrigin(f"r{joined_row}c{joined_column}", table_id, f"r{i + 1}c{column}")


def _describe(table: Table) -> str:
    """The caption of a table and its file."""
    name = table_name(table)
    return name if table.caption == name else f"{table.caption} ({name})"


def _label_columns(columns: Sequence[SourceColumn]) -> tuple[str, ...]:
    """The headers; one that several tables have is preceded by the words of its file alone, such as "2024: sales".

    So are headers that ask for the same, such as "price" and "cost".
    """
    headers = [source.table.header[j].strip() if j < len(source.table.header) else "" for source, j in columns]
    columns_by_name = dict[frozenset[str], list[int]]()
    for position, header in enumerate(headers):
        columns_by_name.setdefault(normalize_header(header), []).append(position)
    labels = list(headers)
    for name, positions in columns_by_name.items():
        tables = [columns[n][0].table for n in positions]
        if name and 1 < len(positions) == len({table.table_id for table in tables}):
            for n, words in zip(positions, _distinguish(tables), strict=True):
                labels[n] = f"{words}: {headers[n]}"
    return tuple(labels)


def _distinguish(tables: Sequence[Table]) -> Iterator[str]:
    """The words of the name of each file that not all of them have; all words, if there are none."""
    names = [_NAME_WORD.findall(_strip_suffix(table_name(table))) for table in tables]
    shared = frozenset.intersection(*(frozenset(map(str.casefold, name)) for name in names))
    for name in names:
        yield " ".join([word for word in name if word.casefold() not in shared] or name)


def _strip_suffix(name: str) -> str:
    """The name of a file without its suffix, but with the number of a table in it: "club, table 2"."""
    file, comma, table = name.partition(", table ")
    return f"{PurePosixPath(file).with_suffix('')}{comma}{table}"
