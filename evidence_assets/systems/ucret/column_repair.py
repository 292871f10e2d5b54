"""What column filtering must not lose: columns that hold the numbers, names and options a text speaks of.

What belongs here: after a selection, the check that everything the text names is still covered, and the columns (and
rows) that are put back, each with the reason; and which rows bear on an option. Word for word and number for number,
without any encoder.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from evidence_assets.reasoning.tables.cells import parse_cell, parse_values
from evidence_assets.reasoning.tables.likeness import option_match
from evidence_assets.reasoning.tables.text import (
    alternatives,
    content_stems,
    letter_runs,
    plain_text,
    without_unit,
    word_set,
)
from evidence_assets.systems.ucret.columns import Kept, Rule, Selection

# A column is one of the options' if it matches them nearly as well as the best one does.
_OPTION_SHARE = 0.9
# And it is if it holds so many of them word for word, and half as many as any other column.
_SEVERAL = 2
# Of what the question says of the options' rows the kept columns should say so much, and a column that adds less
# stays out.
_ROW_SHARE, _LEAST_SHARE = 0.7, 0.1
# So many columns that differ from row to row make a statement: which row, and what of it.
_PAIR = 2
# A name names rows if it stands in no more than these, or in a quarter of all.
_MOST_ROWS_NAMED = 3


@dataclass(frozen=True)
class TableWords:
    """The words and numbers of a table's columns, read once for all texts about it.

    ``headers``: Content words of each header, without the unit behind it.
    ``cells``: Content words of each column's cells by row; a row that is too short has an empty set there.
    ``parts``: The words of each column's distinct cells, and of each alternative where a cell lists several.
    ``listed``: By row the words of each alternative of the cells that list several; nothing for other cells.
    ``runs``: Runs of letters of each column's cells.
    ``numbers``: All numbers of each column's cells.
    ``constant``: Whether a column says the same in every row, so that it tells no row from another.
    """

    headers: tuple[frozenset[str], ...]
    cells: tuple[tuple[frozenset[str], ...], ...]
    parts: tuple[frozenset[frozenset[str]], ...]
    listed: tuple[tuple[tuple[frozenset[str], ...], ...], ...]
    runs: tuple[frozenset[str], ...]
    numbers: tuple[frozenset[float], ...]
    constant: tuple[bool, ...]

    @classmethod
    def of(cls, header: Sequence[str], columns: Sequence[Sequence[str]]) -> TableWords:
        parsed = [[parse_cell(text) for text in column] for column in columns]
        return cls(
            tuple(frozenset(content_stems(without_unit(name))) for name in header),
            tuple(tuple(frozenset(content_stems(cell.plain)) for cell in column) for column in parsed),
            tuple(
                frozenset(word_set(part) for cell in column for part in alternatives(cell.plain)) for column in parsed
            ),
            tuple(tuple(tuple(map(word_set, alternatives(cell.plain)[1:])) for cell in column) for column in parsed),
            tuple(frozenset(run for cell in column for run in letter_runs(cell.plain)) for column in parsed),
            tuple(frozenset(value.value for cell in column for value in cell.values) for column in parsed),
            tuple(len(column) > 1 and len({cell.plain for cell in column}) == 1 for column in parsed),
        )

    @cached_property
    def places(self) -> dict[str, list[tuple[int, int]]]:
        """Row and column of every cell that a content word stands in."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for j, column in enumerate(self.cells):
            for i, cell in enumerate(column):
                for word in cell:
                    found[word].append((i, j))
        return dict(found)


def named_cells(words: TableWords, text: str) -> dict[frozenset[str], dict[int, set[int]]]:
    """Names of the table that the text says whole: the words of a cell, or of an alternative that it lists, and the
    columns and rows where they stand."""
    said = frozenset(content_stems(text))
    found: dict[frozenset[str], dict[int, set[int]]] = {}
    for j, column in enumerate(words.cells):
        if words.constant[j]:
            continue
        for i, cell in enumerate(column):
            for name in (cell, *words.listed[j][i]):
                if name and name <= said and any(not word[0].isdigit() for word in name):
                    found.setdefault(name, {}).setdefault(j, set()).add(i)
    # "New York" hides "York": a name within a longer one that is said too is not meant.
    return {name: places for name, places in found.items() if not any(name < other for other in found)}


def option_columns(words: TableWords, options: Sequence[str]) -> dict[int, float]:
    """Columns whose cells say what the options say, with the mean Dice overlap of the options' best cells."""
    wanted = [words_ for option in options if (words_ := word_set(option))]
    if not wanted:
        return {}
    overlaps = [_overlaps(words, option) for option in wanted]
    scores = {j: sum(best[j] for best in overlaps) / len(wanted) for j in range(len(words.cells))}
    held = {j: sum(best[j] == 1.0 for best in overlaps) for j in scores}
    top = max(scores.values(), default=0.0)
    several = max(_SEVERAL, max(held.values(), default=0) / 2)
    return {
        j: score for j, score in scores.items() if score > 0 and (score >= _OPTION_SHARE * top or held[j] >= several)
    }


