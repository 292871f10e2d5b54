"""Judges that score text and triples on one scale, and the stance of evidence on an option.

The stance is a lexical signal for people; it does not change the ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.vectors import Array
from evidence_assets.reasoning.extractive import answer_kind_stems, split_statements
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.retrieval.maxsim import maxsim_scores
from evidence_assets.systems.uscrake.chunk_ranking import Query
from evidence_assets.text.words import stems
from evidence_assets.transport import TokenPool

Stance = Literal["entails", "contradicts", "mentions"]
MIN_QUESTION_SHARE = 0.5
"""Minimum share of the question's words in a statement that entails or contradicts the option."""


def classify_stance(question: str, option: str, kind: str, text: str) -> Stance:
    """Whether the evidence entails, contradicts or only mentions the option as an answer.

    A statement is relevant if it has all words of the option and at least half of the question's words, without those
    of the expected answer type. A relevant statement entails the option, or contradicts it if it is negated; an
    affirmative statement takes precedence. Evidence without a relevant statement mentions the option.

    >>> stance("What lowers glucose?", "insulin", "chunk", "Insulin lowers glucose in blood.")
    'entails'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin does not lower glucose.")
    'contradicts'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin is sold as tablets. Insulin lowers glucose.")
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


@dataclass(frozen=True, eq=False)
class EvidenceCandidate:
    """A row of evidence before ranking; ``vectors`` are its token vectors if the store has them."""

    evidence: SelectedEvidence
    vectors: npt.NDArray[np.floating[Any]] | None = None


class Judge(Protocol):
    """Scores text and triples against a query on one scale; larger is better."""

    @property
    def version(self) -> str: ...
    def score(self, requests: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]: ...


class LateInteraction:
    """Mean over the query's words of the best cosine with a token of the evidence.

    Text uses the stored token vectors of its chunk; a triple's sentence is encoded, once per call for each distinct
    sentence. Query tokens without a letter or digit have weight 0.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.version = content_id("late_interaction", encoder.model_id, encoder.revision)

    def score(self, requests: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]:
        texts = list(dict.fromkeys(i.evidence.text for _, items in requests for i in items if i.vectors is None))
        encoded = dict(zip(texts, self._encoder.encode_tokens(texts) if texts else [], strict=True))
        scores = []
        for query, items in requests:
            vectors = [encoded[i.evidence.text].vectors if i.vectors is None else i.vectors for i in items]
            vectors = [v if len(v) else np.zeros((1, self._encoder.dimensions), np.float32) for v in vectors]
            if not items or not len(query):
                scores.append(np.zeros(len(items)))
                continue
            offsets = np.concatenate([[0], np.cumsum([len(v) for v in vectors])])
            all_vectors = np.concatenate([np.asarray(v, dtype=np.float32) for v in vectors])
            pool = TokenPool(all_vectors, offsets, np.ones(len(all_vectors)))
            weights = [float(any(c.isalnum() for c in query.text[a:b])) for a, b in query.tokens.offsets.tolist()]
            scores.append(maxsim_scores(query.tokens.vectors, pool, weights))
        return scores


class PairJudge:
    """A cross-encoder that scores pairs of query and evidence."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.version = content_id("pair_judge", reranker.model_id, reranker.revision)

    def score(self, requests: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]:
        pairs = [(query.text, item.evidence.text) for query, items in requests for item in items]
        scores = np.asarray(self._reranker.score(pairs), dtype=np.float64) if pairs else np.zeros(0)
        ends = np.cumsum([len(items) for _, items in requests])[:-1]
        return [np.asarray(part) for part in np.split(scores, ends)] if requests else []
