"""Claims checked against one table: read into expressions, evaluated, and weighed by what the cells say.

What belongs here: from a claim to the findings that bear on it. A claim that names its rows, columns and numbers is read
into one expression, which settles it. Of a claim that leaves some of that open, each number, each comparison and the row
that holds most of its words is a finding. How much each kind of finding says for a label is worked out in `weighing`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from evidence_assets.reasoning.tables.algebra import (
    Condition,
    Difference,
    Expression,
    Order,
    Outcome,
    Ratio,
    Within,
    all_hold,
    whose_cells,
)
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import Degree, less_is_better, pattern, says
from evidence_assets.reasoning.tables.mentions import Reading, read_text
from evidence_assets.reasoning.tables.parts import denied, further_words, numeric_condition
from evidence_assets.reasoning.tables.quantities import bounds, is_dated, states
from evidence_assets.reasoning.tables.reader import readings_of
from evidence_assets.reasoning.tables.text import unit_in, word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableStep, TableView
from evidence_assets.reasoning.tables.weighing import Signs, probabilities

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# The least probability, of true and false alone, at which a claim counts as decided.
_DECIDES = 0.66
# With more further words than these a claim says more than any one expression.
_MOST_FURTHER_WORDS = 4
# How many characters before a word a negation may stand and still deny it.
_NEGATION_REACH = 45
# Of the cells that gainsay a number so many are shown.
_CELLS_TOLD = 3
_CLAUSE_END = re.compile(r"[,;:.]\s|\b(?:while|but|whereas|which|and)\b", re.IGNORECASE)


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
    """A claim read against a table: what was found, and the signs that it is weighed by."""

    reading: Reading
    findings: tuple[Finding, ...]
    settled: bool

    @property
    def signs(self) -> Signs:
        """The signs that its labels are weighed by."""
        text = self.reading.text
        said = {word: float(says(word, text)) for word in ("all", "none", "denies")}
        truth = {"always": 1.0, **said}
        for finding in self.findings:
            for sign in (finding.sign, f"settled by {finding.outcome.operation}")[: 1 + self.settled]:
                truth[sign] = truth.get(sign, 0.0) + 2 * finding.holds - 1
        openness = {
            "always": 1.0,
            "nothing found": float(not self.findings),
            "words among names": coverage(self.reading),
            "compares": float(bool(self.reading.cues)),
            "denies": said["denies"],
        }
        compared = any(finding.outcome.operation in {"comparison", "superlative"} for finding in self.findings)
        things = sum(mention.whole and bool(mention.names or mention.cells) for mention in self.reading.mentions)
        led = says("than", text) or any(degree.in_time for degree in self.reading.degrees)
        set_above = things > 1 and led and bool(self.reading.cues)
        unmeasured = set_above and not (self.settled or compared or _commensurable(self.reading.view))
        return Signs(truth, openness, self.settled, unmeasured)


def check_claim(view: TableView, text: str) -> Checked:
    """What an upright table says of a claim."""
    reading = read_text(view, text)
    settled = check(reading)
    return Checked(reading, (settled,) if settled else tuple(_found(reading)), settled is not None)


@lru_cache(maxsize=64)  # it is asked anew for each label of a claim
def claim_chains(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain of cited steps for each label of a claim; its support is the label's probability."""
    upright = view.upright
    checked = check_claim(upright, text)
    true, false, left_open = probabilities(checked.signs)
    findings = checked.findings
    chains = (
        _chain(checked, SUPPORTS, [f for f in findings if f.holds > 0.5], true),
        _chain(checked, REFUTES, [f for f in findings if f.holds < 0.5], false),
        _open_chain(checked, left_open),
    )
    return tuple(map(upright.chain_as_given, chains))


