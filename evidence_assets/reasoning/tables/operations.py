"""Operations on table cells, and the rules that apply them to claims and questions; None if one does not apply."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, extract_unit
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import DegreeWord, drop_repeats, find_movements, pattern
from evidence_assets.reasoning.tables.table import CellLocation, TableStep, TableView
from evidence_assets.reasoning.tables.text_analysis import Condition, TextAnalysis

_MAX_NAMED_ROWS = 3  # in a sentence; the step cites all rows


@dataclass(frozen=True)
class Outcome:
    """The result of an operation and the cells that prove it; the operation determines which field has the value."""

    operation: str
    text: str
    cells: tuple[CellLocation, ...]
    number: float  # a computed number; of comparisons and trends the share of pairs that agree
    rows: tuple[int, ...] = ()  # the rows found
    pattern: tuple[int, ...] = ()  # movements of a series: 1 up, -1 down, 0 constant; (2,) for more than two
    is_confirmed: bool | None = None  # whether it agrees with the claim; None if the claim says nothing about it

    def cells_for_row(self, row: int | None) -> tuple[CellLocation, ...]:
        """The cells that relate one row to the outcome: its own, and those that it is compared with."""
        if row is None or (self.operation == "superlative" and row in self.rows):
            return self.cells
        if self.operation == "superlative":
            return tuple(cell for cell in self.cells if cell[0] in {row, *self.rows})
        references = [cell for cell in self.cells if cell[0] not in self.rows]
        return tuple(dict.fromkeys([*references, *((row, j) for i, j in self.cells if i in self.rows)]))


def apply_operations(analysis: TextAnalysis) -> Outcome | None:
    """The first outcome of a rule; for a claim, the first that confirms or contradicts it."""
    rules = (
        _check_aggregate,
        _check_trend,
        _check_count,
        _check_difference,
        _check_extreme,
        _check_comparison,
        _check_joint_row,
    )
    outcomes = filter(None, (rule(analysis) for rule in rules))
    return next((outcome for outcome in outcomes if analysis.is_question or outcome.is_confirmed is not None), None)


def cite_names(view: TableView, cells: Sequence[CellLocation]) -> tuple[TableStep, ...]:
    """A step that cites the row names and headers of cells: a value alone proves nothing about its row."""
    rows = [i for i in dict.fromkeys(i for i, _ in cells) if i in view.body]
    names = [(i, j) for i in rows for j in view.distinguishing_columns if view.text_at((i, j))]
    headers = [cell for j in dict.fromkeys(j for _, j in cells) for cell in view.header_cells(j)]
    cited = [cell for cell in (*names, *headers) if cell not in set(cells)]
    if not cited:
        return ()
    sentences = [f"{view.row_number(i)} is “{view.row_name(i)}”." for i in rows[:_MAX_NAMED_ROWS]]
    sentences += [f"{len(rows)} rows in all."] if len(rows) > _MAX_NAMED_ROWS else []
    return (TableStep("find_row", " ".join(sentences) or "The column has this header.", tuple(cited)),)


def aggregate_cells(view: TableView, operation: str, column: int, rows: Sequence[int]) -> Outcome | None:
    """The sum ("total") or mean of a column's cells in some rows; None if a cell is no number."""
    values = [view.number_at((i, column)) for i in rows]
    numbers = [value for value in values if value is not None]
    if len(numbers) < 2 or len(numbers) < len(values) or column in view.date_columns:
        return None
    value = math.fsum(numbers) / (len(numbers) if operation == "mean" else 1)
    text = f"The {operation} of {len(numbers)} values in “{view.label(column)}” is {format_number(value)}."
    return Outcome(operation, text, tuple((i, column) for i in rows), value)


def format_number(value: float) -> str:
    return f"{round(value, 4):.15g}"


