"""Claims checked against one table: read into expressions, evaluated, and judged by what the cells say.

What belongs here: from a claim to what it says of the value of an expression, and from values to a label. A claim that
names its rows, columns and numbers is read into one expression, which settles it. Of a claim that leaves some of that
open, each number and each comparison is read into one, and their findings are weighed. Where none can be read, or the
claim hardly names anything of the table, the table does not decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evidence_assets.reasoning.tables.algebra import (  # fmt: skip
    Aggregate,
    Difference,
    Expression,
    Extreme,
    Filter,
    Order,
    Outcome,
    Ratio,
    Says,
    Together,
    Trend,
    Within,
    all_hold,
    whose_cells,
)
from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.lexicon import (  # fmt: skip
    Degree,
    excludes,
    less_is_better,
    moves,
    pattern,
    says,
    squeezed,
    words,
)
from evidence_assets.reasoning.tables.mentions import Mention, Reading, read_text
from evidence_assets.reasoning.tables.quantities import bounds, is_dated, is_numeric, number_at, states
from evidence_assets.reasoning.tables.reader import (  # fmt: skip
    compared_order,
    conditions_of,
    denied,
    denied_at,
    direction_in,
    further_words,
    measured_column,
    numeric_condition,
    ratio_stated,
    rows_meant,
    trend_of,
    yes_conditions,
)
from evidence_assets.reasoning.tables.text import STOP_WORDS, unit_in, word_set
from evidence_assets.reasoning.tables.view import Place, Status, TableAnswer, TableChain, TableStep, TableView

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# So many further words may a claim hold whose column is only hinted at; with more it speaks of something else.
_FURTHER_WORDS = 1
# And with more than these it says more than any one expression.
_MOST_FURTHER_WORDS = 3
# The share of what a claim says of a term that its meaning must hold.
_SAID = 0.8
# Below this share of the claim's words among the names of rows and columns the table is about something else.
_LEAST_COVERAGE = 0.15
# Weighed balance of the findings that a verdict needs; "in all cases" is forgiven a tie.
_DECIDES, _HOLDS_FOR_ALL = 0.1, 0.95
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
        for match in re.finditer(rf"(?:,\s*|\s+){pattern('joint').pattern[2:-2]}|;\s+", text, re.IGNORECASE)
        if not re.search(r"\bbetween\s+\S+$", text[: match.start()], re.I) and not reading.masked(match.end() - 1)
    ]
    first = min((mention for _, mention in reading.rows), key=lambda m: m.start, default=None)
    if not cuts or first is None or first.end > cuts[0].start():
        return [text]
    parts = [text[: cuts[0].start()]]
    for cut, following in zip(cuts, [*cuts[1:], None], strict=True):
        start, end = cut.end(), following.start() if following else len(text)
        degree = min((word.start for word in reading.degrees if start <= word.start < end), default=end)
        named = any(start <= mention.start < degree for _, mention in reading.rows)
        parts.append(text[start:end] if named else f"{text[first.start : first.end]} is {text[start:end]}")
    return parts


def _settled(reading: Reading) -> Finding | None:
    if len(further_words(reading)) > _MOST_FURTHER_WORDS:
        return None
    for rule in RULES:
        finding = rule(reading)
        if finding is not None:
            return finding.denied() if denied(reading) else finding
    return None


def _finding(reading: Reading, expression: Expression, holds: Callable[[Outcome], bool]) -> Finding | None:
    outcome = expression.evaluate(reading.view)
    return None if outcome is None else Finding(outcome, float(holds(outcome)))


def _measured(reading: Reading, degree: Degree | None) -> int | None:
    """The measured column of a claim, unless so much else is said that the column hinted at is hardly meant."""
    column = measured_column(reading, degree)
    if column is None or any(c == column and mention.whole for c, mention in reading.columns):
        return column
    return column if len(further_words(reading)) <= _FURTHER_WORDS else None


def _defined(reading: Reading) -> Finding | None:
    """A term of a glossary means what the claim says of it, or the claim says what another term means."""
    view = reading.view
    if not view.shape.glossary or len(reading.rows) != 1:
        return None
    row, mention = reading.rows[0]
    inside = [word for word in reading.words if not mention.start <= word.start < mention.end]
    said = {word.stem for word in inside if word.raw not in STOP_WORDS | words("defines")}
    shares = {i: len(said & word_set(view.cell((i, 1)).plain)) / len(said) for i in view.body} if said else {}
    if max(shares.values(), default=0.0) < _SAID:
        return None
    cells = ((row, 0), (row, 1))
    text = f"The glossary says of “{view.cell(cells[0]).plain}”: “{view.cell(cells[1]).plain}”."
    return Finding(Outcome("look_up", text, cells), float(shares[row] >= _SAID))


def _trend(reading: Reading) -> Finding | None:
    """A column moves one way while another does, or "the fewer are sold, the higher the price"."""
    columns = reading.numeric_columns
    led = [d for d in reading.degrees if re.search(r"\bthe\s+$", reading.text[: d.start], re.IGNORECASE)]
    if reading.rows:
        return None
    if len(led) == len(columns) == 2 and all(degree.kind == "comparative" for degree in led):
        sign = led[0].direction * led[1].direction
        return _finding(reading, Trend(columns[1][0], columns[0][0]), lambda o: sign * ((o.number or 0) - 0.5) > 0)
    clause = trend_of(reading)
    if clause is None:
        return None
    trend, start, end = clause
    said = squeezed([s for at, s in moves(reading.text) if not start <= at < end and not reading.masked(at)])
    if not said:
        return None
    if len(said) > 1 or said[0] not in (1, -1) or says("every_step", reading.text):
        return _finding(reading, trend, lambda outcome: outcome.pattern == said)
    return _finding(reading, trend, lambda outcome: said[0] * ((outcome.number or 0.0) - 0.5) > 0)


def _stepped(reading: Reading) -> Finding | None:
    """A column goes up or down at a row, or from one row to another: "sales fell in 2020"."""
    said = [sign for at, sign in moves(reading.text) if not reading.masked(at)]
    rows, view = [row for row, _ in reading.rows], reading.view
    if len(said) != 1 or said[0] not in (1, -1) or len(reading.numeric_columns) != 1 or reading.numbers:
        return None
    if not rows or not view.name_columns or not is_numeric(view, view.name_columns[0]):
        return None
    column = reading.numeric_columns[0][0]
    at = view.body.index(rows[0])
    rows = rows if len(rows) > 1 else [*view.body[max(0, at - 1) : at], rows[0]]
    if len(rows) != 2:
        return None
    pair = Order((((rows[1], column), (rows[0], column), said[0]),), operation="trend")
    return _finding(reading, pair, lambda outcome: outcome.number == 1.0)


def _quantified(reading: Reading) -> Finding | None:
    """So many rows, all, none, most, half, or only the one named satisfy something."""
    text, view = reading.text, reading.view
    alone = len(reading.rows) == 1 and _only(reading, reading.rows[0][1])
    if reading.rows and not alone:
        return None
    nouns = [m.start for m in reading.items] + [m.start() for m in pattern("rows").finditer(text)]
    share = next((m for name in ("most", "few_of", "half_of") if (m := pattern(name).search(text))), None)
    number = None if share or alone else _counting_number(reading, nouns)
    conditions = [c for c in conditions_of(reading, number) if not share or not share.start() <= c.at < share.end()]
    conditions += [] if number is not None else yes_conditions(reading)
    if not conditions:
        return None
    rows, expression = len(view.body), Filter(tuple(conditions))
    if alone:
        return _finding(reading, expression, lambda outcome: [i for i, _ in outcome.rows] == [reading.rows[0][0]])
    if share is not None:
        sign = 1 if share.re is pattern("most") else -1 if share.re is pattern("few_of") else 0
        return _finding(reading, expression, lambda o: _sign((o.number or 0.0) - rows / 2) == sign)
    if number is not None and number.value == int(number.value):
        return _finding(reading, expression, lambda outcome: _counts(number, outcome.number or 0.0))
    never, ever = re.search(r"\b(?:never|at no time)\b", text, re.I), says("all", text)
    nothing = says("none", text)
    if never and len(conditions) == 1:
        # The denial lies in "never"; it is turned round again where denials are.
        return _finding(reading, expression, lambda outcome: bool(outcome.number))
    if not (ever or nothing) or not nouns:
        return None
    which = [condition for condition in conditions if condition.at < min(nouns) and condition.number is None]
    if len(conditions) == len(which):
        return None
    among = len(rows_meant(reading, which))
    return _finding(reading, expression, lambda outcome: outcome.number == (among if ever else 0))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _counts(number: CellValue, rows: float) -> bool:
    if number.comparator in {">", "<"}:
        return rows > number.value if number.comparator == ">" else rows < number.value
    return states(number, rows)


def _only(reading: Reading, mention: Mention) -> bool:
    """Whether something is said only of the name at a place; "has only three" says how many."""
    text = reading.text
    led = re.search(r"\b(?:only|solely)(?: the)?\s*$", text[: mention.start], re.IGNORECASE)
    return bool(led or re.match(r"\s*alone\b", text[mention.end :], re.IGNORECASE) or says("only", text))


def _counting_number(reading: Reading, nouns: Sequence[int]) -> CellValue | None:
    """The number that says how many rows: before the word for the rows, or after "the number of"."""
    counted = re.compile(r"\s*(?:(?:out )?of (?:all )?(?:the|these|those|its|them)\s*)?(?:\w+\s+){0,2}?$")
    for number in reading.numbers:
        if any(number.end <= at and counted.fullmatch(reading.text[number.end : at]) for at in nouns):
            return number
    if says("count", reading.text) and reading.numbers:
        return reading.numbers[-1]
    # "Two bridges cross the Ebro": the noun behind the number is what the rows are, whatever the table calls them.
    noun = re.compile(r"\s+(?:of (?:the|these|them)\s+)?(?:\w+\s+)?[a-z]+s\b", re.IGNORECASE)
    plain = reading.conditions and not reading.numeric_columns
    return next((n for n in reading.numbers if plain and noun.match(reading.text, n.end)), None)


def _related(reading: Reading) -> Finding | None:
    """Two rows differ by a number, or one is a multiple of the other."""
    view, rows = reading.view, compared_order(reading)
    times = says("ratio", reading.text)
    fixed = ratio_stated(reading.text) if times else None
    if len(rows) != 2 or len(reading.numbers) > 1 or says("neither", reading.text):
        return None
    number = reading.numbers[0] if reading.numbers else fixed
    if number is None:
        return None
    column = _measured(reading, reading.degrees[0] if reading.degrees else None)
    column = reading.column_of(number) if column is None else column
    if column is None:
        return None
    first, second = (rows[0], column), (rows[1], column)
    percent = number.kind == "percentage"
    comparative = next((degree for degree in reading.degrees if degree.kind == "comparative"), None)
    if times or (percent and comparative is None):
        scale = 100 if percent else 1
        return _finding(reading, Ratio(first, second), lambda outcome: states(number, scale * (outcome.number or 0.0)))
    if comparative is None and not says("difference", reading.text):
        return None
    a, b = number_at(view, first) or 0.0, number_at(view, second) or 0.0
    right = comparative is None or direction_in(view, comparative, column) * (a - b) > 0
    base = abs(b) / 100 if percent and b and unit_in(view.shape.labels[column]) != "%" else 1.0
    return _finding(reading, Difference(first, second), lambda o: right and states(number, (o.number or 0.0) / base))


def _summed(reading: Reading) -> Finding | None:
    """The sum or the mean over some rows is a number, or lies above or below it."""
    kind = "mean" if says("mean", reading.text) else "sum" if says("sum", reading.text) else None
    if kind is None or not reading.numbers or says("ratio", reading.text):
        return None
    column = _measured(reading, None)
    if column is None:
        column = _measured(reading, reading.degrees[0] if reading.degrees else None)
    rows = tuple(row for row, _ in reading.rows) or rows_meant(reading, reading.conditions)
    if column is None or len(rows) < 2:
        return None
    wanted = reading.numbers[-1]
    led = [degree for degree in reading.degrees if degree.kind == "comparative" and degree.end <= wanted.start]
    if led and not wanted.comparator:
        # "The average exceeds 200."
        wanted = replace(wanted, comparator=">" if direction_in(reading.view, led[-1], column) > 0 else "<")
    return _finding(reading, Aggregate(kind, column, rows), lambda outcome: states(wanted, outcome.number or 0.0))


def _extreme(reading: Reading) -> Finding | None:
    """A row is the greatest or smallest: said so, or as "none is greater", or as "greater than any other"."""
    if len(reading.rows) != 1 or not reading.degrees:
        return None
    (row, mention), degree, view = reading.rows[0], reading.degrees[0], reading.view
    column = _measured(reading, degree)
    if column is None:
        return None
    if degree.kind == "comparative":
        # "None is smaller than A" and "A is smaller than any other" say the same of A.
        nothing = [m for m in pattern("none").finditer(reading.text) if not reading.masked(m.start())]
        none_is = bool(nothing) and nothing[0].start() < degree.start < mention.start
        if not none_is and not says("others", reading.text):
            return None
    among = rows_meant(reading, [condition for condition in reading.conditions if condition.column != column])
    if row not in among:
        return None
    extreme = Extreme(column, among, direction_in(view, degree, column), degree.rank)
    return _finding(reading, extreme, lambda outcome: number_at(view, (row, column)) == outcome.number)


def _compared(reading: Reading) -> Finding | None:
    """One row has more than others, in a column that is named or that the comparative measures."""
    view, text = reading.view, reading.text
    degree = next((degree for degree in reading.degrees if degree.kind == "comparative"), None)
    if degree is None or len(reading.rows) < 2:
        return None
    column = _measured(reading, degree)
    if column is None:
        return None
    than = pattern("than").search(text, degree.end)
    border = than.start() if than else degree.start
    left = [row for row, mention in reading.rows if mention.start < border]
    right = [row for row, mention in reading.rows if mention.start >= border]
    if not left or not right:
        # "Compared with B, A is deeper": the row in the clause of the comparative is the subject.
        clause = text.rfind(",", 0, degree.start)
        left = [row for row, mention in reading.rows if clause < mention.start < degree.start]
        right = [row for row, mention in reading.rows if mention.start < clause]
    direction = direction_in(view, degree, column)
    pairs = tuple(((i, column), (j, column), direction) for i in left for j in right)
    if not pairs:
        return None
    if re.search(r"\bno(?:t any)?\s*$", text[: degree.start], re.IGNORECASE) and not denied(reading):
        # "No deeper than B" says at most as deep.
        return _finding(reading, Order(pairs, 0.0), lambda outcome: outcome.number == 0.0)
    return _finding(reading, Order(pairs, 0.0), lambda outcome: outcome.number == 1.0)


def _bounded(reading: Reading) -> Finding | None:
    """A row's number lies above or below a stated one, in one column or several."""
    conditions = [numeric_condition(reading, number) for number in reading.numbers]
    limits = [c for c in conditions if c is not None and c.number is not None and c.number.comparator not in {"", "≈"}]
    if not reading.rows or not limits or len(limits) < len(conditions):
        return None
    named = {column for column, mention in reading.columns if mention.whole}
    if not {c.column for c in limits} <= named and len(further_words(reading)) > _FURTHER_WORDS:
        return None
    if len(limits) == 1 and len(reading.numeric_columns) > 1:
        # "The precision and the recall are above 60."
        limits = [replace(limits[0], column=column) for column, _ in reading.numeric_columns]
    wanted = 0.0 if says("neither", reading.text) else 1.0
    outcomes = [
        Within(tuple((row, c.column) for row, _ in reading.rows), c.number).evaluate(reading.view)
        for c in limits
        if c.number
    ]
    held = [outcome for outcome in outcomes if outcome is not None]
    return Finding(all_hold(held), float(all(outcome.number == wanted for outcome in held)))


