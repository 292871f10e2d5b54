"""Short answers without a language model: from paths of facts, confirmed by texts, or spans of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.extractive.spans.choice import find_answer, load_span_weights
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.short_answers import NO_ANSWER, VERSION, ShortAnswer, ShortFact, ShortTask
from evidence_assets.reasoning.statements import split_statements
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.text.negation import is_denial

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


_FAILURE = re.compile(r"\bfail\b(?!\s+to\b)")
"""No negation: "Why did the pump fail?"."""


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
        self._encoder = encoder
        self.model_id = f"extractive+{encoder.model_id}"
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
        answer = choice.candidate.text
        passage = choice.candidate.passage
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
