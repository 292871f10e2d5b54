"""Claims checked against one table: read into expressions, evaluated, and judged by what the cells say.

What belongs here: from a claim to what it says of the value of an expression, and from values to a label. A claim that
names its rows, columns and numbers is read into one expression, which settles it. Of a claim that leaves some of that
open, each number and each comparison is read into one, and their findings are weighed. Where none can be read, or the
claim hardly names anything of the table, the table does not decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
from evidence_assets.reasoning.tables.parts import denied, further_words
from evidence_assets.reasoning.tables.quantities import bounds, is_dated, states
from evidence_assets.reasoning.tables.reader import readings_of
from evidence_assets.reasoning.tables.text import unit_in, word_set
from evidence_assets.reasoning.tables.view import Place, Status, TableAnswer, TableChain, TableStep, TableView

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
_FURTHER_WORDS = 1
# And with more than these it says more than any one expression.
_MOST_FURTHER_WORDS = 4
# Below this share of the claim's words among the names of rows and columns the table is about something else.
_LEAST_COVERAGE = 0.15
# Weighed balance of the findings that a verdict needs.
_DECIDES = 0.1
# How many characters before a word a negation may stand and still deny it.
_NEGATION_REACH = 45
_CLAUSE_END = re.compile(r"[,;:.]\s|\b(?:while|but|whereas|which|and)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """What an expression says of a claim: the share of cases in which the claim holds, and how much that weighs."""

    outcome: Outcome
    holds: float
    weight: float = 1.0

    def denied(self) -> Finding:
        text = f"{self.outcome.text} The claim denies this."
        return replace(self, outcome=replace(self.outcome, text=text), holds=1.0 - self.holds)


def verify_claim(view: TableView, text: str) -> TableAnswer:
    """Label a claim by what the table's cells say, with a chain of cited steps for each label."""
    upright = view.upright
    return upright.as_given(_verified(upright, upright.in_own_words(text)))


def _verified(view: TableView, text: str) -> TableAnswer:
    reading = read_text(view, text)
    settled = check(reading)
    findings = [settled] if settled is not None else _weighed(reading)
    coverage = 1.0 if settled is not None else _coverage(reading)
    balance = sum(finding.weight * (2 * finding.holds - 1) for finding in findings)
    rows, columns = _lines(reading, "row"), _lines(reading, "column")
    about = coverage >= _LEAST_COVERAGE or max(len(rows), len(columns)) > 1 or bool(rows and columns)
    decided = abs(balance) > _DECIDES and about
    share = abs(balance) / sum(finding.weight for finding in findings) if findings else 0.0
    # What was found in cells that do not settle the claim stays below what speaks for the open verdict.
    shown = share if decided else 0.4 * share
    chains = (
        _chain(reading, SUPPORTS, [f for f in findings if f.holds > 0.5], shown if balance > 0 else 0.0),
        _chain(reading, REFUTES, [f for f in findings if f.holds < 0.5], shown if balance < 0 else 0.0),
        _open_chain(reading, coverage, findings, 0.0 if decided else 1.0 - 0.5 * share),
    )
    label = NOT_ENOUGH if not decided else SUPPORTS if balance > 0 else REFUTES
    status: Status = "answered" if decided else "insufficient"
    return TableAnswer(label, (label,), status, share if decided else 1.0 - share, chains, view.table_id)


def check(reading: Reading) -> Finding | None:
    """What settles a claim: the one expression that it, or each of its clauses, is read into."""
    parts = _clauses(reading)
    if len(parts) > 1:
        findings = [_settled(read_text(reading.view, part)) for part in parts]
        held = [finding for finding in findings if finding is not None]
        if len(held) == len(parts):
            return Finding(all_hold([f.outcome for f in held]), float(all(f.holds for f in held)))
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
            finding = Finding(outcome, float(asked.holds(outcome)))
            return finding.denied() if denied(reading) else finding
    return None


def _weighed(reading: Reading) -> list[Finding]:
    """Findings for each number and each comparison of a claim that no single expression settles."""
    rows = _lines(reading, "row")
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    findings = list(_numbers(reading)) if rows or _commensurable(reading.view) else []
    for degree in reading.cues:
        finding = _comparison(reading, degree)
        if finding is None:
            continue
        finding = finding.denied() if _negated(reading, degree.start) else finding
        if finding not in findings:
            findings.append(finding)
    return findings


