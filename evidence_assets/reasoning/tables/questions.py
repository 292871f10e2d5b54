"""Questions whose answer is worked out from cells rather than read in one.

What belongs here: from the words of a question to one expression, and from its value to how far an option is it. Where
the words call for no operation, or do not name what it needs, nothing is worked out and the cells are weighed as they
stand (`choices`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from evidence_assets.reasoning.tables.algebra import (  # fmt: skip
    Aggregate,
    Condition,
    Difference,
    Expression,
    Extreme,
    Filter,
    Outcome,
    Ratio,
    Trend,
    label_of,
    ranking,
    row_name,
)
from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import moves, pattern, says, squeezed
from evidence_assets.reasoning.tables.likeness import option_match
from evidence_assets.reasoning.tables.mentions import Reading, read_text, rows_named_with
from evidence_assets.reasoning.tables.quantities import number_at, states
from evidence_assets.reasoning.tables.reader import (  # fmt: skip
    compared_order,
    conditions_of,
    direction_in,
    left_out,
    measured_column,
    rows_meant,
    trend_of,
    yes_conditions,
)
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens
from evidence_assets.reasoning.tables.view import Place, TableView

# How far an option may be from a number asked for "about", as a share of it, to count at all.
_NEAR = 0.25
_SAME_TEXT = 0.99
# The least that an option has which is the number when rounded.
_ROUNDED = 0.9
_ARTICLES, _LONGEST_NAME = frozenset({"a", "an", "the"}), 3
_NUMBERS_ONLY = frozenset({"mean", "sum", "difference", "ratio"})


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """Evaluate the expression that a question is read into; None where there is none that the table can show.

    Examples
    --------
    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> work_out(view, "How much deeper is Como than Garda?").number
    79.0
    """
    reading = read_text(view, question)
    for rule in RULES:
        expression = rule(reading)
        outcome = expression if isinstance(expression, Outcome) else expression and expression.evaluate(view)
        if outcome is not None:
            return replace(outcome, about=outcome.operation in _NUMBERS_ONLY and says("about", question))
    return None


def _trend(reading: Reading) -> Expression | None:
    if not (says("trend", reading.text) or moves(reading.text)):
        return None
    clause, columns = trend_of(reading), reading.numeric_columns
    if clause is not None:
        return clause[0]
    return Trend(columns[0][0]) if len(columns) == 1 and says("trend", reading.text) and not reading.rows else None


def _pair(reading: Reading) -> Expression | None:
    """Difference or ratio of the two rows that are named."""
    rows = compared_order(reading)
    column = measured_column(reading, reading.degrees[0] if reading.degrees else None, presume=True)
    if len(rows) != 2 or column is None:
        return None
    first, second = ((row, column) for row in rows)
    if says("ratio", reading.text):
        return Ratio(first, second)
    apart = says("difference", reading.text) or (says("how_much_more", reading.text) and reading.degrees)
    return Difference(first, second) if apart else None


def _aggregate(reading: Reading) -> Expression | None:
    """Sum, mean or span over the rows that are named or satisfy what is said; over all where nothing is."""
    text = reading.text
    ends = {degree.direction for degree in reading.degrees if degree.kind == "superlative"}
    span = ends == {1, -1} and (says("difference", text) or says("how_much_more", text))
    column = measured_column(reading, reading.degrees[0] if span else None, presume=True)
    rows = tuple(row for row, _ in reading.rows)
    kind = "span" if span else "mean" if says("mean", text) else "sum" if says("sum", text) else None
    if column is None or kind is None or len(rows) == 1 or (says("ratio", text) and not span):
        return None
    if not rows and not span and _names_something_else(reading):
        return None
    conditions = [
        condition for condition in conditions_of(reading, presume=True) if condition.column != column or not span
    ]
    return Aggregate(kind, column, rows or rows_meant(reading, conditions))  # type: ignore[arg-type]


def _names_something_else(reading: Reading) -> bool:
    """Whether one thing is meant whose name was not read: "of a red squirel" wants no mean of all animals.

    Behind an article a word, in the singular, that stands in some rows' names says so; "of the cities" and "per city" mean them all.
    """
    words, rows = reading.words, len(reading.view.body)
    for k, word in enumerate(words):
        led = any(before.raw in _ARTICLES for before in words[max(0, k - _LONGEST_NAME) : k])
        each = k > 0 and words[k - 1].raw in {"per", "each", "every"}
        if not led or each or word.raw.endswith("s") or word.raw in STOP_WORDS or reading.masked(word.start):
            continue
        if 0 < len(rows_named_with(reading.view, word)) <= rows / 2:
            return True
    return False


def _same_as(reading: Reading) -> Outcome | None:
    """Rows that have the same as a named row in a named column."""
    if len(reading.rows) != 1 or len(reading.columns) != 1 or not says("same", reading.text):
        return None
    place = row, column = reading.rows[0][0], reading.columns[0][0]
    same = Filter((Condition(column, frozenset({reading.view.cell(place).plain} - {""})),)).evaluate(reading.view)
    others = tuple(item for item in same.rows if item[0] != row)
    return replace(same, operation="comparison", rows=others) if others else None


def _count(reading: Reading) -> Outcome | None:
    view, text = reading.view, reading.text
    if not says("count", text):
        return None
    if says("distinct", text) and len(reading.columns) == 1:
        column = reading.columns[0][0]
        filled = tuple((i, column) for i in view.body if view.cell((i, column)).plain)
        entries = len({view.cell(place).plain for place in filled})
        return Outcome(
            "count", f"“{label_of(view, column)}” holds {entries} different entries.", filled, float(entries)
        )
    conditions = [*conditions_of(reading, presume=True), *yes_conditions(reading)]
    if conditions:
        return None if reading.rows else Filter(tuple(conditions)).evaluate(view)
    above = _compared(reading) if len(reading.rows) == 1 else None
    found = above if isinstance(above, Outcome) else None
    return found and replace(found, operation="count", number=float(len(found.rows)))


def _compared(reading: Reading) -> Expression | Outcome | None:
    """Rows above or below a named row or a number; of two named rows joined by "or" the one that has more."""
    view, rows = reading.view, reading.rows
    asked = says("asks_for_rows", reading.text)
    conditions = tuple(conditions_of(reading, presume=True))
    degree = next((degree for degree in reading.degrees if degree.kind == "comparative"), None)
    if degree is None:
        bounded = any(number.comparator for number in reading.numbers)
        return Filter(conditions) if bounded and asked and conditions and not rows else None
    column = measured_column(reading, degree, presume=True)
    if column is None:
        return None
    direction = direction_in(view, degree, column)
    than = pattern("than").search(reading.text, degree.end)
    after = [row for row, mention in rows if mention.start > degree.end] if than or degree.in_time else []
    if len(rows) == 1 and after:
        return _beyond(view, column, after[0], direction)
    if not than and len(rows) > 1:
        return Extreme(column, tuple(row for row, _ in rows), direction)
    if not rows and reading.numbers and asked:
        return Filter(conditions) if conditions else None
    if not than and not rows and not degree.verb:
        # "Which working dog is lighter?"
        return Extreme(column, rows_meant(reading, reading.conditions), direction)
    return None


def _beyond(view: TableView, column: int, row: int, direction: int) -> Outcome | None:
    """The rows above or below one row in a column."""
    limit = number_at(view, (row, column))
    if limit is None:
        return None
    rows = [i for value, i in ranking(view, column, view.body, direction) if direction * (value - limit) > 0]
    cells = ((row, column), *((i, column) for i in rows))
    how = "greater" if direction > 0 else "smaller"
    text = f"{len(rows)} rows have a {how} “{label_of(view, column)}” than “{view.cell(cells[0]).plain}”."
    return Outcome("comparison", text, cells, rows=tuple((i, 1.0) for i in rows))


def _superlative(reading: Reading) -> Expression | None:
    degree = next((degree for degree in reading.degrees if degree.kind == "superlative"), None)
    column = measured_column(reading, degree, presume=True)
    if degree is None or column is None:
        return None
    without = left_out(reading)
    rows = [row for row, _ in reading.rows if row not in without]
    if len(rows) < 2:
        conditions = [condition for condition in conditions_of(reading, presume=True) if condition.column != column]
        rows = [i for i in rows_meant(reading, conditions) if i not in without]
    return Extreme(column, tuple(rows), direction_in(reading.view, degree, column), degree.rank)


def _listed(reading: Reading) -> Outcome | None:
    """Rows with all the cells that the question names with their columns; those with some count less."""
    view, yes = reading.view, yes_conditions(reading)
    conditions = [*conditions_of(reading, presume=True), *yes]
    if reading.rows or not reading.items or not says("asks_for_rows", reading.text):
        return None
    if len(conditions) + bool(yes) < 2 or not all(condition.named for condition in conditions):
        return None
    kept = [condition.met(view) for condition in conditions]
    share = {i: sum(i in rows for rows in kept) / len(kept) for i in view.body}
    best = [i for i, part in share.items() if part == 1.0]
    if not best:
        return None
    cells = tuple((i, j) for i in best for j in dict.fromkeys(condition.column for condition in conditions))
    text = f"{' and '.join(row_name(view, i) for i in best)} has all that is named."
    return Outcome("find_row", text, cells, rows=tuple((i, part * part) for i, part in share.items() if part))


def _looked_up(reading: Reading) -> Outcome | None:
    """The cell of the one row and the one column that are named."""
    rows, columns = reading.rows, reading.columns
    if len(rows) != 1 or len(columns) != 1 or not (rows[0][1].whole and columns[0][1].whole):
        return None
    place = (rows[0][0], columns[0][0])
    text = reading.view.cell(place).plain
    if not text or reading.conditions:
        return None
    return Outcome("look_up", f"The row of {row_name(reading.view, place[0])} says “{text}” there.", (place,))


RULES: tuple[Callable[[Reading], Expression | Outcome | None], ...] = (
    _trend, _pair, _aggregate, _same_as, _count, _compared, _superlative, _listed, _looked_up,
)  # fmt: skip


def could_be(outcome: Outcome, option: str) -> bool:
    """Whether an option is of the kind of an outcome: a name is never the answer where a mean was worked out."""
    return outcome.operation not in _NUMBERS_ONLY or bool(_numbers_of(option))


def _answered_by_rows(outcome: Outcome, option: str) -> bool:
    return bool(outcome.rows) and not (outcome.operation == "count" and _numbers_of(option))


def shown_for(view: TableView, outcome: Outcome, option: str, place: Place | None) -> tuple[Place, ...]:
    """The cells that show how an option stands to an outcome: where rows are the answer, those of the row it names."""
    if not _answered_by_rows(outcome, option):
        return outcome.cells
    names = ((i, j) for i in view.body for j in view.telling_columns)
    row = (place or next((at for at in names if _alike(option, view.cell(at).plain) >= _SAME_TEXT), (None,)))[0]
    return tuple(cell for cell in outcome.shown_for(row) if view.cell(cell).plain)


def option_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """How far an option is the outcome, in [0, 1], and the cell that says so if it is a cell."""
    if outcome.operation == "trend":
        return float(squeezed([sign for _, sign in moves(option)]) == outcome.pattern), None
    if outcome.operation == "look_up":
        place = outcome.cells[0]
        return _alike(option, view.cell(place).plain), place
    if _answered_by_rows(outcome, option):
        return _row_share(view, outcome, option)
    return _number_share(outcome, option), None


def _number_share(outcome: Outcome, option: str) -> float:
    values = _numbers_of(option)
    if not values or outcome.number is None:
        return 0.0
    claimed = values[0]
    distance = abs(outcome.number - claimed.value) / max(abs(outcome.number), abs(claimed.value), 1e-12)
    if states(claimed, outcome.number):
        # Of two options that both hold when rounded, the nearer one is meant.
        return max(_ROUNDED, 1.0 - distance)
    return max(0.0, 0.8 * (1 - distance / _NEAR)) if outcome.about or claimed.comparator == "≈" else 0.0


def _numbers_of(option: str) -> tuple[CellValue, ...]:
    """Numbers that an option states in figures, or in one word."""
    found = [stem(token) for token in tokens(option)]
    return parse_values(plain_text(option)) or (parse_values(found[0]) if len(found) == 1 else ())


def _row_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """The row that an option names, by its name or by another of its cells, and how far it is the one asked for."""
    names = view.name_columns
    best: tuple[float, Place | None] = (0.0, None)
    for i, share in outcome.rows:
        for j in sorted(view.columns, key=lambda j: (j not in names, j)):
            if share > best[0] and _alike(option, view.cell((i, j)).plain) >= _SAME_TEXT:
                best = (share, (i, j))
    return best


def _alike(option: str, text: str) -> float:
    """How far an option is a cell, by its words or by its number at the option's precision; a part counts half."""
    match = option_match(option, text)
    claimed, stated = parse_values(plain_text(option)), parse_values(plain_text(text))
    if match == 1.0 or len(claimed) != 1 or len(stated) != 1 or stated[0].comparator not in {"", "≈"}:
        return 1.0 if match == 1.0 else 0.5 * match
    if claimed[0].value == stated[0].value:
        return 0.5 * match if claimed[0].comparator in {"<", ">"} else 1.0
    return _ROUNDED if states(claimed[0], stated[0].value) else 0.5 * match
