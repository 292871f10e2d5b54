"""Claims checked against one table: what is compared with what, and whether the cells bear it out.

What belongs here: from the words of a claim to operations on cells, and from their findings to a label. A claim is read
in this order: which rows and columns it names, which numbers it states, which comparison it makes, whether it is
negated. Where no operation can be found, or the claim hardly names anything of the table, the table does not decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from evidence_assets.reasoning.tables.cells import CellValue
from evidence_assets.reasoning.tables.checks import check
from evidence_assets.reasoning.tables.claim_words import Claim, Cue, lower_is_better, read_claim
from evidence_assets.reasoning.tables.operations import (
    Entry,
    Finding,
    bounds,
    comparison,
    difference,
    entries,
    look_up,
    superlative,
    times,
    trend,
)
from evidence_assets.reasoning.tables.quantities import is_dated
from evidence_assets.reasoning.tables.text import unit_in
from evidence_assets.reasoning.tables.turning import as_given
from evidence_assets.reasoning.tables.view import Status, TableAnswer, TableChain, TableStep, TableView
from evidence_assets.reasoning.tables.workings import Outcome, whose_cells

VERSION = "4"

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# Below this share of the claim's words among the names of rows and columns the table is about something else.
_LEAST_COVERAGE = 0.15
# Weighed balance of the findings that a verdict needs.
_DECIDES = 0.1
# "In all cases" is forgiven a tie.
_HOLDS_FOR_ALL = 0.95


def verify_claim(view: TableView, text: str) -> TableAnswer:
    """Label a claim by what the table's cells say, with a chain of cited steps for each label."""
    upright = view.upright
    return as_given(_verified(upright, upright.in_own_words(text)), upright)


def _verified(view: TableView, text: str) -> TableAnswer:
    claim = read_claim(view, text)
    outcome = check(view, text)
    if outcome is not None and outcome.holds is not None:
        return _checked(view, claim, outcome)
    # Among facts of several kinds a number says nothing unless the thing that has it is named.
    findings = _number_findings(view, claim) if claim.rows or _commensurable(view) else []
    for cue in claim.cues:
        finding = _cue_finding(view, claim, cue)
        if finding is not None and (judged := _judged(finding, claim, cue)) not in findings:
            findings.append(judged)
    balance = sum(finding.weight * (2 * finding.holds - 1) for finding in findings)
    total = sum(finding.weight for finding in findings)
    about = claim.coverage >= _LEAST_COVERAGE or len(claim.rows) > 1 or len(claim.columns) > 1
    decided = abs(balance) > _DECIDES and (about or bool(claim.rows and claim.columns))
    label = NOT_ENOUGH if not decided else SUPPORTS if balance > 0 else REFUTES
    share = abs(balance) / total if total else 0.0
    # What was found in cells that do not settle the claim stays below what speaks for the open verdict.
    shown = share if decided else 0.4 * share
    chains = (
        _chain(view, SUPPORTS, claim, [f for f in findings if f.holds > 0.5], shown if balance > 0 else 0.0),
        _chain(view, REFUTES, claim, [f for f in findings if f.holds < 0.5], shown if balance < 0 else 0.0),
        _not_enough_chain(view, claim, findings, 0.0 if decided else 1.0 - 0.5 * share),
    )
    status: Status = "answered" if decided else "insufficient"
    confidence = share if decided else 1.0 - share
    return TableAnswer(label, (label,), status, confidence, chains, view.table_id)


def _checked(view: TableView, claim: Claim, outcome: Outcome) -> TableAnswer:
    """The answer that one executed operation gives: it bears the claim out, or it does not."""
    label, other = (SUPPORTS, REFUTES) if outcome.holds else (REFUTES, SUPPORTS)
    named = _named_step(view, claim)
    quoted = tuple(view.cell(place).plain for place in outcome.cells)
    worked = TableStep(outcome.operation, outcome.text, outcome.cells, quoted)
    absent = TableStep("absent", "No cell speaks for this label.", ())
    settled = TableStep("settled", "The cells named settle the claim.", ())
    chains = {
        label: TableChain(label, (*named, *whose_cells(view, outcome.cells), worked), 1.0),
        other: TableChain(other, (*named, absent), 0.0),
        NOT_ENOUGH: TableChain(NOT_ENOUGH, (*named, settled), 0.0),
    }
    ordered = (chains[SUPPORTS], chains[REFUTES], chains[NOT_ENOUGH])
    return TableAnswer(label, (label,), "answered", 1.0, ordered, view.table_id)