def _lines(reading: Reading, axis: str) -> dict[int, list[int]]:
    """Rows or columns that a claim names, each with where it does, in the order in which it names them."""
    heads = reading.view.shape.row_header_columns
    found: dict[int, list[int]] = {}
    for mention in reading.mentions:
        for line in mention.rows if axis == "row" else mention.columns:
            if axis == "row" or line not in heads:
                found.setdefault(line, []).append(mention.start)
    return found


def _coverage(reading: Reading) -> float:
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
    """For each number: it stands in a cell as stated, within its bound, or as a difference or a multiple of two."""
    view = reading.view
    rows, columns = list(_lines(reading, "row")), list(_lines(reading, "column"))
    near = _filled(view, rows or view.body, columns or view.columns)
    pools = [(near, 1.0)]
    if not (rows and columns):
        # Where a row and a column are named no other cell can say what stands where they cross.
        pools += [(_filled(view, rows, view.columns), 0.7), (_filled(view, view.body, columns), 0.7)]
        pools.append((_filled(view, view.body, view.columns), 0.4))
    for number in reading.numbers:
        if number.kind == "date" or not re.search(r"\d", reading.text[number.start : number.end]):
            continue
        finding: Finding | None = None
        outcome = Within(tuple((i, Condition(j, number=number)) for i, j in near)).evaluate(view)
        if bounds(number) and outcome is not None and outcome.number is not None:
            # What is said of all cells is refuted by some of them.
            refuted = outcome.number < 1.0 and says("all", reading.text)
            finding = Finding(outcome, min(outcome.number, 0.25) if refuted else outcome.number, 0.8)
        for k, (pool, scale) in enumerate(pools):
            finding = finding or _found(view, number, pool, scale, pairs=k < 3)
        if finding is None and rows and columns and 0 < len(near) <= 3:
            shown = ", ".join(f"“{view.cell(place).plain}”" for place in near)
            text = f"The claim says {number.text}, the cells named say {shown}."
            finding = Finding(Outcome("look_up", text, tuple(near)), 0.0, 0.6)
        if finding is not None:
            yield finding.denied() if _negated(reading, number.start) else finding


def _found(view: TableView, number: CellValue, pool: Sequence[Place], scale: float, *, pairs: bool) -> Finding | None:
    """The cell that states a number, or the two, along a row or a column, that differ by it or of which it is the ratio."""
    for factor in (1.0, 100.0, 0.01) if number.kind == "percentage" or number.value <= 1 else (1.0,):
        for place in pool:
            if not bounds(number) and states(number, factor * (view.cell(place).number or 0.0)):
                text = f"The cell says “{view.cell(place).plain}”, as the claim does ({number.text})."
                return Finding(Outcome("look_up", text, (place,)), 1.0, scale)
    if not pairs:
        return None
    for a in pool:
        for b in pool:
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
                return Finding(outcome, 1.0, 0.9 * scale)
    return None


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
            weight = 0.7 if extreme else 0.6 if degree.weight == 1 else 0.5
            return Finding(outcome, outcome.number, weight if rivals or extreme else 0.7 * weight)
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


def _chain(reading: Reading, label: str, findings: Sequence[Finding], support: float) -> TableChain:
    view = reading.view
    steps = [*_named_step(reading), *whose_cells(view, [place for f in findings for place in f.outcome.cells])]
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


def _open_chain(reading: Reading, coverage: float, findings: Sequence[Finding], support: float) -> TableChain:
    if not support:
        operation, text = "settled", "The cells named settle the claim."
    elif coverage < _LEAST_COVERAGE:
        operation = "coverage"
        text = f"In no clause of the claim are more than {coverage:.0%} of the words names of rows or columns."
    elif not findings:
        operation, text = "absent", "The claim states no number and no comparison that the cells can show."
    else:
        operation, text = "balance", "What the cells show speaks for and against the claim alike."
    return TableChain(NOT_ENOUGH, (*_named_step(reading), TableStep(operation, text, ())), support)
