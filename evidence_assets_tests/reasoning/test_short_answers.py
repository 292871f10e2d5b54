"""Short answers, extracted from facts or from a language model."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.models.protocols import Request
from evidence_assets.models.span_reader import Span
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import (
    PromptedShortAnswers,
    ShortAnswer,
    ShortFact,
    ShortTask,
    SpanAnswers,
    answer_request,
    parse_short_answer,
)
from evidence_assets.reasoning.tasks import EvidenceItem, Failure
from evidence_assets_tests.reasoning.small_questions import NoAnswers, make_question
from evidence_assets_tests.systems.small_models import ScriptedGenerator, WordEncoder


def fact(number: int, head: str, relation: str, tail: str, sourced: bool = True) -> ShortFact:
    return ShortFact(f"e{number}", head, relation, tail, f"{head} {relation} {tail}", sourced)


WEB = make_question("What is a web made by?")
FACTS = (
    fact(1, "web", "made by", "spider"),
    fact(2, "spider", "skilled at", "spinning"),
    fact(3, "web", "found at", "attic"),
    fact(4, "web", "made by", "larva"),
)


def solve(question: str, *facts: ShortFact) -> ShortAnswer:
    answer = ExtractiveShortAnswers(WordEncoder()).answer([ShortTask(make_question(question), facts)])[0]
    assert isinstance(answer, ShortAnswer)
    return answer


def test_one_fact_answers_with_its_other_end_and_all_ends_are_supported() -> None:
    answer = solve("What is a web made by?", *FACTS)
    assert answer.answer in ("spider", "larva")
    assert set(answer.supported) == {"spider", "larva"}
    assert set(answer.evidence_ids) == {"e1", "e4"}
    assert answer.status == "answered"
    assert solve("Where is a web found at?", *FACTS).answer == "attic"


@pytest.mark.parametrize(
    ("question", "facts"),
    [
        ("What is a web made by?", ()),
        ("", FACTS),
        ("Who rules the sea?", FACTS),
        ("Tell me a joke about oranges and a web, please, quickly, my dear old friend from the south!", FACTS[2:3]),
    ],
)
def test_a_question_without_a_matching_fact_has_no_answer(question: str, facts: tuple[ShortFact, ...]) -> None:
    answer = solve(question, *facts)
    assert (answer.answer, answer.status, answer.supported) == (None, "insufficient", ())


@pytest.mark.parametrize(
    "question", ["What is a web not made by?", "Which of these is unable to be found at an attic?"]
)
def test_a_negated_question_has_no_answer(question: str) -> None:
    assert solve(question, *FACTS) == ShortAnswer(None, "insufficient")


def test_a_longer_name_is_another_entity() -> None:
    fact_made_by = fact(1, "statue", "made by", "sculptor")
    assert solve("What is the statue made by?", fact_made_by).answer == "sculptor"
    assert solve("What is the statue of Liberty made by?", fact_made_by).answer is None
    assert solve("Statue. What is it made by?", fact_made_by).answer == "sculptor", (
        "a capital that begins a sentence is none"
    )
    assert solve("What is Statue made by?", fact_made_by).answer == "sculptor"


def test_with_a_text_only_an_end_that_it_names_is_an_answer() -> None:
    def answer_with_text(text: str) -> ShortAnswer:
        texts = (EvidenceItem("t1", "sentence", "doc", "0:99", text),)
        answer = ExtractiveShortAnswers(WordEncoder()).answer([ShortTask(WEB, FACTS, texts)])[0]
        assert isinstance(answer, ShortAnswer)
        return answer

    for end in ("spider", "larva"):
        answer = answer_with_text(f"What a web is made by is a {end}.")
        assert (answer.answer, answer.status) == (end, "answered") and answer.evidence_ids[0] == "t1"
        assert set(answer.supported) == {"spider", "larva"}
    assert answer_with_text("What a web is made by is a mouse.").status == "insufficient"


def prompted(reply: Callable[[Request], str], *facts: ShortFact) -> tuple[ShortAnswer | Failure, ScriptedGenerator]:
    generator = ScriptedGenerator(reply)
    task = ShortTask(WEB, facts)
    return PromptedShortAnswers(LanguageModel(generator), NoAnswers()).answer([task])[0], generator


def test_a_model_gets_the_facts_and_unsourced_answers_are_unsupported() -> None:
    answer, generator = prompted(lambda _: "A spider", FACTS[0], fact(5, "web", "made by", "man", sourced=False))
    assert isinstance(answer, ShortAnswer)
    assert "(web, made by, spider)" in generator.requests[0].user
    assert "(web, made by, man)" in generator.requests[0].user
    assert (answer.answer, answer.supported, answer.evidence_ids) == ("A spider", ("spider",), ("e1", "e5"))
    other, _ = prompted(lambda _: "A man", FACTS[0], fact(5, "web", "made by", "man", sourced=False))
    assert isinstance(other, ShortAnswer)
    assert (other.answer, other.supported) == ("A man", ())


class SureOfOne:
    """Rules that are sure of the first of two questions."""

    name = model_id = version = "rules"

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        assert all(not task.texts for task in tasks), "rules are asked about facts alone"
        sure = ShortAnswer("spider", "answered", ("spider",), ("e1",), 0.9)
        return [sure, replace(sure, status="ambiguous")][: len(tasks)]

    def confirm(self, task: ShortTask, answer: ShortAnswer) -> ShortAnswer:
        assert task.facts and not task.texts, "rules confirm answers from facts alone"
        return replace(answer, confidence=0.4)


def test_rules_answer_from_facts_what_they_are_sure_of_and_a_model_the_rest() -> None:
    generator = ScriptedGenerator(lambda _: "A larva")
    solver = PromptedShortAnswers(LanguageModel(generator), NoAnswers(), SureOfOne())
    text = EvidenceItem("t1", "sentence", "doc", "0:14", "A larva spins.")
    tasks = [ShortTask(WEB, FACTS), ShortTask(WEB, FACTS), ShortTask(WEB, FACTS, (text,)), ShortTask(WEB, (), (text,))]
    answers = solver.answer(tasks)
    assert [answer.answer for answer in answers if isinstance(answer, ShortAnswer)] == [
        "spider",
        "A larva",
        "A larva",
        None,
    ]
    assert isinstance(answers[0], ShortAnswer) and answers[0].confidence == 0.9 and answers[0].reply is None
    assert [a.confidence for a in answers[1:] if isinstance(a, ShortAnswer)] == [0.4, None, None]
    assert solver.version != PromptedShortAnswers(LanguageModel(generator), NoAnswers()).version


def test_only_n_a_means_no_answer() -> None:
    assert [parse_short_answer(reply) for reply in ("N/A", "n/a.", "NA")] == [None] * 3
    assert parse_short_answer("Na is sodium") == "Na is sodium"
    assert "Facts" not in answer_request(ShortTask(make_question("Who?"), ())).user


RECALLED_FACTS = (
    ShortFact("e1", "web", "made by", "spider", "web made by spider"),
    ShortFact("e2", "milk", "made by", "cow", "milk made by cow", sourced=False),
)
CAT = EvidenceItem("e3", "chunk", "d", "0:9", "A cat\npurrs.")


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


def read_answer(question: str, task: ShortTask | None = None) -> ShortAnswer | Failure:
    return SpanAnswers(WordReader()).answer([task or ShortTask(make_question(question), RECALLED_FACTS, (CAT,))])[0]


def test_the_fact_with_the_span_is_the_evidence() -> None:
    sourced, recalled, text = read_answer("find spider"), read_answer("find cow"), read_answer("find purrs")
    assert sourced == ShortAnswer("spider", "answered", ("spider",), ("e1",), 0.75)
    assert recalled == ShortAnswer("cow", "answered", (), ("e2",), 0.75), "no source supports what a model recalled"
    assert text == ShortAnswer("purrs", "answered", ("purrs",), ("e3",), 0.75)
    assert isinstance(sourced, ShortAnswer) and sourced.reply is not None
    assert (sourced.reply.model, sourced.reply.tokens_in) == ("word-reader@1", 9)


def test_a_span_over_two_facts_uses_both() -> None:
    result = read_answer("find all", ShortTask(make_question("find all"), RECALLED_FACTS))
    assert isinstance(result, ShortAnswer) and result.evidence_ids == ("e1", "e2")


def test_without_a_span_there_is_no_answer() -> None:
    assert (
        read_answer("find dog")
        == read_answer("", ShortTask(make_question("find spider"), ()))
        == ShortAnswer(None, "insufficient")
    )
    assert read_answer("too long") == Failure("the question is too long")
