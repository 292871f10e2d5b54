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
from evidence_assets.models.protocols import Encoder, NamedModel, Request
from evidence_assets.models.span_reader import MAX_SPAN_TOKENS, WINDOW_OVERLAP, Span
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.extractive import split_statements
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import INSUFFICIENT_EVIDENCE
from evidence_assets.reasoning.spans.choice import find_answer, load_span_weights
from evidence_assets.reasoning.spans.passages import split_passages
from evidence_assets.reasoning.tasks import EvidenceItem, Failure, Reasoner, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template
from evidence_assets.text.negation import is_denial

VERSION, SPAN_VERSION = "16", "1"
"""Raise them whenever equal input may get a different answer; the second is that of :class:`SpanAnswers`."""
MIN_WEIGHT = 0.36
"""Minimum weight of a reading (:class:`ExtractiveShortAnswers`) that is answered. These five thresholds were tuned on
the first half of the sample's questions without their options: docs/measured.md."""
MIN_WEIGHT_WITH_TEXT = 0.30
"""Minimum weight of a reading that a text confirms."""
MIN_RELATION_COSINE = 0.18
"""Minimum cosine between question and facts without names; below it the facts do not answer the question."""
TIE_MARGIN = 0.06
"""Readings with a smaller difference in weight are tied."""
MIN_TEXT_COSINE = 0.72
"""Minimum cosine of a text's statement that confirms a fact."""


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

    question: str
    facts: tuple[ShortFact, ...]
    texts: tuple[EvidenceItem, ...] = ()


@dataclass(frozen=True)
class ShortAnswer:
    """An answer; ``supported`` has the answers that sourced facts support, ``evidence_ids`` the evidence used."""

    answer: str | None
    status: str
    supported: tuple[str, ...] = ()
    evidence_ids: tuple[str, ...] = ()
    confidence: float | None = None
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


NO_ANSWER = ShortAnswer(None, "insufficient")
_FAILURE = re.compile(r"\bfail\b(?!\s+to\b)")
"""No negation: "Why did the pump fail?"."""


class ShortAnswerSolver(Reasoner, Protocol):
    """Answers short tasks in order."""

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]: ...


@dataclass(frozen=True)
class _Path:
    """One or two facts from a name in the question to a name outside it."""

    answer: str
    facts: tuple[ShortFact, ...]
    start: str
    steps: tuple[tuple[str, bool], ...]
    """Relations, and whether the path follows each from head to tail."""

    @property
    def text(self) -> str:
        return ". ".join(fact.sentence for fact in self.facts)

    @property
    def relations(self) -> str:
        return " and ".join(fact.relation_words for fact in self.facts)

    def mask_start(self, question: str) -> str:
        """The question with the start of the path replaced by "it"."""
        return re.sub(re.escape(self.start), "it", question, flags=re.IGNORECASE)


