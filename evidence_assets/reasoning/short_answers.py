"""Short answers to questions from facts, in a few words or not at all: put to a language model, or worked out from the
facts alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray, Request
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.extractive import Statement, split_statements
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.tasks import EvidenceItem, Failure, Reasoner, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS, PromptSettings, Template
from evidence_assets.text.negation import is_denial
from evidence_assets.text.sentences import detect_language

VERSION = "7"
"""Changes whenever equal input may give another answer."""
MIN_WEIGHT = 0.36
"""Weight of a reading under which nothing is answered. These five were chosen on the first half of the sample's
questions, put without their options: docs/measured.md."""
MIN_WEIGHT_WITH_TEXT = 0.30
"""Weight that is enough where a text says it, too."""
MIN_RELATION_COSINE = 0.18
"""Cosine of what is asked with what the facts say, names left out, under which they do not say it."""
TIE_MARGIN = 0.06
"""Readings whose weights are nearer than this are not told apart."""
MIN_TEXT_COSINE = 0.72
"""Cosine from which on a statement of a text answers a question."""


@dataclass(frozen=True)
class ShortFact:
    """One retrieved triple as a solver sees it. ``sourced`` is False for what a model stated of its own knowledge."""

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
    """Answer a question in a few words; facts, and texts beside them or alone, are in the order of their rank."""

    question: str
    facts: tuple[ShortFact, ...]
    texts: tuple[EvidenceItem, ...] = ()


@dataclass(frozen=True)
class ShortAnswer:
    """``supported`` are the answers that the sourced facts themselves carry, ``used`` the evidence relied on."""

    answer: str | None
    status: str
    supported: tuple[str, ...] = ()
    evidence_ids: tuple[str, ...] = ()
    confidence: float | None = None
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


NO_ANSWER = ShortAnswer(None, "insufficient")


class ShortAnswerSolver(Reasoner, Protocol):
    """Answers short tasks in order."""

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]: ...


@dataclass(frozen=True)
class _Path:
    """One or two facts from a name that the question holds to one that it does not."""

    answer: str
    facts: tuple[ShortFact, ...]
    start: str
    steps: tuple[tuple[str, bool], ...]
    """Relations, and whether each is walked from head to tail."""

    @property
    def text(self) -> str:
        return ". ".join(fact.sentence for fact in self.facts)

    @property
    def relations(self) -> str:
        return " and ".join(fact.relation_words for fact in self.facts)

    def rest(self, question: str) -> str:
        """The question with its start taken out: what it asks of it."""
        return re.sub(re.escape(self.start), "it", question, flags=re.IGNORECASE)


class ExtractiveShortAnswers:
    """Answers with the end of the path of facts that is most similar to the question; uses no generator.

    A path begins at a name in the question and follows one fact, or two facts that share a name, to a name outside the
    question. Only sourced facts count. Paths with the same start, relations and directions form one reading of the
    question. The weight of a path p is ½ cos(q, facts of p) + ½ cos(q without the start, relations of p). A reading has
    the weight of its best path. The best reading must reach :data:`MIN_WEIGHT`: the end of its best path is the answer,
    and all its ends are supported. The confidence is its weight divided by the sum of its weight and the next
    reading's, or :data:`MIN_WEIGHT` if that is larger.

    With texts, the statement most similar to the question must reach :data:`MIN_TEXT_COSINE`. The answer is the first
    end of the best reading that this statement names; without facts it is the statement itself. Negated questions get
    no answer, because a fact says nothing about its negation.
    """

    name = "extractive"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self.model_id = encoder, f"extractive+{encoder.model_id}"
        self.version = content_id("short_answers", VERSION, encoder.model_id, encoder.revision)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer a task, in order."""
        paths = [_find_paths(task) for task in tasks]
        said = [[s for item in task.texts for s in split_statements(item)] for task in tasks]
        texts = dict.fromkeys(
            text
            for task, own, read in zip(tasks, paths, said, strict=True)
            for text in (
                task.question,
                *(t for p in own for t in (p.text, p.relations, p.rest(task.question))),
                *(statement.text for statement in read),
            )
        )
        counts = self._encoder.count_tokens(list(texts)) if texts else []
        short = [text for text, count in zip(texts, counts, strict=True) if count <= self._encoder.max_tokens]
        vectors = dict(zip(short, self._encoder.encode_sentences(short), strict=True)) if short else {}
        answers: list[ShortAnswer | Failure] = []
        for task, own, read in zip(tasks, paths, said, strict=True):
            if is_denial(task.question):
                answers.append(NO_ANSWER)
                continue
            of_facts = self._best(task, own, vectors)
            answers.append(_answer_from_text(task, of_facts, read, vectors) if read else of_facts)
        return answers

    def _best(self, task: ShortTask, paths: Sequence[_Path], vectors: dict[str, FloatArray]) -> ShortAnswer:
        readings: dict[tuple[str, tuple[tuple[str, bool], ...]], list[tuple[float, _Path]]] = {}
        said: dict[_Path, float] = {}
        for path in paths:
            pairs = ((task.question, path.text), (path.rest(task.question), path.relations))
            if all(text in vectors for pair in pairs for text in pair):
                whole, said[path] = (float(vectors[a] @ vectors[b]) for a, b in pairs)
                readings.setdefault((path.start, path.steps), []).append((round((whole + said[path]) / 2, 6), path))
        ranked = sorted(readings.values(), key=lambda own: -max(weight for weight, _ in own))
        if not ranked or max(weight for weight, _ in ranked[0]) < (MIN_WEIGHT_WITH_TEXT if task.texts else MIN_WEIGHT):
            return NO_ANSWER
        best = [path for _, path in sorted(ranked[0], key=lambda pair: -pair[0])]
        alone = said[best[0]] >= MIN_RELATION_COSINE and all(
            contains_quote(name, best[0].text) for name in _proper_names(task.question)
        )
        if not task.texts and not alone:
            return NO_ANSWER
        first, *others = [max(weight for weight, _ in own) for own in ranked[:2]]
        unclear = any(first - other < TIE_MARGIN for other in others)
        supported = tuple(dict.fromkeys(path.answer for path in best))
        used = dict.fromkeys(fact.evidence_id for path in best for fact in path.facts)
        confidence = round(first / (first + max([*others, MIN_WEIGHT])), 6)
        return ShortAnswer(supported[0], "ambiguous" if unclear else "answered", supported, tuple(used), confidence)


