"""Judging text and triples of an option on one scale, each read with its query.

What evidence says of an option by its words alone (``stance``) is a signal for readers that decides nothing.
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
"""Share of what a question asks about, that one statement must name together with the whole option."""


def classify_stance(question: str, option: str, kind: str, text: str) -> Stance:
    """What the evidence says of the option as an answer.

    A statement that names every word of the option and at least half of the question's (those that only name the kind
    of thing asked for left out) entails the answer, or contradicts it where it denies. The first such statement that
    does not deny decides; evidence without one only mentions.

    >>> stance("What lowers glucose?", "insulin", "chunk", "Insulin lowers glucose in blood.")
    'entails'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin does not lower glucose.")
    'contradicts'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin is sold as tablets. Insulin lowers glucose.")
    'mentions'
    """
    wanted = set(stems(option))
    asked = set(stems(question)) - answer_kind_stems(question) - wanted
    denied = False
    for statement in split_statements(EvidenceItem("", kind, "", "", text)):
        words = set(stems(statement.text))
        if not wanted or not wanted <= words or len(asked & words) < MIN_QUESTION_SHARE * len(asked):
            continue
        if not statement.is_denial:
            return "entails"
        denied = True
    return "contradicts" if denied else "mentions"


@dataclass(frozen=True, eq=False)
class EvidenceCandidate:
    """One piece of evidence before it is ranked; ``vectors`` are its tokens where the store has them."""

    pick: SelectedEvidence
    vectors: npt.NDArray[np.floating[Any]] | None = None


class Judge(Protocol):
    """Scores evidence of any kind against its query on one scale; larger is better."""

    @property
    def version(self) -> str: ...
    def score(self, asked: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]: ...


class LateInteraction:
    """Mean over the query's words of the best cosine with a token of the evidence.

    Text is judged by the token vectors that the store has of it, as it stands in its chunk; a triple's sentence is
    encoded, each distinct one once a call. Tokens of the query without a letter or digit do not count.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.version = content_id("late_interaction", encoder.model_id, encoder.revision)

    def score(self, asked: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]:
        texts = list(dict.fromkeys(i.pick.text for _, items in asked for i in items if i.vectors is None))
        encoded = dict(zip(texts, self._encoder.encode_tokens(texts) if texts else [], strict=True))
        made = []
        for query, items in asked:
            vectors = [encoded[i.pick.text].vectors if i.vectors is None else i.vectors for i in items]
            vectors = [v if len(v) else np.zeros((1, self._encoder.dimensions), np.float32) for v in vectors]
            if not items or not len(query):
                made.append(np.zeros(len(items)))
                continue
            offsets = np.concatenate([[0], np.cumsum([len(v) for v in vectors])])
            joined = np.concatenate([np.asarray(v, dtype=np.float32) for v in vectors])
            pool = TokenPool(joined, offsets, np.ones(len(joined)))
            telling = [float(any(c.isalnum() for c in query.text[a:b])) for a, b in query.tokens.offsets.tolist()]
            made.append(maxsim_scores(query.tokens.vectors, pool, telling))
        return made


class PairJudge:
    """A cross-encoder that reads query and evidence together."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker
        self.version = content_id("pair_judge", reranker.model_id, reranker.revision)

    def score(self, asked: Sequence[tuple[Query, Sequence[EvidenceCandidate]]]) -> list[Array]:
        pairs = [(query.text, item.pick.text) for query, items in asked for item in items]
        scores = np.asarray(self._reranker.score(pairs), dtype=np.float64) if pairs else np.zeros(0)
        ends = np.cumsum([len(items) for _, items in asked])[:-1]
        return [np.asarray(part) for part in np.split(scores, ends)] if asked else []
