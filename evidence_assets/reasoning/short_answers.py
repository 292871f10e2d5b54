"""Short answers to questions from facts and texts: by a language model, extracted without one, or by a span reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import NamedModel, Request
from evidence_assets.models.span_reader import MAX_SPAN_TOKENS, WINDOW_OVERLAP, Span
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.reply_parsing import INSUFFICIENT_EVIDENCE
from evidence_assets.reasoning.tasks import ChainStep, EvidenceItem, Failure, Reasoner, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template

VERSION = "28"
SPAN_VERSION = "1"
"""Raise them whenever equal input may get a different answer; the second is that of :class:`SpanAnswers`."""


@dataclass(frozen=True)
class ShortFact:
    """A retrieved triple; ``sourced`` is False if it is a model's own knowledge."""

    evidence_id: str
    head: str
    relation: str
    tail: str
    sentence: str
    sourced: bool = True

    @property
    def relation_words(self) -> str:
        return " ".join(self.sentence.replace(self.head, "", 1).replace(self.tail, "", 1).split()) or self.relation


@dataclass(frozen=True)
class ShortTask:
    """A question to answer in a few words, with facts and texts by rank."""

    question: Question
    facts: tuple[ShortFact, ...]
    texts: tuple[EvidenceItem, ...] = ()

    @property
    def has_only_texts(self) -> bool:
        """Whether it is put to texts alone."""
        return bool(self.texts) and not self.facts


@dataclass(frozen=True)
class ShortAnswer:
    """An answer; ``supported`` has the answers that sourced facts support, ``evidence_ids`` the evidence used.

    ``steps``: Its sentences with the evidence that carries each, where these are not the evidence's own words.
    """

    answer: str | None
    status: str
    supported: tuple[str, ...] = ()
    evidence_ids: tuple[str, ...] = ()
    confidence: float | None = None
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)
    steps: tuple[ChainStep, ...] = ()

    @classmethod
    def of_steps(cls, steps: Sequence[ChainStep], confidence: float, text: str | None = None) -> ShortAnswer:
        """An answer that consists of these sentences; ``text`` joins several."""
        answer = steps[0].text if text is None else text
        evidence_ids = dict.fromkeys(evidence_id for step in steps for evidence_id in step.cited)
        return cls(answer, "answered", (answer,), tuple(evidence_ids), confidence, steps=tuple(steps))


NO_ANSWER = ShortAnswer(None, "insufficient")


class ShortAnswerSolver(Reasoner, Protocol):
    """Answers short tasks in order."""

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]: ...


class ShortAnswerRules(ShortAnswerSolver, Protocol):
    """A solver without a language model, which also rates the answers of one."""

    def confirm(self, task: ShortTask, answer: ShortAnswer) -> ShortAnswer:
        """The answer to a task of facts alone with its probability; ambiguous if the facts do not lead to it."""
        ...


_PROMPT = Template.load(__package__, "short_answer", "facts question")
_FROM_TEXTS = Template.load(__package__, "short_answer_from_texts", "texts facts question")


def answer_request(task: ShortTask, prompts: Prompts = PACKAGED) -> Request:
    """Request a short answer from facts, if any, or from texts."""
    fact_lines = "".join(f"\n({fact.head}, {fact.relation}, {fact.tail})" for fact in task.facts)
    question = json.dumps(task.question.text, ensure_ascii=False)
    if task.texts:
        text_lines = "".join(f"\n{json.dumps(item.text, ensure_ascii=False)}" for item in task.texts)
        return prompts.customize(_FROM_TEXTS).request(64, texts=text_lines, facts=fact_lines, question=question)
    return prompts.customize(_PROMPT).request(64, facts=fact_lines, question=question)


def parse_short_answer(reply: str) -> str | None:
    """The reply as an answer, without markup; None for N/A or too few facts. Raises UnusableReply if it is empty."""
    text = re.sub(r"^\W*answer\W*:", "", reply, flags=re.IGNORECASE).strip(" \n*_`")
    if not text:
        raise UnusableReply("the reply is empty")
    is_missing = re.fullmatch(r"n\s*/?\s*a\.?", text, re.IGNORECASE) or INSUFFICIENT_EVIDENCE.search(text)
    return None if is_missing else text


