"""Candidates for short answers: spans of a sentence, and what kind of span a question asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise

from evidence_assets.text.tokens import DETERMINERS, LISTS, Word

MAX_CHUNK_WORDS = 5
"""Maximum words of a span within one run of content words."""
MAX_JOINED_WORDS = 3
"""Maximum words on each side of a word that joins two runs, such as "of"."""


def find_candidates(words: Sequence[Word]) -> list[tuple[int, int]]:
    """Spans of a sentence that may answer a question, as first and last-plus-one word.

    Within a run of content words every short span is one; runs are joined by words such as "of", names by particles,
    and lists by commas.
    """
    runs = _content_runs(words)
    spans = (_short_spans(runs), _joined_spans(words, runs), _names(words), _lists(words, runs), _reasons(words))
    return list(dict.fromkeys(chain.from_iterable(spans)))


def _content_runs(words: Sequence[Word]) -> list[tuple[int, int]]:
    runs = []
    for is_content, group in groupby(range(len(words)), key=lambda n: words[n].is_content):
        numbers = list(group)
        if is_content:
            runs.append((numbers[0], numbers[-1] + 1))
    return runs


def _short_spans(runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans of few words within a run, and a run of more words as a whole."""
    for start, end in runs:
        for first in range(start, end):
            for last in range(first + 1, min(end, first + MAX_CHUNK_WORDS) + 1):
                yield first, last
        if MAX_CHUNK_WORDS < end - start <= 2 * MAX_CHUNK_WORDS:
            yield start, end


def _joined_spans(words: Sequence[Word], runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ends of two runs with a word such as "of", and a determiner, between them."""
    for (start, end), (next_start, next_end) in pairwise(runs):
        between = [word.lower for word in words[end:next_start]]
        if len(between) > 2 or between[0] not in LISTS["joining"] or not set(between[1:]) <= DETERMINERS:
            continue
        for first in range(max(start, end - MAX_JOINED_WORDS), end):
            for last in range(next_start + 1, min(next_end, next_start + MAX_JOINED_WORDS) + 1):
                yield first, last


def _names(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Capitalized words joined by particles, such as "William the Conqueror"."""
    number = 0
    while number < len(words):
        if not (words[number].is_capital and words[number].is_content):
            number += 1
            continue
        end = last = number + 1
        while end < len(words) and end - last <= 2:
            if words[end].is_content and (words[end].is_capital or words[end].text[0].isdigit()):
                last = end + 1
            elif words[end].lower not in LISTS["particles"]:
                break
            end += 1
        if last - number > 1:
            yield number, last
        number = last


def _lists(words: Sequence[Word], runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Runs joined by commas and "and" or "or", with all words of the first run or its last, after a verb."""
    joins = [
        {word.lower for word in words[end:start]} <= LISTS["list_joining"] for (_, end), (start, _) in pairwise(runs)
    ]
    for first in range(len(runs)):
        last = first
        while last < len(joins) and joins[last]:
            last += 1
            if last - first >= 1:
                yield runs[first][0], runs[last][1]
                yield runs[first][1] - 1, runs[last][1]


def _reasons(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """The clause after "because", "due to" or "so that", to the next mark other than a comma, and to each comma."""
    for number, word in enumerate(words):
        next_word = words[number + 1].lower if number + 1 < len(words) else ""
        if word.lower not in LISTS["reason_markers"] or (word.lower == "so" and next_word != "that"):
            continue
        first = next((n for n in range(number + 1, len(words)) if words[n].lower not in ("of", "to", "that")), 0)
        ends = [n for n in range(first, len(words)) if words[n].text in ".;:!?,"] or [len(words)]
        last_end = next((n for n in ends if n < len(words) and words[n].text != ","), len(words))
        yield from ((first, last) for last in ends if number < first < last <= last_end)


CANDIDATE_KINDS = ("date", "quantity", "number", "name", "mixed", "phrase")


def candidate_kind(words: Sequence[Word], *, is_start: bool = False) -> str:
    """One of :data:`CANDIDATE_KINDS` for the words of a span.

    ``is_start``: Whether the span starts its sentence, where a capital says nothing.
    """
    lowers = {word.lower for word in words}
    has_number = any(word.is_number for word in words)
    if any(word.is_year or ":" in word.text for word in words) or lowers & (LISTS["clear_months"] | LISTS["days"]):
        return "date"
    if has_number and lowers & (LISTS["months"] | LISTS["date_units"]):
        return "date"
    if has_number:
        return "number" if len(words) == 1 else "quantity"
    content = [word for word in words if word.is_content]
    n_capital = sum(word.is_capital for word in content)
    if is_start and n_capital == 1 and words[0].is_capital:
        return "phrase" if len(content) == 1 or words[0].lower.endswith(("ly", "ed")) else "mixed"
    if n_capital and n_capital == len(content):
        return "name"
    return "mixed" if n_capital else "phrase"
