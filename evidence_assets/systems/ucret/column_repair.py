"""Columns and rows that filtering must not lose: those with the numbers, names and options of a text.

Texts and cells are compared by words and numbers, without an encoder.
"""

from __future__ import annotations

from collections import Counter
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

OptionOverlaps = Sequence[Sequence[float]]
"""For each option its Dice overlap with the best cell of each column."""


@dataclass(frozen=True)
class ColumnWords:
    """The words and numbers of a column, shared by all texts about its table."""

    texts: tuple[str, ...]
    header: frozenset[str]  # content words, without the unit
    cells: tuple[frozenset[str], ...]  # content words by row
    alternatives: tuple[tuple[frozenset[str], ...], ...]  # by row: all words, then those of alternatives in the cell
    trigrams: frozenset[str]
    numbers: frozenset[float]
    is_constant: bool  # whether the text is the same in every row, which cannot distinguish rows

    @classmethod
    def of(cls, header: str, texts: Sequence[str]) -> ColumnWords:
        cells = [parse_cell(text) for text in texts]
        plain_texts = [cell.plain for cell in cells]
        return cls(
            texts=tuple(texts),
            header=frozenset(stem_content_words(strip_unit(header))),
            cells=tuple(frozenset(stem_content_words(text)) for text in plain_texts),
            alternatives=tuple(tuple(map(collect_words, split_alternatives(text))) for text in plain_texts),
            trigrams=frozenset().union(*map(trigrams, plain_texts)),
            numbers=frozenset(value.value for cell in cells for value in cell.values),
            is_constant=len(texts) > 1 and len(set(plain_texts)) == 1,
        )


@dataclass(frozen=True)
class TableWords:
    """The words and numbers of a table's columns."""

    columns: tuple[ColumnWords, ...]

    @classmethod
    def of(cls, header: Sequence[str], columns: Sequence[Sequence[str]]) -> TableWords:
        return cls(tuple(map(ColumnWords.of, header, columns)))

    @property
    def height(self) -> int:
        """Rows below the header."""
        return len(self.columns[0].texts) if self.columns else 0

    @property
    def distinguishing_columns(self) -> list[int]:
        """Columns that are not constant, so that they distinguish rows."""
        return [j for j, column in enumerate(self.columns) if not column.is_constant]

    def rate_options(self, options: Sequence[str]) -> OptionOverlaps:
        """The overlaps of the options that have words."""
        names = [{name for cell in column.alternatives for name in cell} for column in self.columns]
        return [
            [max((_dice(words, name) for name in column), default=0.0) for column in names]
            for words in map(collect_words, options)
            if words
        ]


def _dice(a: frozenset[str], b: frozenset[str]) -> float:
    n_shared = len(a & b)
    return 2 * n_shared / (len(a) + len(b)) if n_shared else 0.0


@lru_cache(maxsize=1 << 16)
def match_cell(option: str, cell: str) -> float:
    """Match m(o, c) of an option with a cell, in [0, 1]: its best match with an alternative a in the cell.

    ``m(o, c) = max over a of 1[value(o) = value(a)]`` if o and a are amounts, else the Dice overlap of their words,
    ``2 |W(o) & W(a)| / (|W(o)| + |W(a)|)``.
    """
    return max((_match_text(option, text) for text in split_alternatives(cell)), default=0.0)


def _match_text(option: str, text: str) -> float:
    cells = [parse_cell(option), parse_cell(text)]
    amounts = [cell.quantity.value for cell in cells if cell.is_one_amount and cell.quantity is not None]
    if len(amounts) == 2:
        return float(amounts[0] == amounts[1])
    return _dice(collect_words(option), collect_words(text))


def find_named_cells(words: TableWords, text: str) -> list[dict[int, set[int]]]:
    """Cells, or alternatives in cells, whose words are all in the text: for each name the rows by column."""
    text_words = frozenset(stem_content_words(text))
    names: dict[frozenset[str], dict[int, set[int]]] = {}
    for j in words.distinguishing_columns:
        column = words.columns[j]
        for i, cell in enumerate(column.cells):
            for name in (cell, *column.alternatives[i][1:]):
                if name and name <= text_words and any(not word[0].isdigit() for word in name):
                    names.setdefault(name, {}).setdefault(j, set()).add(i)
    # "New York" hides "York": ignore a name inside a longer one.
    return [rows for name, rows in names.items() if not any(name < other for other in names)]


def score_option_columns(overlaps: OptionOverlaps) -> dict[int, float]:
    """Columns whose cells match the options, with the mean Dice overlap of the options' best cells."""
    scores = {j: sum(best) / len(overlaps) for j, best in enumerate(zip(*overlaps, strict=True))}
    min_score = _MIN_RELATIVE_MATCH * max(scores.values(), default=0.0)
    return {j: score for j, score in scores.items() if score > 0 and score >= min_score}