def _number_findings(view: TableView, claim: Claim) -> list[Finding]:
    """Findings for the numbers that the claim states: found as they are, as a bound, or as a difference or ratio."""
    near = entries(
        view,
        [line.index for line in claim.rows] or view.body,
        [line.index for line in claim.columns] or view.columns,
    )
    rows = entries(view, [line.index for line in claim.rows], view.columns) if claim.rows else []
    columns = entries(view, view.body, [line.index for line in claim.columns]) if claim.columns else []
    everything = entries(view, view.body, view.columns)
    # Where a row and a column are named no other cell can say what stands where they cross.
    pools = (near,) if claim.rows and claim.columns else (near, rows, columns, everything)
    findings = []
    for value in claim.numbers:
        finding = bounds(view, value, near)
        if finding is not None:
            finding = _for_all(finding, claim)
        for pool in pools:
            if finding is None and pool:
                scale = 1.0 if pool is near else 0.7 if pool is not everything else 0.4
                finding = look_up(view, value, pool)
                if finding is None and pool is not everything:
                    finding = (
                        times(view, value, pool, pool) if value.unit == "x" else difference(view, value, pool, pool)
                    )
                if finding is not None:
                    finding = _scaled(finding, scale)
        if finding is None:
            finding = _contradiction(view, claim, value, near)
        if finding is not None:
            denied = claim.negates(value.start)
            findings.append(_flipped(finding) if denied else finding)
    return findings


def _contradiction(view: TableView, claim: Claim, value: CellValue, near: Sequence[Entry]) -> Finding | None:
    """A number that stands nowhere, though the claim names the very row and column."""
    if not (claim.rows and claim.columns and near) or len(near) > 3:
        return None
    shown = ", ".join(f"“{view.cell(entry.place).plain}”" for entry in near)
    said = f"The claim says {value.text}, the cells named say {shown}."
    return Finding("look_up", said, 0.0, 0.6, tuple(entry.place for entry in near))


def _cue_finding(view: TableView, claim: Claim, cue: Cue) -> Finding | None:
    """Carry out the comparison that a word of the claim calls for.

    Where the claim names no attribute, all columns are compared, if they can be put side by side.
    """
    if not claim.columns and not _commensurable(view):
        return None
    for axis, subjects, rivals, others in _sides(view, claim, cue):
        if axis == "column" and not rivals and cue.kind != "trend" and not _commensurable(view):
            continue  # an accuracy is not set against the year beside it
        attributes = claim.columns if axis == "row" else claim.rows
        every = list(view.shape.value_columns if axis == "row" else view.body)
        crossing = claim.attributes(attributes, cue) or every
        if cue.kind == "trend":
            finding = _trend(view, axis, subjects, crossing, cue)
        elif cue.kind == "superlative":
            groups = []
            for cross in crossing:
                subject_entries = _entries(view, axis, subjects, cross)
                other_entries = _entries(view, axis, others, cross)
                if subject_entries and other_entries:
                    direction = _direction(view, axis, cross, subjects[0], cue)
                    groups.append((_extreme(subject_entries, direction), other_entries, direction))
            finding = superlative(groups)
        else:
            pairs = []
            for subject in subjects:
                for rival in _counterparts(view, axis, subject, rivals or others):
                    for cross in crossing:
                        own, other = _entry(view, axis, subject, cross), _entry(view, axis, rival, cross)
                        if own is not None and other is not None:
                            pairs.append((own, other, _direction(view, axis, cross, subject, cue)))
            finding = comparison(pairs, cue.weight if rivals else 0.7 * cue.weight)
        if finding is not None:
            return finding
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


def _sides(view: TableView, claim: Claim, cue: Cue) -> list[tuple[str, list[int], list[int], list[int]]]:
    """Subjects and rivals of a comparison on either axis: what is named before and after its word."""
    found = []
    for axis, lines, every in (("row", claim.rows, view.body), ("column", claim.columns, view.shape.value_columns)):
        if not lines:
            continue
        subjects, rivals = claim.sides(lines, cue)
        indices = [line.index for line in subjects]
        others = [index for index in every if index not in indices]
        after = not any(line.start < cue.start for line in subjects)
        last = -max(line.start for line in (*subjects, *rivals))
        found.append((axis, indices, [line.index for line in rivals], others, (after, last)))
    # The axis on which two sides are named is the one compared; else the one named before the word, as in "A has the
    # best precision", where precision is what is compared.
    if cue.kind == "trend" and not any(len(side[1]) > 1 for side in found) and claim.names_rows(view):
        # "As the size grows": no row is named, but what the rows are rows of.
        found.append(("row", list(view.body), [], [], (False, 0)))
    found.sort(key=lambda side: (not side[2], side[4]))
    return [side[:4] for side in found if side[1] and (side[2] or side[3] or cue.kind == "trend")]


