"""Claims checked against one table: read into an operation, or weighed by what the cells say.

A claim that names its rows, columns and numbers is read into one operation, which settles it. Of any other claim each
comparison and the row that holds most of its words is a finding. With truth signs ``t`` and openness signs ``o`` of a
claim, and the weights ``a`` and ``b``, two logistic regressions give

    P(NOT ENOUGH INFORMATION) = σ(b·o),   P(SUPPORTS | not open) = σ(a·t).

A settled claim is decided, whatever the weights are; a claim that is not settled never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import exp, fsum
from typing import NamedTuple

from evidence_assets.reasoning.tables.lexicon import Degree, less_is_better, pattern
from evidence_assets.reasoning.tables.operations import Outcome, order, whose_cells, work_out
from evidence_assets.reasoning.tables.reading import Reading, read_text
from evidence_assets.reasoning.tables.table import Place, TableChain, TableStep, TableView
from evidence_assets.reasoning.tables.text import STOP_WORDS, content_stems, stem, tokens, unit_in, word_set

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# The probability of the label of a settled claim: the share of TabFact's that are right. Of a claim that is not settled
# the probability that it is true, if not open, stays within _UNSETTLED of a half: such claims are no better than a
# guess.
_SETTLED, _UNSETTLED = 0.85, 0.2
_UNMEASURED = 0.6
Weights = Mapping[str, Mapping[str, float]]
# As bench/fit_claim_weights.py prints them; "always" is the intercept.
WEIGHTS: Weights = {
    "openness": {"always": -3.48, "compares no results": 1.36, "denies": -0.98, "strange words": 4.41},
    "truth": {"always": 0.05, "comparison": 0.6, "denies": -0.75, "row of words": 0.36},
}


@dataclass(frozen=True)
class Signs:
    """What bears on a claim, by name: whether it is true (positive) or false (negative), and whether it is open."""

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    settled: bool | None = None  # what an operation shows
    unmeasured: bool = False  # no cell bears on it, or it sets a thing above another in what no column measures


def probabilities(signs: Signs, weights: Weights = WEIGHTS) -> tuple[float, float, float]:
    """Probabilities that a claim is true, that it is false, and that the table leaves it open."""
    if signs.settled is not None:
        rest = (1 - _SETTLED) / 2
        return (_SETTLED, rest, rest) if signs.settled else (rest, _SETTLED, rest)
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
        truth = {"denies": float(reading.says("denies"))}
        for finding in self.findings:
            truth[finding.sign] = truth.get(finding.sign, 0.0) + 2 * finding.holds - 1
        alike = _commensurable(reading.view)
        openness = {
            "denies": truth["denies"],
            "strange words": len(self.strange_words) / max(1, len(content_stems(reading.text))),
            # Of results beside each other a claim that the table settles compares some.
            "compares no results": float(alike and not reading.degrees),
        }
        things = sum(mention.whole and bool(mention.places) for mention in reading.mentions)
        above = reading.says("than") or any(degree.in_time for degree in reading.degrees)
        compared = any(finding.sign == "comparison" for finding in self.findings)
        unmeasured = not (self.findings or reading.mentions) or (things > 1 and above and not (compared or alike))
        return Signs(truth, openness, self.findings[0].holds > 0.5 if self.settled else None, unmeasured)


def check_claim(view: TableView, text: str) -> Checked:
    """What an upright table says of a claim."""
    reading = read_text(view, text)
    result = work_out(reading)
    settled = result is not None and result.outcome is not None
    if result is not None and result.outcome is not None:
        findings = [Finding("settled", result.outcome, float(bool(result.holds)))]
    else:
        findings = list(dict.fromkeys(_findings(reading)))
    if reading.denied:
        denial = " The claim denies this."
        findings = [Finding(f.sign, replace(f.outcome, text=f.outcome.text + denial), 1 - f.holds) for f in findings]
    return Checked(reading, tuple(findings), settled)


@lru_cache(maxsize=64)  # it is asked anew for each label of a claim
def claim_chains(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain of cited steps for each label of a claim; its support is the label's probability."""
    upright = view.upright
    checked = check_claim(upright, text)
    true, false, left_open = probabilities(checked.signs)
    said = "The cells named settle the claim." if checked.settled else "No single working on cells settles the claim."
    if not checked.settled and checked.strange_words:
        said += f" Neither cells nor caption say {', '.join(f'“{text}”' for text in checked.strange_words)}."
    return (
        _chain(upright, SUPPORTS, [f for f in checked.findings if f.holds > 0.5], true),
        _chain(upright, REFUTES, [f for f in checked.findings if f.holds < 0.5], false),
        TableChain(NOT_ENOUGH, (TableStep("open", said),), left_open),
    )


