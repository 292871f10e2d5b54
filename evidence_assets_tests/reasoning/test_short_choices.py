"""Short calls for each question: the request, the letter, and the weights of the options in two orders."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_choices import (
    FACT_WEIGHT,
    RELATED,
    SHORT_STYLE,
    UNRELATED,
    fact_weight,
    letter_request,
    turn_options,
)
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
    """A generator that rates what stands at a letter, and likes the letter B whatever stands there."""

    ratings: ClassVar = {
        "aspirin": -1.0,
        "gold": -1.5,
        "SUPPORTS": -3.0,
        "REFUTES": -0.2,
        "NOT ENOUGH INFORMATION": -2.0,
    }

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.requests += requests
        return [Completion("B", 7, 1, 0.0, "stop", self.rate(request)) for request in requests]

    def rate(self, request: Request) -> tuple[float, ...]:
        options = dict(re.findall(r"^([A-C])\. (.+)$", request.user, re.MULTILINE))
        return tuple(self.ratings[option] + (letter == "B") for letter, option in options.items())

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        return enumerate(self.generate(requests))


def test_the_request_shows_each_fact_once_and_asks_for_a_letter() -> None:
    request = letter_request(TASK)
    assert request.user.count("Fact: Aspirin may treat pain.") == 1
    assert "A. aspirin\nB. gold" in request.user
    assert (request.choices, request.rates_choices, request.max_tokens) == (("A", "B"), True, 8)


def test_no_list_of_letters_follows_the_options() -> None:
    """A small model would prefer the first of them."""
    assert letter_request(TASK).user.endswith("\nB. gold\nAnswer:")


@given(st.text(), st.text(min_size=1), st.text())
def test_no_text_looks_like_another_part_of_the_request(question: str, option: str, fact: str) -> None:
    """Question, options and facts have one line each, whatever characters they hold."""
    items = (EvidenceItem("e1", "chunk", "d1", "0:22", fact),)
    task = ChooseAnswer(make_question(question, option, "gold"), (), {"A": items})
    lines = letter_request(task).user.splitlines()
    starts = ("Fact:", "", "Question:", "A.", "B. gold", "Answer:")
    assert len(lines) == len(starts) and all(map(str.startswith, lines, starts))


def test_without_evidence_the_request_has_no_facts() -> None:
    assert "Fact:" not in letter_request(ChooseAnswer(TASK.question, ())).user


def test_two_orders_weigh_the_options_and_cancel_the_preference_for_a_letter_also_from_the_cache() -> None:
    cache = CompletionStore()
    for _ in range(2):
        generator = RatingGenerator("")
        (choice,) = PromptedSolver(LanguageModel(generator, cache), SHORT_STYLE).choose([TASK])
        assert isinstance(choice, Choice) and choice.reply is not None
        assert (choice.answer, choice.status) == ("A", "answered"), "in one order it would be B"
        assert choice.weights["A"] - choice.weights["B"] == pytest.approx(-1.0 - -1.5)
        assert (choice.reply.tokens_in, choice.reply.tokens_out) == (28, 4), "of all four calls"
    assert not generator.requests, "the second time from the cache"


class Believer(RatingGenerator):
    """A generator that believes the fact of its request."""

    def rate(self, request: Request) -> tuple[float, ...]:
        gold = "Fact: Gold" in request.user
        ratings = {"aspirin": -3.0, "gold": -0.1} if gold else {"aspirin": -0.4, "gold": -1.1}
        return tuple(ratings[option] for option in re.findall(r"^[AB]\. (.+)$", request.user, re.MULTILINE))


def test_a_fact_has_its_weight_beside_what_the_model_knows() -> None:
    task = replace(TASK, evidence={"B": (EvidenceItem("e1", "chunk", "d1", "0:9", "Gold treats pain."),)})
    generator = Believer("")
    (choice,) = PromptedSolver(LanguageModel(generator), SHORT_STYLE).choose([task])
    assert isinstance(choice, Choice)
    difference = FACT_WEIGHT * (-0.1 - -3.0) + (1 - FACT_WEIGHT) * (-1.1 - -0.4)
    assert choice.weights["B"] - choice.weights["A"] == pytest.approx(difference)
    assert (choice.answer, ["Fact:" in r.user for r in generator.requests]) == ("B", [True, True, False, False])


def test_a_closer_fact_counts_more() -> None:
    task = replace(TASK, evidence={"B": (EvidenceItem("e1", "chunk", "d1", "0:9", "Gold treats pain."),)})
    solver = PromptedSolver(LanguageModel(Believer("")), SHORT_STYLE)
    far, near = solver.choose([replace(task, closeness=UNRELATED), replace(task, closeness=RELATED)])
    assert isinstance(far, Choice) and isinstance(near, Choice)
    assert (far.answer, near.answer) == ("A", "B")


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_the_weight_of_a_fact_grows_with_its_closeness(first: float, second: float) -> None:
    low, high = sorted((first, second))
    assert 0 <= fact_weight(low) <= fact_weight(high) <= FACT_WEIGHT
    assert (fact_weight(low) == 0) == (low <= UNRELATED)


def test_a_table_counts_however_far_it_is() -> None:
    cells = (EvidenceItem("c1", "cell", "t1", "r1c1", "Aspirin"),)
    generator = RatingGenerator("")
    task = ChooseAnswer(CLAIM, (), {"SUPPORTS": cells}, closeness=-1.0)
    PromptedSolver(LanguageModel(generator), SHORT_STYLE).choose([task])
    assert all("Aspirin" in request.user.partition("Claim:")[0] for request in generator.requests)


def test_a_table_is_not_left_out() -> None:
    cells = (EvidenceItem("c1", "cell", "t1", "r1c1", "Aspirin"),)
    generator = RatingGenerator("")
    PromptedSolver(LanguageModel(generator), SHORT_STYLE).choose([ChooseAnswer(CLAIM, (), {"SUPPORTS": cells})])
    assert ["Aspirin" in request.user.partition("Claim:")[0] for request in generator.requests] == [True, True]


class UnreadableWithoutFacts(Believer):
    """A generator that replies with no letter where it sees no fact."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        replies = super().generate(requests)
        return [
            reply if "Fact:" in q.user else replace(reply, text="?") for q, reply in zip(requests, replies, strict=True)
        ]