def is_decided(support: Mapping[str, float]) -> bool:
    """Whether the best of the labels offered is more than a guess: true or false, and far more likely than the other."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH and support[best] >= _DECIDES * (support[best] + rival) > 0


def check(reading: Reading) -> Finding | None:
    """What settles a claim: the one expression that it, or each of its clauses, is read into."""
    parts = _clauses(reading)
    if len(parts) > 1:
        findings = [_settled(read_text(reading.view, part)) for part in parts]
        held = [finding for finding in findings if finding is not None]
        if len(held) == len(parts):
            return Finding("settled", all_hold([f.outcome for f in held]), float(all(f.holds for f in held)))
    return _settled(reading)


def _clauses(reading: Reading) -> list[str]:
    """The clauses of a claim in order, each with a subject; one that cannot be cut is its only clause."""
    text = reading.text
    cuts = [
        match
        for match in re.finditer(rf";|{pattern('joint').pattern}", text, re.IGNORECASE)
        if not re.search(r"\bbetween\s+\S+\s*$", text[: match.start()], re.I) and not reading.masked(match.start())
    ]
    first = min((mention for _, mention in reading.rows), key=lambda m: m.start, default=None)
    if not cuts or first is None or first.end > cuts[0].start():
        return [text]
    parts = [text[: cuts[0].start()].rstrip(" ,")]
    for cut, following in zip(cuts, [*cuts[1:], None], strict=True):
        start, end = cut.end(), following.start() if following else len(text)
        degree = min((word.start for word in reading.degrees if start <= word.start < end), default=end)
        named = any(start <= mention.start < degree for _, mention in reading.rows)
        part = re.sub(r"^(?:also|it|they|is|are|was|were)\s+", "", text[start:end].strip(" ,"), flags=re.IGNORECASE)
        parts.append(part if named else f"{text[first.start : first.end]} is {part}")
    return parts


def _settled(reading: Reading) -> Finding | None:
    if len(further_words(reading)) > _MOST_FURTHER_WORDS:
        return None
    for asked in readings_of(reading):
        outcome = asked.expression.evaluate(reading.view)
        if outcome is not None and asked.holds is not None:
            finding = Finding("settled", outcome, float(asked.holds(outcome)))
            return finding.denied() if denied(reading) else finding
    return None


def _found(reading: Reading) -> Iterator[Finding]:
    """What bears on a claim that no single expression settles: its numbers, its comparisons, the row of its words."""
    rows = _lines(reading, "row")
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    findings = list(_numbers(reading)) if rows or _commensurable(reading.view) else []
    for degree in reading.cues:
        finding = _comparison(reading, degree)
        if finding is not None:
            findings.append(finding.denied() if _negated(reading, degree.start) else finding)
    findings += _counted(reading)
    shared = _row_of_words(reading)
    if shared is not None:
        findings.append(shared.denied() if denied(reading) else shared)
    yield from dict.fromkeys(findings)


def _demands(reading: Reading) -> list[tuple[int, frozenset[int]]]:
    """For each thing that a claim says of rows, where it says so and the rows of which it is true."""
    found = [(m.start, frozenset(i for i, _ in (*m.names, *m.cells))) for m in reading.mentions if m.names or m.cells]
    numeric = ((n.start, numeric_condition(reading, n)) for n in reading.numbers if n.comparator or n.kind == "date")
    return [*found, *((at, condition.met(reading.view)) for at, condition in numeric if condition)]


def _counted(reading: Reading) -> Iterator[Finding]:
    """For each small number whether so many rows hold all else that is said; and whether "the only one" is."""
    view, demands = reading.view, _demands(reading)
    rows = frozenset(view.body).intersection(*(rows for _, rows in demands))
    if not demands:
        return
    cells = tuple((i, j) for i in sorted(rows) for j in view.telling_columns)
    told = f"{len(rows)} rows hold all that the claim names."
    for number in reading.numbers:
        if number.value == int(number.value) and 0 <= number.value <= len(view.body) and not number.comparator:
            yield Finding("count of rows", Outcome("count", told, cells), float(len(rows) == number.value))
    if says("only", reading.text):
        cue = pattern("only").search(reading.text)
        after = [rows for at, rows in demands if cue and at > cue.start()]
        before = [rows for at, rows in demands if cue and at < cue.start()]
        if before and after:
            fitting = frozenset(view.body).intersection(*after)
            subject = frozenset(view.body).intersection(*before)
            yield Finding("only one", Outcome("count", told, cells), float(bool(fitting) and fitting <= subject))


def _row_of_words(reading: Reading) -> Finding | None:
    """Whether one row holds all the words of a claim that the table's rows hold at all."""
    view = reading.view
    said = sorted(word_set(reading.text) & view.row_frequency.keys())
    if len(said) < 2:
        return None
    held = {i: math.fsum(view.weight(word) for word in said if word in view.row_words[i]) for i in view.body}
    best = max(view.body, key=lambda i: (held[i], -i))
    cells = tuple((best, j) for j in view.columns if word_set(view.cell((best, j)).plain) & {*said})
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