def _findings(reading: Reading) -> Iterator[Finding]:
    """What bears on a claim that no operation settles: its comparisons, and the row that holds most of its words."""
    for degree in reading.degrees:
        if outcome := _comparison(reading, degree):
            yield Finding("comparison", outcome, outcome.number)
    view = reading.view
    said = sorted(word_set(reading.text) & view.word_weights.keys())
    if len(said) > 1:
        held = {i: view.weight_of(word for word in said if word in view.row_words[i]) for i in view.body}
        best = max(view.body, key=lambda i: (held[i], -i))
        cells = tuple((best, j) for j in view.columns if word_set(view.said((best, j))) & {*said})
        shared = [word for word in said if word in view.row_words[best]]
        text = f"{view.line(best)} holds {len(shared)} of the {len(said)} words of the claim that rows hold."
        yield Finding("row of words", Outcome("row", text, cells, 0.0), float(len(shared) == len(said)))


def _lines(reading: Reading, axis: str) -> dict[int, int]:
    """Rows or columns that a claim names, in the order in which it names them, each with the first place."""
    heads = reading.view.shape.row_header_columns
    lines: dict[int, int] = {}
    for mention in reading.mentions:
        for line in mention.rows if axis == "row" else mention.columns:
            if axis == "row" or line not in heads:
                lines.setdefault(line, mention.start)
    return lines


def _commensurable(view: TableView) -> bool:
    """Whether "better" can mean all columns at once: results beside each other, not facts of several kinds."""
    columns = [j for j in view.columns if j not in view.name_columns]
    units = {unit_in(view.shape.labels[j]) for j in columns} - {""}
    filled = [[view.cell((i, j)) for i in view.body if view.said((i, j))] for j in columns]
    text = any(sum(bool(cell.values) for cell in cells) < 0.5 * len(cells) for cells in filled)
    return len(units) < 2 and not text and not view.dated & {*columns}


def _comparison(reading: Reading, degree: Degree) -> Outcome | None:
    """What a word of degree says of rows, or of columns: more than named rivals or all others in whatever is named.

    Where the claim names no attribute, all columns are compared, if they can be put side by side. The rivals follow
    "than" and its like. The axis on which two sides are named is the one compared; else the rows are.
    """
    view, superlative = reading.view, degree.kind == "superlative"
    named = {"row": _lines(reading, "row"), "column": _lines(reading, "column")}
    columns = [j for j in range(view.shape.width) if j not in view.shape.row_header_columns]
    every = {"row": list(view.body), "column": columns}
    alike = _commensurable(view)
    if not named["column"] and not alike:
        return None
    rival = pattern("rival").search(reading.text, degree.start)
    than = rival.start() if rival else len(reading.text)
    for axis, across in sorted(
        (("row", "column"), ("column", "row")), key=lambda axes: not _sides(named[axes[0]], than)[1]
    ):
        subjects, rivals = _sides(named[axis], than)
        if not subjects or (axis == "column" and not rivals and not alike):
            continue  # an accuracy is not set against the year beside it
        against = rivals if rivals and not superlative else [line for line in every[axis] if line not in subjects]
        pairs: list[tuple[Place, Place, int]] = []
        for cross in named[across] or every[across]:
            left, right = (
                [(i, cross) if axis == "row" else (cross, i) for i in lines] for lines in (subjects, against)
            )
            pairs += _pairs(view, degree, left, right)
        outcome = order(view, pairs, *((1.0, "superlative") if superlative else (0.5, "comparison")))
        if outcome is not None:
            return outcome
    return None


def _sides(lines: Mapping[int, int], than: int) -> tuple[list[int], list[int]]:
    """The lines named before a place in the text, and their rivals behind it; all are subjects if all are behind."""
    before = [line for line, at in lines.items() if at <= than]
    after = [line for line in lines if line not in before]
    return (before, after) if before else (after, [])


def _pairs(view: TableView, degree: Degree, left: list[Place], right: list[Place]) -> list[tuple[Place, Place, int]]:
    """The comparisons of cells with numbers that a degree calls for: each with each."""
    left, right = ([place for place in side if view.cell(place).number is not None] for side in (left, right))
    if not left or not right:
        return []
    row, column = left[0]
    turned = degree.judging and less_is_better(view.shape.labels[column], view.row_name(row))
    return [(a, b, -degree.direction if turned else degree.direction) for a in left for b in right]


def _chain(view: TableView, label: str, findings: Sequence[Finding], support: float) -> TableChain:
    steps = [*whose_cells(view, [place for f in findings for place in f.outcome.cells])]
    steps += [view.step(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    return TableChain(label, tuple(steps) or (TableStep("absent", "No cell speaks for this label."),), support)
