"""Splitting documents into chunks at sentence ends, within a token limit and without losing text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class _Piece(NamedTuple):
    """A sentence, or a part of one that is too long for a chunk."""

    start: int
    end: int
    n_tokens: int


def split_chunks(text: str, count: CountTokens, limit: int) -> list[Chunk]:
    """Split a text into chunks of at most ``limit`` tokens, each with as many complete sentences as fit.

    A sentence above the limit is split at spaces. Every character except white space is in exactly one chunk.
    """
    groups = _group_pieces(_split_pieces(text, count, limit), limit)
    # Token counts are not exactly additive over sentences: groups above the limit are halved until they fit.
    chunks: list[Chunk] = []
    while groups:
        spans = [(group[0].start, group[-1].end) for group in groups]
        too_long: list[list[_Piece]] = []
        for group, span, tokens in zip(groups, spans, _count_in_batches(text, spans, count), strict=True):
            if tokens <= limit or len(group) == 1:
                chunks.append(Chunk(*span, tuple((piece.start, piece.end) for piece in group), tokens))
            else:
                too_long += [group[: len(group) // 2], group[len(group) // 2 :]]
        groups = too_long
    return sorted(chunks, key=lambda chunk: chunk.start)


def _split_pieces(text: str, count: CountTokens, limit: int) -> Iterator[_Piece]:
    """The sentences of a text, those above the limit in parts."""
    spans = sentence_spans(text)
    short = [span for span in spans if span[1] - span[0] <= 20 * limit]
    token_counts = dict(zip(short, _count_in_batches(text, short, count), strict=True))
    for span in spans:
        tokens = token_counts.get(span, limit + 1)
        if tokens <= limit:
            yield _Piece(*span, tokens)
        else:
            yield from _split_span(text, span, count, limit)


def _split_span(text: str, span: Span, count: CountTokens, limit: int) -> Iterator[_Piece]:
    """Split a span into pieces within ``limit``, at spaces, or inside a word that alone is too long."""
    pending = [span]
    while pending:
        start, end = trim_span(text, pending.pop())
        if start >= end:
            continue
        # Counting the tokens of a very long text is slow, so it is first split by length.
        tokens = count([text[start:end]])[0] if end - start <= 20 * limit else limit + 1
        if tokens <= limit:
            yield _Piece(start, end, tokens)
            continue
        if end - start == 1:
            raise ValueError(f"one character has {tokens} tokens, more than the limit of {limit}")
        middle = (start + end) // 2
        space = text.rfind(" ", start + 1, middle)
        split = space if space > start else text.find(" ", middle, end - 1)
        split = split if start < split < end else middle
        pending += [(split, end), (start, split)]


def _group_pieces(pieces: Iterable[_Piece], limit: int) -> list[list[_Piece]]:
    """Successive pieces, as many as fit in a chunk by the sum of their tokens."""
    groups: list[list[_Piece]] = []
    total = limit + 1
    for piece in pieces:
        if total + piece.n_tokens > limit:
            groups.append([])
            total = 0
        groups[-1].append(piece)
        total += piece.n_tokens
    return groups


def _count_in_batches(text: str, spans: Sequence[Span], count: CountTokens) -> Iterator[int]:
    for start in range(0, len(spans), TOKEN_COUNT_BATCH):
        yield from count([text[a:b] for a, b in spans[start : start + TOKEN_COUNT_BATCH]])