def test_an_unusable_reply_without_the_fact_leaves_that_with_it() -> None:
    task = replace(TASK, evidence={"B": (EvidenceItem("e1", "chunk", "d1", "0:9", "Gold treats pain."),)})
    (choice,) = PromptedSolver(LanguageModel(UnreadableWithoutFacts("")), SHORT_STYLE).choose([task])
    assert isinstance(choice, Choice)
    assert choice.weights["B"] - choice.weights["A"] == pytest.approx(-0.1 - -3.0)


def test_the_second_order_has_the_second_half_first() -> None:
    question = make_question("Which?", "ant", "bee", "cow", "dog", "eel")
    assert turn_options(ChooseAnswer(question, ())).question.options == ("cow", "dog", "eel", "ant", "bee")


class UnreadableSecond(RatingGenerator):
    """A generator whose reply to the second order has no letter."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [
            r if "A. aspirin" in q.user else replace(r, text="?")
            for q, r in zip(requests, super().generate(requests), strict=True)
        ]


def test_an_unusable_second_reply_leaves_the_first() -> None:
    generator = UnreadableSecond("")
    (choice,) = PromptedSolver(LanguageModel(generator), SHORT_STYLE).choose([TASK])
    assert isinstance(choice, Choice) and choice.reply is not None
    assert choice.answer == "B" and choice.reply.tokens_in == 7 * len(generator.requests)


def test_the_letters_of_a_claim_are_its_labels() -> None:
    request = letter_request(ChooseAnswer(CLAIM, ()))
    assert request.choices == ("A", "B", "C") and "B. REFUTES" in request.user
    (choice,) = PromptedSolver(LanguageModel(RatingGenerator("")), SHORT_STYLE).choose([ChooseAnswer(CLAIM, ())])
    assert isinstance(choice, Choice)
    assert choice.answer == "REFUTES"
    assert choice.weights["REFUTES"] > choice.weights["NOT ENOUGH INFORMATION"] > choice.weights["SUPPORTS"]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_log_probabilities_of_both_orders_belong_to_the_same_options(n: int) -> None:
    """The means of both orders are those of the options, brought back to their places."""
    names = ["ant", "bee", "cow", "dog", "eel"][:n]
    task = ChooseAnswer(make_question("Which?", *names), ())
    expected = dict(zip("ABCDE"[:n], range(0, -n, -1), strict=True))
    generator = RatingGenerator("")
    generator.ratings = dict(zip(names, map(float, expected.values()), strict=True))
    generator.rate = lambda request: tuple(  # type: ignore[method-assign]
        generator.ratings[option] for option in re.findall(r"^[A-E]\. (.+)$", request.user, re.MULTILINE)
    )
    (choice,) = PromptedSolver(LanguageModel(generator), SHORT_STYLE).choose([task])
    assert isinstance(choice, Choice)
    assert {label: weight - choice.weights["A"] for label, weight in choice.weights.items()} == pytest.approx(expected)


@pytest.mark.parametrize(("reply", "answer"), [("(A)", "A"), ("B.", "B"), ("Answer: A", "A")])
def test_a_reply_without_log_probabilities_has_no_weights(reply: str, answer: str) -> None:
    (choice,) = scripted_solver(reply, SHORT_STYLE).choose([TASK])
    assert isinstance(choice, Choice) and (choice.answer, choice.weights) == (answer, {})


def test_a_reply_without_a_letter_fails_after_one_repair() -> None:
    (choice,) = scripted_solver("I cannot say", SHORT_STYLE).choose([TASK])
    assert isinstance(choice, Failure) and "after one repair attempt" in choice.reason