def _select_name_columns(rows: dict[int, set[int]], height: int) -> dict[int, set[int]]:
    """The columns in which a text names rows; a text in many rows names none of them."""
    return {j: named_rows for j, named_rows in rows.items() if len(named_rows) <= max(_MAX_NAMED_ROWS, height // 4)}


def _find_needs(words: TableWords, text: str, overlaps: OptionOverlaps) -> Iterator[tuple[Rule, dict[int, float]]]:
    """The items of a text by importance, each with the columns that have it; one of them should be kept."""
    # Columns with the same options (energy in, energy out) are all kept: only the solver can choose between them.
    yield from (("option", {j: score}) for j, score in score_option_columns(overlaps).items())
    for scores in overlaps:
        yield "option", {j: score for j, score in enumerate(scores) if score == max(scores) > 0}
    columns = list(enumerate(words.columns))
    text_words = frozenset(stem_content_words(text))
    yield from (("header", {j: 1.0}) for j, column in columns if column.header and column.header <= text_words)
    for rows in find_named_cells(words, text):
        yield "entity", dict.fromkeys(_select_name_columns(rows, words.height), 1.0)
    for value in parse_values(strip_markup(text)):
        yield "number", {j: 1.0 for j, column in columns if value.value in column.numbers}
    for word in sorted(text_words) if overlaps else ():
        # The words that identify an option's row may be in several columns.
        yield "entity", {j: 1.0 for j in words.distinguishing_columns if any(word in c for c in words.columns[j].cells)}


def find_needed_columns(view: TableView, words: TableWords, text: str, has_options: bool) -> dict[int, Rule]:
    """Columns that are kept first, whatever the text names.

    For a claim these are the row headers, as a value without its row name proves nothing. The options of a question
    restore the names of their rows; needed are columns without which another one looks right: all with a name that
    is in several ("from Lyon to Paris"), those of yes and no, and those of numbers, dates and times if the question
    has a number, a comparative or a superlative.
    """
    if not has_options:
        return dict.fromkeys(view.row_headers, "row_header")
    shared_names = [rows.keys() for rows in find_named_cells(words, text) if len(rows) > 1]
    needed: dict[int, Rule] = dict.fromkeys(sorted(set().union(*shared_names)), "entity")
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
    fallback = {item.line: item for item in selection.kept_lines if item.rule == "fallback"}
    kept_lines = {j: KeptLine(j, rule, 1.0) for j, rule in needed.items()}
    for item in selection.kept_lines:
        if item.line not in fallback and not (options and words.columns[item.line].is_constant):
            kept_lines[item.line] = item
    overlaps = words.rate_options(options)
    _restore_needs(kept_lines, list(_find_needs(words, text, overlaps)))
    if options:
        _restore_row_names(kept_lines, words, text, score_option_columns(overlaps))
    if kept_lines.keys() <= needed.keys():
        kept_lines = fallback | kept_lines
    return Selection(tuple(sorted(kept_lines.values())), selection.width)


def _restore_needs(kept_lines: dict[int, KeptLine], needs: Sequence[tuple[Rule, dict[int, float]]]) -> None:
    """Keep a column of each item, the one with the best score, then with the most items."""
    n_needs = Counter(j for _, scores in needs for j in scores)
    for rule, scores in needs:
        if scores and scores.keys().isdisjoint(kept_lines):
            best = max(scores, key=lambda j: (scores[j], n_needs[j], -j))
            kept_lines[best] = KeptLine(best, rule, scores[best])


def _restore_row_names(
    kept_lines: dict[int, KeptLine], words: TableWords, text: str, option_columns: Mapping[int, float]
) -> None:
    """Keep at least two distinguishing columns: one identifies the row, another one has the answer."""
    distinguishing = words.distinguishing_columns
    text_trigrams = trigrams(text)
    candidates = [
        KeptLine(j, "entity", len(words.columns[j].trigrams & text_trigrams) / max(1, len(text_trigrams)))
        for j in distinguishing
        if j not in kept_lines
    ]
    for item in sorted(candidates, key=lambda item: -item.score):
        n_distinguishing = sum(j in kept_lines for j in distinguishing)
        if n_distinguishing > 1 and not kept_lines.keys() <= option_columns.keys():
            break
        kept_lines[item.line] = item


def find_relevant_rows(
    words: TableWords, indices: Collection[int], text: str, options: Sequence[str]
) -> dict[int, Rule]:
    """The rows that are relevant to an option, and those that the question names.

    In the kept columns that distinguish rows, let m(i) be the best match of the option with a cell of row i
    (`match_cell`), and h(i) the number of question words in the row. Row i is relevant if m(i) > 0
    and no other row dominates it in (m, h): of many rows with "carnivore", those about the animal in the question.
    """
    columns = {j: words.columns[j] for j in indices if not words.columns[j].is_constant}
    relevant: dict[int, Rule] = {}
    for named_rows in find_named_cells(words, text):
        for j, rows in _select_name_columns(named_rows, words.height).items():
            if j in columns:
                relevant |= dict.fromkeys(rows, "entity")
    text_words = frozenset(stem_content_words(text))
    words_of_rows = zip(*(column.cells for column in columns.values()), strict=True)
    n_shared = [len(text_words & frozenset().union(*row)) for row in words_of_rows]
    texts_of_rows = list(zip(*(column.texts for column in columns.values()), strict=True))
    texts = set().union(*texts_of_rows)
    for option in options:
        rates = {cell: match_cell(option, cell) for cell in texts}
        matches = [max(map(rates.__getitem__, row)) for row in texts_of_rows]
        relevant |= dict.fromkeys(_find_undominated_rows(matches, n_shared), "option")
    return relevant


def _find_undominated_rows(matches: Sequence[float], n_shared: Sequence[int]) -> Iterator[int]:
    """Rows that match, such that no other row has a better match without fewer words, or more words."""
    most_words = -1
    for match in sorted(filter(None, set(matches)), reverse=True):
        rows = [i for i, other in enumerate(matches) if other == match]
        highest = max(n_shared[i] for i in rows)
        if highest > most_words:
            most_words = highest
            yield from (i for i in rows if n_shared[i] == highest)
