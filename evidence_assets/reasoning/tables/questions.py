"""Questions whose answer is worked out from cells rather than read in one.

What belongs here: from the words of a question to one expression, and from its value to how far an option is it. Where
the words call for no operation, or do not name what it needs, nothing is worked out and the cells are weighed as they
stand (`choices`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from evidence_assets.reasoning.tables.algebra import Outcome
from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import moves, says, squeezed
from evidence_assets.reasoning.tables.likeness import option_match
from evidence_assets.reasoning.tables.mentions import read_text
from evidence_assets.reasoning.tables.quantities import states
from evidence_assets.reasoning.tables.reader import readings_of
from evidence_assets.reasoning.tables.text import plain_text, stem, tokens
from evidence_assets.reasoning.tables.view import Place, TableView

# How far an option may be from a number asked for "about", as a share of it, to count at all.
_NEAR = 0.25
_SAME_TEXT = 0.99
# The least that an option has which is the number when rounded.
_ROUNDED = 0.9
_NUMBERS_ONLY = frozenset({"mean", "sum", "difference", "ratio"})


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """Evaluate the expression that a question is read into; None where there is none that the table can show.

    Examples
    --------
    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> work_out(view, "How much deeper is Como than Garda?").number
    79.0
    """
    reading = read_text(view, question, presumes=True)
    outcomes = (asked.expression.evaluate(view) for asked in readings_of(reading))
    outcome = next((outcome for outcome in outcomes if outcome is not None), None)
    if outcome is None:
        return None
    return replace(outcome, about=outcome.operation in _NUMBERS_ONLY and says("about", question))


def could_be(outcome: Outcome, option: str) -> bool:
    """Whether an option is of the kind of an outcome: a name is never the answer where a mean was worked out."""
    return outcome.operation not in _NUMBERS_ONLY or bool(_numbers_of(option))


def _answered_by_rows(outcome: Outcome, option: str) -> bool:
    return bool(outcome.rows) and not (outcome.operation == "count" and _numbers_of(option))


def shown_for(view: TableView, outcome: Outcome, option: str, place: Place | None) -> tuple[Place, ...]:
    """The cells that show how an option stands to an outcome: where rows are the answer, those of the row it names."""
    if not _answered_by_rows(outcome, option):
        return outcome.cells
    names = ((i, j) for i in view.body for j in view.telling_columns)
    row = (place or next((at for at in names if _alike(option, view.cell(at).plain) >= _SAME_TEXT), (None,)))[0]
    return tuple(cell for cell in outcome.shown_for(row) if view.cell(cell).plain)


def option_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """How far an option is the outcome, in [0, 1], and the cell that says so if it is a cell."""
    if outcome.operation == "trend":
        return float(squeezed([sign for _, sign in moves(option)]) == outcome.pattern), None
    if _answered_by_rows(outcome, option):
        return _row_share(view, outcome, option)
    return _number_share(outcome, option), None


def _number_share(outcome: Outcome, option: str) -> float:
    values = _numbers_of(option)
    if not values or outcome.number is None:
        return 0.0
    claimed = values[0]
    distance = abs(outcome.number - claimed.value) / max(abs(outcome.number), abs(claimed.value), 1e-12)
    if states(claimed, outcome.number):
        # Of two options that both hold when rounded, the nearer one is meant.
        return max(_ROUNDED, 1.0 - distance)
    return max(0.0, 0.8 * (1 - distance / _NEAR)) if outcome.about or claimed.comparator == "≈" else 0.0


def _numbers_of(option: str) -> tuple[CellValue, ...]:
    """Numbers that an option states in figures, or in one word."""
    found = [stem(token) for token in tokens(option)]
    return parse_values(plain_text(option)) or (parse_values(found[0]) if len(found) == 1 else ())


def _row_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """The row that an option names, by its name or by another of its cells, and how far it is the one asked for."""
    names = view.name_columns
    best: tuple[float, Place | None] = (0.0, None)
    for i, share in outcome.rows:
        for j in sorted(view.columns, key=lambda j: (j not in names, j)):
            if share > best[0] and _alike(option, view.cell((i, j)).plain) >= _SAME_TEXT:
                best = (share, (i, j))
    return best


def _alike(option: str, text: str) -> float:
    """How far an option is a cell, by its words or by its number at the option's precision; a part counts half."""
    match = option_match(option, text)
    claimed, stated = parse_values(plain_text(option)), parse_values(plain_text(text))
    if match == 1.0 or len(claimed) != 1 or len(stated) != 1 or stated[0].comparator not in {"", "≈"}:
        return 1.0 if match == 1.0 else 0.5 * match
    if claimed[0].value == stated[0].value:
        return 0.5 * match if claimed[0].comparator in {"<", ">"} else 1.0
    return _ROUNDED if states(claimed[0], stated[0].value) else 0.5 * match
