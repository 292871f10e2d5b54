"""Columns and rows that filtering must not lose: those with the numbers, names and options of a text.

Texts and cells are compared by words and numbers, without an encoder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from evidence_assets.reasoning.tables.cell_text import (
    collect_words,
    split_alternatives,
    stem_content_words,
    strip_markup,
    strip_unit,
    trigrams,
)
from evidence_assets.reasoning.tables.cells import parse_cell, parse_values
from evidence_assets.reasoning.tables.lexicon import find_degree_words
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.systems.ucret.columns import KeptLine, Rule, Selection

# An option column matches the options at least this well relative to the best column.
_MIN_RELATIVE_MATCH = 0.9
# A text in more rows, and in more than a quarter of all, is not a row name.
_MAX_NAMED_ROWS = 3


@dataclass(frozen=True)
class TableWords:
    """The words and numbers of a table's columns, shared by all texts about it."""

    headers: tuple[frozenset[str], ...]  # content words of each header, without its unit
    cells: tuple[tuple[frozenset[str], ...], ...]  # content words of each column's cells by row
    alternatives: tuple[tuple[tuple[frozenset[str], ...], ...], ...]  # by row: all words, then those of alternatives
    trigrams: tuple[frozenset[str], ...]  # character trigrams of each column's cells
    numbers: tuple[frozenset[float], ...]  # numbers in each column's cells
    is_constant: tuple[bool, ...]  # whether a column has the same text in every row

    @classmethod
    def of(cls, header: Sequence[str], columns: Sequence[Sequence[str]]) -> TableWords:
        parsed = [[parse_cell(text) for text in column] for column in columns]
        return cls(
            tuple(frozenset(stem_content_words(strip_unit(name))) for name in header),
            tuple(tuple(frozenset(stem_content_words(cell.plain)) for cell in column) for column in parsed),
            tuple(
                tuple(tuple(map(collect_words, split_alternatives(cell.plain))) for cell in column) for column in parsed
            ),
            tuple(frozenset(trigram for cell in column for trigram in trigrams(cell.plain)) for column in parsed),
            tuple(frozenset(value.value for cell in column for value in cell.values) for column in parsed),
            tuple(len(column) > 1 and len({cell.plain for cell in column}) == 1 for column in parsed),
        )

    @property
    def distinguishing_columns(self) -> list[int]:
        """Columns that are not constant, so that they distinguish rows."""
        return [j for j, is_constant in enumerate(self.is_constant) if not is_constant]

    def overlaps(self, option: frozenset[str]) -> list[float]:
        """For each column the Dice overlap of an option with its best cell or alternative."""
        names = ([name for cell in column for name in cell if name] for column in self.alternatives)
        dice = ([2 * len(option & name) / (len(option) + len(name)) for name in column] for column in names)
        return [max(shares, default=0.0) for shares in dice]


@lru_cache(maxsize=1 << 16)
def match_cell(option: str, cell: str) -> float:
    """Match m(o, c) of an option with a cell, in [0, 1]: its best match with an alternative a in the cell.

    ``m(o, c) = max over a of 1[value(o) = value(a)]`` if o and a are amounts, else the Dice overlap of their words,
    ``2 |W(o) & W(a)| / (|W(o)| + |W(a)|)``.
    """
    return max((_match_text(option, text) for text in split_alternatives(cell)), default=0.0)


def _match_text(option: str, text: str) -> float:
    option_cell = parse_cell(option)
    text_cell = parse_cell(text)
    option_amount = option_cell.quantity if option_cell.is_one_amount else None
    text_amount = text_cell.quantity if text_cell.is_one_amount else None
    if option_amount is not None and text_amount is not None:
        return float(option_amount.value == text_amount.value)
    option_words = collect_words(option)
    text_words = collect_words(text)
    n_shared = len(option_words & text_words)
    return 2 * n_shared / (len(option_words) + len(text_words)) if n_shared else 0.0


