"""Multiple-choice questions answered from a table: by the operation that they call for, else from one cell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from evidence_assets.extractive.tables.mentions import BEFORE_QUESTION_WORD, find_named_column
from evidence_assets.extractive.tables.operations import Outcome, apply_operations, cite_names
from evidence_assets.extractive.tables.text_analysis import TextAnalysis, analyze_text
from evidence_assets.reasoning.tables.cell_text import collect_words, split_alternatives, stem, trigrams
from evidence_assets.reasoning.tables.cells import CellValue, parse_cell
from evidence_assets.reasoning.tables.lexicon import pattern
from evidence_assets.reasoning.tables.table import CellLocation, TableChain, TableStep, TableView

# Weights of the features of a cell, each in [0, 1], tuned on the first half of the TabMCQ subset.
_MATCH_WEIGHT = 1.0
_OPTION_SPELLING_WEIGHT = 0.1  # the cell has the option's words; its trigrams
_ROW_WEIGHT = 1.0  # the rest of the row has the question's words, weighted by rarity
_KEY_WEIGHT = 0.3  # the question has the whole text of another cell in the row
_COLUMN_WEIGHT = 0.1  # the question names the column of the cell
_MAX_SCORE = _MATCH_WEIGHT + _OPTION_SPELLING_WEIGHT + _ROW_WEIGHT + _KEY_WEIGHT + _COLUMN_WEIGHT
TIE_MARGIN = 0.01 / _MAX_SCORE  # options whose supports differ by less are tied
# Support of an option that an operation confirms, and the maximum support of the other options then.
_CONFIRMED_SUPPORT = 1.0
_MAX_OTHER_SUPPORT = 0.3
MAX_UNRELATED_SUPPORT = 0.01  # of an option whose row is unrelated to the question: ranked, but not supported
LOG_ODDS_PER_SUPPORT = 30.0  # maximum likelihood estimate on the first half of the TabMCQ subset
_MANY_OPTIONS = 12  # people give fewer: these are cells
_WHEN = re.compile(rf"(?:(?:{'|'.join(sorted(BEFORE_QUESTION_WORD))}) )?when\b", re.IGNORECASE)
_NUMBER = re.compile(r"\W*\d")
_OTHER_BOUND_MATCH = 0.5  # of an option and a cell with the same number but another bound ("less than", "over")


@lru_cache(maxsize=1 << 16)
def rate_match(option: str, cell: str) -> float:
    """Match of an option and a cell or its best alternative: equal numbers for amounts, else Dice overlap of words."""
    return max((_rate_alternative(option, text) for text in split_alternatives(cell)), default=0.0)


@lru_cache(maxsize=1 << 16)
def _read_phrase(text: str) -> tuple[CellValue | None, str, frozenset[str]]:
    """The amount that a text is, if it is one, with the stem of its unit; and the words of the text."""
    cell = parse_cell(text)
    amount = cell.quantity if cell.is_one_amount else None
    unit = stem(amount.unit.casefold()) if amount and amount.unit else ""
    return amount, unit, collect_words(text)


def _rate_alternative(option: str, text: str) -> float:
    a, unit, words = _read_phrase(option)
    b, other_unit, other = _read_phrase(text)
    if a and b and (not (unit and other_unit) or unit == other_unit) and (a.value == b.value or a.scale == b.scale):
        has_same_bound = a.comparator.replace("≈", "") == b.comparator.replace("≈", "")
        return float(a.value == b.value) * (1.0 if has_same_bound else _OTHER_BOUND_MATCH)
    return _dice(words, other)


@lru_cache(maxsize=64)  # called for each option of a question
def find_value_column(view: TableView, question: str) -> int | None:
    """The column that a question names; if it names a row or begins with "how", another one than the rows' names.

    "When" asks for no name, unless names are times or dates.
    """
    names_row = asks_when(question) or question.casefold().startswith(("how ", "what does ", "what do ", "what did "))
    if names_row or analyze_text(view, question, is_question=True).rows:
        # "When does bus 14 arrive?" and "When does the bus at Park leave?" name a row by its bus.
        others = find_named_column(view, question, [j for j in view.columns if j not in view.name_columns])
        if others is not None:
            return others
    if asks_when(question):
        return find_named_column(view, question, sorted(view.date_columns | view.time_columns))
    return find_named_column(view, question)


def asks_when(question: str) -> bool:
    """Whether a question asks when, since when or until when."""
    return _WHEN.match(question) is not None


@lru_cache(maxsize=64)  # called for each option of a question
def compute_outcome(view: TableView, question: str) -> Outcome | None:
    """The outcome of the operation that a question calls for, if any."""
    return apply_operations(analyze_text(view, question, is_question=True))


def excludes_rows(view: TableView, question: str) -> bool:
    """Whether the outcome is of rows that do not meet a condition, so that the best option is the answer."""
    conditions = analyze_text(view, question, is_question=True).find_conditions()
    return any(condition.is_negated for condition in conditions) and compute_outcome(view, question) is not None


def is_beyond_cells(view: TableView, question: str, options: Sequence[str], best: str, *, is_tied: bool) -> bool:
    """Whether the best option is no answer, mostly where the cells of the table are the options.

    It is none if a question without an operation compares or computes, excludes rows, asks for another kind of answer,
    or names no column. "Who is the manager of Ana Lima?" is about her row, but no cell of it answers if the table has
    no managers.
    """
    outcome = compute_outcome(view, question)
    analysis = analyze_text(view, question, is_question=True)
    rows = ({*view.row_texts(i).values()} for i in view.body)
    columns = ({*filter(None, view.column_texts(j))} for j in view.columns)
    is_any_cell = _are_offered(rows, options, best)
    are_cells = is_any_cell or len(options) >= _MANY_OPTIONS or _are_offered(columns, options, best)
    if are_cells and (analysis.has_unmasked_phrase("excluding") or _is_of_other_kind(analysis, outcome, best)):
        return True
    if outcome is not None:
        lacks_rows = are_cells and is_tied and not outcome.rows
        return not asks_for_number(outcome, question) and (lacks_rows or _lacks_cell(view, outcome.rows, best))
    if analysis.compared_columns:
        return True
    if len(analysis.rows) == 1 and best in {view.text_at(name) for m in analysis.mentions for name in m.names}:
        return True  # "Who made the tin cup?" is not answered by "tin cup"
    if is_any_cell and find_named_column(view, question) is None:
        return True
    return are_cells and (_needs_operation(analysis) or (is_tied and _fits_all_rows(analysis)))


def _is_of_other_kind(analysis: TextAnalysis, outcome: Outcome | None, best: str) -> bool:
    """Whether a question asks for a sum, a person or a number, and gets something else."""
    view = analysis.view
    texts = " ".join((view.caption, *(cell.plain for row in view.grid for cell in row))).casefold()
    has_totals = bool(view.summary_rows) or pattern("total").search(texts) is not None
    is_counted = outcome is None or outcome.operation == "count"
    if is_counted and analysis.has_phrase("total") and not has_totals:
        return True
    n_shared = len(collect_words(best) & collect_words(analysis.text))
    compares = outcome is not None and outcome.operation == "superlative"
    if analysis.text.casefold().startswith("who ") and not compares and 0 < n_shared < len(collect_words(best)):
        return True  # "Who supplies the packing tape?" is not answered by "Packing tape brown"
    is_flag = any(best in yes | no for yes, no in view.flag_columns.values())
    is_text = analysis.has_phrase("counting") and _NUMBER.match(best) is None
    return outcome is None and ((is_flag and not analysis.rows) or is_text)


def _needs_operation(analysis: TextAnalysis) -> bool:
    """Whether a question compares, computes or excludes: "Who has only one entry?"."""
    numbers = {value.value for row in analysis.view.grid for cell in row for value in cell.values}
    if any(number.comparator or number.value not in numbers for number in analysis.numbers):
        return True
    if analysis.is_negated and not any(condition.is_negated for condition in analysis.find_conditions()):
        return True
    return bool(analysis.degrees) or analysis.has_phrase("difference") or analysis.has_unmasked_phrase("limiting")


def _fits_all_rows(analysis: TextAnalysis) -> bool:
    """Whether a question names no row and has no condition."""
    return not (analysis.rows or analysis.shared or analysis.numbers or analysis.find_conditions())


def _lacks_cell(view: TableView, rows: Sequence[int], best: str) -> bool:
    """Whether rows have no cell in the column of an option: the supplier of the best product, if it has none."""
    columns = [j for j in view.columns if best in view.column_texts(j)]
    return bool(rows and columns) and not any(view.text_at((i, j)) for i in rows for j in columns)


def _are_offered(lines: Iterable[set[str]], options: Sequence[str], best: str) -> bool:
    """Whether all texts of a row or column with the best option are options, or, if there are many, some of them."""
    offered = {*options}
    are_many = len(options) >= _MANY_OPTIONS
    others = (line - {best} for line in lines if best in line)
    return any(line and (line <= offered or (are_many and line & offered)) for line in others)


def _parse_option(option: str) -> tuple[CellValue, ...]:
    """Numbers in an option, in digits or as a single word."""
    words = collect_words(option)
    is_word = len(words) == 1 and not any(map(str.isdigit, option))  # "two", but not "T-02"
    return parse_cell(option).values or (parse_cell(min(words)).values if is_word else ())


def _locate_option(view: TableView, option: str, rows: Sequence[int]) -> CellLocation | None:
    """The cell in some rows that equals an option, preferably a row name."""
    columns = sorted(view.columns, key=lambda j: (j not in view.name_columns, j))
    return next(((i, j) for i in rows for j in columns if rate_match(option, view.text_at((i, j))) == 1.0), None)


class CellMatch(NamedTuple):
    """A cell that may state an option, and ``key``, the cell that relates its row to the question."""

    support: float
    location: CellLocation
    match: float
    key: CellLocation | None


class CellContext(NamedTuple):
    """How the rest of a cell's row and its column fit a question."""

    row_share: float  # of the question's words, weighted by rarity, in the other cells of the row
    key_share: float  # of the words of ``key`` in the question
    key: CellLocation | None  # the other cell of the row that the question names most of
    is_named: bool  # whether the question names the column

    def rate(self, match: float, spelling: float) -> float:
        """Support of an option that matches the cell to some degree."""
        context = _KEY_WEIGHT * self.key_share + _ROW_WEIGHT * self.row_share + _COLUMN_WEIGHT * self.is_named
        support = (_MATCH_WEIGHT * match + _OPTION_SPELLING_WEIGHT * spelling + context) / _MAX_SCORE
        return support if self.row_share or self.key_share else support * MAX_UNRELATED_SUPPORT


