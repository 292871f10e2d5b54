"""Claims checked against one table: read into expressions, evaluated, and weighed by what the cells say.

What belongs here: from a claim to the findings that bear on it, and from these to the probability of each label. A claim
that names its rows, columns and numbers is read into one expression, which settles it. Of a claim that leaves some of
that open, each number, each comparison and the row that holds most of its words is a finding. With truth signs ``t`` and
openness signs ``o`` of a claim, and the weights ``a`` and ``b`` of ``weights.yaml``,

    P(label) ∝ exp(s),   s(SUPPORTS) = a·t / 2,   s(REFUTES) = -a·t / 2,   s(NOT ENOUGH INFORMATION) = b·o,

a logistic regression in three classes; where the third is not offered it is left out, and what remains is the logistic
regression of true against false.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from math import exp, fsum, tanh

import yaml

from evidence_assets.reasoning.tables.algebra import Order, Outcome, whose_cells
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, less_is_better, pattern, says
from evidence_assets.reasoning.tables.reader import readings_of
from evidence_assets.reasoning.tables.reading import Reading, read_text
from evidence_assets.reasoning.tables.text import STOP_WORDS, content_stems, stem, tokens, unit_in, word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableStep, TableView

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# The least probability, of true and false alone, at which a claim counts as decided: what settles a claim reaches it. Where
# other signs did, they were no better than chance on real claims, so that they are bent to log odds short of it.
_DECIDES, _UNSETTLED = 0.71, 0.89
# With more further words than these a claim says more than any one expression.
_MOST_FURTHER_WORDS = 4
Weights = Mapping[str, Mapping[str, float]]
"""Of each sign, under ``truth`` and under ``openness``."""
# How many characters before a word a negation may stand and still deny it.
_NEGATION_REACH = 45
# Of the cells that gainsay a number so many are shown.
_CELLS_TOLD = 3


@dataclass(frozen=True)
class Signs:
    """What bears on a claim, by name: on whether it is true (positive) or false (negative), and on whether it is open.

    What follows of itself is not weighed: a claim that one expression ``settled`` is not open, and one that sets a thing
    above another in what is ``unmeasured`` by any column is.
    """

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    settled: bool = False
    unmeasured: bool = False


@lru_cache(maxsize=1)
def _weights() -> Weights:
    text = files(__package__).joinpath("weights.yaml").read_text(encoding="utf-8")
    weights: Weights = yaml.safe_load(text)
    return weights


def probabilities(signs: Signs, weights: Weights | None = None) -> tuple[float, float, float]:
    """Probabilities that a claim is true, that it is false, and that the table leaves it open; by the weights that the
    package ships unless others are given."""
    weights = weights or _weights()
    truth, left_open = (
        fsum(weights[side].get(sign, 0.0) * value for sign, value in held.items())
        for side, held in (("truth", signs.truth), ("openness", signs.openness))
    )
    truth = truth if signs.settled else _UNSETTLED * tanh(truth / _UNSETTLED)
    if signs.settled or signs.unmeasured:
        left_open = min(left_open, -abs(truth) / 2) if signs.settled else max(left_open, abs(truth))
    scores = (truth / 2, -truth / 2, left_open)
    powers = [exp(score - max(scores)) for score in scores]
    total = fsum(powers)
    return powers[0] / total, powers[1] / total, powers[2] / total


@dataclass(frozen=True)
class Finding:
    """What some cells say of a claim: the share of cases in which it holds, and as what kind of sign that counts."""

    sign: str
    outcome: Outcome
    holds: float

    def denied(self) -> Finding:
        text = f"{self.outcome.text} The claim denies this."
        return replace(self, outcome=replace(self.outcome, text=text), holds=1.0 - self.holds)


@dataclass(frozen=True)
class Checked:
    """A claim read against a table: what was found, and whether one expression settled it."""

    reading: Reading
    findings: tuple[Finding, ...]
    settled: bool

    @cached_property
    def strange_words(self) -> tuple[str, ...]:
        """Content words that neither the table nor its caption has."""
        known = self.reading.view.vocabulary
        return tuple(w for w in tokens(self.reading.text) if w not in STOP_WORDS and stem(w) not in known)

    @cached_property
    def lost_numbers(self) -> tuple[CellValue, ...]:
        """Numbers that are neither in a cell nor the difference of two."""
        return tuple(number for number in self.reading.numbers if _is_lost(self.reading.view, number))

    @property
    def missing(self) -> tuple[str, ...]:
        """What a claim says that its table has nowhere."""
        words = (word for word in self.strange_words if not stem(word)[0].isdigit())
        return tuple(dict.fromkeys((*words, *(number.text for number in self.lost_numbers))))

    @property
    def signs(self) -> Signs:
        """The signs that its labels are weighed by: of a claim that is settled that alone."""
        reading, cues = self.reading, self.reading.cues
        said = {word: float(says(word, reading.text)) for word in ("all", "none", "denies")}
        truth = {} if self.settled else {"always": 1.0, **said}
        for finding in self.findings:
            truth[finding.sign] = truth.get(finding.sign, 0.0) + 2 * finding.holds - 1
        openness = {
            "always": 1.0,
            "compares": float(bool(cues)),
            "denies": said["denies"],
            "strange words": len(self.strange_words) / max(1, len(content_stems(reading.text))),
            "lost number": float(bool(self.lost_numbers)),
        }
        compared = any(finding.outcome.operation in {"comparison", "superlative"} for finding in self.findings)
        things = sum(mention.whole and bool(mention.places) for mention in reading.mentions)
        set_above = things > 1 and bool(cues) and (says("than", reading.text) or any(degree.in_time for degree in cues))
        unmeasured = set_above and not (self.settled or compared or _commensurable(reading.view))
        return Signs(truth, openness, self.settled, unmeasured)


def check_claim(view: TableView, text: str) -> Checked:
    """What an upright table says of a claim."""
    reading = read_text(view, text)
    settled = _check(reading)
    return Checked(reading, (settled,) if settled else tuple(dict.fromkeys(_found(reading))), settled is not None)


@lru_cache(maxsize=64)  # it is asked anew for each label of a claim
def claim_chains(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain of cited steps for each label of a claim; its support is the label's probability."""
    upright = view.upright
    checked = check_claim(upright, text)
    named = _named_step(checked.reading)
    true, false, left_open = probabilities(checked.signs)
    said = "The cells named settle the claim." if checked.settled else "No single working on cells settles the claim."
    if not checked.settled and checked.missing:
        said += f" Neither cells nor caption say {', '.join(f'“{text}”' for text in checked.missing)}."
    chains = (
        _chain(upright, SUPPORTS, named, [f for f in checked.findings if f.holds > 0.5], true),
        _chain(upright, REFUTES, named, [f for f in checked.findings if f.holds < 0.5], false),
        TableChain(NOT_ENOUGH, (*named, TableStep("open", said)), left_open),
    )
    return tuple(map(upright.chain_as_given, chains))