def find_named_cells(words: TableWords, text: str) -> dict[frozenset[str], dict[int, set[int]]]:
    """Cells, or alternatives in cells, whose words are all in the text: by words, the rows in each column."""
    text_words = frozenset(stem_content_words(text))
    names: dict[frozenset[str], dict[int, set[int]]] = {}
    for j in words.distinguishing_columns:
        for i, cell in enumerate(words.cells[j]):
            for name in (cell, *words.alternatives[j][i][1:]):
                if name and name <= text_words and any(not word[0].isdigit() for word in name):
                    names.setdefault(name, {}).setdefault(j, set()).add(i)
    # "New York" hides "York": ignore a name inside a longer one.
    return {name: rows for name, rows in names.items() if not any(name < other for other in names)}


def score_option_columns(words: TableWords, options: Sequence[str]) -> dict[int, float]:
    """Columns whose cells match the options, with the mean Dice overlap of the options' best cells."""
    overlaps = [words.overlaps(option_words) for option in options if (option_words := collect_words(option))]
    scores = {j: sum(best) / len(overlaps) for j, best in enumerate(zip(*overlaps, strict=True))}
    min_score = _MIN_RELATIVE_MATCH * max(scores.values(), default=0.0)
    return {j: score for j, score in scores.items() if score > 0 and score >= min_score}


