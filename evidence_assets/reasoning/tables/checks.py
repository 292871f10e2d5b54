"""Claims that name what they are about: one operation is carried out, and it bears the claim out or it does not.

What belongs here: from the words of a claim to an operation whose rows, columns and numbers are all named, and its
verdict. A claim that leaves some of that open is no matter for these checks; `claims` weighs such claims otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.reasoning.tables import degrees as vocabulary
from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.clauses import clauses
from evidence_assets.reasoning.tables.degrees import Degree
from evidence_assets.reasoning.tables.english import excludes
from evidence_assets.reasoning.tables.mentions import Mention, Reading, read_text
from evidence_assets.reasoning.tables.operations import states
from evidence_assets.reasoning.tables.quantified import always, counted, every_row, only_row, part_of_rows
from evidence_assets.reasoning.tables.quantities import is_numeric, number_at
from evidence_assets.reasoning.tables.text import STOP_WORDS, unit_in, word_set
from evidence_assets.reasoning.tables.verdicts import denied, further_words, verdict
from evidence_assets.reasoning.tables.view import TableView
from evidence_assets.reasoning.tables.workings import Outcome, label_of, measured_column, pair_number

VERSION = "2"

# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
_FURTHER_WORDS = 1
# And with more than these it says more than any one operation can check.
_MOST_FURTHER_WORDS = 3
# Words that lead from a term to what it means, and the share of a claim's other words that its meaning must hold.
_DEFINES_LIST = """
    stand stands stood short abbreviation abbreviates acronym mean means meaning defined define defines definition refer
    refers term called denote denotes known glossary not
"""
_DEFINES = frozenset(_DEFINES_LIST.split())
_SAID = 0.8
_NEITHER = re.compile(r"\b(?:neither|none of)\b", re.IGNORECASE)
_BOUNDS = frozenset({">", "<", "≥", "≤"})


def check(view: TableView, claim: str) -> Outcome | None:
    """Carry out the operation that a claim states; ``holds`` says whether the cells bear it out.

    Examples
    --------
    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> check(view, "Garda is twice as deep as Iseo.").holds, check(view, "No lake is deeper than Como.").holds
    (False, True)
    """
    reading = read_text(view, claim)
    parts = clauses(reading)
    if len(parts) > 1:
        outcomes = [_check(read_text(view, part)) for part in parts]
        found = [outcome for outcome in outcomes if outcome is not None]
        if len(found) == len(parts):
            cells = tuple(dict.fromkeys(place for outcome in found for place in outcome.cells))
            said = " ".join(outcome.text for outcome in found)
            return replace(found[0], text=said, cells=cells, holds=all(outcome.holds for outcome in found))
    return _check(reading)


def _check(reading: Reading) -> Outcome | None:
    """Carry out the one operation that a claim, or a clause of it, states."""
    if len(further_words(reading)) > _MOST_FURTHER_WORDS:
        return None
    words = workings.words_of_degree(reading)
    for operation in (
        _defined,
        _trend,
        _stepped,
        part_of_rows,
        always,
        counted,
        only_row,
        every_row,
        _related,
        _summed,
        _extreme,
        _compared,
        _bounded,
        _same,
        _says,
    ):
        outcome = operation(reading, words)
        if outcome is not None:
            return outcome
    return None


def _measured(reading: Reading, degree: Degree | None) -> int | None:
    """The measured column of a claim, unless so much else is said that the column hinted at is hardly meant."""
    column = measured_column(reading, degree)
    if column is None or any(c == column and mention.whole for c, mention in reading.columns):
        return column
    return column if len(further_words(reading)) <= _FURTHER_WORDS else None


def _defined(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A term of a glossary means what the claim says of it, or the claim says what another term means."""
    view = reading.view
    if not view.shape.glossary or len(reading.rows) != 1:
        return None
    row, mention = reading.rows[0]
    said = {
        word.stem
        for word in reading.words
        if not mention.start <= word.start < mention.end and word.raw not in STOP_WORDS | _DEFINES
    }
    if not said:
        return None
    shares = {i: len(said & word_set(view.cell((i, 1)).plain)) / len(said) for i in view.body}
    if shares[row] < _SAID and max(shares.values()) < _SAID:
        return None
    cells = ((row, 0), (row, 1))
    told = f"The glossary says of “{view.cell(cells[0]).plain}”: “{view.cell(cells[1]).plain}”."
    return verdict(Outcome("look_up", told, cells, column=1), shares[row] >= _SAID, reading)