class ExtractiveShortAnswers:
    """Answers with the end of the path of facts that is most similar to the question; uses no generator.

    A path begins at a name in the question and follows one fact, or two facts that share a name, to a name outside the
    question. Only sourced facts count. Paths with the same start, relations and directions form one reading of the
    question. The weight of a path p is ½ cos(q, facts of p) + ½ cos(q without the start, relations of p). A reading has
    the weight of its best path. The best reading must reach :data:`MIN_WEIGHT`: the end of its best path is the answer,
    and all its ends are supported. The confidence is its weight divided by the sum of its weight and the next
    reading's, or :data:`MIN_WEIGHT` if that is larger.

    With texts and facts, the statement most similar to the question must reach :data:`MIN_TEXT_COSINE`; the answer is
    the first end of the best reading that this statement names. With texts alone, the answer is a span of a sentence
    (:mod:`.spans.choice`), and the confidence its expected F1. Negated questions get no answer, because a fact says
    nothing about its negation.
    """

    name = "extractive"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self.model_id = encoder, f"extractive+{encoder.model_id}"
        self._weights = load_span_weights()
        self.version = content_id("short_answers", VERSION, encoder.model_id, encoder.revision, self._weights.version)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order."""
        return [self._answer(task) for task in tasks]

    def _answer(self, task: ShortTask) -> ShortAnswer:
        if is_denial(_FAILURE.sub("", task.question)):
            return NO_ANSWER
        if not any(fact.sourced for fact in task.facts):
            return self._answer_by_span(task) if task.texts else NO_ANSWER
        answer = self._answer_by_facts(task)
        return self._confirm_by_text(task, answer) if task.texts and answer.supported else answer

    def _answer_by_span(self, task: ShortTask) -> ShortAnswer:
        choice = find_answer(task.question, split_passages(task.texts), self._encoder, self._weights)
        if choice is None:
            return NO_ANSWER
        answer, passage = choice.candidate.text, choice.candidate.passage
        return ShortAnswer(answer, "answered", (answer,), (passage.evidence_id,), choice.confidence)

    def _answer_by_facts(self, task: ShortTask) -> ShortAnswer:
        paths = _find_paths(task)
        vectors = encode_ends(
            self._encoder,
            [task.question, *(t for p in paths for t in (p.text, p.relations, p.mask_start(task.question)))],
        )
        readings: dict[tuple[str, tuple[tuple[str, bool], ...]], list[tuple[float, float, _Path]]] = {}
        for path in paths:
            text_cosine = float(vectors[task.question] @ vectors[path.text])
            relation_cosine = float(vectors[path.mask_start(task.question)] @ vectors[path.relations])
            weight = round((text_cosine + relation_cosine) / 2, 6)
            readings.setdefault((path.start, path.steps), []).append((weight, relation_cosine, path))
        ranked = sorted(
            (sorted(reading, key=lambda row: -row[0]) for reading in readings.values()), key=lambda rows: -rows[0][0]
        )
        if not ranked or ranked[0][0][0] < (MIN_WEIGHT_WITH_TEXT if task.texts else MIN_WEIGHT):
            return NO_ANSWER
        weight, relation_cosine, best = ranked[0][0]
        is_sufficient = relation_cosine >= MIN_RELATION_COSINE and all(
            contains_quote(name, best.text) for name in _proper_names(task.question)
        )
        if not task.texts and not is_sufficient:
            return NO_ANSWER
        next_weight = ranked[1][0][0] if len(ranked) > 1 else 0.0
        supported = tuple(dict.fromkeys(path.answer for _, _, path in ranked[0]))
        ids = dict.fromkeys(fact.evidence_id for _, _, path in ranked[0] for fact in path.facts)
        status = "ambiguous" if weight - next_weight < TIE_MARGIN else "answered"
        confidence = round(weight / (weight + max(next_weight, MIN_WEIGHT)), 6)
        return ShortAnswer(supported[0], status, supported, tuple(ids), confidence)

    def _confirm_by_text(self, task: ShortTask, fact_answer: ShortAnswer) -> ShortAnswer:
        """The first supported answer of the facts that the most similar statement names."""
        statements = [statement for item in task.texts for statement in split_statements(item)]
        vectors = encode_ends(self._encoder, [task.question, *(statement.text for statement in statements)])
        cosines = {s: float(vectors[task.question] @ vectors[s.text]) for s in statements}
        nearest = max(cosines, key=lambda s: cosines[s], default=None)
        if nearest is None or cosines[nearest] < MIN_TEXT_COSINE:
            return NO_ANSWER
        answer = next((end for end in fact_answer.supported if contains_quote(end, nearest.quote)), None)
        if answer is None:
            return NO_ANSWER
        evidence_ids = (nearest.evidence_id, *fact_answer.evidence_ids)
        confidence = round(min(1.0, cosines[nearest]), 6)
        return ShortAnswer(answer, "answered", fact_answer.supported, evidence_ids, confidence)


def _proper_names(question: str) -> list[str]:
    """Capitalized words inside sentences."""
    return [
        word
        for word in re.findall(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*", question)
        if word[0].isupper() and word != "I"
    ]


def _find_paths(task: ShortTask) -> list[_Path]:
    """All paths of one or two sourced facts that start in the question and end outside it."""
    facts = [fact for fact in task.facts if fact.sourced]
    names = sorted({name for fact in facts for name in (fact.head, fact.tail)})
    spans = EntityLinker(names).find_spans(task.question)
    question_names = {names[node] for span in spans for node in span.link.nodes}

    def steps(name: str) -> list[tuple[ShortFact, str, tuple[str, bool]]]:
        forward = [(f, f.tail, (f.relation, True)) for f in facts if f.head == name]
        return forward + [(f, f.head, (f.relation, False)) for f in facts if f.tail == name]

    paths = []
    for start in sorted(question_names):
        for first, middle, first_step in steps(start):
            if middle in question_names:
                continue
            paths.append(_Path(middle, (first,), start, (first_step,)))
            for second, end, second_step in steps(middle):
                if second != first and end not in question_names and end != middle:
                    paths.append(_Path(end, (first, second), start, (first_step, second_step)))
    return paths


_PROMPT = Template.load(__package__, "short_answer", "facts question")
_FROM_TEXTS = Template.load(__package__, "short_answer_from_texts", "texts facts question")


def answer_request(task: ShortTask, prompts: Prompts = PACKAGED) -> Request:
    """Request a short answer from facts, if any, or from texts."""
    fact_lines = "".join(f"\n({fact.head}, {fact.relation}, {fact.tail})" for fact in task.facts)
    question = json.dumps(task.question, ensure_ascii=False)
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


SHORT_ANSWER = PromptedTask("short_answer", (_PROMPT, _FROM_TEXTS), answer_request, _parse_reply)


class PromptedShortAnswers:
    """Asks a language model, with the retrieved facts and texts.

    ``supported`` has the names of sourced facts in the reply; no source supports the rest of it.
    """

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self.version = content_id(
            "prompted_short_answers", VERSION, SHORT_ANSWER.version_with(model.prompts), model.version
        )

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        return [replace(result, reply=reply) for result, reply in SHORT_ANSWER.ask_with_cost(self._model, tasks)]


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
        self._reader, self.model_id = reader, f"{reader.model_id}@{reader.revision}"
        self.version = content_id("span_answers", SPAN_VERSION, self.model_id, MAX_SPAN_TOKENS, WINDOW_OVERLAP)

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
