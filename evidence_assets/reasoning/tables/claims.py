"""Claims checked against one table: read into one operation, which settles them, or weighed by what the cells say.

A settled claim is decided, whatever the weights are; a claim that is not settled never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, fsum
from typing import NamedTuple

from evidence_assets.reasoning.tables.lexicon import Degree, pattern
from evidence_assets.reasoning.tables.operations import Outcome, order, whose_cells, work_out
from evidence_assets.reasoning.tables.reading import Reading, read_text
from evidence_assets.reasoning.tables.table import TableChain, TableStep, TableView
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
    "truth": {"always": 0.06, "comparison": 0.52, "denies": -0.74, "row of words": 0.35},
}


@dataclass(frozen=True)
class Signs:
    """What bears on a claim, by name: whether it is true (positive) or false (negative), and whether it is open."""

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    settled: bool | None = None  # what an operation shows
    unmeasured: bool = False  # no cell bears on it, or it sets a thing above another in what no column measures


def probabilities(signs: Signs, weights: Weights = WEIGHTS) -> tuple[float, float, float]:
    """Probabilities that a claim is true, that it is false, and that the table leaves it open.

    With truth signs ``t``, openness signs ``o`` and weights ``a`` and ``b`` two logistic regressions give an unsettled
    claim P(NOT ENOUGH INFORMATION) = σ(b·o) and P(SUPPORTS | not open) = σ(a·t).
    """
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
    """What was found of a claim; one finding alone if an operation settled it."""

    findings: tuple[Finding, ...]
    signs: Signs
    strange_words: tuple[str, ...]  # content words that neither the table nor its caption has


def check_claim(view: TableView, text: str) -> Checked:
    """What a table says of a claim."""
    reading = read_text(view, text)
    outcome = work_out(reading)
    findings = (
        [Finding("settled", outcome, float(bool(outcome.holds)))]
        if outcome
        else list(dict.fromkeys(_findings(reading)))
    )
    if reading.denied:
        denial = " The claim denies this."
        findings = [Finding(f.sign, replace(f.outcome, text=f.outcome.text + denial), 1 - f.holds) for f in findings]
    words = (word for word in tokens(reading.text) if word not in STOP_WORDS and not word[0].isdigit())
    strange = tuple(dict.fromkeys(word for word in words if stem(word) not in view.vocabulary))
    denies, alike = float(reading.says("denies")), _commensurable(view)
    truth = {"denies": denies}
    for finding in findings:
        truth[finding.sign] = truth.get(finding.sign, 0.0) + 2 * finding.holds - 1
    openness = {
        "denies": denies,
        "strange words": len(strange) / max(1, len(content_stems(reading.text))),
        # Of results beside each other a claim that the table settles compares some.
        "compares no results": float(alike and not reading.degrees),
    }
    things = sum(mention.whole and bool(mention.places) for mention in reading.mentions)
    above = reading.says("than") or any(degree.in_time for degree in reading.degrees)
    unmeasured = things > 1 and above and not alike and "comparison" not in truth
    unmeasured |= not findings and not reading.mentions
    return Checked(
        tuple(findings), Signs(truth, openness, findings[0].holds > 0.5 if outcome else None, unmeasured), strange
    )


@lru_cache(maxsize=64)  # it is asked anew for each label of a claim
def claim_chains(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain of cited steps for each label of a claim; its support is the label's probability."""
    checked = check_claim(view, text)
    true, false, left_open = probabilities(checked.signs)
    settled = checked.signs.settled is not None
    said = "The cells named settle the claim." if settled else "No single working on cells settles the claim."
    if not settled and checked.strange_words:
        said += f" Neither cells nor caption say {', '.join(f'“{text}”' for text in checked.strange_words)}."
    return (
        _chain(view, SUPPORTS, [f for f in checked.findings if f.holds > 0.5], true),
        _chain(view, REFUTES, [f for f in checked.findings if f.holds < 0.5], false),
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
        text = f"{view.row_number(best)} holds {len(shared)} of the {len(said)} words of the claim that rows hold."
        yield Finding("row of words", Outcome("row", text, cells, 0.0), float(len(shared) == len(said)))


def _commensurable(view: TableView) -> bool:
    """Whether "better" can mean all columns at once: results beside each other, not facts of several kinds."""
    columns = [j for j in view.columns if j not in view.name_columns]
    units = {unit_in(view.labels[j]) for j in columns} - {""}
    filled = [[view.cell((i, j)) for i in view.body if view.said((i, j))] for j in columns]
    text = any(sum(bool(cell.values) for cell in cells) < 0.5 * len(cells) for cells in filled)
    return len(units) < 2 and not text and not view.dated & {*columns}


def _comparison(reading: Reading, degree: Degree) -> Outcome | None:
    """What a word of degree says of rows, or of columns: more than the rivals behind "than", or than all others.

    Columns are compared where only they have rivals, or no row is named. Where no column is named, rows are compared in
    all of them, if these can be put side by side.
    """
    view, superlative = reading.view, degree.kind == "superlative"
    rival = pattern("rival").search(reading.text, degree.start)
    border = rival.start() if rival else len(reading.text)
    every = [j for j in range(view.width) if j not in view.row_headers]
    rows, row_rivals = _sides([(i, m.start) for m in reading.mentions for i in m.rows], border)
    columns, column_rivals = _sides([(j, m.start) for m in reading.mentions for j in m.columns if j in every], border)
    alike = _commensurable(view)
    if not columns and not alike:
        return None
    if (column_rivals and not row_rivals) or (not rows and alike):
        others = column_rivals if not superlative else []
        others = others or [j for j in every if j not in columns]
        pairs = [((i, a), (i, b)) for i in rows or view.body for a in columns for b in others]
    else:
        others = row_rivals if not superlative else []
        others = others or [i for i in view.body if i not in rows]
        pairs = [((a, j), (b, j)) for j in [*columns, *column_rivals] or every for a in rows for b in others]
    directed = [
        (a, b, reading.direction(degree, a[1]))
        for a, b in pairs
        if view.number(a) is not None and view.number(b) is not None
    ]
    return order(view, directed, *((1.0, "superlative") if superlative else (0.5, "comparison")))


def _sides(lines: Sequence[tuple[int, int]], border: int) -> tuple[list[int], list[int]]:
    """The lines named before a place in the text, and their rivals behind it; all are subjects if all are behind."""
    before = list(dict.fromkeys(line for line, at in lines if at <= border))
    after = list(dict.fromkeys(line for line, _ in lines if line not in before))
    return (before, after) if before else (after, [])


def _chain(view: TableView, label: str, findings: Sequence[Finding], support: float) -> TableChain:
    steps = [*whose_cells(view, [place for f in findings for place in f.outcome.cells])]
    steps += [TableStep(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    return TableChain(label, tuple(steps) or (TableStep("absent", "No cell speaks for this label."),), support)
