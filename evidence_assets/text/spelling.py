"""Suggestions for unknown names in error messages."""

from __future__ import annotations

from collections.abc import Iterable

LISTED_NAMES = 20
"""Most names that a message lists."""
SUGGESTED_NAMES = 3
"""Most similar names that a message suggests."""
SIMILAR = 0.7
"""Minimum similarity of two names: one minus their edit distance, relative to the longer one."""
SHORTEST_EDITED = 3
SIMILAR_SHORT = 0.6
"""Minimum similarity of names of three characters, so that one may differ."""
SIMILAR_START = 0.85
"""Minimum similarity of a name and the start of a longer one."""
SHORTEST_START = 4
TOLERANCE = 0.05
"""How much less similar than the best a suggested name may be."""


def measure_similarity(name: str, other: str) -> float:
    """One minus the Damerau–Levenshtein distance, relative to the longer name."""
    from rapidfuzz.distance import DamerauLevenshtein  # here, as every command would wait for it

    return DamerauLevenshtein.normalized_similarity(name, other)


def rate_whole(name: str, other: str) -> float:
    """Similarity of two names, 0 if they are not similar."""
    similarity = measure_similarity(name, other)
    is_short = max(len(name), len(other)) == SHORTEST_EDITED
    return similarity if similarity >= (SIMILAR_SHORT if is_short else SIMILAR) else 0.0


def rate_start(name: str, other: str) -> float:
    """Similarity of the shorter name and the start of the longer one, less if the longer one is ``name``."""
    shorter, longer = sorted((name, other), key=len)
    if len(shorter) < SHORTEST_START:
        return 0.0
    starts = (longer[: len(shorter) + change] for change in (-1, 0, 1))
    similarity = max(measure_similarity(shorter, start) for start in starts)
    if similarity < SIMILAR_START:
        return 0.0
    share = len(shorter) / len(longer)
    return similarity * (SIMILAR + (1 - SIMILAR) * share if len(name) <= len(other) else share)


def closest_names(name: str, names: Iterable[str]) -> list[str]:
    """At most three similar names, upper or lower case, best first; those that are about as similar as the best."""
    text = name.casefold()
    others = {other: other.casefold() for other in names}
    ratings = {other: max(rate_whole(text, key), rate_start(text, key)) for other, key in others.items()}
    best = max(ratings.values(), default=0.0)
    similar = [other for other, rating in ratings.items() if rating > 0 and rating >= best - TOLERANCE]
    return sorted(similar, key=lambda other: -ratings[other])[:SUGGESTED_NAMES]


def closest_name(name: str, names: Iterable[str]) -> str:
    """The most similar of ``names``, upper or lower case; empty if none is similar."""
    return next(iter(closest_names(name, names)), "")


def did_you_mean(name: str, names: Iterable[str], most: int = LISTED_NAMES) -> str:
    """The end of a sentence about an unknown name: similar names as a question, or up to ``most`` names."""
    listed = list(names)
    suggestions = [repr(suggestion) for suggestion in closest_names(name, listed)]
    if suggestions:
        alternatives = [", ".join(suggestions[:-1]), suggestions[-1]]
        return f"; did you mean {' or '.join(filter(None, alternatives))}?"
    more = ", …" if len(listed) > most else ""
    return f". There are: {', '.join(listed[:most])}{more}." if listed else ". There are none."
