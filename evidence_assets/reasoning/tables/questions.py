"""Multiple-choice questions answered from one table: worked out where the words call for it, else read in one cell.

What belongs here: how far the value of an operation is an option; weighing every cell as the answer cell of every
option; and the chain of cited steps. A cell speaks for an option as far as

* it says what the option says (``match``), in words or in runs of letters (``option spelling``);
* the rest of its row holds the question's words, rare ones above all (``row``), or is named by them whole (``key``);
* the question says what the rest of its row holds (``said``), rather than one of many things that it lists;
* its column is what the question asks for (``header``);
* the rest of its row is spelled like the question (``spelling``), so that "French" says something of a row about
France.

The weights were set on the first half of the TabMCQ subset; each term lies in [0, 1]. Where the question calls for an
operation, an option that is its value has more support than any cell can give, and the cells are weighed only among the
other options.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from evidence_assets.reasoning.tables import reader
from evidence_assets.reasoning.tables.algebra import Outcome, whose_cells
from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import moves, squeezed
from evidence_assets.reasoning.tables.likeness import is_cell, option_match, same_word, spelled_like
from evidence_assets.reasoning.tables.reading import read_text
from evidence_assets.reasoning.tables.text import alternatives, letter_runs, plain_text, stem, tokens, word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableStep, TableView

MATCH, ROW, KEY, HEADER, SPELLING, OPTION_SPELLING, SAID = 1.0, 1.0, 0.3, 0.25, 0.3, 0.1, 0.1
_LARGEST = MATCH + ROW + KEY + HEADER + SPELLING + OPTION_SPELLING + SAID
# Options whose best cells differ by less than this are equally supported.
TIED_SUPPORT = 0.01 / _LARGEST
# An option that an operation leads to has at least this support, one that only cells speak for at most the next.
_WORKED, _BESIDE = 0.5, 0.3
TIED_TO_NOTHING = 0.01
"""The most support of an option that nothing in the table ties to the question: it ranks, but is not supported."""
LOG_ODDS = 30.0
"""What a difference in support is in log odds: the likeliest of its kind on the first half of the TabMCQ subset."""
# The least share of an option that is the number when rounded.
_ROUNDED = 0.9
_NUMBERS_ONLY = frozenset({"difference", "ratio"})


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """The value that a question asks for; None where it asks for none that the table can show.

    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> work_out(view, "How much deeper is Como than Garda?").number
    79.0
    """
    found = reader.work_out(read_text(view, question, presumes=True))
    return None if found is None else found.outcome


def _is_answered_by_rows(outcome: Outcome, option: str) -> bool:
    return bool(outcome.rows) and not (outcome.operation == "count" and _numbers_of(option))


def option_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """How far an option is the outcome, in [0, 1], and the cell that says so if it is a cell."""
    if outcome.operation == "trend":
        return float(squeezed(sign for _, sign in moves(option)) == outcome.pattern), None
    if _is_answered_by_rows(outcome, option):
        columns = sorted(view.columns, key=lambda j: (j not in view.name_columns, j))
        found = ((share, (i, j)) for i, share in outcome.rows for j in columns if is_cell(option, view.said((i, j))))
        return max(found, key=lambda item: item[0], default=(0.0, None))
    values = _numbers_of(option)
    if not values or outcome.number is None or not values[0].states(outcome.number):
        return 0.0, None
    # Of two options that both hold when rounded, the nearer one is meant.
    distance = abs(outcome.number - values[0].value) / max(abs(outcome.number), abs(values[0].value), 1e-12)
    return max(_ROUNDED, 1.0 - distance), None


def _shown_for(view: TableView, outcome: Outcome, option: str, place: Place | None) -> tuple[Place, ...]:
    """The cells that show how an option stands to an outcome: where rows are the answer, those of the row it names."""
    if not _is_answered_by_rows(outcome, option):
        return outcome.cells
    names = ((i, j) for i in view.body for j in view.telling_columns)
    row = (place or next((at for at in names if is_cell(option, view.said(at))), (None,)))[0]
    return tuple(cell for cell in outcome.shown_for(row) if view.said(cell))


def _numbers_of(option: str) -> tuple[CellValue, ...]:
    """Numbers that an option states in figures, or in one word."""
    found = [stem(token) for token in tokens(option)]
    return parse_values(plain_text(option)) or (parse_values(found[0]) if len(found) == 1 else ())


class CellReading(NamedTuple):
    """One cell read as the answer cell of one option, with the cell that names its row; ``linked`` to the
    question or not."""

    score: float
    option: int
    place: Place
    match: float
    key_place: Place | None
    linked: bool

    @property
    def support(self) -> float:
        """The score in [0, 1]; next to nothing where nothing ties the cell to the question."""
        share = max(0.0, min(1.0, self.score / _LARGEST))
        return share if self.linked else TIED_TO_NOTHING * share


def read_cells(view: TableView, question: str, options: Sequence[str]) -> list[CellReading]:
    """Every cell that says something of an option, weighed as its answer cell."""
    asked = _as_spelled_in(view, question)
    known = asked & view.row_frequency.keys()
    heads = {j: len(word_set(view.shape.labels[j]) & asked) for j in view.columns}
    asked_heads = len(frozenset().union(*(word_set(view.shape.labels[j]) & asked for j in view.columns)))
    letters = letter_runs(question)
    naming = [j for j in view.columns if not view.says_one_thing(j)]
    readings = []
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
            row = shared / view.weight_of(known) if shared else 0.0
            key, key_at = max(((share, -k) for k, share in keys.items() if k != j), default=(0.0, 0))
            around = ROW * row + KEY * key + HEADER * heads[j] / max(1, asked_heads)
            around += SAID * shared / view.weight_of(rest) if shared else 0.0
            around += SPELLING * len(letters & runs) / max(1, len(letters))
            key_place = (i, -key_at) if key > 0 else None
            for o, match in enumerate(shares):
                if match > 0:
                    score = MATCH * match + OPTION_SPELLING * spelled_like(options[o], texts[j]) + around
                    readings.append(CellReading(score, o, (i, j), match, key_place, row > 0 or key > 0))
    return readings


def _as_spelled_in(view: TableView, question: str) -> frozenset[str]:
    """The question's words, and the table's words of like spelling for those that it does not have."""
    words, vocabulary = word_set(question), view.row_frequency.keys()
    return words.union(known for word in words - vocabulary for known in vocabulary if same_word(word, known))


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
    """A chain for each option: the weightiest cell that speaks for it, or how it stands to what the question asks
    for."""
    upright = view.upright
    best: dict[int, CellReading] = {}
    for reading in read_cells(upright, question, options):
        if reading.option not in best or reading.score > best[reading.option].score:
            best[reading.option] = reading
    chains = [_chain(upright, label, options[o], best.get(o)) for o, label in enumerate(labels)]
    outcome = work_out(upright, question)
    if outcome is not None:
        chains = [_worked_chain(upright, outcome, *pair) for pair in zip(options, chains, strict=True)]
    return tuple(map(upright.chain_as_given, chains))


def _worked_chain(view: TableView, outcome: Outcome, option: str, chain: TableChain) -> TableChain:
    """The chain of an option where an operation decides: its outcome, and how the option stands to it."""
    if outcome.operation in _NUMBERS_ONLY and not _numbers_of(option):  # a name is never the answer to "how many"
        return TableChain(chain.hypothesis, chain.steps, _BESIDE * chain.support)
    share, place = option_share(view, outcome, option)
    shown = _shown_for(view, outcome, option, place)
    worked = view.step(outcome.operation, outcome.text, shown)
    named = whose_cells(view, shown)
    if share <= 0:
        differs = TableStep("differs", f"That is not “{option}”.")
        return TableChain(chain.hypothesis, (*named, worked, differs, *chain.steps), _BESIDE * chain.support)
    said = f"That is “{option}”." if share == 1.0 else f"That comes near to “{option}” ({share:.2f})."
    agrees = view.step("agrees", said, () if place is None else (place,))
    return TableChain(chain.hypothesis, (*named, worked, agrees), _WORKED + (1 - _WORKED) * share)


def _chain(view: TableView, label: str, option: str, reading: CellReading | None) -> TableChain:
    if reading is None:
        return TableChain(label, (TableStep("absent", f"No cell says anything of “{option}”."),), 0.0)
    steps = []
    if reading.key_place is not None:
        key = view.said(reading.key_place)
        said = f"{view.line(reading.place[0])} holds “{key}”, which the question names."
        steps.append(view.step("find_row", said, (reading.key_place,)))
    text = view.said(reading.place)
    relation = "says" if reading.match == 1.0 else "comes near to"
    read = f"There, under “{view.label(reading.place[1])}”, stands “{text}”: it {relation} “{option}”."
    cells = (*view.heads(reading.place[1]), reading.place)
    steps.append(view.step("look_up", read, cells))
    return TableChain(label, tuple(steps), reading.support)
