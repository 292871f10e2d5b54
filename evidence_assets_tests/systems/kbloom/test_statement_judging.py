"""The judging task: order and repetition; what every prompted task does is tested with the registry of them."""

from __future__ import annotations

from evidence_assets.reasoning.asking import LanguageModel
from evidence_assets.systems.kbloom.judging import PromptedJudge
from evidence_assets_tests.systems.small_models import Scripted


def test_verdicts_come_in_order_and_equal_statements_are_asked_once() -> None:
    generator = Scripted(lambda request: "correct" if "owl" in request.user else "Wrong.")
    assert PromptedJudge(LanguageModel(generator)).judge(["a fox flies", "an owl flies", "a fox flies"]) == [
        False,
        True,
        False,
    ]
    assert len(generator.requests) == 2 and generator.requests[0].choices == ("correct", "wrong")
    assert PromptedJudge(LanguageModel(generator)).judge([]) == []


def test_the_version_follows_the_model() -> None:
    one, other = Scripted(lambda _: "correct"), Scripted(lambda _: "correct")
    assert PromptedJudge(LanguageModel(one)).version == PromptedJudge(LanguageModel(other)).version
    other.parameters = {"temperature": 1}
    assert PromptedJudge(LanguageModel(one)).version != PromptedJudge(LanguageModel(other)).version
