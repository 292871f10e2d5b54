"""What column filtering must not lose: columns and rows that hold the numbers, names and options a text speaks of.

Word for word and number for number, without any encoder; also which rows bear on an option.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.reasoning.tables.cell_text import (
    collect_words,
    split_alternatives,
    stem_content_words,
    strip_markup,
    strip_unit,
    trigrams,
)
from evidence_assets.reasoning.tables.cells import parse_cell, parse_values
from evidence_assets.reasoning.tables.questions import rate_match
from evidence_assets.systems.ucret.columns import KeptLine, Rule, Selection

# A column is one of the options' if it matches them nearly as well as the best one does.
_OPTION_SHARE = 0.9
# And it is if it holds so many of them word for word, and half as many as any other column.
_SEVERAL = 2
# A name names rows if it stands in no more than these, or in a quarter of all.
_MOST_ROWS_NAMED = 3


@dataclass(frozen=True)
class TableWords:
    """The words and numbers of a table's columns, read once for all texts about it."""

    headers: tuple[frozenset[str], ...]  # content words of each header, without the unit behind it
    cells: tuple[tuple[frozenset[str], ...], ...]  # content words of each column's cells by row
    alternatives: tuple[
        tuple[tuple[frozenset[str], ...], ...], ...
    ]  # by row all words of the cell, then of its alternatives
    trigrams: tuple[frozenset[str], ...]  # runs of letters of each column's cells
    numbers: tuple[frozenset[float], ...]  # all numbers of each column's cells
    constant: tuple[bool, ...]  # whether a column says the same in every row, so that it tells no row from another

    @classmethod
    def of(cls, header: Sequence[str], columns: Sequence[Sequence[str]]) -> TableWords:
        parsed = [[parse_cell(text) for text in column] for column in columns]
        return cls(
            tuple(frozenset(stem_content_words(strip_unit(name))) for name in header),
            tuple(tuple(frozenset(stem_content_words(cell.plain)) for cell in column) for column in parsed),
            tuple(
                tuple(tuple(map(collect_words, split_alternatives(cell.plain))) for cell in column) for column in parsed
            ),
            tuple(frozenset(run for cell in column for run in trigrams(cell.plain)) for column in parsed),
            tuple(frozenset(value.value for cell in column for value in cell.values) for column in parsed),
            tuple(len(column) > 1 and len({cell.plain for cell in column}) == 1 for column in parsed),
        )

    @property
    def distinguishing_columns(self) -> list[int]:
        """Columns that tell rows apart."""
        return [j for j, constant in enumerate(self.constant) if not constant]

    def overlaps(self, option: frozenset[str]) -> list[float]:
        """For each column the Dice overlap of an option with its best cell, or one of the cell's alternatives."""
        names = ([name for cell in column for name in cell if name] for column in self.alternatives)
        dice = ([2 * len(option & name) / (len(option) + len(name)) for name in column] for column in names)
        return [max(shares, default=0.0) for shares in dice]


def find_named_cells(words: TableWords, text: str) -> dict[frozenset[str], dict[int, set[int]]]:
    """Names of the table that the text says whole: the words of a cell, or of an alternative that it lists, and the
    columns and rows where they stand."""
    said = frozenset(stem_content_words(text))
    names: dict[frozenset[str], dict[int, set[int]]] = {}
    for j in words.distinguishing_columns:
        for i, cell in enumerate(words.cells[j]):
            for name in (cell, *words.alternatives[j][i][1:]):
                if name and name <= said and any(not word[0].isdigit() for word in name):
                    names.setdefault(name, {}).setdefault(j, set()).add(i)
    # "New York" hides "York": a name within a longer one that is said too is not meant.
    return {name: places for name, places in names.items() if not any(name < other for other in names)}


def score_option_columns(words: TableWords, options: Sequence[str]) -> dict[int, float]:
    """Columns whose cells say what the options say, with the mean Dice overlap of the options' best cells."""
    overlaps = [words.overlaps(wanted) for option in options if (wanted := collect_words(option))]
    scores = {j: sum(best) / len(overlaps) for j, best in enumerate(zip(*overlaps, strict=True))}
    held = {j: sum(best[j] == 1.0 for best in overlaps) for j in scores}
    top = max(scores.values(), default=0.0)
    several = max(_SEVERAL, max(held.values(), default=0) / 2)
    return {
        j: score for j, score in scores.items() if score > 0 and (score >= _OPTION_SHARE * top or held[j] >= several)
    }