def _trend(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    columns = reading.numeric_columns
    comparatives = [word for word in words if word.kind == "comparative" and _the_before(reading, word)]
    if len(comparatives) == len(columns) == 2 and not reading.rows:
        # "The fewer are sold, the higher the price."
        sign = comparatives[0].direction * comparatives[1].direction
        found = workings.series_pattern(reading.view, columns[1][0], columns[0][0], 1)
        return found and verdict(
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
        return verdict(outcome, outcome.pattern == wanted, reading)
    share = outcome.number if wanted[0] > 0 else 1 - outcome.number
    return verdict(outcome, share > 0.5, reading)


def _the_before(reading: Reading, word: Degree) -> bool:
    return bool(re.search(r"\bthe\s+$", reading.text[: word.start], re.IGNORECASE))


def _stepped(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """A column goes up or down at a row, or from one row to another: "sales fell in 2020"."""
    said = [sign for at, sign in vocabulary.moves(reading.text) if not reading.masked(at)]
    rows, view = [row for row, _ in reading.rows], reading.view
    if len(said) != 1 or said[0] not in (1, -1) or len(rows) not in (1, 2) or len(reading.numeric_columns) != 1:
        return None
    if not view.name_columns or not is_numeric(view, view.name_columns[0]) or reading.numbers:
        return None
    column = reading.numeric_columns[0][0]
    if len(rows) == 1:
        at = view.body.index(rows[0])
        rows = [view.body[at - 1], rows[0]] if at else []
    numbers = [number_at(view, (row, column)) for row in rows]
    if len(rows) != 2 or None in numbers:
        return None
    first, last = (number or 0.0 for number in numbers)
    cells = tuple((row, column) for row in rows)
    how = "rises" if last > first else "falls" if last < first else "stays the same"
    told = f"“{label_of(view, column)}” {how} from “{view.cell(cells[0]).plain}” to “{view.cell(cells[1]).plain}”."
    return verdict(Outcome("trend", told, cells, column=column), said[0] * (last - first) > 0, reading)


def _related(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    if _NEITHER.search(reading.text):
        return None
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
        return verdict(outcome, states(number, outcome.number * (100 if percent else 1)), reading)
    outcome = pair_number(reading.view, column, rows[0], rows[1], "difference")
    if outcome is None or outcome.number is None or not (comparative or vocabulary.DIFFERENCE.search(reading.text)):
        return None
    holds = states(number, outcome.number)
    first, second = (number_at(reading.view, place) or 0.0 for place in outcome.cells)
    if percent and second and unit_in(reading.view.shape.labels[column]) != "%":
        holds = states(number, 100 * outcome.number / abs(second))
    if comparative is not None:
        holds = holds and workings.direction_in(reading.view, comparative, column) * (first - second) > 0
    return verdict(outcome, holds, reading)


def _summed(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    operation = workings.pair_operation(reading.text)
    if operation not in {"sum", "mean"} or not reading.numbers:
        return None
    column = _measured(reading, None)
    if column is None:
        column = _measured(reading, words[0] if words else None)
    rows = [row for row, _ in reading.rows]
    if not rows:
        rows = [i for i, _ in workings.count(reading.view, reading.conditions).rows]
    if column is None or len(rows) < 2:
        return None
    outcome = workings.aggregate(reading.view, column, rows, operation)
    if outcome is None or outcome.number is None:
        return None
    wanted = reading.numbers[-1]
    led = [word for word in words if word.kind == "comparative" and word.end <= wanted.start]
    if led and not wanted.comparator:
        # "The average exceeds 200."
        wanted = replace(wanted, comparator=">" if workings.direction_in(reading.view, led[-1], column) > 0 else "<")
    return verdict(outcome, states(wanted, outcome.number), reading)


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
    return verdict(outcome, number_at(view, (row, column)) == outcome.number, reading)


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
    if re.search(r"\bno(?:t any)?\s*$", reading.text[: degree.start], re.IGNORECASE) and not denied(reading):
        # "No deeper than B" says at most as deep.
        holds = all(direction * ((a or 0.0) - (b or 0.0)) <= 0 for a, b in numbers)
    a, b = pairs[0]
    sign = {1: ">", -1: "<", 0: "="}[_sign((numbers[0][0] or 0.0) - (numbers[0][1] or 0.0))]
    said = f"Under “{label_of(view, column)}”: “{view.cell(a).plain}” {sign} “{view.cell(b).plain}”."
    cells = tuple(dict.fromkeys(place for pair in pairs for place in pair))
    return verdict(Outcome("comparison", said, cells, column=column), holds, reading)


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
    wanted = 0 if _NEITHER.search(reading.text) else len(cells)
    return verdict(Outcome("count", said, cells, column=bounds[0].column), fitting == wanted, reading)


def _same(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """Rows have the same cell in a named column."""
    rows = [row for row, _ in reading.rows]
    if len(rows) < 2 or len(reading.columns) != 1 or not vocabulary.SAME.search(reading.text):
        return None
    column = reading.columns[0][0]
    cells = tuple((row, column) for row in rows)
    texts = [reading.view.cell(place).plain for place in cells]
    said = "The cells say " + ", ".join(f"“{text}”" for text in texts) + "."
    return verdict(Outcome("comparison", said, cells, column=column), len(set(texts)) == 1 and all(texts), reading)


def _says(reading: Reading, words: tuple[Degree, ...]) -> Outcome | None:
    """The cells of a row, or of several rows alike, say what the claim says of the columns it names."""
    if not reading.rows or words or (len(reading.rows) > 1 and (reading.numbers or reading.columns)):
        return None
    rows = [row for row, _ in reading.rows]
    found: list[tuple[int, int, bool]] = []
    if not reading.columns and len(further_words(reading)) <= _FURTHER_WORDS:
        # "Turin is in Italy": the column is the one that holds the value.
        for condition in reading.conditions:
            fitting = workings.fitting_rows(reading.view, condition)
            found += [(row, condition.column, row in fitting) for row in rows]
    for column, mention in reading.columns:
        stated = _stated(reading, rows[0], column, mention)
        if stated is not None:
            found.append((rows[0], column, stated))
    if not found or not {reading.column_of(number) for number in reading.numbers} <= {column for _, column, _ in found}:
        return None
    cells = tuple((row, column) for row, column, _ in found)
    shown = ", ".join(
        f"in the row of {workings.row_name(reading.view, row)} “{label_of(reading.view, column)}” "
        f"{'says' if holds else 'says otherwise:'} “{reading.view.cell((row, column)).plain}”"
        for row, column, holds in found
    )
    wanted = not _NEITHER.search(reading.text)
    verdict_ = all(holds == wanted for *_, holds in found)
    return verdict(Outcome("look_up", f"{shown[0].upper()}{shown[1:]}.", cells, column=found[0][1]), verdict_, reading)


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
        yes = yes != (workings.denied_at(reading, mention) and not denied(reading))
        return yes if mention.whole and not further_words(reading) else None
    cell = word_set(view.cell((row, column)).plain)
    if excludes(frozenset(word.raw for word in reading.words), view.cell((row, column)).plain):
        return False
    return True if cell and cell <= further_words(reading) else None