def _same(reading: Reading) -> Finding | None:
    """Rows have the same cell in a named column."""
    rows = [row for row, _ in reading.rows]
    if len(rows) < 2 or len(reading.columns) != 1 or not says("same", reading.text):
        return None
    cells = tuple((row, reading.columns[0][0]) for row in rows)
    texts = [reading.view.cell(place).plain for place in cells]
    text = "The cells say " + ", ".join(f"“{text}”" for text in texts) + "."
    return Finding(Outcome("comparison", text, cells), float(len(set(texts)) == 1 and all(texts)))


def _says(reading: Reading) -> Finding | None:
    """The cells of a row, or of several rows alike, say what the claim says of the columns it names."""
    if not reading.rows or reading.degrees or (len(reading.rows) > 1 and (reading.numbers or reading.columns)):
        return None
    rows = [row for row, _ in reading.rows]
    found: list[tuple[Place, bool]] = []
    if not reading.columns and len(further_words(reading)) <= _FURTHER_WORDS:
        # "Turin is in Italy": the column is the one that holds the value.
        for condition in reading.conditions:
            met = condition.met(reading.view)
            found += [((row, condition.column), row in met) for row in rows]
    for column, mention in reading.columns:
        stated = _stated(reading, rows[0], column, mention)
        if stated is not None:
            found.append(((rows[0], column), stated))
    if not {reading.column_of(number) for number in reading.numbers} <= {place[1] for place, _ in found}:
        return None
    wanted = 0.0 if says("neither", reading.text) else 1.0
    # Where else the table says what it does not say here shows that it is the same kind of thing.
    missed = [(c, c.met(reading.view)) for c in reading.conditions if c.column in {place[1] for place, _ in found}]
    elsewhere = tuple((min(met), c.column) for c, met in missed if met and not met & set(rows))
    return _finding(reading, Says(tuple(found), elsewhere), lambda outcome: outcome.number == wanted)


