"""The tables of the sample world, and the claims and questions that are computed from their cells.

A table is a CSV file whose first lines are comments: caption, source, and the noun for what a row is about. The first
column names the rows. Columns whose cells are all numbers can be compared, subtracted, divided and counted over.
Every claim and question knows the cells that decide it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from tools.sample_world.facts import INPUTS, capital, order_key

SUPPORTS, REFUTES, UNKNOWN = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
LABELS = [SUPPORTS, REFUTES, UNKNOWN]
Cell = tuple[int, int]


@dataclass(frozen=True)
class Table:
    """A table, where its content can be checked, and a claim near its topic that lies beyond it."""

    table_id: str
    caption: str
    source: str
    item: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    beyond: str = ""

    @cached_property
    def numbers(self) -> dict[int, list[float]]:
        """The columns that hold numbers only, with their values."""
        columns: dict[int, list[float]] = {}
        for column in range(1, len(self.header)):
            try:
                columns[column] = [float(row[column]) for row in self.rows]
            except ValueError:
                continue
        return columns

    def is_year(self, column: int) -> bool:
        """Say whether the column holds years, for which ratios mean nothing."""
        name = self.header[column].lower()
        dated = ("year", "discovered", "admitted", "joined", "adopted", "launched", "opened", "completed", "appeared")
        others = ("born", "died", "independent", "first", "finished", "isolated")
        return (
            not name.startswith("length of") and "years" not in name and any(word in name for word in (*dated, *others))
        )

    def name(self, row: int) -> str:
        """The name of a row."""
        return self.rows[row][0]

    def evidence(self, cells: list[Cell]) -> list[dict[str, Any]]:
        """Gold evidence rows for cells."""
        return [
            {"kind": "cell", "source": self.table_id, "locator": f"r{row + 1}c{column}", "text": self.rows[row][column]}
            for row, column in cells
        ]


def load_tables() -> list[Table]:
    """Read all tables of the package, in the order of their names."""
    tables = []
    for path in sorted((INPUTS / "facts" / "tables").iterdir(), key=lambda path: path.name):
        lines = path.read_text(encoding="utf-8").splitlines()
        notes = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
        header, *rows = list(csv.reader(line for line in lines if line and not line.startswith("#")))
        if any(len(row) != len(header) for row in rows):
            raise ValueError(f"{path.name}: a row has another number of cells than the header")
        table_id = path.name.removesuffix(".csv")
        tables.append(
            Table(
                table_id,
                notes["caption"],
                notes["source"],
                notes["item"],
                tuple(header),
                tuple(map(tuple, rows)),
                notes.get("beyond", ""),
            )
        )
    return tables


def plain(value: float) -> str:
    """Write a number without needless zeros, rounded to two places."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def comparable(text: str) -> str:
    """The text as a reader compares it: numbers by their value, words without case and needless space.

    >>> comparable("2.70") == comparable("2.7"), comparable(" No ") == comparable("no")
    (True, True)
    """
    try:
        return repr(float(text.replace(",", "")))
    except ValueError:
        return " ".join(text.casefold().split())


def column_name(table: Table, column: int) -> str:
    """The header as it is spoken inside a sentence: without its unit, in small letters unless a name begins it."""
    name = table.header[column].split(" (")[0]
    keep = name[:2].isupper() or name.split()[0] in ("Roman", "Mohs")
    return name if keep else name[0].lower() + name[1:]


def unit(table: Table, column: int) -> str:
    """The unit in the header's brackets, with a space before it, or nothing."""
    header = table.header[column]
    if " (" not in header or table.is_year(column):
        return ""
    return " " + header.split(" (", 1)[1].rstrip(")")


@dataclass(frozen=True)
class Finding:
    """Something that a table says: a question with its answer, the wrong answers near it, and the deciding cells."""

    question: str
    answer: str
    wrong: tuple[str, ...]
    statement: str
    false_statement: str
    cells: tuple[Cell, ...]


Finder = Callable[[Table, str], Finding | None]


def _pick(key: str, items: list[Any], count: int) -> list[Any]:
    return sorted(items, key=lambda item: order_key(key, item))[:count]


def _numeric(table: Table, key: str, *, years: bool = True, distinct: bool = False) -> int | None:
    columns = [
        column
        for column, values in table.numbers.items()
        if (years or not table.is_year(column)) and (not distinct or len(set(values)) == len(values))
    ]
    return _pick(key, columns, 1)[0] if columns else None


