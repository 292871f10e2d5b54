"""Claims verified against a table: an operation settles them, or features of the cells give label probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, fsum
from typing import NamedTuple

from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, extract_unit, stem, tokenize
from evidence_assets.reasoning.tables.lexicon import DegreeWord, pattern
from evidence_assets.reasoning.tables.operations import Outcome, apply_operations, cite_names, compare_cells
from evidence_assets.reasoning.tables.table import TableChain, TableStep, TableView
from evidence_assets.reasoning.tables.text_analysis import TextAnalysis, analyze_text

SUPPORTS, REFUTES, NOT_ENOUGH = "SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"
# Probability of a settled claim's label: the share that is right on TabFact. The truth probability of any other claim
# stays within _MAX_SHIFT of 0.5, as it is little better than a guess.
_SETTLED_PROBABILITY, _MAX_SHIFT = 0.85, 0.2
_MIN_OPEN_PROBABILITY = 0.6  # of a claim that no column measures
Weights = Mapping[str, Mapping[str, float]]
# Output of bench/fit_claim_weights.py.
WEIGHTS: Weights = {
    "openness": {"intercept": -3.48, "no comparison": 1.36, "negation": -0.98, "unknown words": 4.41},
    "truth": {"intercept": 0.06, "comparison": 0.52, "negation": -0.74, "word row": 0.35},
}


@dataclass(frozen=True)
class ClaimFeatures:
    """Features of a claim by name, for its truth and for its openness (the table does not decide it)."""

    truth: Mapping[str, float]
    openness: Mapping[str, float]
    verdict: bool | None = None  # of an operation; None if none settles the claim
    is_unmeasured: bool = False  # no cell is related to it, or no column measures its comparison


def label_probabilities(features: ClaimFeatures, weights: Weights = WEIGHTS) -> tuple[float, float, float]:
    """Probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFORMATION.

    For an unsettled claim with truth features ``t``, openness features ``o`` and weights ``a`` and ``b``:
    P(NOT ENOUGH INFORMATION) = σ(b·o) and P(SUPPORTS | not open) = σ(a·t).
    """
    if features.verdict is not None:
        rest = (1 - _SETTLED_PROBABILITY) / 2
        return (_SETTLED_PROBABILITY, rest, rest) if features.verdict else (rest, _SETTLED_PROBABILITY, rest)
    p_true, p_open = (
        1 / (1 + exp(-fsum(weights[side].get(name, 0.0) * value for name, value in {"intercept": 1.0, **x}.items())))
        for side, x in (("truth", features.truth), ("openness", features.openness))
    )
    p_true = 0.5 + 2 * _MAX_SHIFT * (p_true - 0.5)
    p_open = max(p_open, _MIN_OPEN_PROBABILITY) if features.is_unmeasured else p_open
    return (1 - p_open) * p_true, (1 - p_open) * (1 - p_true), p_open


def is_decided(support: Mapping[str, float]) -> bool:
    """Whether an operation settled the claim, given the probabilities of the offered labels."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH and support[best] > (0.5 + _MAX_SHIFT + 1e-9) * (support[best] + rival)


class ClaimFinding(NamedTuple):
    """An outcome that bears on a claim: its feature, and the share of cases that agree with the claim."""

    feature: str
    outcome: Outcome
    share: float


@dataclass(frozen=True)
class ClaimCheck:
    """The findings on a claim and its features; a single finding if an operation settles it."""

    findings: tuple[ClaimFinding, ...]
    features: ClaimFeatures
    unknown_words: tuple[str, ...]  # content words that are neither in the table nor in its caption


def check_claim(view: TableView, text: str) -> ClaimCheck:
    """Check a claim against a table."""
    analysis = analyze_text(view, text)
    outcome = apply_operations(analysis)
    verdict = [ClaimFinding("settled", outcome, float(bool(outcome.is_confirmed)))] if outcome else []
    findings = verdict or list(dict.fromkeys(_find_signals(analysis)))
    if analysis.is_negated:
        note = " The claim negates this."
        findings = [ClaimFinding(f, replace(o, text=o.text + note), 1 - share) for f, o, share in findings]
    words = [word for word in tokenize(analysis.text) if word not in STOP_WORDS]
    unknown_words = dict.fromkeys(word for word in words if not word[0].isdigit() and stem(word) not in view.vocabulary)
    negation, is_comparable = float(analysis.has_phrase("negative_words")), _has_comparable_columns(view)
    truth = {"negation": negation}
    for f in findings:
        truth[f.feature] = truth.get(f.feature, 0.0) + 2 * f.share - 1
    openness = {
        "negation": negation,
        "unknown words": len(unknown_words) / max(1, len(words)),
        # In a table of results, a claim that the table decides compares some of them.
        "no comparison": float(is_comparable and not analysis.degrees),
    }
    n_names = sum(mention.is_whole and bool(mention.locations) for mention in analysis.mentions)
    has_order = analysis.has_phrase("than_marker") or any(degree.time_direction for degree in analysis.degrees)
    is_unmeasured = n_names > 1 and has_order and not is_comparable and "comparison" not in truth
    is_unmeasured |= not findings and not analysis.mentions
    features = ClaimFeatures(truth, openness, findings[0].share > 0.5 if outcome else None, is_unmeasured)
    return ClaimCheck(tuple(findings), features, tuple(unknown_words))