def _together(reading: Reading) -> Finding | None:
    """One row holds all the cells that the claim speaks of, none of which need name the row."""
    columns = [column for column, _ in reading.said if column is not None]
    if len(reading.said) < 2 or reading.degrees or not all(places for _, places in reading.said):
        return None
    if len(set(columns)) < len(columns):
        return None
    return _finding(reading, Together(reading.said), lambda outcome: outcome.number == 1.0)


def _stated(reading: Reading, row: int, column: int, mention: Mention) -> bool | None:
    """Whether the claim says of a column what the row's cell says; None where it says nothing of it."""
    view = reading.view
    cell = view.cell((row, column)).plain
    conditions = [condition for condition in reading.conditions if condition.column == column]
    if conditions:
        return any(row in condition.met(view) for condition in conditions)
    if is_numeric(view, column):
        numbers = [number for number in reading.numbers if reading.column_of(number) == column]
        value = number_at(view, (row, column))
        return None if not numbers or value is None else any(states(number, value) for number in numbers)
    yes = {"yes": True, "true": True, "no": False, "false": False}.get(cell.lower())
    if yes is not None:
        lacking = denied_at(reading, mention) and not denied(reading)
        return yes != lacking if mention.whole and not further_words(reading) else None
    if excludes(frozenset(word.raw for word in reading.words), cell):
        return False
    return True if cell and word_set(cell) <= further_words(reading) else None