def _select_name_columns(rows: dict[int, set[int]], height: int) -> dict[int, set[int]]:
    """The columns in which a text names rows; a text in many rows names none of them."""
    return {j: named_rows for j, named_rows in rows.items() if len(named_rows) <= max(_MAX_NAMED_ROWS, height // 4)}


def _find_needs(words: TableWords, text: str, options: Sequence[str]) -> Iterator[tuple[Rule, dict[int, float]]]:
    """The items of a text by importance, each with the columns that have it; one of them should be kept."""
    # Columns with the same options (energy in, energy out) are all kept: only the solver can choose between them.
    yield from (("option", {j: score}) for j, score in score_option_columns(words, options).items())
    for option in filter(None, map(collect_words, options)):
        scores = words.overlaps(option)
        yield "option", {j: score for j, score in enumerate(scores) if score == max(scores) > 0}
    text_words = frozenset(stem_content_words(text))
    yield from (("header", {j: 1.0}) for j, header in enumerate(words.headers) if header and header <= text_words)
    for rows in find_named_cells(words, text).values():
        yield "entity", dict.fromkeys(_select_name_columns(rows, len(words.cells[0])), 1.0)
    for value in parse_values(strip_markup(text)):
        yield "number", {j: 1.0 for j, numbers in enumerate(words.numbers) if value.value in numbers}
    for word in sorted(text_words) if options else ():
        # The words that identify an option's row may be in several columns.
        yield "entity", {j: 1.0 for j in words.distinguishing_columns if any(word in cell for cell in words.cells[j])}


def find_needed_columns(view: TableView, words: TableWords, text: str, has_options: bool) -> dict[int, Rule]:
    """Columns that are kept first, whatever the text names.

    For a claim these are the row headers, as a value without its row name proves nothing. The options of a question
    restore the names of their rows; needed are columns without which another one looks right: all with a name that
    is in several ("from Lyon to Paris"), those of yes and no, and those of numbers, dates and times if the question
    has a number, a comparative or a superlative.
    """
    if not has_options:
        return dict.fromkeys(view.row_headers, "row_header")
    named_columns = [rows.keys() for rows in find_named_cells(words, text).values() if len(rows) > 1]
    needed: dict[int, Rule] = dict.fromkeys(sorted(set().union(*named_columns)), "entity")
    needed |= dict.fromkeys(view.flag_columns, "compared")
    if find_degree_words(text) or parse_values(strip_markup(text)):
        needed |= dict.fromkeys(sorted(view.numeric_columns), "compared")
    return needed


def restore_columns(
    selection: Selection,
    words: TableWords,
    text: str,
    options: Sequence[str] = (),
    needed: Mapping[int, Rule] = MappingProxyType({}),
) -> Selection:
    """Restore columns with items of the text that no kept column has.

    The text has items x (options, headers, names, numbers), and column j has item x with a score s(x, j) of at most 1.
    With K the columns kept so far, x contributes ``argmax over j of (s(x, j), |{y : s(y, j) > 0}|, -j)`` if no column
    of K has it. The needed columns come first. With options, a column that distinguishes their rows is kept too.
    Fallback columns stay only if nothing else is kept.
    """
    # A constant column cannot distinguish options.
    kept_lines = {
        item.line: item
        for item in selection.kept_lines
        if item.rule != "fallback" and not (options and words.is_constant[item.line])
    }
    kept_lines = {j: KeptLine(j, rule, 1.0) for j, rule in needed.items()} | kept_lines
    needs = [(rule, scores) for rule, scores in _find_needs(words, text, options) if scores]
    n_needs = {j: sum(j in scores for _, scores in needs) for j in range(selection.width)}
    for rule, scores in needs:
        if not scores.keys() & kept_lines.keys():
            best = max(scores, key=lambda j: (scores[j], n_needs[j], -j))
            kept_lines[best] = KeptLine(best, rule, scores[best])
    if options:
        # One column identifies the row, another one has the answer.
        text_trigrams, option_scores = trigrams(text), score_option_columns(words, options)
        candidates = [j for j in words.distinguishing_columns if j not in kept_lines]
        similarities = {j: len(words.trigrams[j] & text_trigrams) / max(1, len(text_trigrams)) for j in candidates}
        for j in sorted(similarities, key=lambda j: (-similarities[j], j)):
            n_distinguishing = len(kept_lines.keys() & set(words.distinguishing_columns))
            if not kept_lines.keys() <= option_scores.keys() and n_distinguishing > 1:
                break
            kept_lines[j] = KeptLine(j, "entity", similarities[j])
    if kept_lines.keys() <= needed.keys():
        fallback = (item for item in selection.kept_lines if item.rule == "fallback")
        kept_lines |= {item.line: item for item in fallback if item.line not in kept_lines}
    return Selection(tuple(sorted(kept_lines.values())), selection.width)


def find_relevant_rows(
    words: TableWords, columns: Sequence[Sequence[str]], indices: Collection[int], text: str, options: Sequence[str]
) -> dict[int, Rule]:
    """The rows that are relevant to an option, and those that the question names.

    In the kept columns that distinguish rows, let m(i) be the best match of the option with a cell of row i
    (`match_cell`), and h(i) the number of question words in the row. Row i is relevant if m(i) > 0
    and no other row dominates it in (m, h): of many rows with "carnivore", those about the animal in the question.
    """
    distinguishing = [j for j in indices if not words.is_constant[j]]
    text_words, height = frozenset(stem_content_words(text)), len(words.cells[0]) if words.cells else 0
    row_words = [frozenset().union(*(words.cells[j][i] for j in distinguishing)) for i in range(height)]
    n_shared = [len(text_words & row) for row in row_words]
    relevant: dict[int, Rule] = {}
    for named_rows in find_named_cells(words, text).values():
        for j, rows in _select_name_columns(named_rows, height).items():
            relevant |= dict.fromkeys(rows if j in distinguishing else (), "entity")
    for option in options:
        rates = {text: match_cell(option, text) for text in {text for j in distinguishing for text in columns[j]}}
        matches = [max((rates[columns[j][i]] for j in distinguishing), default=0.0) for i in range(height)]
        highest = -1
        for match in sorted({match for match in matches if match}, reverse=True):
            counts = {i: n_shared[i] for i in range(height) if matches[i] == match}
            if max(counts.values()) > highest:
                highest = max(counts.values())
                relevant |= {i: "option" for i, count in counts.items() if count == highest}
    return relevant
