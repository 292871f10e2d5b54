"""Spans as short answers: the fact with the span is the evidence, and only a sourced one supports the answer."""

from __future__ import annotations

from evidence_assets.models.span_reader import Span
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortFact, ShortTask
from evidence_assets.reasoning.span_answers import SpanAnswers
from evidence_assets.reasoning.tasks import EvidenceItem, Failure

FACTS = (
    ShortFact("e1", "web", "made by", "spider", "web made by spider"),
    ShortFact("e2", "milk", "made by", "cow", "milk made by cow", sourced=False),
)
TEXTS = (EvidenceItem("e3", "chunk", "d", "0:9", "A cat\npurrs."),)


class WordReader:
    """Finds the last word of the question in the text."""

    model_id, revision = "word-reader", "1"

    def read(self, question: str, text: str) -> Span | None:
        word = question.split()[-1]
        if word == "long":
            raise ValueError("the question is too long")
        if word == "all":
            return Span(0, len(text), 0.5, 9)
        start = text.find(word)
        return Span(start, start + len(word), 0.75, 9) if start >= 0 else None


def answer(question: str, task: ShortTask | None = None) -> ShortAnswer | Failure:
    return SpanAnswers(WordReader()).answer([task or ShortTask(question, FACTS, TEXTS)])[0]


def test_the_fact_with_the_span_is_the_evidence() -> None:
    sourced, recalled, text = answer("find spider"), answer("find cow"), answer("find purrs")
    assert sourced == ShortAnswer("spider", "answered", ("spider",), ("e1",), 0.75)
    assert recalled == ShortAnswer("cow", "answered", (), ("e2",), 0.75), "no source supports what a model recalled"
    assert text == ShortAnswer("purrs", "answered", ("purrs",), ("e3",), 0.75)
    assert isinstance(sourced, ShortAnswer) and sourced.reply is not None
    assert (sourced.reply.model, sourced.reply.tokens_in) == ("word-reader@1", 9)


def test_a_span_over_two_facts_uses_both() -> None:
    result = answer("find all", ShortTask("find all", FACTS))
    assert isinstance(result, ShortAnswer) and result.evidence_ids == ("e1", "e2")


def test_without_a_span_there_is_no_answer() -> None:
    assert answer("find dog") == answer("", ShortTask("find spider", ())) == ShortAnswer(None, "insufficient")
    assert answer("too long") == Failure("the question is too long")
