"""Questions whose answer is worked out from cells rather than read in one.

What belongs here: from the words of a question to one operation, and from its outcome to how far an option is it. Where
the words call for no operation, or do not name what it needs, nothing is worked out and the cells are weighed as they
stand (`choices`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.degrees import (
    COUNT,
    DIFFERENCE,
    DISTINCT,
    HOW_MUCH_MORE,
    ORDERED,
    RATIO,
    SAME,
    TREND,
    Degree,
    moves,
    pattern_of,
)
from evidence_assets.reasoning.tables.likeness import option_match
from evidence_assets.reasoning.tables.mentions import Condition, Reading, read_text, rows_named_with
from evidence_assets.reasoning.tables.operations import states
from evidence_assets.reasoning.tables.quantities import number_at
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens
from evidence_assets.reasoning.tables.view import Place, TableView
from evidence_assets.reasoning.tables.workings import Outcome, measured_column, pair_number

VERSION = "3"

_ASKS_FOR_ROWS = re.compile(r"\b(?:which|who|what|whose|name|where)\b", re.IGNORECASE)
_ABOUT = re.compile(r"\b(?:about|roughly|approximately|around|nearly|almost|estimate\w*)\b|≈|~", re.IGNORECASE)
# How far an option may be from a number asked for "about", as a share of it, to count at all.
_NEAR = 0.25
_SAME_TEXT = 0.99
# The least that an option has which is the number when rounded.
_ROUNDED = 0.9


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """Carry out the operation that a question calls for; None where it calls for none that the table can show.

    Examples
    --------
    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> work_out(view, "How much deeper is Como than Garda?").number
    79.0
    """
    reading = read_text(view, question)
    words = workings.words_of_degree(reading)
    for operation in (_trend, _pair, _span, _same_as, _aggregate, _count, _compared, _superlative, _listed, _looked_up):
        outcome = operation(reading, words)
        if outcome is not None:
            return outcome
    return None


def _trend(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    if not (TREND.search(reading.text) or moves(reading.text)):
        return None
    columns = reading.numeric_columns
    clause = workings.trend_clause(reading, columns, ORDERED.search)
    if clause is not None:
        return workings.series_pattern(reading.view, clause[0], clause[1], clause[2])
    if len(columns) == 1 and TREND.search(reading.text) and not reading.rows:
        return workings.series_pattern(reading.view, columns[0][0], None, 1)
    return None


def _pair(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Difference or ratio of the two rows that are named."""
    rows = workings.compared_order(reading)
    if len(rows) != 2:
        return None
    first = words[0] if words else None
    column = measured_column(reading, first, presume=True)
    if column is None:
        return None
    if RATIO.search(reading.text):
        found = pair_number(reading.view, column, rows[0], rows[1], "ratio")
    elif DIFFERENCE.search(reading.text) or (HOW_MUCH_MORE.search(reading.text) and words):
        found = pair_number(reading.view, column, rows[0], rows[1], "difference")
    else:
        return None
    return found and _approximate(found, reading)


