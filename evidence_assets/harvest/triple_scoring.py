"""Stage 3 of K-Bloom: the distance of a candidate's sentence to the seeds' sentences, and its fluency.

``semantic`` is a **distance**: smaller is closer. ``fluency`` and the final score are larger for better triples, so
``nearness`` inverts the distance before the two are combined.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from evidence_assets.harvest.prompt_mining import Floats
from evidence_assets.models.vectors import Array, unit_rows

GroundDistance = Literal["cosine", "euclidean"]
WeightForm = Literal["sentence", "corpus"]
FluencyForm = Literal["printed", "corrected", "probability"]
FinalForm = Literal["printed", "distance", "rank_normalised", "fluency"]


@dataclass(frozen=True)
class ScoredSentence:
    """A filled sentence: its words' BM25 weights and contextual vectors (n × d)."""

    weights: Array
    vectors: Floats


def fit_sentence_idf(sentences: Iterable[Sequence[str]]) -> Callable[[str], float]:
    """max(0, ln((N − n(w) + 0.5) / (n(w) + 0.5))) of a word, case ignored.

    Words of most sentences have weight 0, unknown words the weight of the rarest word.
    """
    words = [{word.casefold() for word in sentence} for sentence in sentences]
    document_frequency = Counter(chain.from_iterable(words))
    table = {word: math.log((len(words) - n + 0.5) / (n + 0.5)) for word, n in document_frequency.items()}
    rarest = max(table.values(), default=1.0)
    return lambda word: max(0.0, table.get(word.casefold(), rarest))


def sum_weights(sentences: Sequence[Sequence[str]], weights: Sequence[Array]) -> list[Array]:
    """Weight of each word summed over all sentences that contain it: the outer sum of equation 5.15."""
    totals: defaultdict[str, float] = defaultdict(float)
    for words, values in zip(sentences, weights, strict=True):
        for word, value in dict(zip(words, values.tolist(), strict=True)).items():
            totals[word] += value
    return [np.asarray([totals[word] for word in words]) for words in sentences]


def semantic_distances(
    candidates: Sequence[ScoredSentence], seeds: Sequence[ScoredSentence], *, ground: GroundDistance = "cosine"
) -> Array:
    """Sum over the seeds of the transport cost between each candidate's sentence and the seed's.

    The cost of moving a word is 1 − cosine of the two vectors (scaling a vector by its positive BM25 weight does not
    change it), or, as the ablation, the Euclidean distance of the weighted vectors. The masses are the BM25 weights,
    normalised; a sentence without weights has uniform masses. Costs are exact: in closed form for sentences with one or
    two weighted words, otherwise by ``ot.emd2``.
    """
    supports = [_support(sentence, ground) for sentence in candidates]
    seed_supports = [_support(sentence, ground) for sentence in seeds]
    distances = np.zeros(len(supports))
    by_size: dict[int, list[int]] = {}
    for number, (masses, _) in enumerate(supports):
        by_size.setdefault(len(masses), []).append(number)
    for members in by_size.values():
        masses = np.stack([supports[number][0] for number in members])
        vectors = np.stack([supports[number][1] for number in members])
        for seed_masses, seed_vectors in seed_supports:
            costs = _ground_costs(vectors, seed_vectors, ground)
            distances[members] += transport_costs(masses, seed_masses, costs)
    return distances


def transport_costs(masses: Array, other: Array, costs: Array) -> Array:
    """Optimal transport cost of each row of ``masses`` (k × n) to ``other`` (m) under ``costs`` (k × n × m)."""
    if masses.shape[1] == 1 or len(other) == 1:
        result: Array = np.einsum("kn,m,knm->k", masses, other, costs)
        return result
    if masses.shape[1] == 2 and len(other) == 2:
        # the plan has one free entry; the cost is linear in it, so the optimum is at an end of its range
        first = masses[:, 0]
        second = float(other[0])
        ends = np.stack([np.maximum(0.0, first + second - 1), np.minimum(first, second)])
        plans = np.stack([ends, first - ends, second - ends, 1 - first - second + ends], axis=-1)
        closed: Array = np.einsum("ekp,kp->ek", np.maximum(plans, 0.0), costs.reshape(-1, 4)).min(axis=0)
        return closed
    import ot  # takes half a second, which loading definitions must not

    return np.asarray([float(ot.emd2(row, other, cost)) for row, cost in zip(masses, costs, strict=True)])


def fluency(log_probs: Floats, idf: Array, form: FluencyForm = "corrected") -> float:
    """Σ idf over the perplexity of the sentence (5.19).

    ``printed``: perplexity exp(+mean log p), as equation 5.18 is printed; it rewards improbable text. ``corrected``:
    exp(−mean log p), as the text says: the higher the perplexity, the lower the fluency. ``probability``:
    exp(mean log p), the inverse of that perplexity alone, which does not favour pairs of more words. The caller selects
    the log-probabilities.
    """
    if not len(log_probs):
        return 0.0
    mean = float(np.mean(np.asarray(log_probs, dtype=np.float64)))
    if form == "probability":
        return math.exp(mean)
    return float(np.sum(np.maximum(idf, 0.0))) / math.exp(mean if form == "printed" else -mean)


def nearness(distances: Array, seeds: int) -> Array:
    """Semantic nearness, seeds² / (seeds + distance): larger is closer.

    It is positive under every ground cost, so that x·σ(x) grows with it and ablations of the cost change nothing else.
    """
    return np.asarray(seeds * seeds / (seeds + np.asarray(distances, dtype=np.float64)))


def final_scores(distances: Array, fluent: Array, seeds: int, form: FinalForm = "printed") -> Array:
    """Combine semantic distances and fluencies; larger is better.

    ``printed``: σ(s)·s + σ(f)·f with the nearness s. ``distance``: the same with the distance, exactly as in equation
    5.20, which prefers distant pairs. ``rank_normalised``: the mean of the two relative ranks, independent of their
    units. ``fluency``: the fluency alone, for models with poor word vectors.
    """
    if form == "fluency":
        return fluent
    if form == "distance":
        return np.asarray(_swish(distances) + _swish(fluent))
    near = nearness(distances, seeds)
    if form == "rank_normalised":
        from scipy.stats import rankdata  # slow to import

        return np.asarray((rankdata(near) + rankdata(fluent)) / (2 * max(1, len(near))))
    return np.asarray(_swish(near) + _swish(fluent))


def _support(sentence: ScoredSentence, ground: GroundDistance) -> tuple[Array, Array]:
    """Normalised masses and vectors of the words with mass."""
    weights = np.asarray(sentence.weights, dtype=np.float64)
    vectors = np.asarray(sentence.vectors, dtype=np.float64)
    if weights.sum() <= 0:
        weights = np.ones(len(vectors))
    has_mass = weights > 0
    weights = weights[has_mass]
    vectors = vectors[has_mass]
    if ground == "euclidean":
        return weights / weights.sum(), vectors * weights[:, None]
    return weights / weights.sum(), unit_rows(vectors)


def _ground_costs(vectors: Array, other: Array, ground: GroundDistance) -> Array:
    if ground == "cosine":
        return np.maximum(0.0, 1 - vectors @ other.T)
    return np.asarray(np.linalg.norm(vectors[:, :, None, :] - other[None, None, :, :], axis=-1))


def _swish(values: Array) -> Array:
    return np.asarray(values / (1 + np.exp(-np.clip(values, -700, 700))))
