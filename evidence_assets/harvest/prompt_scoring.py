"""How well a candidate prompt stands in for the initial one: BERTScore, BLEU, iBLEU, certainty, Compatibility.

Belongs here: the scores on words, vectors and probabilities. Where candidates come from is ``prompt_mining``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evidence_assets.models.vectors import unit_rows

_SMOOTHING = 0.01
_LOWEST_ENTROPY = 1e-6


def bert_score(reference: npt.NDArray[np.floating], candidate: npt.NDArray[np.floating]) -> float:
    """F1 of the greedy word matching between two sentences' word vectors (n × d and m × d).

    Recall is the mean over the reference's words of the best cosine in the candidate, precision the other way round.

    >>> bert_score(np.eye(2), np.eye(2))
    1.0
    """
    if not len(reference) or not len(candidate):
        return 0.0
    left, right = (unit_rows(np.asarray(vectors, dtype=np.float64)) for vectors in (reference, candidate))
    cosine = left @ right.T
    recall, precision = float(cosine.max(axis=1).mean()), float(cosine.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Sentence BLEU: brevity penalty × geometric mean of the clipped n-gram precisions, case ignored.

    n runs to 4, or to the length of the shorter sentence; a precision of 0 makes the whole 0.

    >>> bleu("a b c d e".split(), "a b c d e".split())
    1.0
    """
    longest = min(4, len(reference), len(candidate))
    if longest == 0:
        return 0.0
    wanted = [word.casefold() for word in reference]
    given = [word.casefold() for word in candidate]
    logs = []
    for size in range(1, longest + 1):
        known, ours = _ngrams(wanted, size), _ngrams(given, size)
        matches = sum((known & ours).values())
        if matches == 0:
            return 0.0
        logs.append(np.log(matches / sum(ours.values())))
    brevity = min(0.0, 1 - len(wanted) / len(given))
    return float(np.exp(brevity + np.mean(logs)))


def inverse_bleu(bleu_score: float) -> float:
    """sigmoid((1 + 0.01) / (BLEU + 0.01)): nearer to 1 the less a candidate copies."""
    return float(1 / (1 + np.exp(-(1 + _SMOOTHING) / (bleu_score + _SMOOTHING))))


def certainty(log_probs: npt.NDArray[np.floating]) -> float:
    """1 / Σ −P log P over the words of a sentence, P the model's probability of each; the entropy is at least 1e-6.

    As printed, an improbable word lowers the entropy just as a certain one does. ``mean_probability`` is the form
    without that fault.
    """
    values = np.asarray(log_probs, dtype=np.float64)
    return float(1 / max(_LOWEST_ENTROPY, float(-(np.exp(values) * values).sum())))


def mean_probability(log_probs: npt.NDArray[np.floating]) -> float:
    """Geometric mean of the model's probabilities of the words: certain only where the words are probable."""
    return float(np.exp(np.mean(log_probs))) if len(log_probs) else 0.0


def compatibility(bert: float, bleu_score: float, certain: float, *, alpha: float = 1.0, beta: float = 1.0) -> float:
    """α · (BERTScore + iBLEU) + β · certainty."""
    return alpha * (bert + inverse_bleu(bleu_score)) + beta * certain


def _ngrams(words: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + size]) for start in range(len(words) - size + 1))
