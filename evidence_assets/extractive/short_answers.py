"""Short answers without a language model: from paths of facts, confirmed by texts, or spans of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.extractive.readings import FactPath, find_readings, load_reading_weights
from evidence_assets.extractive.spans.choice import find_answer, load_span_weights
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.short_answers import NO_ANSWER, VERSION, ShortAnswer, ShortTask
from evidence_assets.reasoning.statements import split_statements
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.text.negation import is_denial

THRESHOLDS_FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class ShortAnswerThresholds:
    """Thresholds of answers by facts, chosen once by measurement.

    Other values need another ``reasoning.short_answers.VERSION``.
    """

    min_text_cosine: float
    """Minimum cosine of a text's statement that confirms a fact."""


THRESHOLDS = ShortAnswerThresholds(**read_yaml_mapping(THRESHOLDS_FILE)["values"])
_FAILURE = re.compile(r"\bfail\b(?!\s+to\b)")
"""No negation: "Why did the pump fail?"."""


class ExtractiveShortAnswers:
    """Answers with the end of the path of facts that is most similar to the question; uses no generator.

    A path begins at a name in the question and follows one fact, or two facts that share a name, to a name outside the
    question. Only sourced facts count. Paths with the same start, relations and directions form one reading of the
    question (:mod:`.readings`). The most probable reading must reach ``min_answer``: the end of its best path is the
    answer, and all its ends are supported; with ``min_closest`` the question is ambiguous. The confidence is its
    probability.

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
        self._reading_weights = load_reading_weights()
        fitted = (self._weights.version, self._reading_weights.version)
        self.version = content_id("short_answers", VERSION, encoder.model_id, encoder.revision, *fitted)

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
        evidence_ids = (choice.candidate.passage.item.evidence_id,)
        return ShortAnswer(answer, "answered", (answer,), evidence_ids, choice.confidence)

    def _answer_by_facts(self, task: ShortTask) -> ShortAnswer:
        weights = self._reading_weights
        ranked = weights.rank(find_readings(task.question.text, task.facts, self._encoder))
        min_probability = weights.min_with_text if task.texts else weights.min_closest
        if not ranked or ranked[0][0] < min_probability:
            return NO_ANSWER
        probability, reading = ranked[0]
        if not task.texts and not _has_all_names(reading.paths[0], task.question.text):
            return NO_ANSWER
        evidence_ids = tuple(dict.fromkeys(fact.evidence_id for path in reading.paths for fact in path.facts))
        status = "answered" if probability >= weights.min_answer else "ambiguous"
        return ShortAnswer(reading.ends[0], status, reading.ends, evidence_ids, probability)

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


def _has_all_names(path: FactPath, question: str) -> bool:
    """Whether a path has the capitalized words inside the question's sentences."""
    words = re.findall(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*", question)
    return all(contains_quote(word, path.text) for word in words if word[0].isupper() and word != "I")
