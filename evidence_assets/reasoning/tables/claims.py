"""Claims verified against a table: an operation settles them, or logistic regression estimates labels."""

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
# Probability of a settled claim's label: the share of settled claims with the right label on TabFact.
_SETTLED_PROBABILITY = 0.85
_MAX_SHIFT = 0.2  # P(true) of any other claim is within this distance of 0.5, as it is little better than a guess
_MIN_UNMEASURED_PROBABILITY = 0.6  # of NOT ENOUGH INFORMATION for a claim that no column measures
Weights = Mapping[str, Mapping[str, float]]
# Output of bench/fit_claim_weights.py.
WEIGHTS: Weights = {
    "not enough": {"intercept": -3.48, "no comparison": 1.36, "negation": -0.98, "unknown words": 4.41},
    "truth": {"intercept": 0.06, "comparison": 0.52, "negation": -0.74, "word row": 0.35},
}


@dataclass(frozen=True)
class ClaimFeatures:
    """Features of a claim by name: for its truth, and for NOT ENOUGH INFORMATION."""

    truth: Mapping[str, float]
    not_enough: Mapping[str, float]
    settled_as: bool | None = None  # true or false by an operation; None if no operation settles the claim
    is_unmeasured: bool = False  # no cell is related to it, or no column measures its comparison


def label_probabilities(features: ClaimFeatures, weights: Weights = WEIGHTS) -> tuple[float, float, float]:
    """Probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFORMATION.

    For an unsettled claim with features ``t`` of truth, ``n`` of NOT ENOUGH INFORMATION and weights ``a`` and ``b``:
    P(NOT ENOUGH INFORMATION) = σ(b·n) and P(SUPPORTS | enough information) = 0.5 + 0.4·(σ(a·t) − 0.5).
    """
    if features.settled_as is not None:
        rest = (1 - _SETTLED_PROBABILITY) / 2
        return (_SETTLED_PROBABILITY, rest, rest) if features.settled_as else (rest, _SETTLED_PROBABILITY, rest)
    p_true = 0.5 + 2 * _MAX_SHIFT * (_logistic(features.truth, weights["truth"]) - 0.5)
    p_not_enough = _logistic(features.not_enough, weights["not enough"])
    p_not_enough = max(p_not_enough, _MIN_UNMEASURED_PROBABILITY) if features.is_unmeasured else p_not_enough
    return (1 - p_not_enough) * p_true, (1 - p_not_enough) * (1 - p_true), p_not_enough


