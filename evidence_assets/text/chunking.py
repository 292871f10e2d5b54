"""Splitting documents into chunks at sentence ends, within a token limit and without losing text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.text.sentences import Span, sentence_spans, trim_span

CountTokens = Callable[[Sequence[str]], Sequence[int]]
TOKEN_COUNT_BATCH = 4096
"""Texts per call of the tokenizer, which needs a hundred times a text's length in memory."""


@dataclass(frozen=True)
class Chunk:
    """A chunk of a document: its span, the spans of its sentences (within the document) and its number of tokens."""

    start: int
    end: int
    sentences: tuple[Span, ...]
    n_tokens: int


def _split_span(text: str, span: Span, count: CountTokens, limit: int) -> Iterator[tuple[Span, int]]:
    """Split a span into spans within ``limit``, at spaces, or inside a word that alone is too long."""
    pending = [span]
    while pending:
        start, end = trim_span(text, pending.pop())
        if start >= end:
            continue
        # Counting the tokens of a very long text is slow, so it is first split by length.
        tokens = count([text[start:end]])[0] if end - start <= 20 * limit else limit + 1
        if tokens <= limit:
            yield (start, end), tokens
            continue
        if end - start == 1:
            raise ValueError(f"one character has {tokens} tokens, more than the limit of {limit}")
        middle = (start + end) // 2
        space = text.rfind(" ", start + 1, middle)
        split = space if space > start else text.find(" ", middle, end - 1)
        split = split if start < split < end else middle
        pending += [(split, end), (start, split)]


def _count_in_batches(text: str, spans: Sequence[Span], count: CountTokens) -> Iterator[int]:
    for start in range(0, len(spans), TOKEN_COUNT_BATCH):
        yield from count([text[a:b] for a, b in spans[start : start + TOKEN_COUNT_BATCH]])


def split_chunks(text: str, count: CountTokens, limit: int) -> list[Chunk]:
    """Split a text into chunks of at most ``limit`` tokens, each with as many complete sentences as fit.

    A sentence above the limit is split at spaces. Every character except white space is in exactly one chunk.
    """
    pieces: list[tuple[Span, int]] = []
    spans = sentence_spans(text)
    short = [span for span in spans if span[1] - span[0] <= 20 * limit]
    token_counts = dict(zip(short, _count_in_batches(text, short, count), strict=True))
    for span in spans:
        tokens = token_counts.get(span, limit + 1)
        if tokens <= limit:
            pieces.append((span, tokens))
        else:
            pieces += _split_span(text, span, count, limit)
    groups: list[list[tuple[Span, int]]] = []
    total = limit + 1
    for piece in pieces:
        if total + piece[1] > limit:
            groups.append([])
            total = 0
        groups[-1].append(piece)
        total += piece[1]
    # Token counts are not exactly additive over sentences: groups above the limit are halved until they fit.
    finished: list[Chunk] = []
    while groups:
        group_spans = [(group[0][0][0], group[-1][0][1]) for group in groups]
        too_long: list[list[tuple[Span, int]]] = []
        for group, tokens in zip(groups, _count_in_batches(text, group_spans, count), strict=True):
            if tokens <= limit or len(group) == 1:
                finished.append(Chunk(group[0][0][0], group[-1][0][1], tuple(span for span, _ in group), tokens))
            else:
                too_long += [group[: len(group) // 2], group[len(group) // 2 :]]
        groups = too_long
    return sorted(finished, key=lambda chunk: chunk.start)