def look_up(table: Table, key: str) -> Finding | None:
    """A cell asked for by its row and column; the wrong answers are cells of the same column."""
    column = _pick(key, list(range(1, len(table.header))), 1)[0]
    row = _pick(key, list(range(len(table.rows))), 1)[0]
    value = table.rows[row][column]
    others = {comparable(other[column]): other[column] for other in table.rows}
    others.pop(comparable(value))
    wrong_answers = _pick(key, sorted(others.values()), 3)
    if len(wrong_answers) < 2:
        return None
    name, column_text, of = table.name(row), column_name(table, column), unit(table, column)
    return Finding(
        f"{capital(table.caption)}: what stands under '{column_text}' for {name}?",
        value,
        tuple(wrong_answers),
        f"For {name}, the entry on {column_text} reads {value}{of}.",
        f"For {name}, the entry on {column_text} reads {wrong_answers[0]}{of}.",
        ((row, column),),
    )


def reverse_look_up(table: Table, key: str) -> Finding | None:
    """A row asked for by two of its cells, of which each alone fits other rows too where that is possible."""
    columns = list(range(1, len(table.header)))
    for row in _pick(key, list(range(len(table.rows))), len(table.rows)):
        for first in _pick(key, columns, len(columns)):
            for second in _pick(key + "second", columns, len(columns)):
                if first >= second:
                    continue
                pair = table.rows[row][first], table.rows[row][second]
                fits = [r for r in table.rows if (r[first], r[second]) == pair]
                near = [r[0] for r in table.rows if (r[first] == pair[0]) != (r[second] == pair[1])]
                if len(fits) == 1 and len(near) >= 2:
                    others = [r[0] for r in table.rows if r[0] not in near and r[0] != table.name(row)]
                    wrong_answers = [*_pick(key, near, 3), *_pick(key, others, 3)][:3]
                    condition = (
                        f"{column_name(table, first)} {pair[0]}{unit(table, first)} and {column_name(table, second)} "
                        f"{pair[1]}{unit(table, second)}"
                    )
                    return Finding(
                        f"Which {table.item} is listed with {condition}?",
                        table.name(row),
                        tuple(wrong_answers),
                        f"{table.name(row)} is the {table.item} listed with {condition}.",
                        f"{wrong_answers[0]} is the {table.item} listed with {condition}.",
                        ((row, first), (row, second)),
                    )
    return None


def compare(table: Table, key: str) -> Finding | None:
    """Which of four rows has more than a fifth one; exactly one of them has."""
    column = _numeric(table, key, distinct=True)
    if column is None or len(table.rows) < 5:
        return None
    values = table.numbers[column]
    order = sorted(range(len(values)), key=lambda row: values[row])
    place = 3 + int(order_key(key, "place"), 16) % (len(order) - 4)
    middle, above = order[place], _pick(key, order[place + 1 :], 1)[0]
    below = _pick(key, order[:place], 3)
    column_text = column_name(table, column)
    verb = "a later" if table.is_year(column) else "a greater"
    other = "an earlier" if table.is_year(column) else "a smaller"
    return Finding(
        f"Which of these has {verb} value than {table.name(middle)} under '{column_text}'?",
        table.name(above),
        tuple(table.name(row) for row in below),
        f"{table.name(above)} has {verb} value of {column_text} than {table.name(middle)}.",
        f"{table.name(above)} has {other} value of {column_text} than {table.name(middle)}.",
        ((above, column), (middle, column)),
    )


def superlative(table: Table, key: str) -> Finding | None:
    """The row with the greatest or smallest value."""
    column = _numeric(table, key, distinct=True)
    if column is None or len(table.rows) < 4:
        return None
    values = table.numbers[column]
    order = sorted(range(len(values)), key=lambda row: values[row])
    most = int(order_key(key, "most"), 16) % 2 == 0
    best, near = (order[-1], order[-2]) if most else (order[0], order[1])
    words = ("latest", "earliest") if table.is_year(column) else ("greatest", "smallest")
    word = words[0] if most else words[1]
    other_rows = _pick(key, [row for row in order if row not in (best, near)], 2)
    column_text = column_name(table, column)
    return Finding(
        f"{capital(table.caption)}: which {table.item} has the {word} value under '{column_text}'?",
        table.name(best),
        tuple(table.name(row) for row in (near, *other_rows)),
        f"No {table.item} of the table has a {'later or greater' if most else 'smaller or earlier'} {column_text} than "
        f"{table.name(best)}.",
        f"No {table.item} of the table has a {'later or greater' if most else 'smaller or earlier'} {column_text} than "
        f"{table.name(near)}.",
        tuple((row, column) for row in range(len(values))),
    )