def _logistic(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """σ(w·x) with an intercept."""
    products = (weights.get(name, 0.0) * value for name, value in {"intercept": 1.0, **features}.items())
    return 1 / (1 + exp(-fsum(products)))


def is_settled(support: Mapping[str, float]) -> bool:
    """Whether an operation settled the claim, given the probabilities of the offered labels."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH and support[best] > (0.5 + _MAX_SHIFT + 1e-9) * (support[best] + rival)


class ClaimFinding(NamedTuple):
    """The outcome of an operation, its feature, and the share of comparisons that agree with the claim."""

    feature: str
    outcome: Outcome
    share: float


@dataclass(frozen=True)
class ClaimCheck:
    """The findings on a claim and its features; a single finding if an operation settles it."""

    findings: tuple[ClaimFinding, ...]
    features: ClaimFeatures
    unknown_words: tuple[str, ...]  # content words that are neither in the table nor in its caption
    conflict: str | None = None  # a number of the claim with another unit or year than its column


def check_claim(view: TableView, text: str) -> ClaimCheck:
    """Check a claim against a table."""
    analysis = analyze_text(view, text)
    outcome = None if analysis.conflict else apply_operations(analysis)
    settling = [ClaimFinding("settled", outcome, float(bool(outcome.is_confirmed)))] if outcome else []
    findings = settling or list(dict.fromkeys(_find_indications(analysis)))
    if analysis.is_negated:
        note = " The claim negates this."
        findings = [ClaimFinding(f, replace(o, text=o.text + note), 1 - share) for f, o, share in findings]
    words = [word for word in tokenize(analysis.text) if word not in STOP_WORDS]
    unknown_words = dict.fromkeys(word for word in words if not word[0].isdigit() and stem(word) not in view.vocabulary)
    settled_as = findings[0].share > 0.5 if outcome else None
    features = _build_features(analysis, findings, settled_as, len(unknown_words) / max(1, len(words)))
    return ClaimCheck(tuple(findings), features, tuple(unknown_words), analysis.conflict)


def _build_features(
    analysis: TextAnalysis, findings: Sequence[ClaimFinding], settled_as: bool | None, unknown_share: float
) -> ClaimFeatures:
    """Features of a claim from its findings and the words that the table does not have."""
    negation, is_comparable = float(analysis.has_phrase("negative_words")), _has_comparable_columns(analysis.view)
    truth = {"negation": negation}
    for f in findings:
        truth[f.feature] = truth.get(f.feature, 0.0) + 2 * f.share - 1
    # In a table of results, a claim that the table settles compares some of them.
    no_comparison = float(is_comparable and not analysis.degrees)
    not_enough = {"negation": negation, "unknown words": unknown_share, "no comparison": no_comparison}
    n_names = sum(mention.is_whole and bool(mention.locations) for mention in analysis.mentions)
    has_order = analysis.has_phrase("than_marker") or any(degree.time_direction for degree in analysis.degrees)
    is_unmeasured = n_names > 1 and has_order and not is_comparable and "comparison" not in truth
    is_unmeasured |= not findings and not analysis.mentions
    is_unmeasured |= analysis.conflict is not None
    return ClaimFeatures(truth, not_enough, settled_as, is_unmeasured)


@lru_cache(maxsize=64)  # called for each label of a claim
def explain_claim(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain for each label of a claim, with the label's probability as its support."""
    check = check_claim(view, text)
    p_true, p_false, p_not_enough = label_probabilities(check.features)
    has_outcome = check.features.settled_as is not None
    reason = "The cells settle the claim." if has_outcome else "No operation on the cells settles the claim."
    if check.conflict:
        reason = check.conflict
    elif not has_outcome and check.unknown_words:
        reason += f" The cells and the caption do not mention {', '.join(f'“{word}”' for word in check.unknown_words)}."
    return (
        _build_chain(view, SUPPORTS, [f for f in check.findings if f.share > 0.5], p_true),
        _build_chain(view, REFUTES, [f for f in check.findings if f.share < 0.5], p_false),
        TableChain(NOT_ENOUGH, (TableStep("open", reason),), p_not_enough),
    )


def _find_indications(analysis: TextAnalysis) -> Iterator[ClaimFinding]:
    """Findings on an unsettled claim: its comparisons, and the row with most of its words."""
    for degree in analysis.degrees:
        if outcome := _compare_mentions(analysis, degree):
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


def _compare_mentions(analysis: TextAnalysis, degree: DegreeWord) -> Outcome | None:
    """Compare the mentioned rows or columns with those after "than", or else with all others.

    Columns are compared if "than" precedes a column and no row, or if the claim mentions no row. If it mentions no
    column, rows are compared in every column of a table with comparable columns.
    """
    view, mentions, is_superlative = analysis.view, analysis.mentions, degree.kind == "superlative"
    than = pattern("rival_marker").search(analysis.text, degree.start)
    offset = than.start() if than else len(analysis.text)
    value_columns = [j for j in range(view.width) if j not in view.row_headers]
    rows, row_rivals = _split_at(offset, [(i, m.start) for m in mentions for i in m.rows])
    value_mentions = [(j, m.start) for m in mentions for j in m.columns if j in value_columns]
    columns, column_rivals = _split_at(offset, value_mentions)
    is_comparable = _has_comparable_columns(view)
    if not columns and not is_comparable:
        return None
    if (column_rivals and not row_rivals) or (not rows and is_comparable):
        rivals = column_rivals if not is_superlative else []
        rivals = rivals or [j for j in value_columns if j not in columns]
        pairs = [((i, a), (i, b)) for i in rows or view.body for a in columns for b in rivals]
    else:
        rivals = row_rivals if not is_superlative else []
        rivals = rivals or [i for i in view.body if i not in rows]
        pairs = [((a, j), (b, j)) for j in [*columns, *column_rivals] or value_columns for a in rows for b in rivals]
    directed_pairs = [
        (a, b, analysis.direction(degree, a[1]))
        for a, b in pairs
        if view.number_at(a) is not None and view.number_at(b) is not None
    ]
    outcome = compare_cells(view, directed_pairs, 1.0 if is_superlative else 0.5)
    return replace(outcome, operation="superlative") if outcome and is_superlative else outcome


def _split_at(offset: int, mentions: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Rows or columns mentioned up to an offset, and their rivals after it; if all are after it, none is a rival."""
    before = list(dict.fromkeys(index for index, start in mentions if start <= offset))
    after = list(dict.fromkeys(index for index, _ in mentions if index not in before))
    return (before, after) if before else (after, [])


def _build_chain(view: TableView, label: str, findings: Sequence[ClaimFinding], support: float) -> TableChain:
    steps = [*cite_names(view, [cell for f in findings for cell in f.outcome.cells])]
    steps += [TableStep(f.outcome.operation, f.outcome.text, f.outcome.cells) for f in findings]
    return TableChain(label, tuple(steps) or (TableStep("absent", "No cell supports this label."),), support)