@lru_cache(maxsize=64)  # called for each label of a claim
def explain_claim(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain for each label of a claim, with the label's probability as its support."""
    check = check_claim(view, text)
    p_true, p_false, p_open = label_probabilities(check.features)
    is_settled = check.features.verdict is not None
    reason = "The cells settle the claim." if is_settled else "No operation on the cells settles the claim."
    if not is_settled and check.unknown_words:
        reason += f" The cells and the caption do not mention {', '.join(f'“{word}”' for word in check.unknown_words)}."
    return (
        _build_chain(view, SUPPORTS, [f for f in check.findings if f.share > 0.5], p_true),
        _build_chain(view, REFUTES, [f for f in check.findings if f.share < 0.5], p_false),
        TableChain(NOT_ENOUGH, (TableStep("open", reason),), p_open),
    )


def _find_signals(analysis: TextAnalysis) -> Iterator[ClaimFinding]:
    """Findings on a claim that no operation settles: its comparisons, and the row with most of its words."""
    for degree in analysis.degrees:
        if outcome := _compare_lines(analysis, degree):
            yield ClaimFinding("comparison", outcome, outcome.number)
    view = analysis.view
    words = sorted(collect_words(analysis.text) & view.word_weights.keys())
    if len(words) > 1:
        weights = {i: view.weight_of(word for word in words if word in view.row_words[i]) for i in view.body}
        best = max(view.body, key=lambda i: (weights[i], -i))
        cells = tuple((best, j) for j in view.columns if collect_words(view.text_at((best, j))) & {*words})
        n_shared = sum(word in view.row_words[best] for word in words)
        text = f"{view.row_number(best)} has {n_shared} of {len(words)} words that the claim shares with the table."
        yield ClaimFinding("word row", Outcome("row", text, cells, 0.0), float(n_shared == len(words)))


def _has_comparable_columns(view: TableView) -> bool:
    """Whether all columns have values of one kind, as in a table of results, so that "better" applies to each."""
    columns = [j for j in view.columns if j not in view.name_columns]
    units = {extract_unit(view.labels[j]) for j in columns} - {""}
    filled = [[view.cell((i, j)) for i in view.body if view.text_at((i, j))] for j in columns]
    has_text = any(sum(bool(cell.values) for cell in cells) < 0.5 * len(cells) for cells in filled)
    return len(units) < 2 and not has_text and not view.date_columns & {*columns}


def _compare_lines(analysis: TextAnalysis, degree: DegreeWord) -> Outcome | None:
    """Comparison of the mentioned rows or columns with their rivals after "than", or with all others.

    Columns are compared if only they have rivals or if the claim mentions no row. Without a mentioned column, rows are
    compared in every column of a table with comparable columns.
    """
    view, is_superlative = analysis.view, degree.kind == "superlative"
    marker = pattern("rival_marker").search(analysis.text, degree.start)
    border = marker.start() if marker else len(analysis.text)
    values = [j for j in range(view.width) if j not in view.row_headers]
    mentions = analysis.mentions
    rows, row_rivals = _split_rivals([(i, m.start) for m in mentions for i in m.rows], border)
    columns, column_rivals = _split_rivals([(j, m.start) for m in mentions for j in m.columns if j in values], border)
    is_comparable = _has_comparable_columns(view)
    if not columns and not is_comparable:
        return None
    if (column_rivals and not row_rivals) or (not rows and is_comparable):
        rivals = column_rivals if not is_superlative else []
        rivals = rivals or [j for j in values if j not in columns]
        pairs = [((i, a), (i, b)) for i in rows or view.body for a in columns for b in rivals]
    else:
        rivals = row_rivals if not is_superlative else []
        rivals = rivals or [i for i in view.body if i not in rows]
        pairs = [((a, j), (b, j)) for j in [*columns, *column_rivals] or values for a in rows for b in rivals]
    directed = [
        (a, b, analysis.direction(degree, a[1]))
        for a, b in pairs
        if view.number_at(a) is not None and view.number_at(b) is not None
    ]
    outcome = compare_cells(view, directed, 1.0 if is_superlative else 0.5)
    return replace(outcome, operation="superlative") if outcome and is_superlative else outcome


def _split_rivals(lines: Sequence[tuple[int, int]], border: int) -> tuple[list[int], list[int]]:
    """Rows or columns before an offset, and their rivals after it; without any before it, all are compared."""
    before = list(dict.fromkeys(line for line, start in lines if start <= border))
    after = list(dict.fromkeys(line for line, _ in lines if line not in before))
    return (before, after) if before else (after, [])


def _build_chain(view: TableView, label: str, findings: Sequence[ClaimFinding], support: float) -> TableChain:
    steps = [*cite_names(view, [cell for f in findings for cell in f.outcome.cells])]
    steps += [TableStep(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    return TableChain(label, tuple(steps) or (TableStep("absent", "No cell supports this label."),), support)
