"""Multiple-choice questions answered from one table: worked out where the words call for it, else read in one cell.

What belongs here: how far the value of an expression is an option; weighing every cell as the answer cell of every
option; and telling the way there in cited steps. A cell speaks for an option as far as

* it says what the option says (``match``), and its row says the rest of it (``cover``);
* the rest of its row holds the question's words, rare ones above all (``row``), or is named by them whole, by a name
  of few rows rather than of many (``key``);
* the question says what the rest of its row holds (``said``), rather than one of many things that it lists;
* its column is what the question asks for (``header``);
* option and row are spelled like cell and question, in runs of three letters (``spelling``), so that "French" says
  something of a row about France;
* and, among cells alike in all this, as far as option and row are worded as the question has them (``verbatim``).

The weights were set on the first half of the TabMCQ subset, as it is and with words of its questions dropped or bent;
each term lies in [0, 1]. Where the question calls for an operation, an option that is its outcome has more support than
any cell can give, and the cells are weighed only among options that are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import fsum  # whose result no order of the summands changes, so that sets can be summed

from evidence_assets.reasoning.tables.algebra import Outcome, whose_cells
from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.lexicon import moves, squeezed
from evidence_assets.reasoning.tables.likeness import (
    amount_in,
    fullness,
    option_match,
    same_word,
    shared,
    spelled_like,
    verbatim,
    words_of,
)
from evidence_assets.reasoning.tables.reader import readings_of
from evidence_assets.reasoning.tables.reading import read_text
from evidence_assets.reasoning.tables.text import letter_runs, plain_text, stem, tokens, word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableStep, TableView

MATCH, COVER, ROW, KEY, HEADER, VERBATIM = 1.0, 0.3, 1.0, 0.3, 0.25, 0.05
SPELLING, OPTION_SPELLING, SAID = 0.3, 0.1, 0.1
_LARGEST = MATCH + COVER + ROW + KEY + HEADER + 2 * VERBATIM + SPELLING + OPTION_SPELLING + SAID
# Options whose best cells differ by less than this are equally supported.
_TIE = 0.01
TIED_SUPPORT = _TIE / _LARGEST
# An option that an operation leads to has at least this support, one that only cells speak for at most the next.
_WORKED, _BESIDE = 0.5, 0.3
TIED_TO_NOTHING = 0.01
"""The most support of an option that nothing in the table ties to the question: it ranks, but is not supported."""
LOG_ODDS = 30.0
"""What a difference in support is in log odds: the likeliest of its kind on the first half of the TabMCQ subset."""
_LEAST_PART = 3
# The least that an option has which is the number when rounded.
_ROUNDED = 0.9
_NUMBERS_ONLY = frozenset({"mean", "sum", "difference", "ratio"})


@lru_cache(maxsize=64)  # it is asked anew for each option of a question
def work_out(view: TableView, question: str) -> Outcome | None:
    """Evaluate the expression that a question is read into; None where there is none that the table can show.

    >>> view = TableView.of("t", "", ["Lake", "Depth (m)"], [["Como", "425"], ["Garda", "346"], ["Iseo", "251"]])
    >>> work_out(view, "How much deeper is Como than Garda?").number
    79.0
    """
    outcomes = (asked.expression.evaluate(view) for asked in readings_of(read_text(view, question, presumes=True)))
    return next((outcome for outcome in outcomes if outcome is not None), None)


def _answered_by_rows(outcome: Outcome, option: str) -> bool:
    return bool(outcome.rows) and not (outcome.operation == "count" and _numbers_of(option))


def option_share(view: TableView, outcome: Outcome, option: str) -> tuple[float, Place | None]:
    """How far an option is the outcome, in [0, 1], and the cell that says so if it is a cell."""
    if outcome.operation == "trend":
        return float(squeezed([sign for _, sign in moves(option)]) == outcome.pattern), None
    if _answered_by_rows(outcome, option):
        columns = sorted(view.columns, key=lambda j: (j not in view.name_columns, j))
        found = ((share, (i, j)) for i, share in outcome.rows for j in columns if _is(option, view.said((i, j))))
        return max(found, key=lambda item: item[0], default=(0.0, None))
    values = _numbers_of(option)
    if not values or outcome.number is None or not values[0].states(outcome.number):
        return 0.0, None
    # Of two options that both hold when rounded, the nearer one is meant.
    distance = abs(outcome.number - values[0].value) / max(abs(outcome.number), abs(values[0].value), 1e-12)
    return max(_ROUNDED, 1.0 - distance), None


def _shown_for(view: TableView, outcome: Outcome, option: str, place: Place | None) -> tuple[Place, ...]:
    """The cells that show how an option stands to an outcome: where rows are the answer, those of the row it names."""
    if not _answered_by_rows(outcome, option):
        return outcome.cells
    names = ((i, j) for i in view.body for j in view.telling_columns)
    row = (place or next((at for at in names if _is(option, view.said(at))), (None,)))[0]
    return tuple(cell for cell in outcome.shown_for(row) if view.said(cell))


def _numbers_of(option: str) -> tuple[CellValue, ...]:
    """Numbers that an option states in figures, or in one word."""
    found = [stem(token) for token in tokens(option)]
    return parse_values(plain_text(option)) or (parse_values(found[0]) if len(found) == 1 else ())


def _is(option: str, text: str) -> bool:
    """Whether an option is a cell, by its words or by its number."""
    claimed, stated = parse_values(plain_text(option)), parse_values(plain_text(text))
    if option_match(option, text) == 1.0 or len(claimed) != 1 or len(stated) != 1:
        return option_match(option, text) == 1.0
    bounded = claimed[0].comparator in {"<", ">"} or stated[0].comparator not in {"", "≈"}
    return claimed[0].value == stated[0].value and not bounded


@dataclass(frozen=True)
class CellReading:
    """One cell read as the answer cell of one option."""

    score: float
    option: int
    place: Place
    match: float
    row: float
    key: float
    key_place: Place | None

    @property
    def linked(self) -> bool:
        """Whether anything in the row ties the cell to the question."""
        return self.row > 0 or self.key > 0

    @property
    def support(self) -> float:
        """The score in [0, 1]; next to nothing where nothing ties the cell to the question."""
        share = max(0.0, min(1.0, self.score / _LARGEST))
        return share if self.linked else TIED_TO_NOTHING * share


def read_cells(view: TableView, question: str, options: Sequence[str]) -> list[CellReading]:
    """Every cell that says something of an option, weighed as its answer cell."""
    columns, body = view.columns, view.body
    asked = _as_spelled_in(view, question)
    stated: dict[float, set[str]] = defaultdict(set)
    for value in parse_values(question):
        if value.low is None:
            stated[value.value].add(value.comparator.replace("≈", ""))
    known = asked & view.row_frequency.keys()
    total = fsum(view.weight(word) for word in known)
    heads = {j: word_set(view.shape.labels[j]) & asked for j in columns}
    asked_heads = len(frozenset().union(*heads.values()))
    constant = {j for j in columns if view.says_one_thing(j)}
    letters = letter_runs(question)
    letters_total = fsum(view.run_weight(run) for run in letters)
    readings = []
    for i in body:
        texts = [view.said((i, j)) for j in columns]
        matches = [[option_match(option, text) for option in options] if text else [] for text in texts]
        if not any(any(row) for row in matches):
            continue
        words = [word_set(text) for text in texts]
        whole = frozenset().union(*words)
        covers = [shared(word_set(option), whole) / max(1, len(word_set(option))) for option in options]
        keys = [
            0.0 if j in constant else _named(text, asked, stated) * view.telling((i, j))
            for j, text in zip(columns, texts, strict=True)
        ]
        for place, j in enumerate(columns):
            if not any(matches[place]):
                continue
            rest = frozenset().union(*(other for k, other in enumerate(words) if k != place))
            held = fsum(view.weight(word) for word in known & rest)
            row = held / total if total else 0.0
            key_at = max((k for k in range(len(columns)) if k != place), key=lambda k: (keys[k], -k), default=None)
            key = keys[key_at] if key_at is not None else 0.0
            key_place = (i, columns[key_at]) if key_at is not None and key > 0 else None
            base = ROW * row + KEY * key
            base += HEADER * len(heads[j]) / asked_heads if asked_heads else 0.0
            base += VERBATIM * _spelled_alike(question, [*texts[:place], *texts[place + 1 :]])
            base += SAID * held / fsum(view.weight(word) for word in rest) if rest else 0.0
            if letters_total:
                runs = frozenset().union(*(letter_runs(text) for k, text in enumerate(texts) if k != place))
                base += SPELLING * fsum(view.run_weight(run) for run in letters & runs) / letters_total
            readings += [
                CellReading(
                    MATCH * match
                    + COVER * covers[o]
                    + VERBATIM * verbatim(options[o], texts[place])
                    + OPTION_SPELLING * spelled_like(options[o], texts[place])
                    + base,
                    o,
                    (i, j),
                    match,
                    row,
                    key,
                    key_place,
                )
                for o, match in enumerate(matches[place])
                if match > 0
            ]
    return readings


def _as_spelled_in(view: TableView, question: str) -> frozenset[str]:
    """The question's words, joined by the table's words for those that it does not have: of like spelling, or written
    as one where the question writes two ("loud speaker") or as two where it writes one."""
    words, vocabulary = word_set(question), view.row_frequency.keys()
    missing = words - vocabulary
    alike = {known for word in missing for known in vocabulary if same_word(word, known)}
    spoken = tokens(question)
    pairs = ((left, right) for left, right in pairwise(spoken) if min(len(left), len(right)) >= _LEAST_PART)
    joined = {stem(left + right) for left, right in pairs} & vocabulary
    cut = {
        part
        for word in missing
        for i in range(_LEAST_PART, len(word) - _LEAST_PART + 1)
        if (parts := {stem(word[:i]), stem(word[i:])}) <= vocabulary
        for part in parts
    }
    return words.union(alike, joined, cut)


def _named(text: str, words: frozenset[str], stated: Mapping[float, Collection[str]]) -> float:
    """How far a cell's text, or one of its alternatives, stands in the question: the largest share of its words.

    A number is no part of a name: "7 days" is not half found in a question about 1 day. Nor is "less than 1" found where
    the question states 1, nor the other way round.
    """
    own = amount_in(text)
    if own is not None and own.value in stated and own.comparator.replace("≈", "") not in stated[own.value]:
        return 0.0
    fitting = (part for part in words_of(text) if not any(word[0].isdigit() for word in part - words))
    return max((len(part & words) / len(part) for part in fitting), default=0.0)


def _spelled_alike(question: str, texts: Sequence[str]) -> float:
    """Share of the question's words, small ones and endings included, that stand in the texts."""
    words = _spellings(question)
    return len(words & frozenset().union(*map(_spellings, texts))) / len(words) if words else 0.0


