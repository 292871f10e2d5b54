"""Short answers without a language model: from paths of facts, confirmed by texts, or spans of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from evidence_assets.extractive.readings import FactPath, Reading, find_readings, load_reading_weights
from evidence_assets.extractive.spans.choice import find_answer, load_span_weights
from evidence_assets.extractive.spans.comparisons import compare_statements
from evidence_assets.extractive.spans.complete_statements import find_complete_statement
from evidence_assets.extractive.spans.features import find_spans
from evidence_assets.extractive.spans.frequent_questions import find_text_below
from evidence_assets.extractive.spans.life_dates import find_life_date, lacks_event
from evidence_assets.extractive.spans.matching_sentences import find_matching_answer
from evidence_assets.extractive.spans.passages import Passage, split_passages
from evidence_assets.extractive.spans.statements import describe_statements, find_statement, load_statement_weights
from evidence_assets.extractive.spans.yes_no import find_verdict
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.short_answers import NO_ANSWER, VERSION, ShortAnswer, ShortTask
from evidence_assets.reasoning.statements import split_statements
from evidence_assets.reasoning.tasks import STATED_STATUS, ChainStep, Failure
from evidence_assets.text.definitions import asked_term, defines
from evidence_assets.text.negation import is_denial
from evidence_assets.text.tokens import LISTS, asks_yes_or_no, split_tokens

THRESHOLDS_FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class ShortAnswerThresholds:
    """Thresholds of answers by facts, chosen once by measurement.

    Other values need another ``reasoning.short_answers.VERSION``.
    """

    min_text_cosine: float
    """Minimum cosine of a text's statement that confirms a fact."""
    yes_no_confidence: float
    """Share of answers yes and no that are right; the text below an equal question is trusted as much."""


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
    the first end of the best reading that this statement names. Negated questions get no answer, because a fact says
    nothing about its negation.

    With texts alone, the answer is the first of these: the text below the question, if a text has it
    (:mod:`.spans.frequent_questions`); the sentence that defines the term of the question, as ``stated``
    (:mod:`evidence_assets.text.definitions`); the result of a comparison (:mod:`.spans.comparisons`); a date of birth
    or death after a name (:mod:`.spans.life_dates`); what a sentence has besides the question
    (:mod:`.spans.matching_sentences`); yes or no (:mod:`.spans.yes_no`); a span of a sentence (:mod:`.spans.choice`),
    with its expected F1 as confidence. Otherwise a statement that answers the question as a whole
    (:mod:`.spans.statements`), or has its words and an answer of its kind (:mod:`.spans.complete_statements`), is
    ``stated``.
    """

    name = "extractive"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.model_id = f"extractive+{encoder.model_id}"
        self._weights = load_span_weights()
        self._statement_weights = load_statement_weights()
        self._reading_weights = load_reading_weights()
        fitted = (self._weights.version, self._statement_weights.version, self._reading_weights.version)
        self.version = content_id("short_answers", VERSION, encoder.model_id, encoder.revision, *fitted)

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        """One answer per task, in order."""
        return [self._answer(task) for task in tasks]

    def _answer(self, task: ShortTask) -> ShortAnswer:
        if not any(fact.sourced for fact in task.facts):
            return self._answer_by_texts(task) if task.texts else NO_ANSWER
        if _is_negated(task.question.text):
            return NO_ANSWER
        if asks_yes_or_no(task.question.text) and not _asks_for_name(task.question.text):  # paths end in names
            return self._answer_by_texts(task) if task.texts else NO_ANSWER
        answer = self._answer_by_facts(task)
        return self._confirm_by_text(task, answer) if task.texts and answer.supported else answer

    def confirm(self, task: ShortTask, answer: ShortAnswer) -> ShortAnswer:
        """The answer of a language model with the probability of the reading that leads to it; without one ambiguous.

        A small model answers most questions that a graph does not answer. No reading leads to "yes" and "no", which are
        left as they are.
        """
        question = task.question.text
        if answer.status != "answered" or asks_yes_or_no(question):
            return answer
        if not answer.supported:
            return replace(NO_ANSWER, reply=answer.reply)
        weights = self._reading_weights
        ranked = [] if _is_negated(question) else weights.rank(find_readings(question, task.facts, self._encoder))
        for probability, reading in ranked:
            supported = tuple(end for end in reading.ends if end in answer.supported)
            if supported and probability >= weights.min_with_model:
                evidence_ids = _cite_paths(reading)
                return replace(answer, supported=supported, evidence_ids=evidence_ids, confidence=probability)
        return replace(answer, status="ambiguous")

    def _answer_by_texts(self, task: ShortTask) -> ShortAnswer:
        question = task.question.text
        passages = tuple(split_passages(task.texts))
        below = find_text_below(question, task.texts)
        definition = None if below else _find_definition(question, passages)
        if definition is not None:
            return _state(definition, THRESHOLDS.yes_no_confidence)
        cited = below or compare_statements(question, passages) or find_life_date(question, passages)
        cited = cited or find_matching_answer(question, task.texts, passages)
        if cited is not None:
            step = ChainStep(cited.text, cited.evidence_ids, cited.quoted)
            return ShortAnswer.of_steps([step], THRESHOLDS.yes_no_confidence)
        if asks_yes_or_no(question):
            return _answer_yes_or_no(question, passages)
        answer = NO_ANSWER if _is_negated(question) else self._answer_by_similarity(question, passages)
        if answer is not NO_ANSWER:
            return answer
        complete = find_complete_statement(question, passages)
        return NO_ANSWER if complete is None else _state(complete, THRESHOLDS.yes_no_confidence)

    def _answer_by_similarity(self, question: str, passages: tuple[Passage, ...]) -> ShortAnswer:
        """The span or the statement that probably answers a question."""
        finder = cache(partial(find_spans, encoder=self._encoder))
        choice = find_answer(question, passages, finder, self._weights)
        if choice is not None and not lacks_event(question, choice.candidate.passage.text):
            answer = choice.candidate.text
            return ShortAnswer(answer, "answered", (answer,), _cite(choice.candidate.passage), choice.confidence)
        described = describe_statements(question, passages, self._encoder, finder, self._weights)
        statement = find_statement(described, question, self._statement_weights)
        if statement is None or lacks_event(question, statement.passage.text):
            return NO_ANSWER
        return _state(statement.passage, statement.probability)

    def _answer_by_facts(self, task: ShortTask) -> ShortAnswer:
        weights = self._reading_weights
        ranked = weights.rank(find_readings(task.question.text, task.facts, self._encoder))
        min_probability = weights.min_with_text if task.texts else weights.min_closest
        if not ranked or ranked[0][0] < min_probability:
            return NO_ANSWER
        probability, reading = ranked[0]
        if not task.texts and not _has_all_names(reading.paths[0], task.question.text):
            return NO_ANSWER
        status = "answered" if probability >= weights.min_answer else "ambiguous"
        return ShortAnswer(reading.ends[0], status, reading.ends, _cite_paths(reading), probability)

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


def _cite_paths(reading: Reading) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact.evidence_id for path in reading.paths for fact in path.facts))


def _find_definition(question: str, passages: Sequence[Passage]) -> Passage | None:
    """The first passage that defines the term of the question, if it asks for a definition."""
    term = asked_term(question, is_one_thing=True)
    return next((passage for passage in passages if defines(passage.text, term)), None)


def _asks_for_name(question: str) -> bool:
    """Whether a question that begins as one for yes or no asks for a name: "Can you tell me who wrote it?"."""
    return not (LISTS["question_words"] | {"name", "tell"}).isdisjoint(w.lower for w in split_tokens(question))


def _is_negated(question: str) -> bool:
    return is_denial(_FAILURE.sub("", question))


def _answer_yes_or_no(question: str, passages: Sequence[Passage]) -> ShortAnswer:
    """Yes or no, or the statement that has all words of the question but does not settle it."""
    verdict = find_verdict(question, passages)
    if verdict is None:
        return NO_ANSWER
    if verdict.answer is None:
        return _state(verdict.passage)
    step = ChainStep(verdict.answer, _cite(verdict.passage), (verdict.passage.text,))
    return ShortAnswer.of_steps([step], THRESHOLDS.yes_no_confidence)


def _state(passage: Passage, probability: float | None = None) -> ShortAnswer:
    text = " ".join(passage.text.split())
    return ShortAnswer(text, STATED_STATUS, (text,), _cite(passage), probability)


def _cite(passage: Passage) -> tuple[str, ...]:
    return (passage.item.evidence_id,)


def _has_all_names(path: FactPath, question: str) -> bool:
    """Whether a path has the capitalized words inside the question's sentences."""
    words = re.findall(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*", question)
    return all(contains_quote(word, path.text) for word in words if word[0].isupper() and word != "I")
