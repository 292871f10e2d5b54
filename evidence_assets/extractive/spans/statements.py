"""Statements that answer a question as a whole, for questions that no span answers with confidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from evidence_assets.extractive.choice_probabilities import ChoiceWeights
from evidence_assets.extractive.spans.choice import SpanFinder, SpanWeights
from evidence_assets.extractive.spans.features import (
    LACKS_KIND,
    MISSING_NAMES,
    OTHER_THING,
    UNKNOWN_WORDS,
    describe_passages,
)
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import analyze_question
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder
from evidence_assets.text.tokens import PREPOSITIONS, split_tokens
from evidence_assets.text.words import split_words, stem

SPAN = "span"
_ADJECTIVE = re.compile(r"how (?!much\b|many\b|long\b|often\b|far\b|old\b)(\w+) (?:is|are|was|were)\b", re.IGNORECASE)
_NAME = re.compile(r"\bnames? of\b|['’]s? names?\b|\b(?:called|named)\W*$", re.IGNORECASE)
WEIGHTS_FILE = Path(__file__).with_suffix(".yaml")


class StatementWeights(ChoiceWeights):
    """Weights of the features of a statement; fitted by ``bench/answers/fit_statements.py``."""

    candidates = "statements"


@lru_cache
def load_statement_weights() -> StatementWeights:
    """The packaged weights."""
    return StatementWeights(**read_yaml_mapping(WEIGHTS_FILE)["values"])


@dataclass(frozen=True)
class StatementChoice:
    """The statement that most probably answers a question."""

    passage: Passage
    probability: float


DescribedPassages = Sequence[tuple[Passage, Mapping[str, float]]]


def find_statement(described: DescribedPassages, question: str, weights: StatementWeights) -> StatementChoice | None:
    """The statement that answers the question; None below the threshold of the kind of question."""
    best = choose_statement(described, weights)
    if best is None or best.probability < weights.thresholds[analyze_question(question).kind]:
        return None
    has_answer = _has_degree(best.passage.text, question) and _has_name(best.passage.text, question)
    return best if has_answer else None


def _has_degree(statement: str, question: str) -> bool:
    """Whether a statement has the adjective of "How deep is it?"; a length alone says something else."""
    match = _ADJECTIVE.match(question)
    return match is None or stem(match[1].lower()) in {stem(word) for word in split_words(statement.lower())}


def _has_name(statement: str, question: str) -> bool:
    """Whether a statement has a name besides the question's, if a name is asked for: "the name of Rosalind's mother".

    "From Freetown" is no name of hers.
    """
    if _NAME.search(question) is None:
        return True
    stems = {word.stem for word in split_tokens(question)}
    names = [word for before, word in pairwise(split_tokens(statement)) if before.lower not in PREPOSITIONS]
    return any(word.is_capital and word.stem not in stems for word in names)


def describe_statements(
    question: str, passages: tuple[Passage, ...], encoder: Encoder, finder: SpanFinder, span_weights: SpanWeights
) -> list[tuple[Passage, Mapping[str, float]]]:
    """The passages with their features; ``span`` is the probability of the best span in a passage."""
    candidates = finder(question, passages)
    best_spans = dict[str, float]()
    for candidate, probability in zip(candidates, span_weights.probabilities(candidates), strict=True):
        text = candidate.passage.text
        best_spans[text] = max(best_spans.get(text, 0.0), float(probability))
    described = describe_passages(question, passages, encoder)
    return [(passage, {**features, SPAN: best_spans.get(passage.text, 0.0)}) for passage, features in described]


def choose_statement(described: DescribedPassages, weights: StatementWeights) -> StatementChoice | None:
    """The most probable statement, whether or not it reaches the threshold.

    It has what the question asks for, such as a reason. Names and numbers of the question must be in its source, and at
    least one word of the question: a text on something else answers nothing.
    """
    if not described:
        return None
    probabilities = weights.probabilities_of([features for _, features in described])
    best = int(probabilities.argmax())
    passage, features = described[best]
    if any(features.get(name) for name in (MISSING_NAMES, UNKNOWN_WORDS, OTHER_THING, LACKS_KIND)):
        return None
    return StatementChoice(passage, round(float(probabilities[best]), 6))