@lru_cache(maxsize=64)  # called for each option of a question
def rate_contexts(view: TableView, question: str) -> dict[CellLocation, CellContext]:
    """The context of each cell with a text."""
    words = collect_words(question)
    terms = words & view.word_weights.keys()
    terms_weight = view.weight_of(terms) or 1.0
    named = find_value_column(view, question)
    key_columns = {j for j in view.columns if not view.is_constant(j)}
    contexts = {}
    for i in view.body:
        texts = view.row_texts(i)
        cell_words = {j: Counter(terms & collect_words(text)) for j, text in texts.items()}
        row_words = sum(cell_words.values(), Counter[str]())
        keys = sorted(((_rate_key(texts[j], words), -j) for j in texts.keys() & key_columns), reverse=True)
        for j in texts:
            row_share = view.weight_of(row_words - cell_words[j]) / terms_weight
            key_share, key_column = next((pair for pair in keys if pair[1] != -j), (0.0, 0))
            contexts[i, j] = CellContext(row_share, key_share, (i, -key_column) if key_share else None, j == named)
    return contexts


def _find_best_cell(view: TableView, question: str, option: str) -> CellMatch | None:
    """The cell with the most support for an option, if any cell matches it."""
    matches = []
    for location, context in rate_contexts(view, question).items():
        text = view.text_at(location)
        if match := rate_match(option, text):
            support = context.rate(match, _dice(trigrams(option), trigrams(text)))
            matches.append(CellMatch(support, location, match, context.key))
    return max(matches, key=lambda match: match.support, default=None)