RULES: tuple[Callable[[Reading], Finding | None], ...] = (
    _defined, _trend, _stepped, _quantified, _related, _summed, _extreme, _compared, _bounded, _same, _says, _together,
)  # fmt: skip


def _weighed(reading: Reading) -> list[Finding]:
    """Findings for each number and each comparison of a claim that no single expression settles."""
    rows = _lines(reading, "row")
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    findings = list(_numbers(reading)) if rows or _commensurable(reading.view) else []
    for degree in reading.cues:
        finding = _comparison(reading, degree)
        if finding is None:
            continue
        finding = _for_all(finding, reading)
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


def _for_all(finding: Finding, reading: Reading) -> Finding:
    """What is said of all cases is refuted by some of them."""
    if finding.holds >= _HOLDS_FOR_ALL or not says("all", reading.text):
        return finding
    return replace(finding, holds=min(finding.holds, 0.25))


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
        if not _is_value(reading, number) or not re.search(r"\d", reading.text[number.start : number.end]):
            continue
        finding = None
        if bounds(number) and near:
            outcome = Within(tuple(near), number).evaluate(view)
            finding = outcome and _for_all(Finding(outcome, outcome.number or 0.0, 0.8), reading)
        for k, (pool, scale) in enumerate(pools):
            finding = finding or _found(view, number, pool, scale, pairs=k < 3)
        if finding is None and rows and columns and 0 < len(near) <= 3:
            shown = ", ".join(f"“{view.cell(place).plain}”" for place in near)
            text = f"The claim says {number.text}, the cells named say {shown}."
            finding = Finding(Outcome("look_up", text, tuple(near)), 0.0, 0.6)
        if finding is not None:
            yield finding.denied() if _negated(reading, number.start) else finding