def difference(table: Table, key: str) -> Finding | None:
    """How far two rows are apart; the wrong answers are their values, their sum and another difference."""
    column = _numeric(table, key)
    if column is None:
        return None
    values = table.numbers[column]
    one, two, three = _pick(key, list(range(len(values))), 3)
    gap = plain(abs(values[one] - values[two]))
    near = [plain(abs(values[one] - values[three])), plain(values[one]), plain(values[two])]
    wrong_answers = [text for text in dict.fromkeys(near) if text not in (gap, "0")]
    if len(wrong_answers) < 3 or gap == "0":
        return None
    column_text = column_name(table, column)
    of = " years" if table.is_year(column) else unit(table, column)
    pair = f"{table.name(one)} and {table.name(two)}"
    return Finding(
        f"By how much do {pair} differ under '{column_text}'?",
        gap,
        tuple(wrong_answers),
        f"Under '{column_text}', {pair} lie {gap}{of} apart.",
        f"Under '{column_text}', {pair} lie {wrong_answers[0]}{of} apart.",
        ((one, column), (two, column)),
    )


def ratio(table: Table, key: str) -> Finding | None:
    """How many times one row's value is contained in another's, where that is close to a round number."""
    column = _numeric(table, key, years=False)
    if (
        column is None
        or min(table.numbers[column]) <= 0
        or "°C" in table.header[column]
        or "Power" in table.header[column]
    ):
        return None
    values = table.numbers[column]
    pairs = [
        (one, two)
        for one in range(len(values))
        for two in range(len(values))
        if values[one] >= 1.9 * values[two] and abs(values[one] / values[two] - round(values[one] / values[two])) < 0.06
    ]
    if not pairs:
        return None
    one, two = _pick(key, pairs, 1)[0]
    times = round(values[one] / values[two])
    wrong_answers = [str(times + 1), str(times * 2), str(times - 1)]
    column_text = column_name(table, column)
    return Finding(
        f"Divide the {column_text} of {table.name(one)} by that of {table.name(two)}: about what comes out?",
        str(times),
        tuple(wrong_answers),
        f"The {column_text} of {table.name(one)} is about {times} times that of {table.name(two)}.",
        f"The {column_text} of {table.name(one)} is about {wrong_answers[1]} times that of {table.name(two)}.",
        ((one, column), (two, column)),
    )


def count(table: Table, key: str) -> Finding | None:
    """How many rows share a text, or lie above a value."""
    texts = [
        column
        for column in range(1, len(table.header))
        if column not in table.numbers and 2 <= len({row[column] for row in table.rows}) < len(table.rows)
    ]
    column = _pick(key, texts, 1)[0] if texts else _numeric(table, key, distinct=True)
    if column is None or len(table.rows) < 5:
        return None
    column_text = column_name(table, column)
    if texts:
        duplicates = sorted(
            {row[column] for row in table.rows if sum(row[column] == r[column] for r in table.rows) > 1}
        )
        value = _pick(key, duplicates, 1)[0]
        number = sum(row[column] == value for row in table.rows)
        what = f"have '{value}' under '{column_text}'"
    else:
        values = table.numbers[column]
        row = _pick(key, sorted(range(len(values)), key=lambda row: values[row])[1:-2], 1)[0]
        number = sum(other > values[row] for other in values)
        what = f"have more than {table.rows[row][column]}{unit(table, column)} under '{column_text}'"
    wrong_answers = [str(other) for other in (number + 1, number - 1, number + 2, number + 3) if other > 0][:3]
    return Finding(
        f"{capital(table.caption)}: how many rows {what}?",
        str(number),
        tuple(wrong_answers),
        f"Exactly {number} of the rows {what}.",
        f"Exactly {wrong_answers[0]} of the rows {what}.",
        tuple((row, column) for row in range(len(table.rows))),
    )


def trend(table: Table, key: str) -> Finding | None:
    """Whether one number rises or falls throughout as another one rises."""
    monotone = []
    for first, along in table.numbers.items():
        if len(set(along)) < len(along) or len(along) < 4:
            continue
        order = sorted(range(len(along)), key=lambda row: along[row])
        for second, values in table.numbers.items():
            steps = [values[b] - values[a] for a, b in pairwise(order)]
            if second != first and (all(step > 0 for step in steps) or all(step < 0 for step in steps)):
                monotone.append((first, second, "rises" if steps[0] > 0 else "falls"))
    if not monotone:
        return None
    first, second, way = _pick(key, monotone, 1)[0]
    other = "falls" if way == "rises" else "rises"
    one, two = column_name(table, first), column_name(table, second)
    return Finding(
        f"What does '{two}' do from row to row as '{one}' grows?",
        f"it {way} throughout",
        (f"it {other} throughout", "it first rises and then falls", "it first falls and then rises"),
        f"With the rows sorted by {one}, the column '{two}' {way} every time.",
        f"With the rows sorted by {one}, the column '{two}' {other} every time.",
        tuple((row, column) for row in range(len(table.rows)) for column in (first, second)),
    )


FINDERS: tuple[Finder, ...] = (look_up, reverse_look_up, compare, superlative, difference, ratio, count, trend)