def _span(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """The difference between the greatest and the smallest."""
    ends = {word.direction for word in words if word.kind == "superlative"}
    if ends != {1, -1} or reading.rows or not (DIFFERENCE.search(reading.text) or HOW_MUCH_MORE.search(reading.text)):
        return None
    column = measured_column(reading, words[0], presume=True)
    if column is None:
        return None
    conditions = [condition for condition in _conditions(reading, words) if condition.column != column]
    found = workings.span(reading.view, column, [i for i, _ in workings.count(reading.view, conditions).rows])
    return found and _approximate(found, reading)


def _same_as(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Rows that have the same as a named row in a named column."""
    if len(reading.rows) != 1 or len(reading.columns) != 1 or not SAME.search(reading.text):
        return None
    return workings.alike(reading.view, reading.columns[0][0], reading.rows[0][0])


def _approximate(outcome: Outcome, reading: Reading) -> Outcome:
    said = bool(_ABOUT.search(reading.text))
    return Outcome(outcome.operation, outcome.text, outcome.cells, outcome.number, column=outcome.column, about=said)


def _aggregate(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    operation = workings.pair_operation(reading.text)
    if operation not in {"sum", "mean"}:
        return None
    column = measured_column(reading, None, presume=True)
    rows = [row for row, _ in reading.rows]
    conditions = _conditions(reading, words)
    if column is None or (rows and len(rows) < 2):
        return None
    if not rows and _names_something_else(reading):
        return None
    if not rows:
        rows = [i for i, _ in workings.count(reading.view, conditions).rows] if conditions else list(reading.view.body)
    found = workings.aggregate(reading.view, column, rows, operation)
    return found and _approximate(found, reading)


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


_ARTICLES, _LONGEST_NAME = frozenset({"a", "an", "the"}), 3


def _conditions(reading: Reading, words: tuple[Degree, ...]) -> list[Condition]:
    numeric = [workings.numeric_condition(reading, number, words, presume=True) for number in reading.numbers]
    return sorted([*reading.conditions, *filter(None, numeric)], key=lambda condition: condition.at)


def _count(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    if not COUNT.search(reading.text):
        return None
    view = reading.view
    if DISTINCT.search(reading.text) and len(reading.columns) == 1:
        column = reading.columns[0][0]
        filled = [(i, column) for i in view.body if view.cell((i, column)).plain]
        entries = len({view.cell(place).plain for place in filled})
        said = f"“{workings.label_of(view, column)}” holds {entries} different entries."
        return Outcome("count", said, tuple(filled), float(entries))
    conditions = [*_conditions(reading, words), *workings.yes_conditions(reading)]
    above = [word for word in words if word.kind == "comparative"]
    rows = [row for row, _ in reading.rows]
    if not conditions and above and len(rows) == 1 and (found := _compared(reading, words)) is not None:
        number = float(len(found.rows))
        return Outcome("count", f"{found.text} That is {number:g} rows.", found.cells, number)
    if not conditions or rows:
        return None
    return workings.count(view, conditions)


def _compared(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Rows above or below a named row or a number; of two named rows joined by "or" the one that has more."""
    view = reading.view
    above = [word for word in words if word.kind == "comparative"]
    if not above:
        bounded = any(number.comparator for number in reading.numbers)
        conditions = _conditions(reading, words) if bounded and _ASKS_FOR_ROWS.search(reading.text) else []
        return workings.count(view, conditions) if conditions and not reading.rows else None
    degree = above[0]
    column = measured_column(reading, degree, presume=True)
    if column is None:
        return None
    direction = workings.direction_in(view, degree, column)
    rows = [(row, mention) for row, mention in reading.rows]
    than = re.search(r"\bthan\b", reading.text[degree.end :])
    after = [row for row, mention in rows if mention.start > degree.end] if than or degree.in_time else []
    if len(rows) == 1 and after:
        limit = number_at(view, (after[0], column))
        if limit is None:
            return None
        found = [
            i for value, i in workings.ranking(view, column, view.body, direction) if direction * (value - limit) > 0
        ]
        cells = ((after[0], column), *((i, column) for i in found))
        how = "greater" if direction > 0 else "smaller"
        said = f"{len(found)} rows have a {how} “{workings.label_of(view, column)}” than “{view.cell(cells[0]).plain}”."
        return Outcome("comparison", said, cells, rows=tuple((i, 1.0) for i in found), column=column)
    if not than and len(rows) > 1:
        return workings.extreme(view, column, [row for row, _ in rows], direction, 1)
    if not rows and reading.numbers and _ASKS_FOR_ROWS.search(reading.text):
        conditions = _conditions(reading, words)
        return workings.count(view, conditions) if conditions else None
    if not than and not rows and not degree.verb:
        # "Which working dog is lighter?"
        among = [i for i, _ in workings.count(view, reading.conditions).rows]
        return workings.extreme(view, column, among, direction, 1)
    return None


def _superlative(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    view = reading.view
    most = [word for word in words if word.kind == "superlative"]
    if not most:
        return None
    column = measured_column(reading, most[0], presume=True)
    if column is None:
        return None
    without = workings.left_out(reading)
    rows = [row for row, _ in reading.rows if row not in without]
    if len(rows) < 2:
        conditions = [condition for condition in _conditions(reading, words) if condition.column != column]
        rows = [i for i, _ in workings.count(view, conditions).rows] if conditions else list(view.body)
        rows = [i for i in rows if i not in without]
    return workings.extreme(view, column, rows, workings.direction_in(view, most[0], column), most[0].rank)


def _listed(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Rows with all the cells that the question names with their columns; those with some count less."""
    if not _ASKS_FOR_ROWS.search(reading.text) or reading.rows or not reading.items:
        return None
    yes = workings.yes_conditions(reading)
    conditions = [*_conditions(reading, words), *yes]
    if len(conditions) + bool(yes) < 2 or not all(condition.named for condition in conditions):
        return None
    sets = [workings.fitting_rows(reading.view, condition) for condition in conditions]
    share = {i: sum(i in rows for rows in sets) / len(sets) for i in reading.view.body}
    best = [i for i, part in share.items() if part == 1.0]
    if not best:
        return None
    columns = dict.fromkeys(condition.column for condition in conditions)
    cells = tuple((i, j) for i in best for j in columns)
    said = f"{' and '.join(workings.row_name(reading.view, i) for i in best)} has all that is named."
    return Outcome("find_row", said, cells, rows=tuple((i, part * part) for i, part in share.items() if part))


def _looked_up(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """The cell of the one row and the one column that are named."""
    rows, columns = reading.rows, reading.columns
    if len(rows) != 1 or len(columns) != 1 or not (rows[0][1].whole and columns[0][1].whole):
        return None
    place = (rows[0][0], columns[0][0])
    text = reading.view.cell(place).plain
    if not text or reading.conditions:
        return None
    said = f"The row of {workings.row_name(reading.view, place[0])} says “{text}” there."
    return Outcome("look_up", said, (place,), column=place[1])


def could_be(outcome: Outcome, option: str) -> bool:
    """Whether an option is of the kind of an outcome: a name is never the answer where a mean was worked out."""
    return outcome.operation not in _NUMBERS_ONLY or bool(_numbers_of(option))


_NUMBERS_ONLY = frozenset({"mean", "sum", "difference", "ratio"})


def _answered_by_rows(outcome: Outcome, option: str) -> bool:
    return bool(outcome.rows) and not (outcome.operation == "count" and _numbers_of(option))


def shown_for(view: TableView, outcome: Outcome, option: str, place: Place | None) -> tuple[Place, ...]:
    """The cells that show how an option stands to an outcome: where rows are the answer, those of the row it names."""
    if not _answered_by_rows(outcome, option):
        return outcome.cells
    row = place[0] if place is not None else _row_named(view, option)
    return tuple(cell for cell in outcome.shown_for(row) if view.cell(cell).plain)


def _row_named(view: TableView, option: str) -> int | None:
    """The row whose name an option is."""
    names = ((i, j) for i in view.body for j in view.telling_columns)
    return next((place[0] for place in names if _alike(option, view.cell(place).plain) >= _SAME_TEXT), None)


def option_share(
    view: TableView, outcome: Outcome, option: str, match: float | None = None
) -> tuple[float, Place | None]:
    """How far an option is the outcome, in [0, 1], and the cell that says so if it is a cell."""
    if outcome.operation == "trend":
        said = pattern_of(option)
        return (1.0 if said == outcome.pattern else 0.0), None
    if outcome.operation == "look_up":
        place = outcome.cells[0]
        return (_alike(option, view.cell(place).plain), place)
    if _answered_by_rows(outcome, option):
        return _row_share(view, outcome, option)
    return _number_share(outcome, option), None


def _number_share(outcome: Outcome, option: str) -> float:
    values = _numbers_of(option)
    if not values or outcome.number is None:
        return 0.0
    claimed = values[0]
    size = max(abs(outcome.number), abs(claimed.value), 1e-12)
    distance = abs(outcome.number - claimed.value) / size
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
            alike = _alike(option, view.cell((i, j)).plain)
            if alike >= _SAME_TEXT and share > best[0]:
                best = (share, (i, j))
    return best


def _alike(option: str, text: str) -> float:
    """How far an option is a cell, by its words or by its number at the option's precision; a part counts half."""
    match = option_match(option, text)
    if match == 1.0:
        return 1.0
    claimed, stated = parse_values(plain_text(option)), parse_values(plain_text(text))
    if len(claimed) != 1 or len(stated) != 1 or stated[0].comparator not in {"", "≈"}:
        return 0.5 * match
    if claimed[0].value == stated[0].value:
        return 0.5 * match if claimed[0].comparator in {"<", ">"} else 1.0
    return _ROUNDED if states(claimed[0], stated[0].value) else 0.5 * match
