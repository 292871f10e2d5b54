"""Fit the weights of statements as answers ("The text says: …"), and print what they reach on pages left out.

    python -m bench.answers.fit_statements          # fit on half of the sets, report the others
    python -m bench.answers.fit_statements --write  # then fit on all and write the packaged weights

Reads EVIDENCE_DEV_DATA. A statement is right if it contains an acceptable answer. Half 1 are the first three sets of
pages and SQuAD's first two articles. The threshold of a kind of question is the smallest one at which at least
``PRECISION`` of the statements of half 1 that would be shown, beside the spans, are right.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.answers.fitted_values import fit_choice, smallest_threshold, write_choice
from bench.answers.short_answer_questions import (
    PAGE_SETS,
    AnswerableQuestion,
    build_lake,
    read_development_sets,
    select_evidence,
)
from bench.measuring import make_parser
from evidence_assets import profiles
from evidence_assets.extractive.spans import statements
from evidence_assets.extractive.spans.choice import find_answer, load_span_weights
from evidence_assets.extractive.spans.features import find_spans
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.extractive.spans.questions import QUESTION_KINDS, analyze_question
from evidence_assets.extractive.spans.statements import (
    DescribedPassages,
    StatementWeights,
    choose_statement,
    describe_statements,
)
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.text.tokens import asks_yes_or_no

L2 = 1.0
PRECISION = 0.85
MIN_PROBABILITY = 0.3
"""Statements below it are never shown."""
FIRST_HALF = {*(f"pages_{name}" for name in PAGE_SETS[:3]), "normans", "computational_complexity_theory"}


class Item(NamedTuple):
    """A question with its described statements, whether each is right, and whether a span answers it."""

    question: AnswerableQuestion
    has_span: bool
    described: DescribedPassages
    is_right: list[bool]


def read_items(lake_folder: Path) -> Iterator[Item]:
    """All development questions except those for yes or no; evidence is that of ``evidence ask``."""
    corpora, questions = read_development_sets()
    del corpora["hotpot"]
    open_questions = [q for q in questions if q.corpus in corpora and not asks_yes_or_no(q.text)]
    encoder = get_encoder(profiles.load().encoder)
    for question, task in select_evidence(build_lake(lake_folder, corpora), open_questions):
        passages = tuple(split_passages(task.texts))
        finder = cache(partial(find_spans, encoder=encoder))
        described = describe_statements(question.text, passages, encoder, finder, load_span_weights())
        is_right = [any(contains_quote(gold, passage.text) for gold in question.golds) for passage, _ in described]
        has_span = find_answer(question.text, passages, finder, load_span_weights()) is not None
        yield Item(question, has_span, described, is_right)


def fit_weights(items: Sequence[Item], thresholds: dict[str, float]) -> StatementWeights:
    """The weights of the largest penalised likelihood."""
    used = [item for item in items if item.described]
    features = [[features for _, features in item.described] for item in used]
    gains = [np.array(item.is_right, dtype=np.float64) for item in used]
    no_answer = np.array([not any(item.is_right) for item in used], dtype=np.float64)
    bias, weights = fit_choice(features, gains, no_answer, L2)
    return StatementWeights(bias, weights, thresholds)


def choose_thresholds(items: Sequence[Item], weights: StatementWeights) -> dict[str, float]:
    """The smallest threshold of each kind of question with the precision; 1 if there is none."""
    thresholds = {}
    for kind in QUESTION_KINDS:
        answers = [
            (probability, is_right)
            for probability, is_right, item in _best_of(items, weights)
            if analyze_question(item.question.text).kind == kind
        ]
        threshold = smallest_threshold(answers, PRECISION)
        thresholds[kind] = 1.0 if threshold is None else round(threshold, 3)
    return thresholds


def _best_of(items: Sequence[Item], weights: StatementWeights) -> Iterator[tuple[float, bool, Item]]:
    """Probability of the best statement of each question without a span, and whether it is right."""
    for item in items:
        best = choose_statement(item.described, weights)
        if best is None or best.probability < MIN_PROBABILITY or item.has_span:
            continue
        right = next(r for (p, _), r in zip(item.described, item.is_right, strict=True) if p is best.passage)
        yield best.probability, right, item


def print_counts(title: str, items: Sequence[Item], weights: StatementWeights) -> dict[str, str]:
    """Print and return what is shown beside the spans, by kind of set."""
    counts: dict[str, Counter[str]] = {}
    for probability, is_right, item in _best_of(items, weights):
        question = item.question
        is_shown = probability >= weights.thresholds[analyze_question(question.text).kind]
        set_name = "SQuAD" if question.kind == "squad" else "pages" if "page" in question.kind else question.kind
        verdict = "right" if is_right else "wrong" if question.golds else "false"
        answerable = "answerable" if question.golds else "unanswerable"
        counts.setdefault(set_name, Counter()).update(
            [f"likely statement, {answerable}", *([verdict] if is_shown else [])]
        )
    scores = {name: ", ".join(f"{n} {what}" for what, n in sorted(count.items())) for name, count in counts.items()}
    print(title, *(f"  {name}: {score}" for name, score in scores.items()), sep="\n")
    return scores


def write_weights(weights: StatementWeights, score: dict[str, str]) -> None:
    """Write the packaged file."""
    write_choice(
        statements.WEIGHTS_FILE,
        weights,
        command="python -m bench.answers.fit_statements --write",
        data="SQuAD 2.0, development set, three articles (CC BY-SA 4.0); bench/answers/pages",
        halves="score: weights and thresholds of half 1, questions of half 2 without a span; weights written: all",
        encoder=get_encoder(profiles.load().encoder).model_id,
        l2=L2,
        precision=PRECISION,
        score=score,
    )


def fit_both(items: Sequence[Item]) -> StatementWeights:
    """Weights with the thresholds that they need."""
    weights = fit_weights(items, dict.fromkeys(QUESTION_KINDS, 1.0))
    return StatementWeights(weights.bias, weights.weights, choose_thresholds(items, weights))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--lake", type=Path, help="Lake to reuse; by default a temporary one.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        items = list(read_items(options.lake or Path(folder)))
    first = [item for item in items if item.question.corpus in FIRST_HALF]
    second = [item for item in items if item.question.corpus not in FIRST_HALF]
    score = print_counts("fitted on half 1, shown on half 2", second, fit_both(first))
    if options.write:
        write_weights(fit_both(items), score)


if __name__ == "__main__":
    main()
