"""Claims checked against one table: read into an operation, or weighed by what the cells say.

A claim that names its rows, columns and numbers is read into one operation, which settles it. Of a claim that leaves
some of that open, each number, each comparison and the row that holds most of its words is a finding. With truth signs
``t`` and openness signs ``o`` of a claim, and the weights ``a`` and ``b`` of ``weights.yaml``, two logistic regressions
give

    P(NOT ENOUGH INFORMATION) = σ(b·o),   P(SUPPORTS | not open) = σ(a·t).

A settled claim is decided, whatever the weights are; a claim that is not settled never is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from math import exp, fsum
from typing import NamedTuple

import yaml

from evidence_assets.reasoning.tables import algebra
from evidence_assets.reasoning.tables.algebra import Outcome, whose_cells
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, less_is_better, pattern, says
from evidence_assets.reasoning.tables.reader import work_out
from evidence_assets.reasoning.tables.reading import Reading, read_text
from evidence_assets.reasoning.tables.text import STOP_WORDS, content_stems, stem, tokens, unit_in, word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableStep, TableView

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# The probability of the label of a settled claim: the share of TabFact's that are right. Of a claim that is not settled
# the probability that it is true, if not open, stays within _UNSETTLED of a half: such claims are no better than a
# guess.
_SETTLED, _UNSETTLED = 0.85, 0.2
_UNMEASURED = 0.6
Weights = Mapping[str, Mapping[str, float]]
"""Of each sign, under ``truth`` and under ``openness``; ``always`` is the intercept."""
# Of the cells that contradict a number so many are shown.
_CELLS_SHOWN = 3


@dataclass(frozen=True)
class Signs:
    """What bears on a claim, by name: on whether it is true (positive) or false (negative), and on whether it is open.

    ``settled``: Whether an operation shows that it is true or false; None where none does.
    ``unmeasured``: Whether it is open as no cell bears on it, or as it sets a thing above another in what no column
    measures.
    """

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    settled: bool | None = None
    unmeasured: bool = False


@lru_cache(maxsize=1)
def _weights() -> Weights:
    weights: Weights = yaml.safe_load(files(__package__).joinpath("weights.yaml").read_text(encoding="utf-8"))
    return weights


def probabilities(signs: Signs, weights: Weights | None = None) -> tuple[float, float, float]:
    """Probabilities that a claim is true, that it is false, and that the table leaves it open.

    ``weights``: Those that the package ships unless others are given.
    """
    if signs.settled is not None:
        rest = (1 - _SETTLED) / 2
        return (_SETTLED, rest, rest) if signs.settled else (rest, _SETTLED, rest)
    weights = weights or _weights()
    true, left_open = (
        1 / (1 + exp(-fsum(weights[side].get(sign, 0.0) * value for sign, value in {"always": 1.0, **held}.items())))
        for side, held in (("truth", signs.truth), ("openness", signs.openness))
    )
    true = 0.5 + 2 * _UNSETTLED * (true - 0.5)
    left_open = max(left_open, _UNMEASURED) if signs.unmeasured else left_open
    return (1 - left_open) * true, (1 - left_open) * (1 - true), left_open


def is_decided(support: Mapping[str, float]) -> bool:
    """Whether the best of the labels offered is what settles a claim, by the probabilities of its labels."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH and support[best] > (0.5 + _UNSETTLED + 1e-9) * (support[best] + rival)


class Finding(NamedTuple):
    """What some cells say of a claim: the share of cases in which it holds, and as what kind of sign that counts."""

    sign: str
    outcome: Outcome
    holds: float

    def denied(self) -> Finding:
        """The finding for a claim that denies it."""
        outcome = replace(self.outcome, text=f"{self.outcome.text} The claim denies this.")
        return Finding(self.sign, outcome, 1.0 - self.holds)


@dataclass(frozen=True)
class Checked:
    """A claim read against a table, and what was found; one finding alone if an operation settled it."""

    reading: Reading
    findings: tuple[Finding, ...]
    settled: bool

    @cached_property
    def strange_words(self) -> tuple[str, ...]:
        """Content words that neither the table nor its caption has."""
        known = self.reading.view.vocabulary
        words = (token for token in tokens(self.reading.text) if token not in STOP_WORDS)
        return tuple(dict.fromkeys(word for word in words if not word[0].isdigit() and stem(word) not in known))

    @property
    def signs(self) -> Signs:
        """The signs that its labels are weighed by."""
        reading = self.reading
        truth = {"denies": float(says("denies", reading.text))}
        for finding in self.findings:
            truth[finding.sign] = truth.get(finding.sign, 0.0) + 2 * finding.holds - 1
        alike = _commensurable(reading.view)
        openness = {
            "denies": truth["denies"],
            "strange words": len(self.strange_words) / max(1, len(content_stems(reading.text))),
            # Of results beside each other a claim that the table settles compares some.
            "compares no results": float(alike and not reading.cues),
        }
        things = sum(mention.whole and bool(mention.places) for mention in reading.mentions)
        above = says("than", reading.text) or any(degree.in_time for degree in reading.cues)
        compared = any(finding.sign == "comparison" for finding in self.findings)
        unmeasured = not (self.findings or reading.mentions) or (things > 1 and above and not (compared or alike))
        return Signs(truth, openness, self.findings[0].holds > 0.5 if self.settled else None, unmeasured)


