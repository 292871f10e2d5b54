"""Operations on table cells, and the rules that apply them to claims and questions; None if one does not apply."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from evidence_assets.extractive.tables.text_analysis import Condition, TextAnalysis
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, extract_unit
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import drop_repeats, find_movements, pattern
from evidence_assets.reasoning.tables.table import CellLocation, TableStep, TableView

_MAX_NAMED_ROWS = 3  # in a sentence; the step cites all rows
_MOVEMENTS = {1: "rises", -1: "falls", 0: "stays the same", 2: "moves up and down"}


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
        _compute_total,
        _check_trend,
        _check_count,
        _check_quantifier,
        _check_group_sizes,
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
    sentences = [f"Row {i} is “{view.row_name(i)}”." for i in rows[:_MAX_NAMED_ROWS]]
    sentences += [f"{len(rows)} rows in all."] if len(rows) > _MAX_NAMED_ROWS else []
    return (TableStep("find_row", " ".join(sentences) or "The column has this header.", tuple(cited)),)


def format_number(value: float) -> str:
    return f"{round(value, 4):.15g}"


def _compute_total(analysis: TextAnalysis) -> Outcome | None:
    """The total or mean of a column's cells in the rows that a text names; None if a cell is no number.

    For a claim, whether it is the stated number.
    """
    view = analysis.view
    number = next(iter(analysis.numbers), None)
    column = analysis.find_column(number) if number else analysis.find_measured_column(None)
    phrases = {name: pattern(name).search(analysis.text) for name in ("total", "mean")}
    operation = next((name for name, match in phrases.items() if match and not analysis.is_masked(match.start())), None)
    if operation is None or len(analysis.numbers) != (not analysis.is_question) or analysis.degrees:
        return None
    if column is None or column in view.date_columns | view.time_columns | view.mixed_units.keys():
        return None
    rows = analysis.rows or analysis.select_rows(analysis.find_conditions(number))
    rows = tuple(i for i in rows if all(i in mention.rows for mention in analysis.shared if mention.rows))
    rows = tuple(i for i in rows if view.cell((i, column)).is_known)
    values = [value for i in rows if (value := view.number_at((i, column))) is not None]
    if len(values) < max(2, len(rows)):
        return None
    result = math.fsum(values) / (len(values) if operation == "mean" else 1)
    text = f"The {operation} of {len(values)} values in “{view.label(column)}” is {format_number(result)}."
    is_confirmed = number.is_met(result) if number else None
    return Outcome(operation, text, tuple((i, column) for i in rows), result, is_confirmed=is_confirmed)


def _rank_rows(view: TableView, column: int, rows: Iterable[int], direction: int) -> list[tuple[float, int]]:
    """(value, row) pairs; greatest first if the direction is 1."""
    values = [(value, i) for i in rows if (value := view.number_at((i, column))) is not None]
    return sorted(values, key=lambda item: (-direction * item[0], item[1]))


def _check_trend(analysis: TextAnalysis) -> Outcome | None:
    """One column moves in a direction while another one does."""
    view = analysis.view
    text = analysis.text
    columns = analysis.numeric_mentions
    marker = pattern("order_marker").search(text)
    later = sorted((mention.start, j) for j, mention in columns.items() if marker and mention.start >= marker.end())
    if analysis.rows or marker is None or not later:
        return None
    start, along = later[0]
    column = next((column for column in columns if column != along), None)
    if column is None:
        return None
    comma = text.find(",", start)
    end = later[1][0] if len(later) > 1 else comma if comma >= 0 else len(text)
    movements = [(marker.start() <= k < end, sign) for k, sign in find_movements(text) if not analysis.is_masked(k)]
    falls = next((sign for is_condition, sign in movements if is_condition), 1) == -1
    ranking = _rank_rows(view, along, analysis.candidates, 1 if falls else -1)
    series = [(step, value, i) for step, i in ranking if (value := view.number_at((i, column))) is not None]
    signs = [(b[1] > a[1]) - (b[1] < a[1]) for a, b in pairwise(series) if a[0] != b[0]]
    if not signs:
        return None
    observed = drop_repeats(sign for sign in signs if sign) or (0,)
    observed = observed if len(observed) <= 2 else (2,)
    claimed = drop_repeats(sign for is_condition, sign in movements if not is_condition)
    predicate = ", then ".join(_MOVEMENTS[sign] for sign in observed)
    condition = f"“{view.label(along)}” {'falls' if falls else 'rises'}"
    n_rising = sum(sign > 0 for sign in signs)
    return Outcome(
        "trend",
        f"As {condition}, “{view.label(column)}” {predicate} ({n_rising} of {len(signs)} steps go up).",
        tuple((i, j) for _, _, i in series for j in (along, column)),
        n_rising / len(signs),
        pattern=observed,
        is_confirmed=observed == claimed if claimed else None,
    )


def count_rows(
    analysis: TextAnalysis, conditions: Sequence[Condition], references: Sequence[CellLocation] = ()
) -> Outcome:
    """The rows that meet all conditions and their number; ``references`` are cells that they are compared with."""
    view = analysis.view
    rows = analysis.select_rows(conditions)
    columns = dict.fromkeys(condition.column for condition in conditions)
    # The matching cells prove the count; if no row matches, all cells do.
    cells = [(i, j) for i in rows or analysis.candidates for j in columns if view.text_at((i, j))]
    description = " and ".join(condition.describe(view) for condition in conditions)
    text = f"{len(rows)} of {len(analysis.candidates)} rows satisfy {description}."
    return Outcome("count", text, (*references, *cells), float(len(rows)), rows)


def _check_count(analysis: TextAnalysis) -> Outcome | None:
    """The number of rows that meet conditions; for a claim, whether it is the stated number."""
    if analysis.rows or (analysis.is_question and (not analysis.has_phrase("counting") or analysis.asks_for_value)):
        return None
    number = None if analysis.is_question else _find_stated_count(analysis)
    if not analysis.is_question and (number is None or number.value % 1):
        return None
    conditions = analysis.find_conditions(number)
    if analysis.is_question and not conditions:
        return _count_names(analysis)
    amounts = analysis.numeric_mentions.keys() - analysis.view.date_columns - analysis.view.time_columns
    if analysis.is_question and amounts and not (analysis.numbers or analysis.has_phrase("row_nouns")):
        return None  # "How many bolts are in stock?"
    columns = [condition.column for condition in conditions if condition.number is None]
    if not conditions or (number and len(set(columns)) < len(columns)):
        return None  # a row has one value per column
    outcome = count_rows(analysis, conditions)
    return replace(outcome, is_confirmed=number.is_met(outcome.number)) if number else outcome


def _check_quantifier(analysis: TextAnalysis) -> Outcome | None:
    """For a claim with "all" or "no" that ends with a condition: whether all rows of its other conditions meet it, or
    none."""
    quantifier = pattern("universal").match(analysis.text)
    conditions = analysis.find_conditions()
    rest = analysis.text[max([0, *(m.end for m in analysis.mentions), *(n.end for n in analysis.numbers)]) :]
    # "150 hp" may be of no column, and "… at least once" ends with no condition.
    is_complete = sum(c.number is not None for c in conditions) >= len(analysis.numbers) and len(rest.split()) < 2
    if analysis.is_question or analysis.rows or not (quantifier and conditions and is_complete):
        return None
    rows = analysis.select_rows(conditions)
    others = conditions[:-1]
    view = analysis.view
    subjects = analysis.select_rows(others)
    cells = dict.fromkeys((i, c.column) for i in subjects for c in conditions if view.text_at((i, c.column)))
    kinds = "".join(f" with {condition.describe(view)}" for condition in others)
    text = f"{len(rows)} of {len(subjects)} rows{kinds} satisfy {conditions[-1].describe(view)}."
    n_claimed = len(subjects) if quantifier[0].casefold() in ("all", "every", "each") else 0
    return Outcome("count", text, tuple(cells), float(len(rows)), rows, is_confirmed=len(rows) == n_claimed)


def _check_group_sizes(analysis: TextAnalysis) -> Outcome | None:
    """For a claim that more rows meet one condition than another one on the same column: whether they do."""
    view = analysis.view
    degree = analysis.degree("comparative")
    conditions = analysis.find_conditions()
    has_noun = analysis.has_phrase("row_nouns") or any({*m.columns} & {*view.name_columns} for m in analysis.mentions)
    if analysis.is_question or analysis.rows or degree is None or degree.headers or not has_noun:
        return None
    if len(conditions) != 2 or conditions[0].column != conditions[1].column:
        return None
    first, second = (count_rows(analysis, [condition]) for condition in conditions)
    text = f"{first.text} {second.text}"
    cells = (*first.cells, *second.cells)
    is_confirmed = degree.direction * (first.number - second.number) > 0
    return replace(first, text=text, cells=cells, is_confirmed=is_confirmed)


def _count_names(analysis: TextAnalysis) -> Outcome | None:
    """The number of different cells of a column if a question has only its name: "How many cities are there?"."""
    view = analysis.view
    words = collect_words(pattern("counting").sub("", analysis.text)) - STOP_WORDS
    columns = [j for j in view.columns if j not in view.measure_columns and words <= collect_words(view.labels[j])]
    if not columns or not words:
        return None
    cells = {text: (i, columns[0]) for i in reversed(analysis.candidates) if (text := view.text_at((i, columns[0])))}
    text = f"“{view.label(columns[0])}” has {len(cells)} different values."
    return Outcome("count", text, tuple(sorted(cells.values())), float(len(cells)))


def _find_stated_count(analysis: TextAnalysis) -> CellValue | None:
    """The number that begins a claim or precedes a noun for rows ("two entries", "two courses" below "Course"), or the
    last after "the number of"."""
    if analysis.numbers and re.fullmatch(
        r"\s*(?:(?:exactly|only|just) )?", analysis.text[: analysis.numbers[0].start].lower()
    ):
        return None if analysis.is_negated else analysis.numbers[0]
    nouns = [m.start() for m in pattern("row_nouns").finditer(analysis.text)]
    names = [m.start for m in analysis.mentions if {*m.columns} & {*analysis.view.name_columns}]
    between = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in analysis.numbers:
        end = number.end - len(number.unit)  # "invoices" may be the unit of "3 invoices"
        gaps = [analysis.text[end:start] for start in names if end <= start]
        follows = any(end <= start and between.fullmatch(analysis.text[end:start]) for start in nouns)
        if follows or any(len(gap.split()) < 2 for gap in gaps):
            return number
    return analysis.numbers[-1] if analysis.has_phrase("counting") and analysis.numbers else None


def _check_difference(analysis: TextAnalysis) -> Outcome | None:
    """The difference or ratio of two rows; for a claim, whether it is the stated number."""
    if len(analysis.rows) != 2 or len(analysis.numbers) > 1:
        return None
    view = analysis.view
    number = next(iter(analysis.numbers), None)
    comparative = analysis.degree("comparative")
    is_ratio = analysis.has_phrase("ratio")
    column = analysis.find_measured_column(next(iter(analysis.degrees), None))
    if column is None and number is not None:
        column = analysis.find_column(number)
    has_amount = comparative is not None and (number is not None or analysis.has_phrase("amount_question"))
    if column is None or column in view.time_columns | view.mixed_units.keys():
        return None
    if not (is_ratio or has_amount or analysis.has_phrase("difference")):
        return None
    cells = tuple((row, column) for row in analysis.rows)
    a, b = (view.number_at(cell) for cell in cells)
    if a is None or b is None or (is_ratio and not b):
        return None
    first, second = (f"“{view.text_at(cell)}”" for cell in cells)
    if is_ratio:
        outcome = Outcome("ratio", f"{first} divided by {second} is {a / b:.6g}.", cells, a / b)
        return replace(outcome, is_confirmed=number.states(a / b)) if number else outcome
    outcome = Outcome("difference", f"{first} and {second} differ by {abs(a - b):.6g}.", cells, abs(a - b))
    if number is None:
        return outcome
    is_relative = number.kind == "percentage" and b != 0.0 and extract_unit(view.labels[column]) != "%"
    is_ordered = comparative is None or analysis.direction(comparative, column) * (a - b) > 0
    amount = abs(a / b - 1) * 100 if is_relative else abs(a - b)
    return replace(outcome, is_confirmed=is_ordered and number.states(amount))


def find_extreme(view: TableView, column: int, rows: Sequence[int], direction: int, rank: int = 1) -> Outcome | None:
    """The rows with the greatest (direction 1) or smallest value of a column, or of a rank ("second largest")."""
    ranking = _rank_rows(view, column, rows, direction)
    values = list(dict.fromkeys(value for value, _ in ranking))
    if len(ranking) < 2 or rank > len(values):
        return None
    best = [i for value, i in ranking if value == values[rank - 1]]
    ordinal = "" if rank == 1 else {2: "second ", 3: "third "}.get(rank, f"{rank}th ")
    value_text = view.text_at((best[0], column))
    names = " and ".join(map(view.row_name, best))
    adjective = ordinal + ("greatest" if direction > 0 else "smallest")
    text = f"The {adjective} of {len(ranking)} values in “{view.label(column)}” is “{value_text}” ({names})."
    others = [i for _, i in ranking if i not in best]
    return Outcome("superlative", text, tuple((i, column) for i in (*others, *best)), values[rank - 1], tuple(best))


def _check_extreme(analysis: TextAnalysis) -> Outcome | None:
    """A row has the greatest or smallest value: "the greatest", "none is greater", "greater than any other"."""
    view = analysis.view
    mentioned = list(analysis.rows)
    degree = analysis.degree("superlative") if analysis.is_question else next(iter(analysis.degrees), None)
    column = analysis.find_measured_column(degree)
    if degree is None or column is None or not (analysis.is_question or len(mentioned) == 1):
        return None
    if degree.kind == "comparative":
        no_row = pattern("no_row").search(analysis.text)
        excludes_others = no_row and no_row.start() < degree.start < analysis.rows[mentioned[0]].start
        if not excludes_others and not analysis.has_phrase("all_others"):
            return None
    candidates = analysis.select_rows([c for c in analysis.find_conditions() if c.column != column])
    rows = mentioned if len(mentioned) > 1 else candidates
    outcome = find_extreme(view, column, rows, analysis.direction(degree, column), degree.rank)
    if outcome is None or len(mentioned) != 1 or mentioned[0] not in candidates:
        return outcome
    return replace(outcome, is_confirmed=view.number_at((mentioned[0], column)) == outcome.number)


def _compare_rows(view: TableView, column: int, pairs: Sequence[tuple[int, int]], direction: int) -> Outcome | None:
    """Whether the first row of each pair has more (direction 1) or less (-1) than the second."""
    numbers = [(view.number_at((i, column)), view.number_at((j, column))) for i, j in pairs]
    values = [(a, b) for a, b in numbers if a is not None and b is not None]
    if not values or len(values) < len(pairs):
        return None
    n_agreeing = sum(direction * (a - b) > 0 for a, b in values)
    cells = tuple(dict.fromkeys((i, column) for pair in pairs for i in pair))
    (a, b) = values[0]
    (first, second) = (view.text_at(cell) for cell in cells[:2])
    text = f"“{first}” {'=' if a == b else '>' if a > b else '<'} “{second}”."
    if len(pairs) > 1:
        relation = "greater" if direction > 0 else "smaller"
        text = f"The first value is {relation} in {n_agreeing} of {len(pairs)} comparisons; first: {text}"
    return Outcome("comparison", text, cells, n_agreeing / len(pairs), is_confirmed=n_agreeing == len(pairs))


def _check_comparison(analysis: TextAnalysis) -> Outcome | None:
    """One row has more than others; for a question, the rows with more than a row or number, or with the most."""
    view = analysis.view
    rows = analysis.rows
    degree = analysis.degree("comparative")
    column = analysis.find_measured_column(degree)
    asks_for_rows = analysis.is_question and analysis.has_phrase("row_question") and not rows
    conditions = analysis.find_conditions() if asks_for_rows else []
    if degree is None:
        has_bound = any(number.comparator or number.is_time for number in analysis.numbers)
        has_bound |= any(c.column in view.flag_columns or c.number for c in conditions)
        has_bound |= analysis.is_negated or len(conditions) > 1
        return count_rows(analysis, conditions) if conditions and has_bound else None
    if column is None:
        return None
    direction = analysis.direction(degree, column)
    than = pattern("than_marker").search(analysis.text, degree.end)
    if not analysis.is_question:
        border = than.start() if than else degree.start
        pairs = [(i, j) for i in rows for j in rows if rows[i].start < border <= rows[j].start]
        return _compare_rows(view, column, pairs, direction)
    later = [row for row, mention in rows.items() if mention.start > degree.end and (than or degree.is_verb)]
    limit = view.number_at((later[0], column)) if len(rows) == 1 and later else None
    if limit is not None:
        bound = CellValue("number", limit, f"{limit:g}", 0, 0, comparator=">" if direction > 0 else "<")
        return count_rows(analysis, [Condition(column, number=bound)], [(later[0], column)])
    if analysis.numbers and conditions:
        return count_rows(analysis, conditions)
    if than or (degree.is_verb and not rows) or len(rows) == 1:
        return None
    others = analysis.select_rows([c for c in analysis.find_conditions() if c.column != column])
    return find_extreme(view, column, tuple(rows) or others, direction)  # "Which working dog is lighter?"


def _check_joint_row(analysis: TextAnalysis) -> Outcome | None:
    """Whether one row has all items of a claim, whether or not the claim names the row."""
    view = analysis.view
    items = analysis.stated_items
    columns = [column for column, _ in items if column is not None]
    is_ordered = bool({*analysis.degrees} - {analysis.find_bound(number) for number in analysis.numbers})
    if len(items) < 2 or analysis.is_question or is_ordered or pattern("quantifier").match(analysis.text):
        return None
    if len(set(columns)) < len(columns) or not all(cells or column is not None for column, cells in items):
        return None
    if analysis.has_phrase("exclusivity") or (analysis.numbers and not set(analysis.numeric_mentions) <= set(columns)):
        return None  # "the precision and the recall are above 60" states one number of two columns
    item_rows = [frozenset(i for i, _ in cells) for _, cells in items]
    counts = {i: sum(i in rows for rows in item_rows) for i in view.body}
    highest = max(counts.values(), default=0)
    best = [i for i in view.body if counts[i] == highest]
    is_known = all(view.cell((i, column)).is_known for i in best for column in columns)
    if not highest or (highest < len(items) and not is_known):
        return None  # a cell without a value contradicts nothing
    item_cells = [sorted({*cells, *((i, column) for i in best if column is not None)}) for column, cells in items]
    proof = dict.fromkeys(
        cell for i in best for cells in item_cells for cell in cells if cell[0] == i and view.text_at(cell)
    )
    proof |= dict.fromkeys(min(cells) for _, cells in items if cells and not cells & proof.keys())
    names = ", ".join(map(view.row_name, best[:_MAX_NAMED_ROWS]))
    n = len(items)
    text = f"One row has all {n} names and numbers of the claim: {names}."
    if highest < n:
        text = f"No row has all {n} names and numbers of the claim; rows such as {names} have the most, {highest}."
    return Outcome("look_up", text, tuple(proof), float(highest), tuple(best), is_confirmed=highest == n)