def is_decided(support: Mapping[str, float]) -> bool:
    """Whether the best of the labels offered is more than a guess: true or false, and far more likely than the other."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH and support[best] >= _DECIDES * (support[best] + rival) > 0


def _check(reading: Reading) -> Finding | None:
    """What settles a claim: the one expression that it, or each of its clauses, is read into."""
    parts = _clauses(reading)
    findings = [_settled(read_text(reading.view, part)) for part in parts] if len(parts) > 1 else []
    held = [finding for finding in findings if finding is not None]
    if not parts or len(held) < max(2, len(parts)):
        return _settled(reading)
    cells = tuple(dict.fromkeys(place for finding in held for place in finding.outcome.cells))
    outcome = replace(held[0].outcome, text=" ".join(finding.outcome.text for finding in held), cells=cells)
    return Finding("settled", outcome, float(all(finding.holds for finding in held)))


def _clauses(reading: Reading) -> list[str]:
    """The clauses of a claim in order, each with a subject; one that cannot be cut is its only clause."""
    text = reading.text
    cuts = [
        match
        for match in re.finditer(rf";|{pattern('joint').pattern}", text, re.IGNORECASE)
        if not reading.masked(match.start())
    ]
    first = min(reading.rows.values(), key=lambda m: m.start, default=None)
    if not cuts or first is None or first.end > cuts[0].start():
        return [text]
    parts = [text[: cuts[0].start()].rstrip(" ,")]
    for cut, end in zip(cuts, [*(cut.start() for cut in cuts[1:]), len(text)], strict=True):
        degree = min((word.start for word in reading.degrees if cut.end() <= word.start < end), default=end)
        named = any(cut.end() <= mention.start < degree for mention in reading.rows.values())
        part = re.sub(
            r"^(?:also|it|they|is|are|was|were)\s+", "", text[cut.end() : end].strip(" ,"), flags=re.IGNORECASE
        )
        parts.append(part if named else f"{text[first.start : first.end]} is {part}")
    return parts


def _settled(reading: Reading) -> Finding | None:
    if len(reading.further_words) > _MOST_FURTHER_WORDS:
        return None
    for asked in readings_of(reading):
        outcome = asked.expression.evaluate(reading.view)
        if outcome is not None and asked.holds is not None:
            sign = "settled in one row" if outcome.operation == "look_up" else "settled"
            finding = Finding(sign, outcome, float(asked.holds(outcome)))
            return finding.denied() if reading.denied else finding
    return None


def _found(reading: Reading) -> Iterator[Finding]:
    """What bears on a claim that no single expression settles: its numbers, its comparisons, the row of its words."""
    rows, columns = _lines(reading, "row"), _lines(reading, "column")
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    for number in reading.numbers if rows or _commensurable(reading.view) else ():
        if number.kind != "date" and (finding := _number(reading.view, number, list(rows), list(columns))):
            yield finding.denied() if _negated(reading, number.start) else finding
    for degree in reading.cues:
        if finding := _comparison(reading, degree):
            yield finding.denied() if _negated(reading, degree.start) else finding
    if finding := _row_of_words(reading):
        yield finding.denied() if reading.denied else finding


def _negated(reading: Reading, position: int) -> bool:
    """Whether a negation stands shortly before a position, in the same clause."""
    starts = (match.start() for match in pattern("denies").finditer(reading.text))
    between = (reading.text[start:position] for start in starts if 0 <= position - start <= _NEGATION_REACH)
    return any(not re.search(r"[.;:]\s|, (?:but|while|and)\b", words) for words in between)


def _row_of_words(reading: Reading) -> Finding | None:
    """Whether one row holds all the words of a claim that the table's rows hold at all."""
    view = reading.view
    said = sorted(word_set(reading.text) & view.row_frequency.keys())
    if len(said) < 2:
        return None
    held = {i: fsum(view.weight(word) for word in said if word in view.row_words[i]) for i in view.body}
    best = max(view.body, key=lambda i: (held[i], -i))
    cells = tuple((best, j) for j in view.columns if word_set(view.said((best, j))) & {*said})
    together = [word for word in said if word in view.row_words[best]]
    text = f"{view.line(best)} holds {len(together)} of the {len(said)} words of the claim that rows hold."
    return Finding("row of words", Outcome("row", text, cells), float(len(together) == len(said)))