def coverage(reading: Reading) -> float:
    """How far a claim is about the table: the share of words that are its names, in the clause that has most of them.

    What a long claim says besides (why something is so, who found it before) does not make its core about less.
    """
    shape = reading.view.shape
    names = frozenset().union(
        *map(word_set, shape.labels), *(word_set(n) for i in shape.body for n in shape.row_labels[i])
    )
    parts = [reading.text, *(part for part in _CLAUSE_END.split(reading.text) if len(word_set(part)) >= 3)]
    return max((len(said & names) / len(said) for said in map(word_set, parts) if said), default=0.0)


def _negated(reading: Reading, position: int) -> bool:
    """Whether a negation stands shortly before a position, in the same clause."""
    starts = [match.start() for match in pattern("denies").finditer(reading.text)]
    return any(
        0 <= position - start <= _NEGATION_REACH
        and not re.search(r"[.;:]\s|, (?:but|while|and)\b", reading.text[start:position])
        for start in starts
    )


def _filled(view: TableView, rows: Sequence[int], columns: Sequence[int]) -> list[Place]:
    return [(i, j) for i in rows for j in columns if view.cell((i, j)).number is not None]


def _numbers(reading: Reading) -> Iterator[Finding]:
    """For each number: it stands in the cells named as stated, or within its bound; else in the table, or nowhere."""
    view = reading.view
    rows, columns = list(_lines(reading, "row")), list(_lines(reading, "column"))
    near = _filled(view, rows or view.body, columns or view.columns)
    for number in reading.numbers:
        if number.kind == "date" or not re.search(r"\d", reading.text[number.start : number.end]):
            continue
        finding: Finding | None = None
        if bounds(number):
            outcome = Within(tuple((i, Condition(j, number=number)) for i, j in near)).evaluate(view)
            if outcome is not None and outcome.number is not None:
                # What is said of all cells is refuted by one of them.
                finding = Finding(
                    "number", outcome, float(outcome.number == 1.0) if says("all", reading.text) else outcome.number
                )
        else:
            anywhere = _filled(view, view.body, view.columns)
            place = _stating(view, number, near)
            if place is not None:
                finding = _look_up(view, "number", number, place)
            elif (place := _stating(view, number, anywhere)) is not None:
                finding = _look_up(view, "number elsewhere", number, place)
            elif (finding := _apart(view, number, near)) is None and near:
                shown = ", ".join(f"“{view.cell(place).plain}”" for place in near[:_CELLS_TOLD])
                text = f"The claim says {number.text}, the cells named say {shown}."
                finding = Finding("number", Outcome("look_up", text, tuple(near[:_CELLS_TOLD])), 0.0)
        if finding is not None:
            yield finding.denied() if _negated(reading, number.start) else finding


def _stating(view: TableView, number: CellValue, places: Sequence[Place]) -> Place | None:
    """The first of some cells that states a number, in percent or as a share."""
    factors = (1.0, 100.0, 0.01) if number.kind == "percentage" or number.value <= 1 else (1.0,)
    return next(
        (place for factor in factors for place in places if states(number, factor * (view.cell(place).number or 0.0))),
        None,
    )


def _apart(view: TableView, number: CellValue, places: Sequence[Place]) -> Finding | None:
    """Two cells of a row or a column that differ by a number, or of which it is the ratio."""
    for a in places:
        for b in places:
            if a == b or (a[0] != b[0] and a[1] != b[1]):
                continue
            first, second = view.cell(a).number or 0.0, view.cell(b).number or 0.0
            expression: Expression = Difference(a, b)
            value = abs(first - second)
            if number.unit == "x":
                expression, value = Ratio(a, b), first / second if second else 0.0
            elif number.kind == "percentage" and second and not states(number, value):
                value = 100 * value / abs(second)
            if states(number, value) and (outcome := expression.evaluate(view)):
                return Finding("difference", outcome, 1.0)
    return None


def _look_up(view: TableView, sign: str, number: CellValue, place: Place) -> Finding:
    text = f"The cell says “{view.cell(place).plain}”, as the claim does ({number.text})."
    return Finding(sign, Outcome("look_up", text, (place,)), 1.0)


def _commensurable(view: TableView) -> bool:
    """Whether "better" can mean all columns at once: results beside each other, not facts of several kinds."""
    values = [j for j in view.columns if j not in view.name_columns]
    units = {unit_in(view.shape.labels[j]) for j in values} - {""}
    return len(units) < 2 and not any(_holds_text(view, j) or is_dated(view, j) for j in values)


