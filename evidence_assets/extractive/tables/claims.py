"""Claims verified against a table: an operation settles them, or logistic regression estimates labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, fsum
from pathlib import Path

from evidence_assets.extractive.tables.operations import Outcome, apply_operations, cite_names
from evidence_assets.extractive.tables.text_analysis import TextAnalysis, analyze_text
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, extract_unit, stem, tokenize
from evidence_assets.reasoning.tables.table import TableChain, TableStep, TableView
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION

SUPPORTS = "SUPPORTS"
REFUTES = "REFUTES"
WEIGHTS_FILE = Path(__file__).with_name("claim_weights.yaml")
_MAX_SHIFT = 0.2  # P(true) of any other claim is within this distance of 0.5, as it is little better than a guess
_MIN_UNMEASURED_PROBABILITY = 0.6  # of NOT ENOUGH INFORMATION for a claim that no column measures


@dataclass(frozen=True)
class ClaimWeights:
    """Weights of the features of a claim, by name; fitted by ``bench/tables/fit_claim_weights.py``.

    ``settled_probability``: Share of settled claims that have the right label.
    """

    truth: Mapping[str, float]
    not_enough: Mapping[str, float]
    settled_probability: float


@lru_cache(maxsize=1)
def load_claim_weights() -> ClaimWeights:
    """The packaged weights."""
    return ClaimWeights(**read_yaml_mapping(WEIGHTS_FILE)["values"])


@dataclass(frozen=True)
class ClaimCheck:
    """What a table says about a claim, with the features of its truth and of NOT ENOUGH INFORMATION by name."""

    truth: Mapping[str, float]
    not_enough: Mapping[str, float]
    settled_as: bool | None = None  # true or false by an operation; None if no operation settles the claim
    is_unmeasured: bool = False  # no cell is related to it, or no column measures its comparison
    outcome: Outcome | None = None  # of an operation, else the row with most words of the claim
    is_true: bool = False  # what the outcome indicates
    unknown_words: tuple[str, ...] = ()  # content words that are neither in the table nor in its caption


def label_probabilities(check: ClaimCheck, weights: ClaimWeights) -> tuple[float, float, float]:
    """Probabilities of SUPPORTS, REFUTES and NOT ENOUGH INFORMATION.

    For an unsettled claim with features ``t`` of truth, ``n`` of NOT ENOUGH INFORMATION and weights ``a`` and ``b``:
    P(NOT ENOUGH INFORMATION) = σ(b·n) and P(SUPPORTS | enough information) = 0.5 + 0.4·(σ(a·t) − 0.5).
    """
    if check.settled_as is not None:
        p_settled = weights.settled_probability
        rest = (1 - p_settled) / 2
        return (p_settled, rest, rest) if check.settled_as else (rest, p_settled, rest)
    p_true = 0.5 + 2 * _MAX_SHIFT * (_logistic(check.truth, weights.truth) - 0.5)
    p_not_enough = _logistic(check.not_enough, weights.not_enough)
    p_not_enough = max(p_not_enough, _MIN_UNMEASURED_PROBABILITY) if check.is_unmeasured else p_not_enough
    return (1 - p_not_enough) * p_true, (1 - p_not_enough) * (1 - p_true), p_not_enough


def _logistic(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """σ(w·x) with an intercept."""
    products = (weights.get(name, 0.0) * value for name, value in {"intercept": 1.0, **features}.items())
    return 1 / (1 + exp(-fsum(products)))


def is_settled(support: Mapping[str, float]) -> bool:
    """Whether an operation settled the claim, given the probabilities of the offered labels."""
    best = max(support, key=lambda label: support[label])
    rival = support.get(REFUTES if best == SUPPORTS else SUPPORTS, 0.0)
    return best != NOT_ENOUGH_INFORMATION and support[best] > (0.5 + _MAX_SHIFT + 1e-9) * (support[best] + rival)


def check_claim(view: TableView, text: str) -> ClaimCheck:
    """Check a claim against a table."""
    analysis = analyze_text(view, text)
    settling = apply_operations(analysis)
    outcome = settling or _find_word_row(analysis)
    is_true = outcome is not None and bool(outcome.is_confirmed) != analysis.is_negated
    if outcome is not None and analysis.is_negated:
        outcome = replace(outcome, text=f"{outcome.text} The claim negates this.")
    words = [word for word in tokenize(analysis.text) if word not in STOP_WORDS]
    unknown_words = dict.fromkeys(word for word in words if not word[0].isdigit() and stem(word) not in view.vocabulary)
    negation = float(analysis.has_phrase("negative_words"))
    is_comparable = _has_comparable_columns(view)
    not_enough = {
        "negation": negation,
        "unknown words": len(unknown_words) / max(1, len(words)),
        # In a table of results, a claim that the table settles compares some of them.
        "no comparison": float(is_comparable and not analysis.degrees),
    }
    return ClaimCheck(
        {"negation": negation, "word row": 0.0 if outcome is None else 1.0 if is_true else -1.0},
        not_enough,
        is_true if settling else None,
        (_orders_names(analysis) and not is_comparable) or (outcome is None and not analysis.mentions),
        outcome,
        is_true,
        tuple(unknown_words),
    )


def _orders_names(analysis: TextAnalysis) -> bool:
    """Whether a claim compares names or dates: "more than" needs a column that measures it."""
    n_names = sum(mention.is_whole and bool(mention.locations) for mention in analysis.mentions)
    compares_dates = any("year" in degree.headers for degree in analysis.degrees)
    return n_names > 1 and (compares_dates or analysis.has_phrase("than_marker"))


@lru_cache(maxsize=64)  # called for each label of a claim
def explain_claim(view: TableView, text: str) -> tuple[TableChain, ...]:
    """A chain for each label of a claim, with the label's probability as its support."""
    check = check_claim(view, text)
    p_true, p_false, p_not_enough = label_probabilities(check, load_claim_weights())
    has_outcome = check.settled_as is not None
    reason = "The cells settle the claim." if has_outcome else "No operation on the cells settles the claim."
    if not has_outcome and check.unknown_words:
        reason += f" The cells and the caption do not mention {', '.join(f'“{word}”' for word in check.unknown_words)}."
    return (
        _build_chain(view, SUPPORTS, check.outcome if check.is_true else None, p_true),
        _build_chain(view, REFUTES, None if check.is_true else check.outcome, p_false),
        TableChain(NOT_ENOUGH_INFORMATION, (TableStep("open", reason),), p_not_enough),
    )


