"""Claims that name what they are about: one operation is carried out, and it bears the claim out or it does not.

What belongs here: from the words of a claim to an operation whose rows, columns and numbers are all named, and its
verdict. A claim that leaves some of that open is no matter for these checks; `claims` weighs such claims otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.methods.cells import CellValue
from evidence_assets.methods.table_text import STOP_WORDS, stem, unit_in, word_set
from evidence_assets.reasoning.tables import degrees as vocabulary
from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.degrees import Degree
from evidence_assets.reasoning.tables.mentions import Condition, Mention, Reading, is_numeric, number_at, read_text
from evidence_assets.reasoning.tables.operations import states
from evidence_assets.reasoning.tables.view import TableView
from evidence_assets.reasoning.tables.workings import Outcome, label_of, measured_column, pair_number

VERSION = "1"

# Words of claims about tables that say nothing of the matter itself.
_FRAME_LIST = """
    value values entry entries row rows column columns table tables cell list listed lists show shows shown read reads
    stand stands give gives given record recorded figure figures item items exactly only just least most number name
    named named under amount one ones sort sorted order ordered rank ranked lie lies differ difference time times every
    equal equals same twice double doubled triple half third much many total altogether rise rises fall falls grow grows no not never
"""
_FRAME = frozenset(stem(word) for word in _FRAME_LIST.split())
# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
_FURTHER_WORDS = 1
# And with more than these it says more than any one operation can check.
_MOST_FURTHER_WORDS = 3
_BOUNDS = frozenset({">", "<", "≥", "≤"})
_COUNTED = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")


def check(view: TableView, claim: str) -> Outcome | None:
    """Carry out the operation that a claim states; ``holds`` says whether the cells bear it out.

    Examples
    --------
    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> check(view, "Garda is twice as deep as Iseo.").holds, check(view, "No lake is deeper than Como.").holds
    (False, True)
    """
    reading = read_text(view, claim)
    if len(further_words(reading)) > _MOST_FURTHER_WORDS:
        return None
    words = workings.words_of_degree(reading)
    for operation in (_trend, _counted, _every_row, _related, _summed, _extreme, _compared, _bounded, _same, _says):
        outcome = operation(reading, words)
        if outcome is not None:
            return outcome
    return None


def _denied(reading: Reading) -> bool:
    return any(not reading.masked(match.start()) for match in vocabulary.NOT.finditer(reading.text))


def _verdict(outcome: Outcome, holds: bool, reading: Reading) -> Outcome:
    """The outcome with its verdict, turned round where the claim denies what was checked."""
    if not _denied(reading):
        return replace(outcome, holds=holds)
    return replace(outcome, holds=not holds, text=f"{outcome.text} The claim denies this.")


def _measured(reading: Reading, degree: Degree | None) -> int | None:
    """The measured column of a claim, unless so much else is said that the column hinted at is hardly meant."""
    column = measured_column(reading, degree)
    if column is None or any(c == column and mention.whole for c, mention in reading.columns):
        return column
    return column if len(further_words(reading)) <= _FURTHER_WORDS else None


def further_words(reading: Reading) -> frozenset[str]:
    """Content words that are neither the table's nor words of degree, operation or frame."""
    degree_spans = [(word.start, word.end) for word in workings.words_of_degree(reading)]
    named = [(m.start, m.end) for m in reading.mentions] + [(n.start, n.end) for n in reading.numbers] + degree_spans
    return frozenset(
        word.stem
        for word in reading.words
        if word.raw not in STOP_WORDS
        and word.stem not in _FRAME
        and not vocabulary.is_pointer(word.raw)
        and not any(start <= word.start < end for start, end in named)
    )


