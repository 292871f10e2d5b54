"""Fit the weights of spans as short answers, and print what they reach on articles that were not used.

    python -m bench.answers.fit_short_answers          # fit on half 1, report half 2; then leave out one each
    python -m bench.answers.fit_short_answers --write  # then fit on all and write the packaged weights

Reads EVIDENCE_DEV_DATA. The probability of span i is ``exp(s_i) / (1 + Σ_j exp(s_j))``, where 1 stands for no answer.
The weights maximise the likelihood of spans with a token F1 of at least .6 with a gold answer, weighted by its square,
and of no answer where no span has .3, less ``L2`` times their squares.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.answers.fitted_values import answer_left_out, fit_choice, write_choice
from bench.answers.short_answer_questions import (
    AnswerableQuestion,
    Outcome,
    build_lake,
    print_outcomes,
    read_development_sets,
    select_evidence,
)
from bench.measuring import make_parser
from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import token_f1
from evidence_assets.extractive.spans import choice
from evidence_assets.extractive.spans.choice import SpanWeights, find_best_span
from evidence_assets.extractive.spans.features import SpanCandidate, find_spans
from evidence_assets.extractive.spans.passages import Passage, split_passages
from evidence_assets.extractive.spans.questions import QUESTION_KINDS, analyze_question
from evidence_assets.models.registry import get_encoder

L2 = 1.0
PAGE_COPIES = 2
"""Each question on a page counts twice: people ask such questions more often than SQuAD's."""
THRESHOLDS = dict.fromkeys(QUESTION_KINDS, 0.6) | {
    "amount": 0.50,
    "manner": 0.45,
    "reason": 0.30,
    "thing": 0.50,
    "time": 0.55,
}
"""Chosen on left-out pages and articles: four of five answers on pages are right, half of those on SQuAD's articles."""
SHOWN_THRESHOLDS = (0.35, 0.40, 0.45)
FloatArray = npt.NDArray[np.float64]


class Item(NamedTuple):
    """A question with its spans and their F1 with the gold answers."""

    question: AnswerableQuestion
    passages: tuple[Passage, ...]
    candidates: list[SpanCandidate]
    f1: FloatArray


def read_items(lake_folder: Path) -> list[Item]:
    """The spans of all development questions; evidence is that of ``evidence ask``."""
    corpora, questions = read_development_sets()
    encoder = get_encoder(profiles.load().encoder)
    items = []
    for question, task in select_evidence(build_lake(lake_folder, corpora), questions):
        passages = tuple(split_passages(task.texts))
        candidates = find_spans(question.text, passages, encoder)
        f1 = np.array([token_f1(c.text, question.golds) for c in candidates], dtype=np.float64)
        items.append(Item(question, passages, candidates, f1))
    return items


def fit_weights(items: Sequence[Item]) -> SpanWeights:
    """The weights of the largest penalised likelihood."""
    copies = ((item, PAGE_COPIES if item.question.kind.endswith("page") else 1) for item in items if item.candidates)
    items = [item for item, n in copies for _ in range(n)]
    candidates = [[candidate.features for candidate in item.candidates] for item in items]
    gains = [np.where(item.f1 >= 0.6, item.f1**2, 0.0) for item in items]
    no_answer = np.array([item.f1.max() < 0.3 for item in items], dtype=np.float64)
    bias, weights = fit_choice(candidates, gains, no_answer, L2)
    return SpanWeights(bias, weights, THRESHOLDS)


def _find_spans(item: Item, question: str, passages: Sequence[Passage]) -> list[SpanCandidate]:
    return item.candidates if passages == item.passages else _find_few_spans(question, tuple(passages))


@cache
def _find_few_spans(question: str, passages: tuple[Passage, ...]) -> list[SpanCandidate]:
    return find_spans(question, passages, get_encoder(profiles.load().encoder))


def answer_items(items: Sequence[Item], weights: SpanWeights) -> list[Outcome]:
    """What the weights answer."""
    outcomes = []
    for item in items:
        best = find_best_span(item.question.text, item.passages, partial(_find_spans, item), weights)
        outcomes.append(Outcome(item.question, best.candidate.text if best else None, best.confidence if best else 0.0))
    return outcomes


def print_all(title: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Print the outcomes at several thresholds, then print and return those at the thresholds that are served."""
    print_outcomes(title, outcomes, SHOWN_THRESHOLDS)
    served = [
        outcome
        if outcome.confidence >= THRESHOLDS[analyze_question(outcome.question.text).kind]
        else outcome._replace(answer=None)
        for outcome in outcomes
    ]
    return print_outcomes(f"{title}, thresholds of the kinds", served, (0.0,))


def group_of(item: Item) -> tuple[str, int]:
    """What is left out of a fit together: an article, a set of pages, or half of HotpotQA."""
    question = item.question
    return question.corpus, question.half if question.corpus == "hotpot" else 0


def write_weights(weights: SpanWeights, items: Sequence[Item], score: dict[str, str]) -> None:
    """Write the packaged file."""
    answerable = sum(bool(item.question.golds) for item in items)
    write_choice(
        choice.WEIGHTS_FILE,
        weights,
        command="python -m bench.answers.fit_short_answers --write",
        data="SQuAD 2.0, development set: Normans, Computational complexity theory, Southern California; "
        "HotpotQA, 100 questions (both CC BY-SA 4.0); bench/answers/pages, six sets written for this project: "
        f"{answerable} questions with an answer, {len(items) - answerable} without",
        halves="weights fitted on all; score with each article, set of pages and half of HotpotQA left out of the fit",
        encoder=get_encoder(profiles.load().encoder).model_id,
        l2=L2,
        score=score,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--lake", type=Path, help="Lake to reuse; by default a temporary one.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        items = read_items(options.lake or Path(folder))
    by_half = [[item for item in items if item.question.half == half] for half in (1, 2)]
    print_all("fitted on half 1, answers on half 2", answer_items(by_half[1], fit_weights(by_half[0])))
    outcomes = answer_left_out(items, sorted(set(map(group_of, items))), group_of, fit_weights, answer_items)
    score = print_all("each article, set of pages and half of HotpotQA left out of the fit", outcomes)
    if options.write:
        write_weights(fit_weights(items), items, score)


if __name__ == "__main__":
    main()