def check_claim(view: TableView, text: str) -> Checked:
    """What an upright table says of a claim."""
    reading = read_text(view, text)
    settled = _settled(reading)
    return Checked(reading, (settled,) if settled else tuple(dict.fromkeys(_findings(reading))), settled is not None)


@lru_cache(maxsize=64)  # it is asked anew for each label of a claim
def claim_chains(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain of cited steps for each label of a claim; its support is the label's probability."""
    upright = view.upright
    checked = check_claim(upright, text)
    named = _named_step(checked.reading)
    true, false, left_open = probabilities(checked.signs)
    said = "The cells named settle the claim." if checked.settled else "No single working on cells settles the claim."
    if not checked.settled and checked.strange_words:
        said += f" Neither cells nor caption say {', '.join(f'“{text}”' for text in checked.strange_words)}."
    chains = (
        _chain(upright, SUPPORTS, named, [f for f in checked.findings if f.holds > 0.5], true),
        _chain(upright, REFUTES, named, [f for f in checked.findings if f.holds < 0.5], false),
        TableChain(NOT_ENOUGH, (*named, TableStep("open", said)), left_open),
    )
    return tuple(map(upright.chain_as_given, chains))


def _settled(reading: Reading) -> Finding | None:
    """What settles a claim: the one operation that it is read into."""
    found = work_out(reading)
    if found is None or found.outcome is None:
        return None
    finding = Finding("settled", found.outcome, float(bool(found.holds)))
    return finding.denied() if reading.denied else finding


def _findings(reading: Reading) -> Iterator[Finding]:
    """What bears on a claim that no operation settles: its numbers, its comparisons, the row of its words."""
    rows, columns = _lines(reading, "row"), _lines(reading, "column")
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    numbers = reading.numbers if rows or _commensurable(reading.view) else ()
    found = [_number(reading.view, number, list(rows), list(columns)) for number in numbers if number.kind != "date"]
    found += [*(_comparison(reading, degree) for degree in reading.cues), _row_of_words(reading)]
    yield from (finding.denied() if reading.denied else finding for finding in found if finding)


def _row_of_words(reading: Reading) -> Finding | None:
    """Whether one row holds all the words of a claim that the table's rows hold at all."""
    view = reading.view
    said = sorted(word_set(reading.text) & view.row_frequency.keys())
    if len(said) < 2:
        return None
    held = {i: view.weight_of(word for word in said if word in view.row_words[i]) for i in view.body}
    best = max(view.body, key=lambda i: (held[i], -i))
    cells = tuple((best, j) for j in view.columns if word_set(view.said((best, j))) & {*said})
    shared = [word for word in said if word in view.row_words[best]]
    text = f"{view.line(best)} holds {len(shared)} of the {len(said)} words of the claim that rows hold."
    return Finding("row of words", Outcome("row", text, cells), float(len(shared) == len(said)))


def _lines(reading: Reading, axis: str) -> dict[int, int]:
    """Rows or columns that a claim names, in the order in which it names them, each with the first place."""
    heads = reading.view.shape.row_header_columns
    found: dict[int, int] = {}
    for mention in reading.mentions:
        for line in mention.rows if axis == "row" else mention.columns:
            if axis == "row" or line not in heads:
                found.setdefault(line, mention.start)
    return found


def _number(view: TableView, number: CellValue, rows: Sequence[int], columns: Sequence[int]) -> Finding | None:
    """Whether the cells named state a number, or are within its bound; None where it stands in other cells only."""
    near, anywhere = _filled(view, rows or view.body, columns or view.columns), _filled(view, view.body, view.columns)
    if number.bounds and near:
        fitting = [place for place in near if number.states(view.cell(place).number or 0.0)]
        text = f"{len(fitting)} of {len(near)} cells are {number.text}."
        return Finding("number", Outcome("count", text, tuple(near)), len(fitting) / len(near))
    # A percentage may be written as a share, and the other way round.
    factors = (1.0, 100.0, 0.01) if number.kind == "percentage" or number.value <= 1 else (1.0,)
    stating = [p for p in anywhere if any(number.states(factor * (view.cell(p).number or 0.0)) for factor in factors)]
    if fitting := [place for place in near if place in stating]:
        text = f"The cell says “{view.said(fitting[0])}”, as the claim does ({number.text})."
        return Finding("number", Outcome("look_up", text, (fitting[0],)), 1.0)
    if stating and not number.bounds:
        return None
    shown = near[:_CELLS_SHOWN]
    text = f"The claim says {number.text}, the cells named say {', '.join(f'“{view.said(place)}”' for place in shown)}."
    return Finding("number", Outcome("look_up", text, tuple(shown)), 0.0) if near else None


def _filled(view: TableView, rows: Iterable[int], columns: Sequence[int]) -> list[Place]:
    return [(i, j) for i in rows for j in columns if view.cell((i, j)).number is not None]


def _commensurable(view: TableView) -> bool:
    """Whether "better" can mean all columns at once: results beside each other, not facts of several kinds."""
    values = [j for j in view.columns if j not in view.name_columns]
    units = {unit_in(view.shape.labels[j]) for j in values} - {""}
    filled = {j: [view.cell((i, j)) for i in view.body if view.said((i, j))] for j in values}
    text = any(sum(bool(cell.values) for cell in cells) < 0.5 * len(cells) for cells in filled.values())
    return len(units) < 2 and not text and not view.dated & {*values}


def _comparison(reading: Reading, degree: Degree) -> Finding | None:
    """What a word of degree says of rows, or of columns: more than named rivals or all others in whatever is named.

    Where the claim names no attribute, all columns are compared, if they can be put side by side. The rivals follow
    "than" and its like. The axis on which two sides are named is the one compared; else the rows are.
    """
    view = reading.view
    named = {"row": _lines(reading, "row"), "column": _lines(reading, "column")}
    every = {"row": list(view.body), "column": list(view.shape.value_columns)}
    alike = _commensurable(view)
    if not named["column"] and not alike:
        return None
    rival = pattern("rival").search(reading.text, degree.start)
    than = rival.start() if rival else len(reading.text)
    sides = []
    for axis, lines in named.items():
        before = [line for line, at in lines.items() if at <= than]
        after = [line for line in lines if line not in before]
        sides.append((axis, before or after, after if before else []))
    superlative = degree.kind == "superlative"
    for axis, subjects, rivals in sorted(sides, key=lambda side: (not side[2], side[0] != "row")):
        if not subjects or (axis == "column" and not rivals and not alike):
            continue  # an accuracy is not set against the year beside it
        against = rivals if rivals and not superlative else [line for line in every[axis] if line not in subjects]
        across = "column" if axis == "row" else "row"
        pairs: list[tuple[Place, Place, int]] = []
        for cross in named[across] or every[across]:
            left, right = (_crossing(view, axis, lines, cross) for lines in (subjects, against))
            if left and right:
                pairs += _pairs(view, degree, left, right)
        outcome = algebra.order(view, pairs, *((1.0, "superlative") if superlative else (0.5, "comparison")))
        if outcome is not None and outcome.number is not None:
            return Finding("comparison", outcome, outcome.number)
    return None


def _crossing(view: TableView, axis: str, lines: Sequence[int], cross: int) -> list[Place]:
    """The cells with numbers of some rows (or columns) in one column (or row)."""
    places = [(line, cross) if axis == "row" else (cross, line) for line in lines]
    return [place for place in places if view.cell(place).number is not None]


def _pairs(view: TableView, degree: Degree, left: list[Place], right: list[Place]) -> list[tuple[Place, Place, int]]:
    """The comparisons of cells that a degree calls for: each with each, of a superlative the best with the best."""
    row, column = left[0]
    turned = degree.judging and less_is_better(view.shape.labels[column], *view.shape.row_labels[row])
    direction = -degree.direction if turned else degree.direction
    if degree.kind == "superlative":
        left, right = (
            [max(side, key=lambda place: direction * (view.cell(place).number or 0.0))] for side in (left, right)
        )
    return [(a, b, direction) for a in left for b in right]


def _chain(
    view: TableView, label: str, named: Sequence[TableStep], findings: Sequence[Finding], support: float
) -> TableChain:
    steps = [*named, *whose_cells(view, [place for f in findings for place in f.outcome.cells])]
    steps += [view.step(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    if not findings:
        steps.append(TableStep("absent", "No cell speaks for this label."))
    return TableChain(label, tuple(steps), support)


def _named_step(reading: Reading) -> list[TableStep]:
    """The step that says which rows and columns the claim names, citing their names."""
    view = reading.view
    top, heads = max(view.shape.header_rows, default=0), view.shape.row_header_columns
    names = [(i, j) for i in _lines(reading, "row") for j in heads if view.said((i, j))]
    cells = (*names, *((top, j) for j in _lines(reading, "column")))
    said = dict.fromkeys(f"“{view.said(place)}”" for place in cells)
    return [view.step("find", f"The claim names {', '.join(said)}.", cells)] if cells else []