def _lines(reading: Reading, axis: str) -> dict[int, list[int]]:
    """Rows or columns that a claim names, each with where it does, in the order in which it names them."""
    heads = reading.view.shape.row_header_columns
    found: dict[int, list[int]] = {}
    for mention in reading.mentions:
        for line in mention.rows if axis == "row" else mention.columns:
            if axis == "row" or line not in heads:
                found.setdefault(line, []).append(mention.start)
    return found


def _number(view: TableView, number: CellValue, rows: Sequence[int], columns: Sequence[int]) -> Finding | None:
    """Whether a number stands in the cells named as stated, or within its bound; else whether it stands anywhere."""
    near, anywhere = _filled(view, rows or view.body, columns or view.columns), _filled(view, view.body, view.columns)
    # A percentage may be written as a share, and the other way round.
    factors = (1.0, 100.0, 0.01) if not number.bounds and (number.kind == "percentage" or number.value <= 1) else (1.0,)
    held = {p for factor in factors for p in anywhere if number.states(factor * (view.cell(p).number or 0.0))}
    fitting = [place for place in near if place in held]
    elsewhere = [place for place in anywhere if place in held and not number.bounds]
    if number.bounds and near:
        text = f"{len(fitting)} of {len(near)} cells are {number.text}."
        return Finding("number", Outcome("count", text, tuple(near)), len(fitting) / len(near))
    if fitting or elsewhere:
        place = (fitting or elsewhere)[0]
        text = f"The cell says “{view.said(place)}”, as the claim does ({number.text})."
        return Finding("number" if fitting else "number elsewhere", Outcome("look_up", text, (place,)), 1.0)
    shown = ", ".join(f"“{view.said(place)}”" for place in near[:_CELLS_TOLD])
    text = f"The claim says {number.text}, the cells named say {shown}."
    return Finding("number", Outcome("look_up", text, tuple(near[:_CELLS_TOLD])), 0.0) if near else None


