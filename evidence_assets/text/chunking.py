"""Cutting documents into chunks at sentence ends, within a number of tokens, losing no character of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.text.sentences import Span, sentence_spans, trim_span

CountTokens = Callable[[Sequence[str]], Sequence[int]]
TOKEN_COUNT_BATCH = 4096
"""Texts whose tokens are counted in one call: a tokenizer holds a hundred times a text's length while it reads it."""


@dataclass(frozen=True)
class Chunk:
    """A piece of a document: its span, its sentences' spans (within the document) and its number of tokens."""

    start: int
    end: int
    sentences: tuple[Span, ...]
    n_tokens: int


def _split_span(text: str, span: Span, count: CountTokens, limit: int) -> Iterator[tuple[Span, int]]:
    """``span`` cut at spaces, and inside a word only where the word alone is too long, into parts within ``limit``."""
    pending = [span]
    while pending:
        start, end = trim_span(text, pending.pop())
        if start >= end:
            continue
        # A token is at least one character for every tokenizer but byte-level ones; counting a very long text whole
        # would be slow, so that it is first cut by length alone.
        tokens = count([text[start:end]])[0] if end - start <= 20 * limit else limit + 1
        if tokens <= limit:
            yield (start, end), tokens
            continue
        if end - start == 1:
            raise ValueError(f"one character takes {tokens} tokens, more than the limit of {limit}")
        middle = (start + end) // 2
        space = text.rfind(" ", start + 1, middle)
        cut = space if space > start else text.find(" ", middle, end - 1)
        cut = cut if start < cut < end else middle
        pending += [(cut, end), (start, cut)]


def _count_in_batches(text: str, spans: Sequence[Span], count: CountTokens) -> Iterator[int]:
    for start in range(0, len(spans), TOKEN_COUNT_BATCH):
        yield from count([text[a:b] for a, b in spans[start : start + TOKEN_COUNT_BATCH]])


def split_chunks(text: str, count: CountTokens, limit: int) -> list[Chunk]:
    """Chunks of at most ``limit`` tokens, as many whole sentences in each as fit.

    A sentence that alone is too long is cut at spaces. Every character that is not white space is in exactly one chunk.
    """
    parts: list[tuple[Span, int]] = []
    spans = sentence_spans(text)
    short = [span for span in spans if span[1] - span[0] <= 20 * limit]
    counted = dict(zip(short, _count_in_batches(text, short, count), strict=True))
    for span in spans:
        tokens = counted.get(span, limit + 1)
        if tokens <= limit:
            parts.append((span, tokens))
        else:
            parts += _split_span(text, span, count, limit)
    groups: list[list[tuple[Span, int]]] = []
    total = limit + 1
    for part in parts:
        if total + part[1] > limit:
            groups.append([])
            total = 0
        groups[-1].append(part)
        total += part[1]
    # Tokenizers are not exactly additive over sentences: groups that are too long together are halved until they fit.
    finished: list[Chunk] = []
    while groups:
        whole = [(group[0][0][0], group[-1][0][1]) for group in groups]
        again: list[list[tuple[Span, int]]] = []
        for group, tokens in zip(groups, _count_in_batches(text, whole, count), strict=True):
            if tokens <= limit or len(group) == 1:
                finished.append(Chunk(group[0][0][0], group[-1][0][1], tuple(span for span, _ in group), tokens))
            else:
                again += [group[: len(group) // 2], group[len(group) // 2 :]]
        groups = again
    return sorted(finished, key=lambda chunk: chunk.start)