def _telling(words: TableWords, places: dict[int, set[int]]) -> dict[int, set[int]]:
    """Of the columns that hold a name those where it names rows: what many rows hold names none of them."""
    return {j: rows for j, rows in places.items() if len(rows) <= most_named(len(words.cells[j]))}


def most_named(rows: int) -> int:
    """How many of so many rows a name may stand in and still name them."""
    return max(_MOST_ROWS_NAMED, rows // 4)


def _overlaps(words: TableWords, wanted: frozenset[str]) -> list[float]:
    """For each column the Dice overlap of an option with its best cell."""
    return [
        max((2 * len(wanted & cell) / (len(wanted) + len(cell)) for cell in column if cell), default=0.0)
        for column in words.parts
    ]


def _best_columns(words: TableWords, options: Sequence[str]) -> list[dict[int, float]]:
    """For each option the columns that hold the cell nearest to it."""
    found = []
    for wanted in filter(None, map(word_set, options)):
        scores = _overlaps(words, wanted)
        top = max(scores, default=0.0)
        if top > 0:
            found.append({j: score for j, score in enumerate(scores) if score == top})
    return found


def _nearest_cells(words: TableWords, option: frozenset[str]) -> list[tuple[int, int]]:
    """Row and column of the cells that say most nearly what an option says."""
    found: dict[float, list[tuple[int, int]]] = defaultdict(list)
    for i, j in {place for word in option for place in words.places.get(word, ())}:
        names = (words.cells[j][i], *words.listed[j][i])
        found[max(2 * len(option & name) / (len(option) + len(name)) for name in names)].append((i, j))
    return found[max(found)] if found else []


def _naming_columns(
    words: TableWords, said: frozenset[str], nearest: Sequence[list[tuple[int, int]]], kept: Collection[int]
) -> list[tuple[int, float]]:
    """The fewest columns, found greedily, that tell the options' rows apart as the question does.

    What a choice of columns is worth is, for each option, the weight of the question's words that its best row holds in
    these columns, the option's own cell left out; a word weighs the more the fewer rows it stands in. ``nearest`` are
    the cells nearest to each option. With each column comes the share that it adds.
    """
    in_row: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    weight = {}
    for word in said & words.places.keys():
        places = [(i, j) for i, j in words.places[word] if not words.constant[j]]
        for i, j in places:
            in_row[i][j].add(word)
        if places:
            weight[word] = math.log((len(words.cells[0]) + 1) / len({i for i, _ in places}))
    homes = [[place for place in cells if place[0] in in_row] for cells in nearest]

    def worth(columns: Collection[int]) -> float:
        total = 0.0
        for home in homes:
            held = (set().union(*(in_row[i][k] for k in in_row[i] if k in columns and k != j)) for i, j in home)
            total += max((sum(weight[word] for word in sorted(row)) for row in held), default=0.0)
        return total

    columns, found = set(kept), []
    now, whole = worth(columns), worth(range(len(words.cells)))
    while now < _ROW_SHARE * whole:
        gains = {j: worth(columns | {j}) - now for j in range(len(words.cells)) if j not in columns}
        best = max(gains, key=lambda j: (round(gains[j], 9), -j))
        if gains[best] < _LEAST_SHARE * whole:
            break
        columns.add(best)
        found.append((best, gains[best] / whole))
        now += gains[best]
    return found


def _alike_columns(words: TableWords, text: str, without: Collection[int]) -> list[tuple[int, float]]:
    """The columns that tell rows apart, outside some, each with the share of the text's letter runs that it holds; the
    one spelled most like the text first."""
    letters = letter_runs(text)
    others = (j for j in range(len(words.cells)) if j not in without and not words.constant[j])
    return sorted(
        ((j, len(words.runs[j] & letters) / max(1, len(letters))) for j in others), key=lambda item: (-item[1], item[0])
    )


def restore_columns(
    selection: Selection, words: TableWords, text: str, options: Sequence[str] = (), row_headers: Sequence[int] = ()
) -> Selection:
    """Put back the columns without which something that the text speaks of is gone.

    The columns that name the rows are put back first, as a value without the name of its row proves nothing; columns
    of the fallback stay only if nothing else does.
    Then in this order, each only while no kept column covers it: the columns of the options; a column named by its
    header; one that holds a name; one that holds a number. A column that covers several of these goes before others.
    Where there are options, the columns that tell their rows apart as the text does come last.
    """
    # A column that says the same in every row cannot tell options apart.
    chosen = [
        item for item in selection.kept if item.rule != "fallback" and not (options and words.constant[item.line])
    ]
    kept = [*chosen, *(Kept(j, "row_header", 1.0) for j in row_headers if j not in {item.line for item in chosen})]
    # Twin columns (energy in, energy out) hold the same options: only the reasoner can tell them apart, so all stay.
    options_in = option_columns(words, options)
    wishes: list[tuple[Rule, dict[int, float]]] = [("option", {j: score}) for j, score in options_in.items()]
    # An option that says most of what a cell elsewhere says may be the one whose column the others do not share.
    wishes += [("option", holders) for holders in _best_columns(words, options)]
    said = frozenset(content_stems(text))
    wishes += [("header", {j: 1.0}) for j, head in enumerate(words.headers) if head and head <= said]
    # Names of the options' own rows are left to the columns that tell these rows apart.
    nearest = [_nearest_cells(words, word_set(option)) for option in options]
    homes = {i for cells in nearest for i, _ in cells}
    named = [_telling(words, places) for places in named_cells(words, text).values()]
    wishes += [("entity", dict.fromkeys(p, 1.0)) for p in named if p and homes.isdisjoint(set().union(*p.values()))]
    for value in parse_values(plain_text(text)):
        holders = {j: 1.0 for j, numbers in enumerate(words.numbers) if value.value in numbers}
        if holders:
            wishes.append(("number", holders))
    demand = {j: sum(j in holders for _, holders in wishes) for j in range(selection.width)}
    for rule, holders in wishes:
        if not any(item.line in holders for item in kept):
            best = max(holders, key=lambda j: (holders[j], demand[j], -j))
            kept.append(Kept(best, rule, holders[best]))
    if options:
        naming = _naming_columns(words, said, nearest, {item.line for item in kept})
        kept += [Kept(j, "entity", share) for j, share in naming]
        # It takes one column to say which row is meant and another to say what it holds.
        for j, share in _alike_columns(words, text, {item.line for item in kept}):
            lines = {item.line for item in kept}
            if not lines <= options_in.keys() and sum(not words.constant[line] for line in lines) >= _PAIR:
                break
            kept.append(Kept(j, "entity", share))
    # What was kept only because nothing else was is needed only if still nothing but names of rows is.
    present = {item.line for item in kept}
    if present <= set(row_headers):
        kept += [item for item in selection.kept if item.rule == "fallback" and item.line not in present]
    return Selection(tuple(sorted(kept)), selection.width)


def restore_rows(selection: Selection, words: TableWords, text: str) -> Selection:
    """Put back every row that holds a name which the text says whole; what many rows hold names none of them."""
    kept = list(selection.kept)
    present = set(selection.indices)
    most = most_named(selection.width)
    groups = (set().union(*places.values()) for places in named_cells(words, text).values())
    named = {i for rows in groups if len(rows) <= most for i in rows}
    kept += [Kept(i, "entity", 1.0) for i in sorted(named - present)]
    return Selection(tuple(sorted(kept)), selection.width)


def bearing_rows(
    words: TableWords, columns: Sequence[Sequence[str]], kept: Collection[int], text: str, options: Sequence[str]
) -> dict[int, Rule]:
    """The rows that bear on an option, and those that the question names.

    In the kept columns that tell rows apart, let m(i) be how far a cell of row i is the option (``option_match``, by
    which
    the reader weighs cells), and h(i) how many of the question's words the row holds. Row i bears on the option if
    m(i) > 0 and no row is at least as good in both and better in one: of the many rows that hold "carnivore" those
    about the animal that is asked for.
    """
    telling = [j for j in kept if not words.constant[j]]
    said = frozenset(content_stems(text))
    held: dict[int, set[str]] = defaultdict(set)
    for word in said & words.places.keys():
        for i, j in words.places[word]:
            if j in telling:
                held[i].add(word)
    found: dict[int, Rule] = {}
    for places in named_cells(words, text).values():
        for j, rows in _telling(words, places).items():
            found |= dict.fromkeys(rows if j in telling else (), "entity")
    for option in options:
        matches: dict[int, float] = defaultdict(float)
        for j in telling:
            for i, cell in enumerate(columns[j]):
                if cell and (match := option_match(option, cell)) > matches[i]:
                    matches[i] = match
        most = -1
        for match in sorted({match for match in matches.values() if match}, reverse=True):
            level = {i: len(held[i]) for i, own in matches.items() if own == match}
            if max(level.values()) > most:
                most = max(level.values())
                found |= {i: "option" for i, count in level.items() if count == most}
    return found