def _is_lost(view: TableView, number: CellValue) -> bool:
    """Whether a number is neither in a cell, as it is, as a percentage or as a share, nor the difference of two cells; a
    bound is never lost."""
    values = view.quantities

    def nearest(wanted: float) -> Sequence[float]:
        at = bisect(values, wanted)
        return values[max(0, at - 1) : at + 1]

    stated = any(number.states(factor * v) for factor in (1.0, 100.0, 0.01) for v in nearest(number.value / factor))
    apart = (b - a for a in values for b in nearest(a + number.value) if b > a)
    return not (number.bounds or stated or any(map(number.states, apart)))


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

    Where the claim names no attribute, all columns are compared, if they can be put side by side.
    """
    view, shape = reading.view, reading.view.shape
    named = {"row": _lines(reading, "row"), "column": _lines(reading, "column")}
    every = {"row": list(view.body), "column": list(shape.value_columns)}
    alike = _commensurable(view)
    if not named["column"] and not alike:
        return None
    extreme = degree.kind == "superlative"
    for axis, subjects, rivals in _sides(reading, degree, named):
        if axis == "column" and not rivals and not alike:
            continue  # an accuracy is not set against the year beside it
        against = rivals if rivals and not extreme else [line for line in every[axis] if line not in subjects]
        across = "column" if axis == "row" else "row"
        pairs: list[tuple[Place, Place, int]] = []
        for cross in named[across] or every[across]:
            sides = [
                [
                    place
                    for line in lines
                    if view.cell(place := (line, cross) if axis == "row" else (cross, line)).number is not None
                ]
                for lines in (subjects, against)
            ]
            if not all(sides):
                continue
            row, column = sides[0][0]
            turned = degree.judging and less_is_better(shape.labels[column], *shape.row_labels[row])
            direction = -degree.direction if turned else degree.direction
            if extreme:
                sides = [[max(side, key=lambda p: direction * (view.cell(p).number or 0.0))] for side in sides]
            pairs += [(a, b, direction) for a in sides[0] for b in sides[1]]
        order = Order(tuple(pairs), 1.0 if extreme else 0.5, "superlative" if extreme else "comparison")
        outcome = order.evaluate(view) if pairs else None
        if outcome is not None and outcome.number is not None:
            return Finding(outcome.operation, outcome, outcome.number)
    return None


def _sides(
    reading: Reading, degree: Degree, named: dict[str, dict[int, list[int]]]
) -> list[tuple[str, list[int], list[int]]]:
    """Subjects and rivals of a comparison on either axis: the rivals follow "than" and its like.

    The axis on which two sides are named is the one compared; else the rows are, in the columns that are named.
    """
    rival = pattern("rival").search(reading.text, degree.start)
    than = rival.start() if rival else len(reading.text)
    found = []
    for axis, lines in named.items():
        before = [line for line, at in lines.items() if at[0] <= than]
        after = [line for line in lines if line not in before]
        if lines:
            found.append((axis, before, after) if before else (axis, after, []))
    return sorted(found, key=lambda side: (not side[2], side[0] != "row"))


def _chain(
    view: TableView, label: str, named: Sequence[TableStep], findings: Sequence[Finding], support: float
) -> TableChain:
    steps = [*named, *whose_cells(view, [place for f in findings for place in f.outcome.cells])]
    steps += [view.step(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    return TableChain(
        label, tuple(steps if findings else [*steps, TableStep("absent", "No cell speaks for this label.")]), support
    )


def _named_step(reading: Reading) -> list[TableStep]:
    """The step that says which rows and columns the claim names, citing their names."""
    view = reading.view
    top, heads = max(view.shape.header_rows, default=0), view.shape.row_header_columns
    names = [(i, j) for i in _lines(reading, "row") for j in heads if view.said((i, j))]
    cells = (*names, *((top, j) for j in _lines(reading, "column")))
    told = dict.fromkeys(f"“{view.said(place)}”" for place in cells)
    return [view.step("find", f"The claim names {', '.join(told)}.", cells)] if cells else []
