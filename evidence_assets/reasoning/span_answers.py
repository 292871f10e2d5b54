"""Short answers that an extractive reader selects as spans of the facts and texts, without a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from evidence_assets.lake.ids import content_id
from evidence_assets.models.span_reader import MAX_SPAN_TOKENS, WINDOW_OVERLAP, Span
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer, ShortTask
from evidence_assets.reasoning.tasks import Failure, ReplyCost

VERSION = "1"
"""Raise it whenever equal input may get a different answer."""


class Reader(Protocol):
    """Selects the span of a text that answers a question, or none."""

    @property
    def model_id(self) -> str: ...
    @property
    def revision(self) -> str: ...
    def read(self, question: str, text: str) -> Span | None: ...


class SpanAnswers:
    """Answers with the reader's span of the facts, as ``(s, r, o)`` lines, and the texts.

    The fact or text with the span is the evidence used; only a sourced one supports the answer. Without facts and
    texts there is no answer.
    """

    name = "reader"

    def __init__(self, reader: Reader) -> None:
        self._reader, self.model_id = reader, f"{reader.model_id}@{reader.revision}"
        self.version = content_id("span_answers", VERSION, self.model_id, MAX_SPAN_TOKENS, WINDOW_OVERLAP)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order."""
        return [self._answer(task) for task in tasks]

    def _answer(self, task: ShortTask) -> ShortAnswer | Failure:
        lines = list(_lines(task))
        text = "\n".join(line for _, line, _ in lines)
        try:
            span = self._reader.read(task.question, text)
        except ValueError as error:
            return Failure(str(error))
        answer = text[span.start : span.end].strip() if span else ""
        if span is None or not answer:
            return NO_ANSWER
        reply = ReplyCost(self.model_id, span.tokens, 0, "stop")
        evidence_ids, is_sourced, start = list[str](), False, 0
        for evidence_id, line, sourced in lines:
            if start < span.end and span.start < start + len(line):
                evidence_ids.append(evidence_id)
                is_sourced |= sourced
            start += len(line) + 1
        supported = (answer,) if is_sourced else ()
        return ShortAnswer(answer, "answered", supported, tuple(evidence_ids), span.probability, reply)


def _lines(task: ShortTask) -> Iterator[tuple[str, str, bool]]:
    """Evidence id, line and whether it has a source, of each fact and text."""
    for fact in task.facts:
        yield fact.evidence_id, f"({fact.head}, {fact.relation}, {fact.tail})", fact.sourced
    for item in task.texts:
        yield item.evidence_id, " ".join(item.text.split()), True