def _check_aggregate(analysis: TextAnalysis) -> Outcome | None:
    """The total or mean of the rows that a text names; for a claim, whether it is the stated number."""
    view, operation = analysis.view, analysis.aggregate
    column = analysis.find_measured_column(None)
    if operation is None or column is None or len(analysis.numbers) != (not analysis.is_question) or analysis.degrees:
        return None
    if analysis.has_phrase("span"):
        return None  # "from 1995 to 2008" names the first and last row only
    number = next(iter(analysis.numbers), None)
    names = [m.rows for m in analysis.shared if m.rows]
    rows = analysis.select_rows(analysis.find_conditions(number))
    rows = tuple(i for i in analysis.rows or rows if all(i in shared_rows for shared_rows in names))
    outcome = aggregate_cells(view, operation, column, rows)
    return replace(outcome, is_confirmed=number.states(outcome.number)) if outcome and number else outcome


def _rank_rows(view: TableView, column: int, rows: Iterable[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) pairs; greatest first if the direction is 1."""
    values = [(value, i) for i in rows if (value := view.number_at((i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


def measure_trend(view: TableView, column: int, along: int, rows: Sequence[int], direction: int = 1) -> Outcome | None:
    """The movement of a column in some rows while another one rises (direction 1) or falls."""
    steps = _rank_rows(view, along, rows, -direction)
    series = [(step, value, i) for step, i in steps if (value := view.number_at((i, column))) is not None]
    signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(series) if a[0] != b[0]]
    if not signs:
        return None
    movements = drop_repeats(sign for sign in signs if sign) or (0,)
    movements = movements if len(movements) <= 2 else (2,)
    verbs = {1: "rises", -1: "falls", 0: "stays the same", 2: "moves up and down"}
    n_rising = sum(sign > 0 for sign in signs)
    predicate = ", then ".join(verbs[sign] for sign in movements)
    condition = "rises" if direction > 0 else "falls"
    share = f"{n_rising} of {len(signs)} steps go up"
    text = f"As “{view.label(along)}” {condition}, “{view.label(column)}” {predicate} ({share})."
    cells = tuple((i, j) for _, _, i in series for j in (along, column))
    return Outcome("trend", text, cells, n_rising / len(signs), pattern=movements)


def _check_trend(analysis: TextAnalysis) -> Outcome | None:
    """One column moves in a direction while another one does."""
    text, columns, marker = analysis.text, analysis.numeric_mentions, pattern("order_marker").search(analysis.text)
    later = sorted((mention.start, j) for j, mention in columns.items() if marker and mention.start >= marker.end())
    if analysis.rows or marker is None or not later:
        return None
    start, along = later[0]
    column = next((column for column in columns if column != along), along)
    comma = text.find(",", start)
    end = later[1][0] if len(later) > 1 else comma if comma >= 0 else len(text)
    movements = [(marker.start() <= k < end, sign) for k, sign in find_movements(text) if not analysis.is_masked(k)]
    falls = next((sign for is_condition, sign in movements if is_condition), 1) == -1
    outcome = measure_trend(analysis.view, column, along, analysis.candidates, -1 if falls else 1)
    claimed = drop_repeats(sign for is_condition, sign in movements if not is_condition)
    return replace(outcome, is_confirmed=outcome.pattern == claimed) if outcome and claimed else outcome


def count_rows(
    analysis: TextAnalysis, conditions: Sequence[Condition], references: Sequence[CellLocation] = ()
) -> Outcome:
    """The rows that meet all conditions and their number; ``references`` are cells that they are compared with."""
    view, rows = analysis.view, analysis.select_rows(conditions)
    columns = dict.fromkeys(condition.column for condition in conditions)
    # The matching cells prove the count; if no row matches, all cells do.
    cells = [(i, j) for i in rows or analysis.candidates for j in columns if view.text_at((i, j))]
    description = " and ".join(condition.describe(view) for condition in conditions)
    text = f"{len(rows)} of {len(analysis.candidates)} rows satisfy {description}."
    return Outcome("count", text, (*references, *cells), float(len(rows)), rows)


def _count_names(analysis: TextAnalysis) -> Outcome | None:
    """The number of different texts in a column if a question has only its name: "How many cities are there?"."""
    view, words = analysis.view, collect_words(pattern("counting").sub("", analysis.text)) - STOP_WORDS
    columns = [j for j in view.columns if j not in view.measure_columns and words <= collect_words(view.labels[j])]
    if not columns or not words:
        return None
    cells = {view.text_at((i, columns[0])): (i, columns[0]) for i in reversed(analysis.candidates)}
    cells.pop("", None)
    text = f"“{view.label(columns[0])}” has {len(cells)} different values."
    return Outcome("count", text, tuple(sorted(cells.values())), float(len(cells)))


def _check_count(analysis: TextAnalysis) -> Outcome | None:
    """The number of rows that meet conditions; for a claim, whether it is the stated number."""
    if analysis.rows or (analysis.is_question and (not analysis.has_phrase("counting") or analysis.asks_for_value)):
        return None
    number = None if analysis.is_question else _find_stated_count(analysis)
    if not analysis.is_question and (number is None or number.value % 1):
        return None
    conditions = analysis.find_conditions(number)
    columns = [condition.column for condition in conditions if condition.number is None]
    if analysis.is_question and not conditions:
        return _count_names(analysis)
    if not conditions or (number and len(set(columns)) < len(columns)):
        return None  # a row has one value per column
    outcome = count_rows(analysis, conditions)
    return replace(outcome, is_confirmed=number.is_met(outcome.number)) if number else outcome


def _find_stated_count(analysis: TextAnalysis) -> CellValue | None:
    """The number before a noun for rows ("two entries"), or the last one after "the number of"."""
    nouns = [m.start() for m in pattern("row_nouns").finditer(analysis.text)]
    between = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in analysis.numbers:
        if any(number.end <= start and between.fullmatch(analysis.text[number.end : start]) for start in nouns):
            return number
    return analysis.numbers[-1] if analysis.has_phrase("counting") and analysis.numbers else None


def relate_cells(view: TableView, operation: str, first: CellLocation, second: CellLocation) -> Outcome | None:
    """The absolute difference of two cells ("difference"), or the first divided by the second ("ratio")."""
    a, b = view.number_at(first), view.number_at(second)
    if a is None or b is None or first == second or (operation == "ratio" and not b):
        return None
    value = abs(a - b) if operation == "difference" else a / b
    template = "“{}” and “{}” differ by {:.6g}." if operation == "difference" else "“{}” divided by “{}” is {:.6g}."
    text = template.format(view.text_at(first), view.text_at(second), value)
    return Outcome(operation, text, (first, second), value)


def _check_difference(analysis: TextAnalysis) -> Outcome | None:
    """The difference or ratio of two rows; for a claim, whether it is the stated number."""
    if len(analysis.rows) != 2 or len(analysis.numbers) > 1:
        return None
    view, number = analysis.view, next(iter(analysis.numbers), None)
    comparative = analysis.degree("comparative")
    column = analysis.find_measured_column(next(iter(analysis.degrees), None))
    if column is None and number is not None:
        column = analysis.find_column(number)
    is_ratio = analysis.has_phrase("ratio")
    has_amount = comparative is not None and (number is not None or analysis.has_phrase("amount_question"))
    if column is None or not (is_ratio or has_amount or analysis.has_phrase("difference")):
        return None
    first, second = ((row, column) for row in analysis.rows)
    outcome = relate_cells(view, "ratio" if is_ratio else "difference", first, second)
    if outcome is None or number is None:
        return outcome
    if is_ratio:
        return replace(outcome, is_confirmed=number.states(outcome.number))
    a, b = view.number_at(first) or 0.0, view.number_at(second) or 0.0
    is_ordered = comparative is None or analysis.direction(comparative, column) * (a - b) > 0
    is_relative = number.kind == "percentage" and b != 0.0 and extract_unit(view.labels[column]) != "%"
    amount = abs(a / b - 1) * 100 if is_relative else outcome.number
    return replace(outcome, is_confirmed=is_ordered and number.states(amount))


def find_extreme(view: TableView, column: int, rows: Sequence[int], direction: int, rank: int = 1) -> Outcome | None:
    """The rows with the greatest (direction 1) or smallest value of a column, or of a rank ("second largest")."""
    ranking = _rank_rows(view, column, rows, direction)
    values = list(dict.fromkeys(value for value, _ in ranking))
    if len(ranking) < 2 or rank > len(values):
        return None
    best = [i for value, i in ranking if value == values[rank - 1]]
    ordinal = "" if rank == 1 else {2: "second ", 3: "third "}.get(rank, f"{rank}th ")
    value_text, names = view.text_at((best[0], column)), " and ".join(map(view.row_name, best))
    adjective = ordinal + ("greatest" if direction > 0 else "smallest")
    text = f"The {adjective} of {len(ranking)} values in “{view.label(column)}” is “{value_text}” ({names})."
    others = [i for _, i in ranking if i not in best]
    return Outcome("superlative", text, tuple((i, column) for i in (*others, *best)), values[rank - 1], tuple(best))


def _compare_with_others(
    analysis: TextAnalysis, operation: str, cell: CellLocation, degree: DegreeWord
) -> Outcome | None:
    """Whether one row has more than the total or mean of all others."""
    view, (row, column) = analysis.view, cell
    value = view.number_at(cell)
    others = aggregate_cells(view, operation, column, [i for i in analysis.candidates if i != row])
    if value is None or others is None:
        return None
    text = f"{others.text} {view.row_name(row)} has “{view.text_at(cell)}”."
    is_confirmed = analysis.direction(degree, column) * (value - others.number) > 0
    return replace(others, text=text, cells=(*others.cells, cell), is_confirmed=is_confirmed)


def _check_extreme(analysis: TextAnalysis) -> Outcome | None:
    """A row has the greatest or smallest value: "the greatest", "none is greater", "greater than any other"."""
    view, mentioned = analysis.view, list(analysis.rows)
    degree = analysis.degree("superlative") if analysis.is_question else next(iter(analysis.degrees), None)
    column = analysis.find_measured_column(degree)
    if degree is None or column is None or not (analysis.is_question or len(mentioned) == 1):
        return None
    if degree.kind == "comparative":
        no_row = pattern("no_row").search(analysis.text)
        excludes_others = no_row and no_row.start() < degree.start < analysis.rows[mentioned[0]].start
        if not excludes_others and not analysis.has_phrase("all_others"):
            return None
        if analysis.aggregate is not None and not analysis.is_question:
            return _compare_with_others(analysis, analysis.aggregate, (mentioned[0], column), degree)
    candidates = analysis.select_rows([c for c in analysis.find_conditions() if c.column != column])
    rows = mentioned if len(mentioned) > 1 else candidates
    outcome = find_extreme(view, column, rows, analysis.direction(degree, column), degree.rank)
    if outcome is None or len(mentioned) != 1 or mentioned[0] not in candidates:
        return outcome
    return replace(outcome, is_confirmed=view.number_at((mentioned[0], column)) == outcome.number)


def compare_cells(
    view: TableView, pairs: Sequence[tuple[CellLocation, CellLocation, int]], tie_share: float = 0.5
) -> Outcome | None:
    """The share of cell pairs in which the first is greater (direction 1) or smaller (-1).

    Equal cells count as ``tie_share``: 0.5 in a comparison, which they neither support nor refute; 1 in a superlative.
    """
    numbers = [(view.number_at(a), view.number_at(b), direction) for a, b, direction in pairs]
    shares = [
        tie_share if a == b else float((a > b) == (direction > 0))
        for a, b, direction in numbers
        if a is not None and b is not None
    ]
    if not shares or len(shares) < len(numbers):
        return None
    (a, b, direction), (x, y, _) = pairs[0], numbers[0]
    sign = "=" if x == y else ">" if (x or 0.0) > (y or 0.0) else "<"
    text = f"“{view.text_at(a)}” {sign} “{view.text_at(b)}”."
    if len(shares) > 1:
        relation = "greater" if direction > 0 else "smaller"
        text = f"The first value is {relation} in {math.fsum(shares):g} of {len(shares)} comparisons; first: {text}"
    cells = tuple(dict.fromkeys(cell for a, b, _ in pairs for cell in (a, b)))
    return Outcome("comparison", text, cells, math.fsum(shares) / len(shares))


def _check_comparison(analysis: TextAnalysis) -> Outcome | None:
    """One row has more than others; for a question, the rows with more than a row or number, or with the most."""
    view, rows, degree = analysis.view, analysis.rows, analysis.degree("comparative")
    column = analysis.find_measured_column(degree)
    asks_for_rows = analysis.is_question and analysis.has_phrase("row_question") and not rows
    conditions = analysis.find_conditions() if asks_for_rows else []
    if degree is None:
        has_bound = conditions and any(number.comparator for number in analysis.numbers)
        return count_rows(analysis, conditions) if has_bound else None
    if column is None:
        return None
    direction = analysis.direction(degree, column)
    than = pattern("than_marker").search(analysis.text, degree.end)
    if not analysis.is_question:
        border = than.start() if than else degree.start
        before = {row: mention.start < border for row, mention in rows.items()}
        pairs = [(i, j) for i in rows for j in rows if before[i] and not before[j]]
        outcome = compare_cells(view, [((i, column), (j, column), direction) for i, j in pairs], 0.0)
        return replace(outcome, is_confirmed=outcome.number == 1.0) if outcome else None
    later = [row for row, mention in rows.items() if mention.start > degree.end and (than or degree.time_direction)]
    limit = view.number_at((later[0], column)) if len(rows) == 1 and later else None
    if limit is not None:
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return count_rows(analysis, [Condition(column, number=bound)], [(later[0], column)])
    if analysis.numbers and conditions:
        return count_rows(analysis, conditions)
    if than or (degree.is_verb and not rows) or len(rows) == 1:
        return None
    return find_extreme(view, column, tuple(rows) or analysis.candidates, direction)  # "Which working dog is lighter?"


def find_joint_row(view: TableView, items: Sequence[tuple[int | None, frozenset[CellLocation]]]) -> Outcome | None:
    """Whether one row has all stated items; each item is its column, if known, and the cells that state it."""
    item_rows = [frozenset(i for i, _ in cells) for _, cells in items]
    counts = {i: sum(i in rows for rows in item_rows) for i in view.body}
    highest = max(counts.values(), default=0)
    best = [i for i in view.body if counts[i] == highest]
    columns = [column for column, _ in items if column is not None]
    if not highest or (highest < len(items) and not all(view.text_at((i, column)) for i in best for column in columns)):
        return None  # an empty cell contradicts nothing
    item_cells = [sorted({*cells, *((i, column) for i in best if column is not None)}) for column, cells in items]
    proof = dict.fromkeys(
        cell for i in best for cells in item_cells for cell in cells if cell[0] == i and view.text_at(cell)
    )
    proof |= dict.fromkeys(min(cells) for _, cells in items if cells and not cells & proof.keys())
    names = " and ".join(map(view.row_name, best[:_MAX_NAMED_ROWS]))
    text = f"{highest} of {len(items)} stated items are in one row: {names}."
    return Outcome("look_up", text, tuple(proof), float(highest == len(items)), tuple(best))


def _check_joint_row(analysis: TextAnalysis) -> Outcome | None:
    """One row has all items of a claim, whether or not the claim names the row."""
    items = analysis.stated_items
    columns = [column for column, _ in items if column is not None]
    if (
        len(items) < 2
        or analysis.is_question
        or analysis.degrees
        or analysis.aggregate
        or len(set(columns)) < len(columns)
    ):
        return None
    if analysis.has_phrase("exclusivity") or not all(cells or column is not None for column, cells in items):
        return None
    if analysis.numbers and not set(analysis.numeric_mentions) <= set(columns):
        return None  # "the precision and the recall are above 60" states one number of two columns
    outcome = find_joint_row(analysis.view, items)
    expected = 0.0 if analysis.has_phrase("joint_negation") else 1.0
    return replace(outcome, is_confirmed=outcome.number == expected) if outcome else None