def _holds_text(view: TableView, column: int) -> bool:
    """Whether less than half of a column's filled cells hold a number."""
    filled = [view.cell((i, column)) for i in view.body if view.cell((i, column)).plain]
    return sum(bool(cell.values) for cell in filled) < 0.5 * len(filled)


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
        for cross in _attributes(reading, degree, named[across]) or every[across]:
            firsts = _places(view, axis, subjects, cross)
            seconds = _places(view, axis, against, cross)
            if not firsts or not seconds:
                continue
            row, column = firsts[0]
            turned = degree.judging and less_is_better(shape.labels[column], *shape.row_labels[row])
            direction = -degree.direction if turned else degree.direction
            if extreme:
                order = [
                    sorted(side, key=lambda p: -direction * (view.cell(p).number or 0)) for side in (firsts, seconds)
                ]
                firsts, seconds = order[0][:1], order[1][:1]
            pairs += [(a, b, direction) for a in firsts for b in seconds]
        order_of = Order(tuple(pairs), 1.0 if extreme else 0.5, "superlative" if extreme else "comparison")
        outcome = order_of.evaluate(view) if pairs else None
        if outcome is not None and outcome.number is not None:
            return Finding(outcome.operation, outcome, outcome.number)
    return None


def _places(view: TableView, axis: str, lines: Sequence[int], cross: int) -> list[Place]:
    """The cells with numbers in which some lines of an axis cross one of the other."""
    places = [(line, cross) if axis == "row" else (cross, line) for line in lines]
    return [place for place in places if view.cell(place).number is not None]


def _attributes(reading: Reading, degree: Degree, lines: dict[int, list[int]]) -> list[int]:
    """Lines named between this comparison and the next, as in "better precision but lower recall"; else all."""
    following = min((d.start for d in reading.cues if d.start > degree.start), default=len(reading.text))
    close = [line for line, at in lines.items() if any(degree.start <= start < following for start in at)]
    return close or list(lines)


def _sides(
    reading: Reading, degree: Degree, named: dict[str, dict[int, list[int]]]
) -> list[tuple[str, list[int], list[int]]]:
    """Subjects and rivals of a comparison on either axis: the rivals follow "than" and its like.

    The axis on which two sides are named is the one compared; else the one named before the word, as in "A has the best
    precision", where precision is what is compared.
    """
    rival = pattern("rival").search(reading.text, degree.start)
    than = rival.start() if rival else len(reading.text)
    clause = reading.text.rfind(",", 0, degree.start) + 1
    found = []
    for axis, lines in named.items():
        subjects = [line for line, at in lines.items() if at[0] <= than]
        rivals = [line for line in lines if line not in subjects]
        within = [line for line in subjects if any(clause <= start < degree.start for start in lines[line])]
        if not subjects:
            subjects, rivals = rivals, []
        elif not rivals and 0 < len(within) < len(subjects):
            # "Comparing A with B, A does better" is about A.
            subjects, rivals = within, [line for line in subjects if line not in within]
        if subjects:
            late = not any(lines[line][0] < degree.start for line in subjects)
            found.append(((not rivals, late, -max(lines[line][0] for line in lines)), (axis, subjects, rivals)))
    return [sides for _, sides in sorted(found, key=lambda item: item[0])]


def _chain(checked: Checked, label: str, findings: Sequence[Finding], support: float) -> TableChain:
    view = checked.reading.view
    steps = [*_named_step(checked.reading), *whose_cells(view, [place for f in findings for place in f.outcome.cells])]
    steps += [view.step(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    if not findings:
        steps.append(TableStep("absent", "No cell speaks for this label.", ()))
    return TableChain(label, tuple(steps), support)


def _named_step(reading: Reading) -> list[TableStep]:
    """The step that says which rows and columns the claim names, citing their names."""
    view = reading.view
    top = max(view.shape.header_rows, default=0)
    heads = view.shape.row_header_columns
    names = [(i, j) for i in _lines(reading, "row") for j in heads if view.cell((i, j)).plain]
    cells = (*names, *((top, j) for j in _lines(reading, "column")))
    told = dict.fromkeys(f"“{view.cell(place).plain}”" for place in cells)
    return [view.step("find", f"The claim names {', '.join(told)}.", cells)] if cells else []


def _open_chain(checked: Checked, support: float) -> TableChain:
    if checked.settled:
        text = "The cells named settle the claim."
    elif not checked.findings:
        text = "The claim states no number and no comparison that the cells can show."
    else:
        text = f"In no clause of the claim are more than {coverage(checked.reading):.0%} of the words names of rows or columns."
    return TableChain(NOT_ENOUGH, (*_named_step(checked.reading), TableStep("open", text, ())), support)
