"""One short call for each question: the request, the letter, and the weights of the options."""

from collections.abc import Iterator, Sequence

import pytest

from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_choices import SHORT_STYLE, letter_request
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, EvidenceItem, Failure
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import CompletionStore, ScriptedGenerator, scripted_solver

EVIDENCE = {
    "A": (EvidenceItem("e1", "chunk", "d1", "0:22", "Aspirin may treat\npain."),),
    "B": (EvidenceItem("e2", "chunk", "d1", "0:22", "Aspirin may treat\npain."),),
}
TASK = ChooseAnswer(make_question("What treats pain?", "aspirin", "gold"), (), EVIDENCE)
CLAIM = Question("q", "b", "verification", "Aspirin treats pain.", ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"))


class RatingGenerator(ScriptedGenerator):
    """A generator that rates the choices."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.requests += requests
        return [Completion("B", 7, 1, 0.0, "stop", (-2.0, -0.2, -5.0)[: len(each.choices)]) for each in requests]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        return enumerate(self.generate(requests))


def test_the_request_shows_each_fact_once_and_asks_for_a_letter() -> None:
    request = letter_request(TASK)
    assert request.user.count("- Aspirin may treat pain.") == 1
    assert "A) aspirin\nB) gold" in request.user
    assert (request.choices, request.rates_choices, request.max_tokens) == (("A", "B"), True, 8)


def test_no_list_of_letters_follows_the_options() -> None:
    """A small model would prefer the first of them."""
    user = letter_request(TASK).user
    assert user.rindex(">>>") > user.rindex("B) gold") and "A, B" not in user


def test_without_evidence_the_request_has_no_facts() -> None:
    assert "<<< facts" not in letter_request(ChooseAnswer(TASK.question, ())).user


def test_the_options_are_weighed_by_log_probabilities_also_from_the_cache() -> None:
    cache = CompletionStore()
    for _ in range(2):
        generator = RatingGenerator("")
        (choice,) = PromptedSolver(LanguageModel(generator, cache), SHORT_STYLE).choose([TASK])
        assert isinstance(choice, Choice)
        assert (choice.answer, choice.status, choice.weights) == ("B", "answered", {"A": -2.0, "B": -0.2})
    assert not generator.requests, "the second time from the cache"


def test_the_letters_of_a_claim_are_its_labels() -> None:
    request = letter_request(ChooseAnswer(CLAIM, ()))
    assert request.choices == ("A", "B", "C") and "B) REFUTES" in request.user
    (choice,) = PromptedSolver(LanguageModel(RatingGenerator("")), SHORT_STYLE).choose([ChooseAnswer(CLAIM, ())])
    assert isinstance(choice, Choice)
    assert choice.answer == "REFUTES" and choice.weights["NOT ENOUGH INFORMATION"] == -5.0


@pytest.mark.parametrize(("reply", "answer"), [("(A)", "A"), ("B.", "B"), ("Answer: A", "A")])
def test_a_reply_without_log_probabilities_has_no_weights(reply: str, answer: str) -> None:
    (choice,) = scripted_solver(reply, SHORT_STYLE).choose([TASK])
    assert isinstance(choice, Choice) and (choice.answer, choice.weights) == (answer, {})


def test_a_reply_without_a_letter_fails_after_one_repair() -> None:
    (choice,) = scripted_solver("I cannot say", SHORT_STYLE).choose([TASK])
    assert isinstance(choice, Failure) and "after one repair attempt" in choice.reason
