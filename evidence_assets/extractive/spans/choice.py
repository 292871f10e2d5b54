"""The choice among spans: the one with the largest expected token F1, if that is large enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from evidence_assets.extractive.choice_probabilities import ChoiceWeights
from evidence_assets.extractive.spans.features import MISSING_NAMES, OTHER_THING, UNKNOWN_WORDS, SpanCandidate
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import analyze_question
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import FloatArray
from evidence_assets.text.tokens import LISTS

WEIGHTS_FILE = Path(__file__).with_name("weights.yaml")
MAX_COMPARED = 25
"""Most probable spans whose expected F1 is computed."""


class SpanWeights(ChoiceWeights):
    """Weights of the features of a span; fitted by ``bench/answers/fit_short_answers.py``."""

    candidates = "span weights"

    def probabilities(self, spans: Sequence[SpanCandidate]) -> FloatArray:
        """Probability that each span is the answer."""
        return self.probabilities_of([span.features for span in spans]).astype(np.float32)


@lru_cache
def load_span_weights() -> SpanWeights:
    """The packaged weights."""
    return SpanWeights(**read_yaml_mapping(WEIGHTS_FILE)["values"])


@dataclass(frozen=True)
class SpanChoice:
    """The best span and its expected F1, ``confidence``."""

    candidate: SpanCandidate
    confidence: float


SpanFinder = Callable[[str, tuple[Passage, ...]], list[SpanCandidate]]
"""Finds the spans of passages that may answer a question."""


def find_answer(
    question: str, passages: tuple[Passage, ...], finder: SpanFinder, weights: SpanWeights
) -> SpanChoice | None:
    """The span that answers the question; None if its confidence is below the threshold of the question's kind.

    "Who paid?" is not answered by what "by" names in "paid by card".
    """
    best = find_best_span(question, passages, finder, weights)
    kind = analyze_question(question).kind
    if best is None or best.confidence < weights.thresholds[kind]:
        return None
    return None if kind == "person" and best.candidate.text.casefold() in LISTS["no_agents"] else best


def find_best_span(
    question: str, passages: tuple[Passage, ...], finder: SpanFinder, weights: SpanWeights
) -> SpanChoice | None:
    """The best span of all passages that is also the best of its own evidence alone; None if they differ.

    Its confidence is the lower of both. The question must be simple, and every name and number of it in the sentence
    of the span or in another passage of its source: a text on something else answers nothing, however similar it is.
    Nor does a source without any word of the question, or a sentence that does not name the thing that the question is
    about, if another one of the source does.
    """
    choice = choose_span(finder(question, passages), weights) if analyze_question(question).is_simple else None
    if choice is None or _is_on_something_else(choice):
        return None
    evidence_id = choice.candidate.passage.item.evidence_id
    cited = tuple(replace(passage, rank=0) for passage in passages if passage.item.evidence_id == evidence_id)
    alone = choose_span(finder(question, cited), weights)
    if alone is None or alone.candidate.text != choice.candidate.text or _is_on_something_else(alone):
        return None
    return replace(choice, confidence=min(choice.confidence, alone.confidence))


def _is_on_something_else(choice: SpanChoice) -> bool:
    return any(choice.candidate.features.get(name) for name in (MISSING_NAMES, UNKNOWN_WORDS, OTHER_THING))


def choose_span(candidates: Sequence[SpanCandidate], weights: SpanWeights) -> SpanChoice | None:
    """The span with the largest expected F1, ``Σ_j p_j F1(i, j)``, whether or not it reaches the threshold."""
    if not candidates:
        return None
    probabilities = weights.probabilities(candidates)
    order = np.argsort(-probabilities, kind="stable")[:MAX_COMPARED]
    words = [Counter(candidates[i].text.casefold().split()) for i in order]
    expected = [
        math.fsum(float(probabilities[j]) * _f1(a, b) for j, b in zip(order, words, strict=True)) for a in words
    ]
    best = max(range(len(order)), key=lambda position: expected[position])
    return SpanChoice(candidates[order[best]], round(min(1.0, expected[best]), 6))


def span_f1(a: str, b: str) -> float:
    """Token F1 of two spans."""
    return _f1(Counter(a.casefold().split()), Counter(b.casefold().split()))


def _f1(a: Counter[str], b: Counter[str]) -> float:
    return 2 * sum((a & b).values()) / (a.total() + b.total())