def _telling(places: dict[int, set[int]], height: int) -> dict[int, set[int]]:
    """Of the columns that hold a name those where it names rows: what many rows hold names none of them."""
    return {j: rows for j, rows in places.items() if len(rows) <= max(_MOST_ROWS_NAMED, height // 4)}


def _wishes(words: TableWords, text: str, options: Sequence[str]) -> Iterator[tuple[Rule, dict[int, float]]]:
    """What a text speaks of, most needed first: the columns that hold it, one of which should be kept."""
    # Twin columns (energy in, energy out) hold the same options: only the reasoner can tell them apart, so all stay.
    yield from (("option", {j: score}) for j, score in score_option_columns(words, options).items())
    for option in filter(None, map(collect_words, options)):
        scores = words.overlaps(option)
        yield "option", {j: score for j, score in enumerate(scores) if score == max(scores) > 0}
    said = frozenset(stem_content_words(text))
    yield from (("header", {j: 1.0}) for j, head in enumerate(words.headers) if head and head <= said)
    for places in find_named_cells(words, text).values():
        yield "entity", dict.fromkeys(_telling(places, len(words.cells[0])), 1.0)
    for value in parse_values(strip_markup(text)):
        yield "number", {j: 1.0 for j, numbers in enumerate(words.numbers) if value.value in numbers}
    for word in sorted(said) if options else ():
        # Which row an option stands in, the question may say in words of several columns.
        yield "entity", {j: 1.0 for j in words.distinguishing_columns if any(word in cell for cell in words.cells[j])}


def restore_columns(
    selection: Selection, words: TableWords, text: str, options: Sequence[str] = (), row_headers: Sequence[int] = ()
) -> Selection:
    """Put back the columns without which something that the text speaks of is gone.

    The columns that name the rows are put back first, as a value without the name of its row proves nothing; then
    those of options, headers, names and numbers, each only while no kept column covers it. With options, a column that
    tells their rows apart is put back too. Columns of the fallback stay only if nothing else does.
    """
    # A column that says the same in every row cannot tell options apart.
    kept = {
        item.line: item
        for item in selection.kept
        if item.rule != "fallback" and not (options and words.constant[item.line])
    }
    kept = {j: KeptLine(j, "row_header", 1.0) for j in row_headers} | kept
    wishes = [(rule, holders) for rule, holders in _wishes(words, text, options) if holders]
    demand = {j: sum(j in holders for _, holders in wishes) for j in range(selection.width)}
    for rule, holders in wishes:
        if not holders.keys() & kept.keys():
            best = max(holders, key=lambda j: (holders[j], demand[j], -j))
            kept[best] = KeptLine(best, rule, holders[best])
    if options:
        # It takes one column to say which row is meant and another to say what it holds.
        letters, of_options = trigrams(text), score_option_columns(words, options)
        alike = {
            j: len(words.trigrams[j] & letters) / max(1, len(letters))
            for j in words.distinguishing_columns
            if j not in kept
        }
        for j in sorted(alike, key=lambda j: (-alike[j], j)):
            if not kept.keys() <= of_options.keys() and len(kept.keys() & set(words.distinguishing_columns)) > 1:
                break
            kept[j] = KeptLine(j, "entity", alike[j])
    # What was kept only because nothing else was is needed only if still nothing but names of rows is.
    if kept.keys() <= set(row_headers):
        kept |= {item.line: item for item in selection.kept if item.rule == "fallback" and item.line not in kept}
    return Selection(tuple(sorted(kept.values())), selection.width)


def restore_rows(selection: Selection, words: TableWords, text: str) -> Selection:
    """Put back every row that holds a name which the text says whole; what many rows hold names none of them."""
    kept = {item.line: item for item in selection.kept}
    for places in find_named_cells(words, text).values():
        rows = dict.fromkeys(places, set().union(*places.values()))
        kept = {
            i: KeptLine(i, "entity", 1.0) for named in _telling(rows, selection.width).values() for i in named
        } | kept
    return Selection(tuple(sorted(kept.values())), selection.width)


def find_relevant_rows(
    words: TableWords, columns: Sequence[Sequence[str]], kept: Collection[int], text: str, options: Sequence[str]
) -> dict[int, Rule]:
    """The rows that bear on an option, and those that the question names.

    In the kept columns that tell rows apart, let m(i) be how far a cell of row i is the option (``option_match``, by
    which the reader weighs cells), and h(i) how many of the question's words the row holds. Row i bears on the option
    if m(i) > 0 and no row is at least as good in both and better in one: of the many rows that hold "carnivore" those
    about the animal that is asked for.
    """
    telling = [j for j in kept if not words.constant[j]]
    said, height = frozenset(stem_content_words(text)), len(words.cells[0]) if words.cells else 0
    held = [len(said & frozenset().union(*(words.cells[j][i] for j in telling))) for i in range(height)]
    bearing: dict[int, Rule] = {}
    for places in find_named_cells(words, text).values():
        for j, rows in _telling(places, height).items():
            bearing |= dict.fromkeys(rows if j in telling else (), "entity")
    for option in options:
        matches = [max((rate_match(option, columns[j][i]) for j in telling), default=0.0) for i in range(height)]
        most = -1
        for match in sorted({match for match in matches if match}, reverse=True):
            level = {i: held[i] for i in range(height) if matches[i] == match}
            if max(level.values()) > most:
                most = max(level.values())
                bearing |= {i: "option" for i, count in level.items() if count == most}
    return bearing
