"""From contextual vectors and weights to token measures: each published variant under its name.

What belongs here: how a text becomes a :class:`~evidence_assets.transport.TokenMeasure`, and which ground cost
goes with it. Weights come from :mod:`evidence_assets.retrieval.bm25`, vectors from an encoder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evidence_assets.transport import CostName, TokenMeasure
from evidence_assets.transport.divergence import softmax

__all__ = [
    "POWERS",
    "Variant",
    "build_measure",
    "cost_of",
    "power_means",
    "word_form",
    "word_forms",
    "word_means",
    "word_spans",
]

Array = NDArray[np.float64]
Variant = Literal["jsd", "jsd_unscaled", "cosine", "euclidean", "moverscore"]
POWERS = (1.0, float("inf"), float("-inf"))
_FORM = re.compile(r"\w+|[^\w\s]")


def cost_of(variant: Variant) -> CostName:
    """The ground cost that a variant is scored with."""
    if variant in ("jsd", "jsd_unscaled"):
        return "jsd"
    if variant in ("euclidean", "moverscore"):
        return "euclidean"
    if variant == "cosine":
        return "cosine"
    raise ValueError(f"variant {variant!r} is unknown: give one of {', '.join(get_args(Variant))}")


def build_measure(
    vectors: ArrayLike, weights: ArrayLike, variant: Variant = "jsd", temperature: float = 1.0
) -> TokenMeasure:
    r"""Build the measure of a text.

    ============== ================================================ ===========
    variant        points                                           ground cost
    ============== ================================================ ===========
    jsd            softmax(BM25 · w / T), as printed                jsd
    jsd_unscaled   softmax(w / T)                                   jsd
    cosine         w                                                cosine
    euclidean      w                                                euclidean
    moverscore     unit vectors of :func:`power_means` of layers    euclidean
    ============== ================================================ ===========

    Parameters
    ----------
    vectors
        n × d token vectors; for ``moverscore`` n × layers × d.
    weights
        BM25 weights in the text (``CorpusStatistics.token_weights``, or ``summed_weights`` for the other reading of
        equation 7.9); idf for ``moverscore``. Not negative; all zero means uniform.
    """
    v = np.asarray(vectors, dtype=np.float64)
    w = np.asarray(weights, dtype=np.float64)
    cost_of(variant)
    if variant == "moverscore":
        if v.ndim != 3:
            raise ValueError(f"moverscore needs tokens × layers × dimensions, not shape {v.shape}")
        points = power_means(v)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return TokenMeasure(points / np.where(norms > 0, norms, 1.0), w)
    checked = TokenMeasure(v, w)
    if variant == "jsd":
        return TokenMeasure(softmax(v * w[:, None], temperature), w)
    if variant == "jsd_unscaled":
        return TokenMeasure(softmax(v, temperature), w)
    return checked


def power_means(layers: ArrayLike, powers: Sequence[float] = POWERS) -> Array:
    """Mean, maximum and minimum over layers (tokens × layers × d), side by side: tokens × (len(powers) · d).

    A power of p other than 1 and ±infinity is the p-th root of the mean p-th power and needs an odd integer, which
    keeps the sign.
    """
    x = np.asarray(layers, dtype=np.float64)
    parts = []
    for p in powers:
        if p == float("inf"):
            parts.append(x.max(axis=1))
        elif p == float("-inf"):
            parts.append(x.min(axis=1))
        elif float(p).is_integer() and int(p) % 2:
            mean = (x**p).mean(axis=1)
            parts.append(np.sign(mean) * np.abs(mean) ** (1 / p))
        else:
            raise ValueError(f"power {p} loses the sign of numbers: give an odd integer or an infinity")
    return np.concatenate(parts, axis=1)


def word_forms(text: str) -> list[str]:
    """The words and marks of a text, case folded: what document frequencies of words are counted over.

    Examples
    --------
    >>> word_forms("It's sweet.")
    ['it', "'", 's', 'sweet', '.']
    """
    return _FORM.findall(text.casefold())


def word_form(word: str) -> str:
    """The form under which a word of an encoder is counted: its longest run of letters and digits, else its first mark.

    Encoders that cut at spaces alone leave punctuation at a word.

    Examples
    --------
    >>> word_form("Sweet."), word_form("...")
    ('sweet', '.')
    """
    forms = word_forms(word)
    return max(forms, key=len) if forms else ""


def word_spans(starts_word: ArrayLike) -> NDArray[np.int64]:
    """Offsets of words over word pieces from marks of each word's first piece; leading unmarked pieces are a word."""
    marks = np.asarray(starts_word, dtype=bool)
    starts = np.flatnonzero(marks)
    if len(marks) and (not len(starts) or starts[0] != 0):
        starts = np.concatenate([[0], starts])
    return np.concatenate([starts, [len(marks)]]).astype(np.int64)


def word_means(vectors: ArrayLike, spans: ArrayLike) -> Array:
    """Mean vector of the pieces of each word: the other setting for words that the tokenizer splits."""
    v = np.asarray(vectors, dtype=np.float64)
    edges = np.asarray(spans, dtype=np.int64)
    if len(edges) < 2:
        return np.empty((0, *v.shape[1:]))
    lengths = np.diff(edges).reshape(-1, *([1] * (v.ndim - 1)))
    return np.asarray(np.add.reduceat(v, edges[:-1], axis=0) / lengths)