def _counterparts(view: TableView, axis: str, subject: int, rivals: Sequence[int]) -> list[int]:
    """Rivals that share most of the subject's other names, as (late, text) is set against (early, text)."""
    if axis != "row":
        return list(rivals)
    names = set(view.shape.row_labels[subject])
    alike = {rival: len(names & set(view.shape.row_labels[rival])) for rival in rivals if rival != subject}
    most = max(alike.values(), default=0)
    return [rival for rival, count in alike.items() if count == most]


def _entry(view: TableView, axis: str, line: int, cross: int) -> Entry | None:
    place = (line, cross) if axis == "row" else (cross, line)
    number = view.cell(place).number
    return None if number is None else Entry(place, number)


def _entries(view: TableView, axis: str, lines: Sequence[int], cross: int) -> list[Entry]:
    return [entry for line in lines if (entry := _entry(view, axis, line, cross)) is not None]


def _extreme(found: Sequence[Entry], direction: int) -> Entry:
    return max(found, key=lambda entry: direction * entry.value)


def _direction(view: TableView, axis: str, cross: int, line: int, cue: Cue) -> int:
    """Direction in numbers: "better" turns round for errors and times, "higher" never does."""
    row, column = (line, cross) if axis == "row" else (cross, line)
    names = (view.shape.labels[column], *view.shape.row_labels[row])
    return -cue.direction if cue.judging and lower_is_better(names) else cue.direction


def _trend(view: TableView, axis: str, subjects: Sequence[int], crossing: Sequence[int], cue: Cue) -> Finding | None:
    if len(subjects) < 2:
        return None
    ordered = sorted(subjects)
    return trend([_entries(view, axis, ordered, cross) for cross in crossing], cue.direction)


def _judged(finding: Finding, claim: Claim, cue: Cue) -> Finding:
    """Apply the claim's quantifier and its negation to a finding."""
    finding = _for_all(finding, claim)
    return _flipped(finding) if claim.negates(cue.start) else finding


def _for_all(finding: Finding, claim: Claim) -> Finding:
    """What is said of all cases is refuted by some of them."""
    if not claim.universal or finding.holds >= _HOLDS_FOR_ALL:
        return finding
    return Finding(finding.operation, finding.text, min(finding.holds, 0.25), finding.weight, finding.cells)


def _flipped(finding: Finding) -> Finding:
    said = f"{finding.text} The claim denies this."
    return Finding(finding.operation, said, 1.0 - finding.holds, finding.weight, finding.cells)


def _scaled(finding: Finding, scale: float) -> Finding:
    return Finding(finding.operation, finding.text, finding.holds, finding.weight * scale, finding.cells)


def _chain(view: TableView, label: str, claim: Claim, findings: Sequence[Finding], support: float) -> TableChain:
    steps = [*_named_step(view, claim), *whose_cells(view, [place for f in findings for place in f.cells])]
    steps += [
        TableStep(f.operation, f.text, f.cells, tuple(view.cell(place).plain for place in f.cells)) for f in findings
    ]
    if not findings:
        steps.append(TableStep("absent", "No cell speaks for this label.", ()))
    return TableChain(label, tuple(steps), support)


def _named_step(view: TableView, claim: Claim) -> list[TableStep]:
    """The step that says which rows and columns the claim names, citing their names."""
    cells = tuple(dict.fromkeys(line.place for line in (*claim.rows, *claim.columns)))
    if not cells:
        return []
    names = tuple(view.cell(place).plain for place in cells)
    said = "The claim names " + ", ".join(f"“{name}”" for name in dict.fromkeys(names)) + "."
    return [TableStep("find", said, cells, names)]


def _not_enough_chain(view: TableView, claim: Claim, findings: Sequence[Finding], support: float) -> TableChain:
    steps = list(_named_step(view, claim))
    if claim.coverage < _LEAST_COVERAGE:
        said = f"In no clause of the claim are more than {claim.coverage:.0%} of the words names of rows or columns."
        steps.append(TableStep("coverage", said, ()))
    elif not findings:
        steps.append(TableStep("absent", "The claim states no number and no comparison that the cells can show.", ()))
    else:
        steps.append(TableStep("balance", "What the cells show speaks for and against the claim alike.", ()))
    return TableChain(NOT_ENOUGH, tuple(steps), support)