def _dice(a: frozenset[str], b: frozenset[str]) -> float:
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0


def _rate_key(text: str, words: frozenset[str]) -> float:
    """The largest share of the words of a cell, or of an alternative in it, that are in the question."""
    alternatives = filter(None, map(collect_words, split_alternatives(text)))
    # All numbers must be in the question: "7 days" does not partly match "1 day".
    candidates = (a for a in alternatives if not any(word[0].isdigit() for word in a - words))
    return max((len(a & words) / len(a) for a in candidates), default=0.0)


def explain_option(view: TableView, question: str, label: str, option: str) -> TableChain:
    """A chain for an option: its best cell, or its relation to the outcome of an operation."""
    chain = _explain_cell(view, label, option, _find_best_cell(view, question, option))
    outcome = compute_outcome(view, question)
    return chain if outcome is None else _explain_outcome(view, outcome, question, option, chain)


def asks_for_number(outcome: Outcome, question: str) -> bool:
    """Whether the number of an outcome is the answer, not its rows."""
    if outcome.operation == "count":
        return pattern("counting").search(question) is not None
    return not outcome.rows


def _names_row(view: TableView, cell: CellLocation) -> bool:
    return cell[1] in view.name_columns


def _explain_outcome(view: TableView, outcome: Outcome, question: str, option: str, chain: TableChain) -> TableChain:
    """The chain of an option for an outcome: the outcome, and whether the option agrees with it."""
    location = None
    cells = outcome.cells
    if asks_for_number(outcome, question):
        numbers = _parse_option(option)
        agrees = bool(numbers) and numbers[0].states(outcome.number)
    else:
        location = _locate_option(view, option, outcome.rows)
        option_cell = _locate_option(view, option, view.body)
        if location and option_cell and _names_row(view, option_cell) and not _names_row(view, location):
            location = None  # "1" is room 1, not the floor of room 4
        agrees = location is not None
        option_cell = location or option_cell
        cells = outcome.cells_for_row(option_cell[0] if option_cell else None)
        cells = tuple(cell for cell in cells if view.text_at(cell))
    steps = (*cite_names(view, cells), TableStep(outcome.operation, outcome.text, cells))
    if not agrees:
        contrast = TableStep("differs", f"This does not match “{option}”.")
        return TableChain(chain.hypothesis, (*steps, contrast, *chain.steps), _MAX_OTHER_SUPPORT * chain.support)
    last = TableStep("agrees", f"This matches “{option}”.", () if location is None else (location,))
    return TableChain(chain.hypothesis, (*steps, last), _CONFIRMED_SUPPORT)


def _explain_cell(view: TableView, label: str, option: str, match: CellMatch | None) -> TableChain:
    if match is None:
        return TableChain(label, (TableStep("absent", f"No cell matches “{option}”."),), 0.0)
    steps = []
    row, column = match.location
    if match.key is not None:
        text = f"Row {row} has “{view.text_at(match.key)}”, which is in the question."
        steps.append(TableStep("find_row", text, (match.key,)))
    relation = "matches" if match.match == 1.0 else "partly matches"
    text = f"Row {row} has “{view.text_at(match.location)}” in “{view.label(column)}”, which {relation} “{option}”."
    steps.append(TableStep("look_up", text, (*view.header_cells(column), match.location)))
    return TableChain(label, tuple(steps), match.support)