@lru_cache(maxsize=65536)
def _spellings(text: str) -> frozenset[str]:
    return frozenset(tokens(text))


def option_chains(
    view: TableView, question: str, labels: Sequence[str], options: Sequence[str]
) -> tuple[TableChain, ...]:
    """A chain for each option: the weightiest cell that speaks for it, or how it stands to what the question asks for."""
    upright = view.upright
    best: dict[int, CellReading] = {}
    for reading in read_cells(upright, question, options):
        held = best.get(reading.option)
        if held is None or reading.score > held.score:
            best[reading.option] = reading
    chains = [_chain(upright, label, options[o], best.get(o)) for o, label in enumerate(labels)]
    outcome = work_out(upright, question)
    if outcome is not None:
        chains = [_worked_chain(upright, outcome, *pair) for pair in zip(options, chains, strict=True)]
    return tuple(map(upright.chain_as_given, chains))


def preference(
    option: str, said: str, place: Place, support: float, *, negated: bool
) -> tuple[bool, float, bool, Place]:
    """What orders options that the table supports alike, the answer first, by the cell that each was found in.

    First the one that says all of its cell, then the one the table speaks for most, at equal weight the one written to
    the letter as its cell is, then the one whose cell stands first, as a reader meets it first.
    """
    full, written = fullness(option, said)
    return not full, (1 if negated else -1) * round(support, 9), not written, place


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