def _is_value(reading: Reading, number: CellValue) -> bool:
    """Whether a number is a value and no year, nor the number of a table or part of a name."""
    led = reading.text[: number.start].rstrip(" .(#").lower()
    if number.kind == "date" or led.endswith(("table", "tables", "section", "figure", "fig")):
        return False
    whole = number.value == int(number.value)
    return not whole or not (1900 <= number.value <= 2100 or re.match(r"\s*-", reading.text[number.end :]))


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
    if not named["column"] and not _commensurable(view):
        return None
    trend = degree.kind == "comparative" and degree.weight < 1 and says("grows", reading.text)
    for axis, subjects, rivals in _sides(reading, degree, named, trend=trend):
        others = [line for line in every[axis] if line not in subjects]
        if (axis == "column" and not rivals and not trend and not _commensurable(view)) or not (
            rivals or others or trend
        ):
            continue  # an accuracy is not set against the year beside it
        across = "column" if axis == "row" else "row"
        pairs: list[tuple[Place, Place, int]] = []
        for cross in _attributes(reading, degree, named[across]) or every[across]:
            place: Callable[[int], Place] = (
                (lambda i, j=cross: (i, j)) if axis == "row" else (lambda j, i=cross: (i, j))
            )
            held = [line for line in subjects if view.cell(place(line)).number is not None]
            against = others if degree.kind == "superlative" else rivals or others
            against = [line for line in against if view.cell(place(line)).number is not None]
            at = place(subjects[0])
            turned = degree.judging and less_is_better(shape.labels[at[1]], *shape.row_labels[at[0]])
            direction = -degree.direction if turned else degree.direction
            if trend:
                pairs += [(place(b), place(a), degree.direction) for a, b in zip(held, held[1:], strict=False)]
            elif held and against and degree.kind == "superlative":
                value = lambda line: direction * (view.cell(place(line)).number or 0.0)  # noqa: B023, E731
                pairs.append((place(max(held, key=value)), place(max(against, key=value)), direction))
            else:
                pairs += [(place(a), place(b), direction) for a in held for b in _counterparts(view, axis, a, against)]
        if not pairs:
            continue
        operation = "trend" if trend else degree.kind.replace("comparative", "comparison")
        outcome = Order(tuple(pairs), 1.0 if degree.kind == "superlative" else 0.5, operation).evaluate(view)
        if outcome is not None and outcome.number is not None:
            weight = 0.7 if degree.kind == "superlative" else 0.5 + 0.1 * (degree.weight == 1)
            return Finding(outcome, outcome.number, weight * (1.0 if rivals or degree.kind == "superlative" else 0.7))
    return None


