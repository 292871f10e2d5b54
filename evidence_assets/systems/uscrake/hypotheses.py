"""Hypotheses: the question–option pairs that evidence is selected for, and the stance of evidence on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.models.protocols import Encoder, TokenVectors
from evidence_assets.reasoning.extractive import answer_kind_stems, split_statements
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.words import stems


@dataclass(frozen=True, eq=False)
class Query:
    """Question ⊕ option with its tokens."""

    text: str
    tokens: TokenVectors

    def __len__(self) -> int:
        return len(self.tokens.tokens)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A question with one of its options.

    ``query`` has the tokens that rank chunks, ``pieces`` those of the token store, which the judge compares.
    """

    question: Question
    label: str
    option: str
    query: Query
    pieces: Query


def encode_hypotheses(questions: Sequence[Question], view: Encoder, token_encoder: Encoder) -> list[Hypothesis]:
    """Every option of the questions, in order; each distinct text is encoded once by each encoder.

    ``view``: Encodes the tokens that rank chunks; often the same as ``token_encoder``.
    """
    pairs = [(q, label, option, q.query(option)) for q in questions for label, option in q.hypotheses]
    texts = list(dict.fromkeys(text for *_, text in pairs))
    pieces = _encode_queries(texts, token_encoder)
    ranked_tokens = pieces if view is token_encoder else _encode_queries(texts, view)
    return [Hypothesis(q, label, option, ranked_tokens[text], pieces[text]) for q, label, option, text in pairs]


def _encode_queries(texts: Sequence[str], encoder: Encoder) -> dict[str, Query]:
    encoded = encoder.encode_tokens(texts) if texts else []
    return {text: Query(text, tokens) for text, tokens in zip(texts, encoded, strict=True)}


Stance = Literal["entails", "contradicts", "mentions"]
MIN_QUESTION_SHARE = 0.5
"""Minimum share of the question's words in a statement that entails or contradicts the option."""


def classify_stance(question: str, option: str, kind: str, text: str) -> Stance:
    """Whether the evidence entails, contradicts or only mentions the option as an answer.

    A statement is relevant if it has all words of the option and at least half of the question's words, without those
    of the expected answer type. A relevant statement entails the option, or contradicts it if it is negated; an
    affirmative statement takes precedence. Evidence without a relevant statement mentions the option.

    >>> classify_stance("What lowers glucose?", "insulin", "chunk", "Insulin lowers glucose in blood.")
    'entails'
    >>> classify_stance("What lowers glucose?", "aspirin", "chunk", "Aspirin does not lower glucose.")
    'contradicts'
    >>> classify_stance("Which drug can lower glucose?", "aspirin", "chunk", "Aspirin is sold. Insulin does.")
    'mentions'
    """
    option_words = set(stems(option))
    question_words = set(stems(question)) - answer_kind_stems(question) - option_words
    is_contradicted = False
    for statement in split_statements(EvidenceItem("", kind, "", "", text)):
        statement_words = set(stems(statement.text))
        if (
            not option_words
            or not option_words <= statement_words
            or len(question_words & statement_words) < MIN_QUESTION_SHARE * len(question_words)
        ):
            continue
        if not statement.is_denial:
            return "entails"
        is_contradicted = True
    return "contradicts" if is_contradicted else "mentions"
