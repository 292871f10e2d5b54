"""Operations on table cells, and the rules that apply them to claims and questions; None if one does not apply."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean

from evidence_assets.extractive.tables.text_analysis import Condition, StatedItem, TextAnalysis, is_note
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, extract_unit
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import pattern
from evidence_assets.reasoning.tables.table import CellLocation, TableStep, TableView

_MAX_NAMED_ROWS = 3  # in a sentence; the step cites all rows


@dataclass(frozen=True)
class Outcome:
    """The result of an operation and the cells that prove it; the operation determines which field has the value."""

    operation: str
    text: str
    cells: tuple[CellLocation, ...]
    number: float  # a computed number; of comparisons the share of pairs that agree
    rows: tuple[int, ...] = ()  # the rows found
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
    outcomes = filter(None, (rule(analysis) for rule in _select_rules(analysis)))
    return next((outcome for outcome in outcomes if analysis.is_question or outcome.is_confirmed is not None), None)


def _select_rules(analysis: TextAnalysis) -> Sequence[Callable[[TextAnalysis], Outcome | None]]:
    if analysis.compared_columns:
        return [_relate_columns]
    return _QUESTION_RULES if analysis.is_question else _CLAIM_RULES


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
    operation = next(filter(analysis.has_unmasked_phrase, ("total", "mean")), None)
    if operation is None or analysis.degrees or not _has_only_bounds(analysis):
        return None
    number = None if analysis.is_question else analysis.numbers[0]
    column = analysis.find_column(number) if number else analysis.find_measured_column(None)
    if column is None or column in view.date_columns | view.time_columns | view.mixed_units.keys():
        return None
    cells = _list_summed_cells(analysis, column, number)
    values = [value for cell in cells if (value := view.number_at(cell)) is not None]
    if len(values) < max(2, len(cells)):
        return None
    result = fmean(values) if operation == "mean" else fsum(values)
    text = f"The {operation} of {len(values)} values in “{view.label(column)}” is {format_number(result)}."
    return Outcome(operation, text, tuple(cells), result, is_confirmed=number.is_met(result) if number else None)


def _has_only_bounds(analysis: TextAnalysis) -> bool:
    """Whether a claim of a sum states one number, or a question about one has numbers for conditions only.

    "What do two rolls and one loaf cost together?" has another one.
    """
    if not analysis.is_question:
        return len(analysis.numbers) == 1
    n_bounds = sum(condition.number is not None for condition in analysis.find_conditions())
    return len(analysis.numbers) == n_bounds and not (analysis.rows and analysis.numbers)


def _list_summed_cells(analysis: TextAnalysis, column: int, number: CellValue | None) -> list[CellLocation]:
    """The known cells of a column in the named rows, else in those that meet the conditions; ``number`` is none."""
    view = analysis.view
    rows = analysis.rows or analysis.select_rows(analysis.find_conditions(number))
    shared = [mention.rows for mention in analysis.shared if mention.rows]
    return [(i, column) for i in rows if all(i in named for named in shared) and view.cell((i, column)).is_known]


def _count_rows(
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
    """Whether the stated number of rows meet the conditions of a claim."""
    number = _find_stated_count(analysis)
    if analysis.rows or number is None or number.value % 1:
        return None
    conditions = analysis.find_conditions(number)
    columns = [condition.column for condition in conditions if condition.number is None]
    if not conditions or len(set(columns)) < len(columns):
        return None  # a row has one value per column
    outcome = _count_rows(analysis, conditions)
    return replace(outcome, is_confirmed=number.is_met(outcome.number))


def _answer_count(analysis: TextAnalysis) -> Outcome | None:
    """The number of rows that meet the conditions of a question, or of names of a column if it has none."""
    if analysis.rows or not analysis.has_phrase("counting") or analysis.asks_for_value:
        return None
    conditions = analysis.find_conditions() or _find_shared_name(analysis)
    if not conditions:
        return _count_names(analysis)
    amounts = analysis.numeric_mentions.keys() - analysis.view.date_columns - analysis.view.time_columns
    if amounts and not (analysis.numbers or analysis.has_phrase("row_nouns")):
        return None  # "How many bolts are in stock?"
    return _count_rows(analysis, conditions)


def _find_shared_name(analysis: TextAnalysis) -> list[Condition]:
    """The condition of a name that several rows share: "How many medicines is Ilse on?"."""
    view = analysis.view
    names = [mention.names for mention in analysis.shared if len({j for _, j in mention.names}) == 1]
    return [Condition(cells[0][1], frozenset(map(view.text_at, cells))) for cells in names]


def _check_quantifier(analysis: TextAnalysis) -> Outcome | None:
    """For a claim with "all" or "no" that ends with a condition: whether all rows of its other conditions meet it, or
    none."""
    quantifier = pattern("universal").match(analysis.text)
    conditions = [*_find_shared_name(analysis), *analysis.find_conditions()]
    if analysis.rows or not (quantifier and conditions):
        return None
    n_numbers = sum(condition.number is not None for condition in conditions)
    # "150 hp" may be of no column, and "… at least once" ends with no condition.
    if n_numbers < len(analysis.numbers) or len(analysis.ending.split()) > 1:
        return None
    return _count_subjects(analysis, conditions, quantifier[0].casefold())


def _count_subjects(analysis: TextAnalysis, conditions: Sequence[Condition], quantifier: str) -> Outcome | None:
    """How many rows that meet all conditions but the last meet that, too; None if "both" are not two."""
    view = analysis.view
    *others, last = conditions
    rows = analysis.select_rows(conditions)
    subjects = analysis.select_rows(others)
    if quantifier == "both" and len(subjects) != 2:
        return None
    cells = dict.fromkeys((i, c.column) for i in subjects for c in conditions if view.text_at((i, c.column)))
    kinds = "".join(f" with {condition.describe(view)}" for condition in others)
    text = f"{len(rows)} of {len(subjects)} rows{kinds} satisfy {last.describe(view)}."
    n_claimed = len(subjects) if quantifier in ("all", "both", "every", "each") else 0
    return Outcome("count", text, tuple(cells), float(len(rows)), rows, is_confirmed=len(rows) == n_claimed)


def _check_group_sizes(analysis: TextAnalysis) -> Outcome | None:
    """For a claim that more rows meet one condition than another one on the same column: whether they do."""
    view = analysis.view
    degree = analysis.degree("comparative")
    conditions = analysis.find_conditions()
    has_noun = analysis.has_phrase("row_nouns") or any({*m.columns} & {*view.name_columns} for m in analysis.mentions)
    if analysis.rows or degree is None or degree.headers or not has_noun:
        return None
    if len(conditions) != 2 or conditions[0].column != conditions[1].column:
        return None
    first, second = (_count_rows(analysis, [condition]) for condition in conditions)
    text = f"{first.text} {second.text}"
    is_confirmed = degree.direction * (first.number - second.number) > 0
    return replace(first, text=text, cells=(*first.cells, *second.cells), is_confirmed=is_confirmed)


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


def _measure_pair(analysis: TextAnalysis) -> dict[CellLocation, float]:
    """The two values that a text relates by a difference or ratio, by cell; empty if it relates none."""
    view = analysis.view
    if len(analysis.rows) != 2 or len(analysis.numbers) > 1:
        return {}
    column = analysis.find_measured_column(next(iter(analysis.degrees), None))
    if column is None and analysis.numbers:
        column = analysis.find_column(analysis.numbers[0])
    if column is None or column in view.time_columns | view.mixed_units.keys():
        return {}
    cells = [(row, column) for row in analysis.rows]
    values = {cell: value for cell in cells if (value := view.number_at(cell)) is not None}
    return values if len(values) == 2 else {}


def _check_ratio(analysis: TextAnalysis) -> Outcome | None:
    """The ratio of two rows; for a claim, whether it is the stated number."""
    values = _measure_pair(analysis) if analysis.has_phrase("ratio") else {}
    if not values:
        return None
    first, second = (f"“{analysis.view.text_at(cell)}”" for cell in values)
    a, b = values.values()
    if b == 0:
        return None
    is_confirmed = analysis.numbers[0].states(a / b) if analysis.numbers else None
    text = f"{first} divided by {second} is {a / b:.6g}."
    return Outcome("ratio", text, tuple(values), a / b, is_confirmed=is_confirmed)


def _answer_difference(analysis: TextAnalysis) -> Outcome | None:
    """The difference of two rows."""
    has_amount = analysis.degree("comparative") and (analysis.numbers or analysis.has_phrase("amount_question"))
    if analysis.has_phrase("ratio") or not (has_amount or analysis.has_phrase("difference")):
        return None
    values = _measure_pair(analysis)
    if not values:
        return None
    first, second = (f"“{analysis.view.text_at(cell)}”" for cell in values)
    a, b = values.values()
    text = f"{first} and {second} differ by {abs(a - b):.6g}."
    return Outcome("difference", text, tuple(values), abs(a - b))


def _check_difference(analysis: TextAnalysis) -> Outcome | None:
    """Whether two rows differ by the stated number, and in the stated direction."""
    outcome = _answer_difference(analysis)
    if outcome is None or not analysis.numbers:
        return None
    number = analysis.numbers[0]
    column = outcome.cells[0][1]
    a, b = _measure_pair(analysis).values()
    comparative = analysis.degree("comparative")
    is_ordered = comparative is None or analysis.direction(comparative, column) * (a - b) > 0
    is_relative = number.kind == "percentage" and b != 0.0 and extract_unit(analysis.view.labels[column]) != "%"
    amount = abs(a / b - 1) * 100 if is_relative else outcome.number
    return replace(outcome, is_confirmed=is_ordered and number.states(amount))


def _find_extreme(view: TableView, column: int, rows: Sequence[int], direction: int, rank: int = 1) -> Outcome | None:
    """The rows with the greatest (direction 1) or smallest value of a column, or of a rank ("second largest")."""
    numbers = {i: number for i in rows if (number := view.number_at((i, column))) is not None}
    ranking = sorted(numbers, key=lambda i: (-direction * numbers[i], i))
    values = sorted({*numbers.values()}, reverse=direction > 0)
    if len(ranking) < 2 or rank > len(values):
        return None
    value = values[rank - 1]
    best = tuple(i for i in ranking if numbers[i] == value)
    cells = tuple((i, column) for i in sorted(ranking, key=best.__contains__))  # the best ones last
    ordinal = {1: "", 2: "second ", 3: "third "}.get(rank, f"{rank}th ")
    adjective = "greatest" if direction > 0 else "smallest"
    text = f"The {ordinal}{adjective} of {len(cells)} values in “{view.label(column)}” is "
    text += f"“{view.text_at((best[0], column))}” ({' and '.join(map(view.row_name, best))})."
    return Outcome("superlative", text, cells, value, best)


def _select_compared_rows(analysis: TextAnalysis, column: int) -> tuple[int, ...]:
    """The rows whose values of a column are compared: those that meet the conditions on other columns."""
    return analysis.select_rows([condition for condition in analysis.find_conditions() if condition.column != column])


def _check_extreme(analysis: TextAnalysis) -> Outcome | None:
    """Whether a row has the greatest or smallest value: "the greatest", "none is greater", "greater than any other"."""
    degree = next(iter(analysis.degrees), None)
    column = analysis.find_measured_column(degree)
    if degree is None or column is None or len(analysis.rows) != 1:
        return None
    ((row, mention),) = analysis.rows.items()
    if degree.kind == "comparative":
        no_row = pattern("no_row").search(analysis.text)
        excludes_others = no_row and no_row.start() < degree.start < mention.start
        if not excludes_others and not analysis.has_phrase("all_others"):
            return None
    rows = _select_compared_rows(analysis, column)
    outcome = _find_extreme(analysis.view, column, rows, analysis.direction(degree, column), degree.rank)
    if outcome is None or row not in rows:
        return None
    return replace(outcome, is_confirmed=analysis.view.number_at((row, column)) == outcome.number)


def _answer_extreme(analysis: TextAnalysis) -> Outcome | None:
    """The rows with the greatest or smallest value of all or, if a question names several, of these."""
    degree = analysis.degree("superlative")
    column = analysis.find_measured_column(degree)
    if degree is None or column is None:
        return None
    if [mention.is_whole for mention in analysis.rows.values()] == [True]:
        return None  # "What is the lowest temperature that an aloe takes?"
    rows = tuple(analysis.rows) if len(analysis.rows) > 1 else _select_compared_rows(analysis, column)
    return _find_extreme(analysis.view, column, rows, analysis.direction(degree, column), degree.rank)


def _check_comparison(analysis: TextAnalysis) -> Outcome | None:
    """Whether each row that a claim names before "than" or a verb has more than each row after it."""
    view = analysis.view
    degree = analysis.degree("comparative")
    column = analysis.find_measured_column(degree)
    if degree is None or column is None:
        return None
    than = pattern("than_marker").search(analysis.text, degree.end)
    border = than.start() if than else degree.start
    rows = analysis.rows
    pairs = [(i, j) for i in rows for j in rows if rows[i].start < border <= rows[j].start]
    return _compare_rows(view, column, pairs, analysis.direction(degree, column))


def _compare_rows(view: TableView, column: int, pairs: Sequence[tuple[int, int]], direction: int) -> Outcome | None:
    """Whether the first row of each pair has more (direction 1) or less (-1) than the second."""
    cells = tuple(dict.fromkeys((i, column) for pair in pairs for i in pair))
    numbers = {i: number for i, _ in cells if (number := view.number_at((i, column))) is not None}
    if not pairs or len(numbers) < len(cells):
        return None
    differences = [numbers[i] - numbers[j] for i, j in pairs]
    n_agreeing = sum(direction * difference > 0 for difference in differences)
    sign = "=" if differences[0] == 0 else ">" if differences[0] > 0 else "<"
    text = f"“{view.text_at(cells[0])}” {sign} “{view.text_at(cells[1])}”."
    if len(pairs) > 1:
        relation = "greater" if direction > 0 else "smaller"
        text = f"The first value is {relation} in {n_agreeing} of {len(pairs)} comparisons; first: {text}"
    return Outcome("comparison", text, cells, n_agreeing / len(pairs), is_confirmed=n_agreeing == len(pairs))


def _answer_comparison(analysis: TextAnalysis) -> Outcome | None:
    """The rows with more than a row or number of a question, or with the most: "Which working dog is lighter?"."""
    view = analysis.view
    rows = analysis.rows
    degree = analysis.degree("comparative")
    column = analysis.find_measured_column(degree)
    if degree is None or column is None:
        return None
    direction = analysis.direction(degree, column)
    than = pattern("than_marker").search(analysis.text, degree.end)
    if len(rows) == 1:
        ((row, mention),) = rows.items()
        limit = view.number_at((row, column))
        if limit is None or mention.start <= degree.end or not (than or degree.is_verb):
            return None
        bound = CellValue.bound(">" if direction > 0 else "<", limit)
        return _count_rows(analysis, [Condition(column, number=bound)], [(row, column)])
    conditions = analysis.find_conditions()
    if conditions and analysis.numbers and not rows and analysis.has_phrase("row_question"):
        return _count_rows(analysis, conditions)
    if than or (degree.is_verb and not rows):
        return None
    return _find_extreme(view, column, tuple(rows) or _select_compared_rows(analysis, column), direction)


def _relate_columns(analysis: TextAnalysis) -> Outcome | None:
    """How two columns of one header in joined tables differ: in the row that a text names, else the rows with more."""
    if not _are_comparable(analysis):
        return None
    if len(analysis.rows) == 1:
        return _subtract_columns(analysis)
    asks_for_rows = analysis.has_phrase("row_question") or analysis.has_phrase("counting")
    if analysis.rows or not (analysis.is_question and asks_for_rows and _orders_columns(analysis)):
        return None
    bounded = [condition.column for condition in analysis.find_conditions() if condition.number is not None]
    if len(bounded) < len(analysis.numbers) or not analysis.compared_columns.keys().isdisjoint(bounded):
        return None  # "Which product had 30 more sales in 2024 than in 2023?"
    return _find_rows_with_more(analysis)


def _find_rows_with_more(analysis: TextAnalysis) -> Outcome:
    """The rows in which the first of two columns is greater or smaller than the second, as a text says."""
    view = analysis.view
    first, second = analysis.compared_columns
    direction = analysis.direction(analysis.degrees[0], first)
    candidates = analysis.select_rows(analysis.find_conditions())
    differences = {i: d for i in candidates if (d := _subtract(view, (i, first), (i, second))) is not None}
    rows = tuple(i for i, difference in differences.items() if direction * difference > 0)
    cells = tuple((i, j) for i in rows or candidates for j in (first, second) if view.text_at((i, j)))
    relation = "greater" if direction > 0 else "smaller"
    text = f"“{view.label(first)}” is {relation} than “{view.label(second)}” in {len(rows)} of {len(candidates)} rows."
    return Outcome("count", text, cells, float(len(rows)), rows)


def _are_comparable(analysis: TextAnalysis) -> bool:
    """Whether a text names two columns of joined tables with amounts, and measures no other column."""
    columns = analysis.compared_columns
    view = analysis.view
    unordered = view.time_columns | view.mixed_units.keys()
    is_comparison = [degree.kind for degree in analysis.degrees] in ([], ["comparative"])
    if len(columns) != 2 or not unordered.isdisjoint(columns) or not is_comparison or analysis.has_phrase("ratio"):
        return False
    measured = collect_words(" ".join(view.labels[j] for j in columns)).union(
        *(view.measures.get(j, ()) for j in columns)
    )
    if any(degree.headers and degree.headers.isdisjoint(measured) for degree in analysis.degrees):
        return False  # "Which items are heavier in Lindau than in Bregenz?" asks for no prices
    # "Did the price rise from 2023 to 2024?" measures no sales, if only these have years.
    others = {j for j, mention in analysis.named_measures.items() if mention not in columns.values()}
    return others <= columns.keys() | {condition.column for condition in analysis.find_conditions()}


def _subtract(view: TableView, first: CellLocation, second: CellLocation) -> float | None:
    """The first number minus the second; None if a cell has none."""
    a = view.number_at(first)
    b = view.number_at(second)
    return None if a is None or b is None else a - b


def _orders_columns(analysis: TextAnalysis) -> bool:
    """Whether a text names a column before "than" and another one after it."""
    degree = analysis.degree("comparative")
    than = pattern("than_marker").search(analysis.text, degree.end) if degree is not None else None
    first, second = analysis.compared_columns.values()
    return than is not None and first.start < than.start() < second.start


def _find_stated_direction(analysis: TextAnalysis) -> int:
    """1 if the first of two columns should be the greater one, -1 if the second should, 0 if the text does not say."""
    if _orders_columns(analysis):
        return analysis.direction(analysis.degrees[0], next(iter(analysis.compared_columns)))
    first = next(iter(analysis.compared_columns.values()))
    if analysis.text[: first.start].split()[-1:] not in (["from"], ["between"]):
        return 0
    is_rising = analysis.has_phrase("rising")
    is_falling = analysis.has_phrase("falling")
    return is_falling - is_rising


def _subtract_columns(analysis: TextAnalysis) -> Outcome | None:
    """The difference of two columns in a row; for a claim, whether it is stated, or has the stated direction."""
    view = analysis.view
    first, second = ((i, j) for i in analysis.rows for j in analysis.compared_columns)
    difference = _subtract(view, first, second)
    if difference is None or any(number.kind == "percentage" for number in analysis.numbers):
        return None
    text = f"“{view.text_at(first)}” and “{view.text_at(second)}” differ by {abs(difference):.6g}."
    outcome = Outcome("difference", text, (first, second), abs(difference))
    direction = _find_stated_direction(analysis)
    is_agreeing = direction == 0 or direction * difference > 0
    is_difference = analysis.has_phrase("difference") or (direction != 0 and analysis.has_phrase("amount_question"))
    if analysis.is_question:
        return outcome if is_difference and is_agreeing and (direction or not analysis.degrees) else None
    if len(analysis.numbers) > 1 or not (direction or (is_difference and analysis.numbers)):
        return None
    return replace(outcome, is_confirmed=is_agreeing and all(n.states(abs(difference)) for n in analysis.numbers))


def _answer_conditions(analysis: TextAnalysis) -> Outcome | None:
    """The rows that meet the conditions of a question without a comparison: "Which rooms have a projector?"."""
    asks_for_rows = analysis.has_phrase("row_question") or (is_note(analysis.text) and not analysis.degrees)
    if analysis.rows or analysis.degree("comparative") or not asks_for_rows:
        return None
    if analysis.asks_for_value:
        return None  # "What is the number of visitors in Oslo in 2023?"
    conditions = analysis.find_conditions()
    has_bound = any(number.comparator or number.is_time for number in analysis.numbers)
    has_bound |= any(condition.column in analysis.view.flag_columns or condition.number for condition in conditions)
    # One value alone is found by the words of the question.
    if conditions and (has_bound or analysis.is_negated or len(conditions) > 1):
        return _count_rows(analysis, conditions)
    return None


def _check_joint_row(analysis: TextAnalysis) -> Outcome | None:
    """Whether one row has all items of a claim, whether or not the claim names the row."""
    view = analysis.view
    items = analysis.stated_items
    if len(items) < 2 or not _is_about_one_row(analysis):
        return None
    counts = Counter(row for item in items for row in {i for i, _ in item.cells})
    highest = max(counts.values(), default=0)
    best = [i for i in view.body if counts[i] == highest]
    is_known = all(view.cell((i, item.column)).is_known for i in best for item in items if item.column is not None)
    if not highest or (highest < len(items) and not is_known):
        return None  # a cell without a value contradicts nothing
    proof = _cite_items(view, items, best)
    names = ", ".join(map(view.row_name, best[:_MAX_NAMED_ROWS]))
    n = len(items)
    text = f"One row has all {n} names and numbers of the claim: {names}."
    if highest < n:
        text = f"No row has all {n} names and numbers of the claim; rows such as {names} have the most, {highest}."
    return Outcome("look_up", text, proof, float(highest), tuple(best), is_confirmed=highest == n)


def _cite_items(view: TableView, items: Sequence[StatedItem], rows: Sequence[int]) -> tuple[CellLocation, ...]:
    """The cells of rows that state items or could state them, and one cell of each item that no row has."""
    proof: dict[CellLocation, None] = {}
    for i in rows:
        for item in items:
            cells = {cell for cell in item.cells if cell[0] == i}
            cells |= {(i, item.column)} if item.column is not None else set()
            proof |= dict.fromkeys(cell for cell in sorted(cells) if view.text_at(cell))
    return (*proof, *dict.fromkeys(min(item.cells) for item in items if item.cells and not item.cells & proof.keys()))


def _is_about_one_row(analysis: TextAnalysis) -> bool:
    """Whether a claim states items that one row may have: no comparison, no quantifier, one item of a column."""
    items = analysis.stated_items
    columns = [item.column for item in items if item.column is not None]
    if pattern("quantifier").match(analysis.text) or analysis.has_phrase("exclusivity"):
        return False
    if re.search(r"\bevery\b", analysis.text):
        return False  # "At least three people work in every Monday shift"
    if {*analysis.degrees} - {analysis.find_bound(number) for number in analysis.numbers}:
        return False
    if len(set(columns)) < len(columns) or not all(item.cells or item.column is not None for item in items):
        return False
    # "The precision and the recall are above 60" states one number of two columns.
    return not analysis.numbers or {*analysis.numeric_mentions} <= {*columns}


_CLAIM_RULES = (
    _compute_total,
    _check_count,
    _check_quantifier,
    _check_group_sizes,
    _check_ratio,
    _check_difference,
    _check_extreme,
    _check_comparison,
    _check_joint_row,
)
_QUESTION_RULES = (
    _compute_total,
    _answer_count,
    _check_ratio,
    _answer_difference,
    _answer_extreme,
    _answer_comparison,
    _answer_conditions,
)
