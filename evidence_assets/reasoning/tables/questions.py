"""Multiple-choice questions answered from one table: worked out where the words call for it, else read in one cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from evidence_assets.reasoning.tables import operations
from evidence_assets.reasoning.tables.cells import CellValue, parse_cell
from evidence_assets.reasoning.tables.lexicon import moves, squeezed
from evidence_assets.reasoning.tables.operations import Outcome, whose_cells
from evidence_assets.reasoning.tables.reading import read_text
from evidence_assets.reasoning.tables.table import Place, TableChain, TableStep, TableView
from evidence_assets.reasoning.tables.text import alternatives, letter_runs, same_word, stem, tokens, word_set

# What speaks for a cell, each a share in [0, 1]; weighed on the first half of the TabMCQ subset.
MATCH, OPTION_SPELLING = 1.0, 0.1  # it says what the option says: its words, its runs of letters
ROW, KEY = 1.0, 0.3  # the rest of its row holds the question's words, rare ones above all, and a whole name
SAID = 0.1  # the question says what the rest of its row holds, rather than one of many things that it lists
HEADER = 0.25  # its column is what the question asks for
SPELLING = 0.3  # the rest of its row is spelled like the question: "French" says something of a row about France
_LARGEST = MATCH + ROW + KEY + HEADER + SPELLING + OPTION_SPELLING + SAID
# Options whose best cells differ by less than this are equally supported.
TIED_SUPPORT = 0.01 / _LARGEST
# An option that an operation leads to has this support, one that only cells speak for at most the next.
_WORKED, _BESIDE = 1.0, 0.3
TIED_TO_NOTHING = 0.01
"""The most support of an option that nothing in the table ties to the question: it ranks, but is not supported."""
LOG_ODDS = 30.0
"""What a difference in support is in log odds: the likeliest of its kind on the first half of the TabMCQ subset."""
# An option that is the cell's number but for "less than" or "over".
_OTHERWISE_BOUNDED = 0.5


@lru_cache(maxsize=1 << 16)
def option_match(option: str, cell: str) -> float:
    """How far an option is a cell, or the closest of the alternatives that the cell lists.

    Where both are one number with at most a unit, whether it is the same number; else the Dice overlap of their words.
    """
    return max((_part_match(option, part) for part in alternatives(cell)), default=0.0)


def _part_match(option: str, part: str) -> float:
    amounts = [cell.quantity for cell in (parse_cell(option), parse_cell(part)) if cell.is_one_amount]
    units = {stem(amount.unit.casefold()) for amount in amounts if amount and amount.unit}
    left, right = amounts if len(amounts) == 2 and len(units) < 2 else (None, None)
    if left and right and (left.value == right.value or left.scale == right.scale):
        same_bound = left.comparator.replace("≈", "") == right.comparator.replace("≈", "")
        return float(left.value == right.value) * (1.0 if same_bound else _OTHERWISE_BOUNDED)
    held, wanted = word_set(part), word_set(option)
    shared = len(held & wanted) + sum(any(same_word(a, b) for b in held - wanted) for a in wanted - held)
    return 2 * min(shared, len(held), len(wanted)) / (len(held) + len(wanted)) if held and wanted else 0.0


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """The value that a question asks for; None where it asks for none that the table can show."""
    return operations.work_out(read_text(view, question, presumes=True))


def _numbers_of(option: str) -> tuple[CellValue, ...]:
    """Numbers that an option states in figures, or in one word."""
    stems = [stem(token) for token in tokens(option)]
    return parse_cell(option).values or (parse_cell(stems[0]).values if len(stems) == 1 else ())


def _place_of(view: TableView, option: str, rows: Sequence[int]) -> Place | None:
    """The cell in some rows that an option is, one that names its row if there is."""
    columns = sorted(view.columns, key=lambda j: (j not in view.name_columns, j))
    return next(((i, j) for i in rows for j in columns if option_match(option, view.said((i, j))) == 1.0), None)


class CellReading(NamedTuple):
    """One cell read as the answer cell of one option, with the cell that names its row."""

    support: float
    place: Place
    match: float
    key_place: Place | None


def read_cells(view: TableView, question: str, options: Sequence[str]) -> dict[int, CellReading]:
    """For each option the cell that speaks most for being its answer cell, if any says something of it."""
    asked, vocabulary = word_set(question), view.word_weights.keys()
    asked |= {known for word in asked - vocabulary for known in vocabulary if same_word(word, known)}
    known = asked & vocabulary
    heads = {j: word_set(view.labels[j]) & asked for j in view.columns}
    asked_heads = len(frozenset().union(*heads.values()))
    letters = letter_runs(question)
    naming = [j for j in view.columns if not view.says_one_thing(j)]
    best: dict[int, CellReading] = {}
    for i in view.body:
        texts = {j: view.said((i, j)) for j in view.columns}
        matches = {j: [option_match(option, text) for option in options] for j, text in texts.items() if text}
        matches = {j: shares for j, shares in matches.items() if any(shares)}
        keys = {j: _named_share(texts[j], asked) for j in naming} if matches else {}
        for j, shares in matches.items():
            others = [other for k, other in texts.items() if k != j]
            rest = frozenset().union(*map(word_set, others))
            runs = frozenset().union(*map(letter_runs, others))
            shared = view.weight_of(known & rest)
            key, key_at = max(((share, -k) for k, share in keys.items() if k != j), default=(0.0, 0))
            around = KEY * key + HEADER * len(heads[j]) / max(1, asked_heads)
            around += SPELLING * len(letters & runs) / max(1, len(letters))
            if shared:
                around += ROW * shared / view.weight_of(known) + SAID * shared / view.weight_of(rest)
            for o, match in enumerate(shares):
                support = (MATCH * match + OPTION_SPELLING * _spelled_like(options[o], texts[j]) + around) / _LARGEST
                support *= 1.0 if shared or key else TIED_TO_NOTHING
                if match and (o not in best or support > best[o].support):
                    best[o] = CellReading(support, (i, j), match, (i, -key_at) if key else None)
    return best


@lru_cache(maxsize=1 << 16)
def _spelled_like(option: str, cell: str) -> float:
    """Dice overlap of an option and a cell in runs of letters."""
    left, right = letter_runs(option), letter_runs(cell)
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0


def _named_share(text: str, asked: frozenset[str]) -> float:
    """How far a cell's text, or one of its alternatives, is named in the question: the largest share of its words.

    A number is no part of a name: "7 days" is not half found in a question about 1 day.
    """
    parts = filter(None, map(word_set, alternatives(text)))
    fitting = (part for part in parts if not any(word[0].isdigit() for word in part - asked))
    return max((len(part & asked) / len(part) for part in fitting), default=0.0)


def option_chains(
    view: TableView, question: str, labels: Sequence[str], options: Sequence[str]
) -> tuple[TableChain, ...]:
    """A chain for each option: its weightiest cell, or how it stands to what the question asks for."""
    best = read_cells(view, question, options)
    chains = [_chain(view, label, options[o], best.get(o)) for o, label in enumerate(labels)]
    outcome = work_out(view, question)
    if outcome is not None:
        chains = [_worked_chain(view, outcome, *pair) for pair in zip(options, chains, strict=True)]
    return tuple(chains)


def _worked_chain(view: TableView, outcome: Outcome, option: str, chain: TableChain) -> TableChain:
    """The chain of an option where an operation decides: its outcome, and how the option stands to it."""
    numbers = _numbers_of(option)
    place, shown = None, outcome.cells
    if outcome.operation == "trend":
        agrees = squeezed(sign for _, sign in moves(option)) == outcome.pattern
    elif outcome.rows and not (outcome.operation == "count" and numbers):
        place = _place_of(view, option, outcome.rows)
        agrees = place is not None
        named = place or _place_of(view, option, view.body)
        shown = tuple(cell for cell in outcome.shown_for(named[0] if named else None) if view.said(cell))
    else:
        agrees = bool(numbers) and numbers[0].states(outcome.number)
    steps = (*whose_cells(view, shown), TableStep(outcome.operation, outcome.text, shown))
    if not agrees:
        differs = TableStep("differs", f"That is not “{option}”.")
        return TableChain(chain.hypothesis, (*steps, differs, *chain.steps), _BESIDE * chain.support)
    last = TableStep("agrees", f"That is “{option}”.", () if place is None else (place,))
    return TableChain(chain.hypothesis, (*steps, last), _WORKED)


def _chain(view: TableView, label: str, option: str, reading: CellReading | None) -> TableChain:
    if reading is None:
        return TableChain(label, (TableStep("absent", f"No cell says anything of “{option}”."),), 0.0)
    steps = []
    if reading.key_place is not None:
        key = view.said(reading.key_place)
        said = f"{view.row_number(reading.place[0])} holds “{key}”, which the question names."
        steps.append(TableStep("find_row", said, (reading.key_place,)))
    text = view.said(reading.place)
    relation = "says" if reading.match == 1.0 else "comes near to"
    read = f"There, under “{view.label(reading.place[1])}”, stands “{text}”: it {relation} “{option}”."
    steps.append(TableStep("look_up", read, (*view.heads(reading.place[1]), reading.place)))
    return TableChain(label, tuple(steps), reading.support)
