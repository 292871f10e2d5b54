"""BM25 as plain loops written from the formula, by which other ways of computing it are judged."""

import math
from collections.abc import Sequence

Texts = Sequence[Sequence[str]]


def idf(token: str, texts: Texts, form: str = "published") -> float:
    n = sum(token in text for text in texts)
    odds = (len(texts) - n + 0.5) / (n + 0.5)
    return math.log(1 + odds) if form == "plus_one" else max(0.0, math.log(odds))


def saturated(token: str, text: Sequence[str], texts: Texts) -> float:
    """The token's part in a text, its rarity left out."""
    average = sum(map(len, texts)) / len(texts)
    f = list(text).count(token)
    return f * 2.2 / (f + 1.2 * (0.25 + 0.75 * len(text) / average)) if f else 0.0


def token_weights(text: Sequence[str], texts: Texts, form: str = "published") -> list[float]:
    return [idf(token, texts, form) * saturated(token, text, texts) for token in text]


def total(token: str, texts: Texts) -> float:
    """The saturated frequencies of a token, added one after another."""
    return sum(saturated(token, text, texts) for text in texts)


def scores(query: Sequence[str], texts: Texts) -> list[float]:
    return [sum(idf(t, texts, "plus_one") * saturated(t, text, texts) for t in query) for text in texts]
