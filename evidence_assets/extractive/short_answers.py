"""Short answers without a language model: from paths of facts, confirmed by texts, or spans of texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.extractive.spans.choice import find_answer, load_span_weights
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.short_answers import NO_ANSWER, VERSION, ShortAnswer, ShortFact, ShortTask
from evidence_assets.reasoning.statements import split_statements
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.text.negation import is_denial

THRESHOLDS_FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class ShortAnswerThresholds:
    """Thresholds of answers by facts, chosen once by measurement.

    Other values need another ``reasoning.short_answers.VERSION``.
    """

    min_weight: float
    """Minimum weight of a reading (:class:`ExtractiveShortAnswers`) that is answered."""
    min_weight_with_text: float
    """Minimum weight of a reading that a text confirms."""
    min_relation_cosine: float
    """Minimum cosine between question and facts without names; below it the facts do not answer the question."""
    min_text_cosine: float
    """Minimum cosine of a text's statement that confirms a fact."""
    tie_margin: float
    """Readings with a smaller difference in weight are tied."""


THRESHOLDS = ShortAnswerThresholds(**read_yaml_mapping(THRESHOLDS_FILE)["values"])
_FAILURE = re.compile(r"\bfail\b(?!\s+to\b)")
"""No negation: "Why did the pump fail?"."""


@dataclass(frozen=True)
class _Path:
    """Facts that lead from a name in the question to another name, the end."""

    start: str
    end: str
    facts: tuple[ShortFact, ...] = ()
    steps: tuple[tuple[str, bool], ...] = ()
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

    def extend(self, facts: Sequence[ShortFact]) -> Iterator[_Path]:
        """The path with one more fact, first from head to tail, then from tail to head."""
        for is_forward in (True, False):
            for fact in facts:
                here, there = (fact.head, fact.tail) if is_forward else (fact.tail, fact.head)
                if here == self.end:
                    yield _Path(self.start, there, (*self.facts, fact), (*self.steps, (fact.relation, is_forward)))


@dataclass(frozen=True)
class _RatedPath:
    """A path with its weight and the cosine of its relations with the question."""

    path: _Path
    weight: float
    relation_cosine: float


class ExtractiveShortAnswers:
    """Answers with the end of the path of facts that is most similar to the question; uses no generator.

    A path begins at a name in the question and follows one fact, or two facts that share a name, to a name outside the
    question. Only sourced facts count. Paths with the same start, relations and directions form one reading of the
    question. The weight of a path p is ½ cos(q, facts of p) + ½ cos(q without the start, relations of p). A reading has
    the weight of its best path. The best reading must reach ``min_weight``: the end of its best path is the answer,
    and all its ends are supported. The confidence is its weight divided by the sum of its weight and the next
    reading's, or ``min_weight`` if that is larger.

    With texts and facts, the statement most similar to the question must reach ``min_text_cosine``; the answer is
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
        if is_denial(_FAILURE.sub("", task.question.text)):
            return NO_ANSWER
        if not any(fact.sourced for fact in task.facts):
            return self._answer_by_span(task) if task.texts else NO_ANSWER
        answer = self._answer_by_facts(task)
        return self._confirm_by_text(task, answer) if task.texts and answer.supported else answer

    def _answer_by_span(self, task: ShortTask) -> ShortAnswer:
        choice = find_answer(task.question.text, split_passages(task.texts), self._encoder, self._weights)
        if choice is None:
            return NO_ANSWER
        answer = choice.candidate.text
        evidence_ids = (choice.candidate.passage.evidence_id,)
        return ShortAnswer(answer, "answered", (answer,), evidence_ids, choice.confidence)

    def _answer_by_facts(self, task: ShortTask) -> ShortAnswer:
        readings = self._rank_readings(task)
        min_weight = THRESHOLDS.min_weight_with_text if task.texts else THRESHOLDS.min_weight
        if not readings or readings[0][0].weight < min_weight:
            return NO_ANSWER
        reading = readings[0]
        best = reading[0]
        if not task.texts and not _is_sufficient(best, task.question.text):
            return NO_ANSWER
        next_weight = readings[1][0].weight if len(readings) > 1 else 0.0
        supported = tuple(dict.fromkeys(rated.path.end for rated in reading))
        evidence_ids = tuple(dict.fromkeys(fact.evidence_id for rated in reading for fact in rated.path.facts))
        status = "ambiguous" if best.weight - next_weight < THRESHOLDS.tie_margin else "answered"
        confidence = round(best.weight / (best.weight + max(next_weight, THRESHOLDS.min_weight)), 6)
        return ShortAnswer(supported[0], status, supported, evidence_ids, confidence)

    def _rank_readings(self, task: ShortTask) -> list[list[_RatedPath]]:
        """The readings of the question by weight, each with its paths by weight."""
        question = task.question.text
        paths = _find_paths(task)
        path_texts = [text for path in paths for text in (path.text, path.relations, path.mask_start(question))]
        vectors = encode_ends(self._encoder, [question, *path_texts])
        readings: dict[object, list[_RatedPath]] = {}
        for path in paths:
            text_cosine = float(vectors[question] @ vectors[path.text])
            relation_cosine = float(vectors[path.mask_start(question)] @ vectors[path.relations])
            weight = round((text_cosine + relation_cosine) / 2, 6)
            readings.setdefault((path.start, path.steps), []).append(_RatedPath(path, weight, relation_cosine))
        by_weight = [sorted(reading, key=lambda rated: -rated.weight) for reading in readings.values()]
        return sorted(by_weight, key=lambda reading: -reading[0].weight)

    def _confirm_by_text(self, task: ShortTask, fact_answer: ShortAnswer) -> ShortAnswer:
        """The first supported answer of the facts that the most similar statement names."""
        statements = [statement for item in task.texts for statement in split_statements(item)]
        question = task.question.text
        vectors = encode_ends(self._encoder, [question, *(statement.text for statement in statements)])
        cosines = {s: float(vectors[question] @ vectors[s.text]) for s in statements}
        nearest = max(cosines, key=lambda s: cosines[s], default=None)
        if nearest is None or cosines[nearest] < THRESHOLDS.min_text_cosine:
            return NO_ANSWER
        answer = next((end for end in fact_answer.supported if contains_quote(end, nearest.quote)), None)
        if answer is None:
            return NO_ANSWER
        evidence_ids = (nearest.evidence_id, *fact_answer.evidence_ids)
        confidence = round(min(1.0, cosines[nearest]), 6)
        return ShortAnswer(answer, "answered", fact_answer.supported, evidence_ids, confidence)


def _is_sufficient(rated: _RatedPath, question: str) -> bool:
    """Whether a path is on what the question asks for and has the capitalized words inside its sentences."""
    if rated.relation_cosine < THRESHOLDS.min_relation_cosine:
        return False
    words = re.findall(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*", question)
    return all(contains_quote(word, rated.path.text) for word in words if word[0].isupper() and word != "I")


def _find_paths(task: ShortTask) -> list[_Path]:
    """All paths of one or two sourced facts that start in the question and end outside it."""
    facts = [fact for fact in task.facts if fact.sourced]
    names = sorted({name for fact in facts for name in (fact.head, fact.tail)})
    spans = EntityLinker(names).find_spans(task.question.text)
    question_names = {names[node] for span in spans for node in span.link.nodes}
    paths = []
    for start in sorted(question_names):
        for path in _Path(start, start).extend(facts):
            if path.end in question_names:
                continue
            paths.append(path)
            for longer in path.extend(facts):
                if longer.facts[0] != longer.facts[1] and longer.end not in question_names | {path.end}:
                    paths.append(longer)
    return paths