def _parse_reply(text: str, task: ShortTask) -> ShortAnswer:
    """Parse a reply; with texts, one must contain it. Only names of sourced facts in it are supported."""
    reply = parse_short_answer(text)
    if reply is None:
        return NO_ANSWER
    evidence_ids = tuple(fact.evidence_id for fact in task.facts)
    if task.texts:
        containing = [item.evidence_id for item in task.texts if contains_quote(reply, item.text)]
        containing += [f.evidence_id for f in task.facts if f.sourced and contains_quote(reply, f.sentence)]
        if not containing:
            return NO_ANSWER
        return ShortAnswer(reply, "answered", (reply,), tuple(containing))
    names = sorted({name for f in task.facts if f.sourced for name in (f.head, f.tail)})
    spans = EntityLinker(names).find_spans(reply)
    supported = dict.fromkeys(names[node] for span in spans for node in span.link.nodes)
    return ShortAnswer(reply, "answered", tuple(supported), evidence_ids)


SHORT_ANSWER = PromptedTask(
    "short_answer", (_PROMPT, _FROM_TEXTS), answer_request, _parse_reply, accepts_truncated=True
)
"""A model may elaborate, and an answer that includes the right one counts (Ho, Nguyen, 5.1): a reply that ends at the
token limit is parsed."""


class PromptedShortAnswers:
    """Asks a language model, with the retrieved facts and texts; ``from_texts`` answers from texts alone.

    ``rules``: Answers from facts alone what it is sure of, with its probability, before the model, and confirms what
    the model answers from facts alone; by default it does neither.

    ``supported`` has the names of sourced facts in the reply; no source supports the rest of it.
    """

    name = "prompted"

    def __init__(
        self, model: LanguageModel, from_texts: ShortAnswerSolver, rules: ShortAnswerRules | None = None
    ) -> None:
        self._model = model
        self._from_texts = from_texts
        self._rules = rules
        self.model_id = model.model_id
        versions = [SHORT_ANSWER.version_with(model.prompts), model.version, from_texts.version]
        versions += [rules.version] if rules else []
        self.version = content_id("prompted_short_answers", VERSION, *versions)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order."""
        answers = self._answer_by_rules(tasks)
        of_texts = [number for number, task in enumerate(tasks) if task.has_only_texts]
        if of_texts:
            answers |= zip(of_texts, self._from_texts.answer([tasks[number] for number in of_texts]), strict=True)
        others = [number for number in range(len(tasks)) if number not in answers]
        replies = SHORT_ANSWER.ask_with_cost(self._model, [tasks[number] for number in others]) if others else ()
        for number, (result, reply) in zip(others, replies, strict=True):
            answers[number] = self._confirm(tasks[number], replace(result, reply=reply))
        return [answers[number] for number in range(len(tasks))]

    def _confirm(self, task: ShortTask, answer: ShortAnswer | Failure) -> ShortAnswer | Failure:
        if self._rules is None or isinstance(answer, Failure) or task.texts or not task.facts:
            return answer
        return self._rules.confirm(task, answer)

    def _answer_by_rules(self, tasks: Sequence[ShortTask]) -> dict[int, ShortAnswer | Failure]:
        """The sure answers of the rules from facts alone, by the position of their task."""
        if self._rules is None:
            return {}
        of_facts = [number for number, task in enumerate(tasks) if task.facts and not task.texts]
        answers = self._rules.answer([tasks[number] for number in of_facts])
        by_number = dict(zip(of_facts, answers, strict=True))
        return {n: a for n, a in by_number.items() if isinstance(a, ShortAnswer) and a.status == "answered"}


class Reader(NamedModel, Protocol):
    """Selects the span of a text that answers a question, or none."""

    def read(self, question: str, text: str) -> Span | None: ...


class SpanAnswers:
    """Answers with the reader's span of the facts, as ``(s, r, o)`` lines, and the texts.

    The fact or text with the span is the evidence used; only a sourced one supports the answer. Without facts and
    texts there is no answer.
    """

    name = "reader"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.model_id = f"{reader.model_id}@{reader.revision}"
        self.version = content_id("span_answers", SPAN_VERSION, self.model_id, MAX_SPAN_TOKENS, WINDOW_OVERLAP)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order."""
        return [self._answer(task) for task in tasks]

    def _answer(self, task: ShortTask) -> ShortAnswer | Failure:
        lines = list(_lines(task))
        text = "\n".join(line for _, line, _ in lines)
        try:
            span = self._reader.read(task.question.text, text)
        except ValueError as error:
            return Failure(str(error))
        answer = text[span.start : span.end].strip() if span else ""
        if span is None or not answer:
            return NO_ANSWER
        reply = ReplyCost(self.model_id, span.tokens, 0, "stop")
        evidence_ids = list[str]()
        is_sourced = False
        start = 0
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