def _proper_names(question: str) -> list[str]:
    """Words that have a capital without beginning a sentence; in German every noun has one."""
    if detect_language(question) == "German":
        return []
    return [
        word
        for word in re.findall(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*", question)
        if word[0].isupper() and word != "I"
    ]


def _answer_from_text(
    task: ShortTask, of_facts: ShortAnswer, said: Sequence[Statement], vectors: dict[str, FloatArray]
) -> ShortAnswer:
    """What the statement nearest to the question says, or of the facts' answer, whether it is named there."""
    nearness = {s: float(vectors[task.question] @ vectors[s.text]) for s in said if s.text in vectors}
    nearest = max(nearness, key=lambda s: nearness[s], default=None) if task.question in vectors else None
    if nearest is None or nearness[nearest] < MIN_TEXT_COSINE:
        return NO_ANSWER
    confidence = round(min(1.0, nearness[nearest]), 6)
    if any(fact.sourced for fact in task.facts):
        named = next((end for end in of_facts.supported if contains_quote(end, nearest.quote)), None)
        if named is None:
            return NO_ANSWER
        used = (nearest.evidence_id, *of_facts.evidence_ids)
        return ShortAnswer(named, "answered", of_facts.supported, used, confidence)
    return ShortAnswer(nearest.quote, "answered", (nearest.quote,), (nearest.evidence_id,), confidence)


def _find_paths(task: ShortTask) -> list[_Path]:
    """All paths of one and two facts that begin in the question and end outside of it."""
    facts = [fact for fact in task.facts if fact.sourced]
    names = sorted({name for fact in facts for name in (fact.head, fact.tail)})
    spans = EntityLinker(names).find_spans(task.question)
    asked = {names[node] for span in spans for node in span.link.nodes}

    def steps(name: str) -> list[tuple[ShortFact, str, tuple[str, bool]]]:
        out = [(f, f.tail, (f.relation, True)) for f in facts if f.head == name]
        return out + [(f, f.head, (f.relation, False)) for f in facts if f.tail == name]

    found = []
    for start in sorted(asked):
        for first, middle, one in steps(start):
            if middle in asked:
                continue
            found.append(_Path(middle, (first,), start, (one,)))
            for second, end, two in steps(middle):
                if second != first and end not in asked and end != middle:
                    found.append(_Path(end, (first, second), start, (one, two)))
    return found


_PROMPT = Template.load(__package__, "short_answer", "facts question")
_FROM_TEXTS = Template.load(__package__, "short_answer_from_texts", "texts facts question")


def answer_request(task: ShortTask, prompts: PromptSettings = PACKAGED_PROMPTS) -> Request:
    """Ask for a short answer, with facts where there are any, or from texts."""
    listed = "".join(f"\n({fact.head}, {fact.relation}, {fact.tail})" for fact in task.facts)
    asked = json.dumps(task.question, ensure_ascii=False)
    if task.texts:
        quoted = "".join(f"\n{json.dumps(item.text, ensure_ascii=False)}" for item in task.texts)
        return prompts.of(_FROM_TEXTS).request(64, texts=quoted, facts=listed, question=asked)
    return prompts.of(_PROMPT).request(64, facts=listed, question=asked)


def parse_short_answer(reply: str) -> str | None:
    """The answer as it stands, None for N/A; an empty reply raises :class:`UnusableReply`."""
    text = reply.strip()
    if not text:
        raise UnusableReply("the reply is empty")
    return None if re.fullmatch(r"n\s*/?\s*a\.?", text, flags=re.IGNORECASE) else text


def _parse_reply(text: str, task: ShortTask) -> ShortAnswer:
    """A reply; from texts, it must stand in one. What it says beyond the names of sourced facts no source carries."""
    reply = parse_short_answer(text)
    if reply is None:
        return NO_ANSWER
    used = tuple(fact.evidence_id for fact in task.facts)
    if task.texts:
        holding = [item.evidence_id for item in task.texts if contains_quote(reply, item.text)]
        holding += [f.evidence_id for f in task.facts if f.sourced and contains_quote(reply, f.sentence)]
        if not holding:
            return NO_ANSWER
        return ShortAnswer(reply, "answered", (reply,), tuple(holding))
    names = sorted({name for f in task.facts if f.sourced for name in (f.head, f.tail)})
    spans = EntityLinker(names).find_spans(reply)
    supported = dict.fromkeys(names[node] for span in spans for node in span.link.nodes)
    return ShortAnswer(reply, "answered", tuple(supported), used)


SHORT_ANSWER = PromptedTask("short_answer", (_PROMPT, _FROM_TEXTS), answer_request, _parse_reply)


class PromptedShortAnswers:
    """Asks a language model, with the facts where there are any.

    ``supported`` are the sourced facts' names that the reply holds: what the model says beyond them no source carries.
    """

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        self.version = content_id(
            "prompted_short_answers", VERSION, SHORT_ANSWER.version_with(model.prompts), model.version
        )

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        return [replace(result, reply=reply) for result, reply in SHORT_ANSWER.ask_with_cost(self._model, tasks)]