def _trend(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    columns = reading.numeric_columns
    comparatives = [word for word in words if word.kind == "comparative" and _the_before(reading, word)]
    if len(comparatives) == len(columns) == 2 and not reading.rows:
        # "The fewer are sold, the higher the price."
        sign = comparatives[0].direction * comparatives[1].direction
        found = workings.series_pattern(reading.view, columns[1][0], columns[0][0], 1)
        return found and _verdict(
            found, (found.number or 0.0) > 0.5 if sign > 0 else (found.number or 0.0) < 0.5, reading
        )
    clause = workings.trend_clause(reading, columns, vocabulary.ORDERED.search)
    if clause is None or len(reading.rows) > 0:
        return None
    column, order, direction, start, end = clause
    said = [sign for at, sign in vocabulary.moves(reading.text) if not start <= at < end and not reading.masked(at)]
    outcome = workings.series_pattern(reading.view, column, order, direction)
    if outcome is None or outcome.number is None or not said:
        return None
    wanted = vocabulary.squeezed(said)
    if len(wanted) > 1 or wanted[0] not in (1, -1) or vocabulary.EVERY_STEP.search(reading.text):
        return _verdict(outcome, outcome.pattern == wanted, reading)
    share = outcome.number if wanted[0] > 0 else 1 - outcome.number
    return _verdict(outcome, share > 0.5, reading)


def _the_before(reading: Reading, word: Degree) -> bool:
    return bool(re.search(r"\bthe\s+$", reading.text[: word.start], re.IGNORECASE))


def _conditions(reading: Reading, words: Sequence[Degree], without: CellValue | None = None) -> list[Condition]:
    numbers = [number for number in reading.numbers if number is not without]
    numeric = [workings.numeric_condition(reading, number, words) for number in numbers]
    return sorted([*reading.conditions, *filter(None, numeric)], key=lambda condition: condition.at)


def _counted(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """So many rows satisfy something: a number before the word for the rows, or after "the number of"."""
    if reading.rows:
        return None
    nouns = [match.start() for match in vocabulary.ROWS.finditer(reading.text)] + [m.start for m in reading.items]
    number = next(
        (n for n in reading.numbers for at in nouns if n.end <= at and _COUNTED.fullmatch(reading.text[n.end : at])),
        None,
    )
    if number is None and vocabulary.COUNT.search(reading.text) and reading.numbers:
        number = reading.numbers[-1]
    if number is None or number.value != int(number.value):
        return None
    conditions = _conditions(reading, words, number)
    if not conditions:
        return None
    outcome = workings.count(reading.view, conditions)
    found = outcome.number or 0.0
    if number.comparator in {">", "<"}:
        holds = found > number.value if number.comparator == ">" else found < number.value
    else:
        holds = states(number, found)
    return _verdict(outcome, holds, reading)


def _every_row(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """All rows, or none, satisfy something; what stands before the word for the rows says which rows are meant."""
    every, none = vocabulary.ALL.search(reading.text), vocabulary.NONE.search(reading.text)
    if reading.rows or not (every or none) or not (reading.items or vocabulary.ROWS.search(reading.text)):
        return None
    conditions = [*_conditions(reading, words), *workings.yes_conditions(reading)]
    nouns = [m.start for m in reading.items] + [m.start() for m in vocabulary.ROWS.finditer(reading.text)]
    which = [condition for condition in conditions if condition.at < min(nouns) and condition.number is None]
    if len(conditions) == len(which):
        return None
    among = len(workings.count(reading.view, which).rows) if which else len(reading.view.body)
    outcome = workings.count(reading.view, conditions)
    return _verdict(outcome, outcome.number == (among if every else 0), reading)


def _related(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    rows = workings.compared_order(reading)
    fixed = vocabulary.RATIO.search(reading.text) and workings.fixed_ratio(reading.text)
    if len(rows) != 2 or not (reading.numbers or fixed) or len(reading.numbers) > 1:
        return None
    number = reading.numbers[0] if reading.numbers else fixed
    column = _measured(reading, words[0] if words else None)
    if column is None and number:
        column = reading.column_of(number)
    if column is None or not number:
        return None
    percent = number.kind == "percentage"
    comparative = next((word for word in words if word.kind == "comparative"), None)
    if vocabulary.RATIO.search(reading.text) or (percent and comparative is None):
        outcome = pair_number(reading.view, column, rows[0], rows[1], "ratio")
        if outcome is None or outcome.number is None:
            return None
        return _verdict(outcome, states(number, outcome.number * (100 if percent else 1)), reading)
    outcome = pair_number(reading.view, column, rows[0], rows[1], "difference")
    if outcome is None or outcome.number is None or not (comparative or vocabulary.DIFFERENCE.search(reading.text)):
        return None
    holds = states(number, outcome.number)
    first, second = (number_at(reading.view, place) or 0.0 for place in outcome.cells)
    if percent and second and unit_in(reading.view.shape.labels[column]) != "%":
        holds = states(number, 100 * outcome.number / abs(second))
    if comparative is not None:
        holds = holds and workings.direction_in(reading.view, comparative, column) * (first - second) > 0
    return _verdict(outcome, holds, reading)


def _summed(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    operation = workings.pair_operation(reading.text)
    if operation not in {"sum", "mean"} or not reading.numbers:
        return None
    column = _measured(reading, None)
    rows = [row for row, _ in reading.rows] or list(reading.view.body)
    if column is None or len(rows) < 2:
        return None
    outcome = workings.aggregate(reading.view, column, rows, operation)
    if outcome is None or outcome.number is None:
        return None
    return _verdict(outcome, states(reading.numbers[-1], outcome.number), reading)


def _extreme(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    view, rows = reading.view, reading.rows
    if len(rows) != 1 or not words:
        return None
    row, mention = rows[0]
    degree = words[0]
    column = _measured(reading, degree)
    if column is None:
        return None
    direction = workings.direction_in(view, degree, column)
    if degree.kind == "comparative":
        nothing = [m for m in vocabulary.NONE.finditer(reading.text) if not reading.masked(m.start())]
        others = re.search(r"\b(?:any|all|every|each|the) (?:of the )?(?:other|rest)\w*\b", reading.text, re.IGNORECASE)
        # "None is smaller than A" and "A is smaller than any other" say the same of A.
        none_is = bool(nothing) and nothing[0].start() < degree.start < mention.start
        if not none_is and not others:
            return None
    conditions = [condition for condition in reading.conditions if condition.column != column]
    among = [i for i, _ in workings.count(view, conditions).rows] if conditions else list(view.body)
    if row not in among:
        return None
    outcome = workings.extreme(view, column, among, direction, degree.rank)
    if outcome is None:
        return None
    return _verdict(outcome, number_at(view, (row, column)) == outcome.number, reading)


def _compared(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """One row has more than others, in a column that is named or that the comparative measures."""
    comparatives = [word for word in words if word.kind == "comparative"]
    if not comparatives or len(reading.rows) < 2:
        return None
    degree = comparatives[0]
    column = _measured(reading, degree)
    if column is None:
        return None
    than = re.search(r"\b(?:than|compared (?:to|with))\b", reading.text[degree.end :])
    border = degree.end + than.start() if than else degree.start
    left = [row for row, mention in reading.rows if mention.start < border]
    right = [row for row, mention in reading.rows if mention.start >= border]
    if not left or not right:
        # "Compared with B, A is deeper": the row in the clause of the comparative is the subject.
        clause = reading.text.rfind(",", 0, degree.start)
        left = [row for row, mention in reading.rows if clause < mention.start < degree.start]
        right = [row for row, mention in reading.rows if mention.start < clause]
    return _ordered(reading, degree, column, left, right)


def _ordered(
    reading: Reading, degree: Degree, column: int, left: Sequence[int], right: Sequence[int]
) -> Outcome | None:
    view = reading.view
    pairs = [((i, column), (j, column)) for i in left for j in right]
    numbers = [(number_at(view, a), number_at(view, b)) for a, b in pairs]
    if not pairs or any(a is None or b is None for a, b in numbers):
        return None
    direction = workings.direction_in(view, degree, column)
    holds = all(direction * ((a or 0.0) - (b or 0.0)) > 0 for a, b in numbers)
    a, b = pairs[0]
    sign = {1: ">", -1: "<", 0: "="}[_sign((numbers[0][0] or 0.0) - (numbers[0][1] or 0.0))]
    said = f"Under “{label_of(view, column)}”: “{view.cell(a).plain}” {sign} “{view.cell(b).plain}”."
    cells = tuple(dict.fromkeys(place for pair in pairs for place in pair))
    return _verdict(Outcome("comparison", said, cells, column=column), holds, reading)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _bounded(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A row's number lies above or below a stated one."""
    if not reading.rows or not reading.numbers:
        return None
    conditions = [workings.numeric_condition(reading, number, words) for number in reading.numbers]
    bounds = [c for c in conditions if c is not None and c.number is not None and c.number.comparator in _BOUNDS]
    if not bounds or len(bounds) < len(reading.numbers):
        return None
    named = {column for column, mention in reading.columns if mention.whole}
    if not {bound.column for bound in bounds} <= named and len(further_words(reading)) > _FURTHER_WORDS:
        return None
    if len(bounds) == 1 and len(reading.numeric_columns) > 1:
        # "The precision and the recall are above 60."
        bounds = [replace(bounds[0], column=column) for column, _ in reading.numeric_columns]
    rows = [row for row, _ in reading.rows]
    cells = tuple((row, bound.column) for row in rows for bound in bounds)
    fitting = sum(row in workings.fitting_rows(reading.view, bound) for row in rows for bound in bounds)
    limits = ", ".join(f"{bound.number.comparator} {bound.number.value:g}" for bound in bounds[:1] if bound.number)
    said = f"{fitting} of {len(cells)} cells are {limits}."
    return _verdict(Outcome("count", said, cells, column=bounds[0].column), fitting == len(cells), reading)


def _same(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Rows have the same cell in a named column."""
    rows = [row for row, _ in reading.rows]
    if len(rows) < 2 or len(reading.columns) != 1 or not vocabulary.SAME.search(reading.text):
        return None
    column = reading.columns[0][0]
    cells = tuple((row, column) for row in rows)
    texts = [reading.view.cell(place).plain for place in cells]
    said = "The cells say " + ", ".join(f"“{text}”" for text in texts) + "."
    return _verdict(Outcome("comparison", said, cells, column=column), len(set(texts)) == 1 and all(texts), reading)


def _says(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """The cells of a row say what the claim says of the columns it names."""
    if len(reading.rows) != 1 or words:
        return None
    row = reading.rows[0][0]
    found: list[tuple[int, bool]] = []
    if not reading.columns and len(further_words(reading)) <= _FURTHER_WORDS:
        # "Turin is in Italy": the column is the one that holds the value.
        for condition in reading.conditions:
            found.append((condition.column, row in workings.fitting_rows(reading.view, condition)))
    for column, mention in reading.columns:
        stated = _stated(reading, row, column, mention)
        if stated is not None:
            found.append((column, stated))
    if not found or not {reading.column_of(number) for number in reading.numbers} <= {column for column, _ in found}:
        return None
    cells = tuple((row, column) for column, _ in found)
    shown = ", ".join(
        f"“{label_of(reading.view, column)}” {'says' if holds else 'says otherwise:'} “{reading.view.cell((row, column)).plain}”"
        for column, holds in found
    )
    said = f"In the row of {workings.row_name(reading.view, row)} {shown}."
    return _verdict(Outcome("look_up", said, cells, column=found[0][0]), all(holds for _, holds in found), reading)


def _stated(reading: Reading, row: int, column: int, mention: Mention) -> bool | None:
    """Whether the claim says of a column what the row's cell says; None where it says nothing of it."""
    view = reading.view
    conditions = [condition for condition in reading.conditions if condition.column == column]
    if conditions:
        return any(row in workings.fitting_rows(view, condition) for condition in conditions)
    if is_numeric(view, column):
        numbers = [number for number in reading.numbers if reading.column_of(number) == column]
        value = number_at(view, (row, column))
        return None if not numbers or value is None else any(states(number, value) for number in numbers)
    yes = {"yes": True, "true": True, "no": False, "false": False}.get(view.cell((row, column)).plain.lower())
    if yes is not None:
        return yes if mention.whole and not further_words(reading) else None
    cell = word_set(view.cell((row, column)).plain)
    return True if cell and cell <= further_words(reading) else None