def _find_word_row(analysis: TextAnalysis) -> Outcome | None:
    """The row with most words of the claim; it indicates truth if it has all that the table has."""
    view = analysis.view
    words = sorted(collect_words(analysis.text) & view.word_weights.keys())
    if len(words) < 2:
        return None
    weights = {i: view.weight_of(word for word in words if word in view.row_words[i]) for i in view.body}
    best = max(view.body, key=lambda i: (weights[i], -i))
    cells = tuple((best, j) for j in view.columns if collect_words(view.text_at((best, j))) & {*words})
    n_shared = sum(word in view.row_words[best] for word in words)
    text = f"Row {best} has {n_shared} of {len(words)} words that the claim shares with the table."
    return Outcome("row", text, cells, 0.0, is_confirmed=n_shared == len(words))


def _has_comparable_columns(view: TableView) -> bool:
    """Whether all columns have values of one kind, as in a table of results, so that "better" applies to each."""
    columns = [j for j in view.columns if j not in view.name_columns]
    units = {extract_unit(view.labels[j]) for j in columns} - {""}
    if len(units) > 1 or not view.date_columns.isdisjoint(columns):
        return False
    filled = ([cell for i in view.body if (cell := view.cell((i, j))).plain] for j in columns)
    return all(sum(bool(cell.values) for cell in cells) >= 0.5 * len(cells) for cells in filled)


def _build_chain(view: TableView, label: str, outcome: Outcome | None, support: float) -> TableChain:
    if outcome is None:
        return TableChain(label, (TableStep("absent", "No cell supports this label."),), support)
    step = TableStep(outcome.operation, outcome.text, outcome.cells)
    return TableChain(label, (*cite_names(view, outcome.cells), step), support)