def _attributes(reading: Reading, degree: Degree, lines: dict[int, list[int]]) -> list[int]:
    """Lines named between this comparison and the next, as in "better precision but lower recall"; else all."""
    following = min((d.start for d in reading.cues if d.start > degree.start), default=len(reading.text))
    close = [line for line, at in lines.items() if any(degree.start <= start < following for start in at)]
    return close or list(lines)


def _sides(
    reading: Reading, degree: Degree, named: dict[str, dict[int, list[int]]], *, trend: bool
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
        before = [line for line, at in lines.items() if at[0] <= than]
        after = [line for line in lines if line not in before]
        within = [line for line in before if any(clause <= start < degree.start for start in lines[line])]
        if not before:
            before, after = after, []
        elif not after and 0 < len(within) < len(before):
            # "Comparing A with B, A does better" is about A.
            before, after = within, [line for line in before if line not in within]
        if before:
            late = not any(lines[line][0] < degree.start for line in before)
            found.append(((not after, late, -max(lines[line][0] for line in lines)), (axis, before, after)))
    if trend and not any(len(subjects) > 1 for _, (_, subjects, _) in found) and reading.items:
        # "As the size grows": no row is named, but what the rows are rows of.
        found.append(((True, False, 0), ("row", list(reading.view.body), [])))
    return [sides for _, sides in sorted(found, key=lambda item: item[0])]


def _counterparts(view: TableView, axis: str, subject: int, rivals: Sequence[int]) -> list[int]:
    """Rivals that share most of the subject's other names, as (late, text) is set against (early, text)."""
    if axis != "row":
        return list(rivals)
    names = set(view.shape.row_labels[subject])
    alike = {rival: len(names & set(view.shape.row_labels[rival])) for rival in rivals if rival != subject}
    most = max(alike.values(), default=0)
    return [rival for rival, count in alike.items() if count == most]


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
